package loader

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
)

// ErrState: a state that does not belong to this loader, or cannot be read.
var ErrState = errors.New("state does not fit")

// State is where a loader is: which batches Next has returned. A loader that is
// made with it as [Options.Resume], with the same dataset, augmentation and
// order, goes on with the batches that would have come next. Workers, prefetch,
// pinning and devices may differ, and so may the number of ranks, if Batch times
// World stays the same. If several ranks are Unordered, each takes its own way
// through an epoch, and a state inside an epoch is for its own rank alone.
//
// It is at most a page of JSON, unless very many batches came out of order.
type State struct {
	Version int `json:"version"`

	// The epoch and number of the next batch. A number equal to EpochBatches
	// stands for the end of the epoch, see [EmptyRest].
	Epoch int `json:"epoch"`
	Batch int `json:"batch"`
	// Ahead lists the later batches of the epoch that were delivered already, in
	// ranges: from the first number of each pair up to the second, exclusive. Only
	// loaders that are Unordered have any.
	Ahead [][2]int `json:"ahead,omitempty"`
	// Dropped is how many epochs before this one loops left early, which
	// [Options].Epochs does not count.
	Dropped int `json:"dropped_epochs,omitempty"`
	// Rank and World tell for which rank the state is, if for one alone; else 0.
	Rank  int `json:"rank,omitempty"`
	World int `json:"world,omitempty"`

	// What the state belongs to.
	Samples      int    `json:"samples"`       // of the dataset
	Spec         string `json:"spec"`          // of a sample
	Dataset      string `json:"dataset"`       // digest of its length, spec and some names and labels, and those of targets
	Augment      string `json:"augment"`       // transform of pictures, jitter and mixup
	Order        string `json:"order"`         // digest of some of the order's indices
	Seed         uint64 `json:"seed"`          //
	GlobalBatch  int    `json:"global_batch"`  // Batch times World
	EpochBatches int    `json:"epoch_batches"` // of a rank
}

const stateVersion = 3

// State returns where the loader is. It may be called at any time from any
// goroutine; a batch counts as soon as Next returns it.
func (l *Loader) State() State {
	l.position.Lock()
	defer l.position.Unlock()
	s := l.identity
	next := l.done
	if l.order.perEpoch > 0 {
		s.Epoch, s.Batch = l.order.at(next)
	}
	for _, n := range slices.Sorted(maps.Keys(l.ahead)) {
		_, number := l.order.at(n)
		if last := len(s.Ahead) - 1; last >= 0 && s.Ahead[last][1] == number {
			s.Ahead[last][1]++
		} else {
			s.Ahead = append(s.Ahead, [2]int{number, number + 1})
		}
	}
	if o := &l.options; o.Unordered && o.World > 1 && (s.Batch > 0 || len(s.Ahead) > 0) {
		s.Rank, s.World = o.Rank, o.World
	}
	s.Dropped = l.dropped
	if l.options.StateAtEnd == EmptyRest && l.atEnd {
		s.Epoch, s.Batch = s.Epoch-1, s.EpochBatches
	}
	return s
}

// Progress returns how many batches Next has returned, or passed over because
// none of their samples could be read, and how many there are in all epochs. Both
// include the batches before the state that was resumed, of a stream only those
// of its epoch. The length of a stream is known at the end of its last epoch; until
// then the total is larger than any.
func (l *Loader) Progress() (done, total int) {
	l.position.Lock()
	defer l.position.Unlock()
	done, total = l.done+len(l.ahead), l.order.total
	if l.endless && l.order.epoch(l.first) >= l.order.epoch(total-1) { // the last
		total = l.total()
	}
	return done - l.gap, total - l.gap
}

// startState is a state at the start.
func (l *Loader) startState() State {
	return State{
		Version:      stateVersion,
		Samples:      l.samples,
		Spec:         l.layout.Samples.Spec.String(),
		Dataset:      l.digest,
		Augment:      l.augmentation(),
		Order:        l.order.digest,
		Seed:         l.options.Seed,
		GlobalBatch:  l.order.global,
		EpochBatches: l.order.perEpoch,
	}
}

// augmentation says how pictures are changed: with another transform, the
// batches would not be those that would have come.
func (l *Loader) augmentation() string {
	var parts []string
	for _, t := range dataset.Transforms(l.dataset()) {
		if t != (imaging.Transform{}) {
			parts = append(parts, t.WithJitter(imaging.Jitter{}).String())
		}
	}
	if j := l.jitter; j != (imaging.Jitter{}) {
		parts = append(parts, fmt.Sprintf("jitter:%v,%v,%v,%v", j.Brightness, j.Contrast, j.Saturation, j.Hue))
	}
	if l.options.Mixup > 0 {
		parts = append(parts, fmt.Sprintf("mixup:%v", l.options.Mixup))
	}
	return strings.Join(parts, ",")
}

// resume puts the loader where s is.
func (l *Loader) resume(s State) error {
	want := l.identity
	differ := func(what string, saved, now any) error {
		return fmt.Errorf("loader: %w: %s: %v in the state, %v now", ErrState, what, saved, now)
	}
	switch {
	case s.Version != want.Version:
		return differ("version", s.Version, want.Version)
	case s.Samples != want.Samples:
		return differ("samples of the dataset", s.Samples, want.Samples)
	case s.Spec != want.Spec:
		return differ("form of a sample", s.Spec, want.Spec)
	case s.Dataset != want.Dataset:
		return differ("names or labels of the dataset, or its targets, by digest", s.Dataset, want.Dataset)
	case s.Augment != want.Augment:
		return differ("transform, jitter or mixup", strconv.Quote(s.Augment), strconv.Quote(want.Augment))
	case s.Seed != want.Seed:
		return differ("seed", s.Seed, want.Seed)
	case s.GlobalBatch != want.GlobalBatch:
		return differ("Batch times World", s.GlobalBatch, want.GlobalBatch)
	case s.EpochBatches != want.EpochBatches:
		return differ("batches of an epoch", s.EpochBatches, want.EpochBatches)
	case s.Order != want.Order:
		return differ("order of samples, by digest", s.Order, want.Order)
	case s.World != 0 && (s.World != l.options.World || s.Rank != l.options.Rank):
		return differ("rank whose state it is, within an epoch", fmt.Sprintf("%d of %d", s.Rank, s.World), fmt.Sprintf("%d of %d", l.options.Rank, l.options.World))
	case s.Epoch < 0 || s.Batch < 0 || s.Batch > s.EpochBatches || s.Batch == s.EpochBatches && len(s.Ahead) > 0:
		return fmt.Errorf("loader: %w: batch %d of epoch %d, with %d batches an epoch", ErrState, s.Batch, s.Epoch, s.EpochBatches)
	}
	if s.Dropped < 0 || s.Dropped > s.Epoch {
		return fmt.Errorf("loader: %w: %d epochs before epoch %d were dropped", ErrState, s.Dropped, s.Epoch)
	}
	l.dropped = s.Dropped
	l.order.count(l.options.Epochs, l.dropped)
	at := saturated(s.Epoch, l.order.perEpoch)
	if at > l.order.total || s.Batch > l.order.total-at {
		return fmt.Errorf("loader: %w: batch %d of epoch %d, behind the %d batches of all epochs", ErrState, s.Batch, s.Epoch, l.order.total)
	}
	if l.endless && len(s.Ahead) > 0 {
		return fmt.Errorf("loader: %w: batches %v ahead of others, and those of a stream come in order", ErrState, s.Ahead)
	}
	last := s.Batch
	for _, a := range s.Ahead {
		if a[0] <= last || a[1] <= a[0] || a[1] > min(l.order.perEpoch, l.order.total-at) {
			return fmt.Errorf("loader: %w: batches %v ahead of batch %d of epoch %d, with %d batches an epoch", ErrState, s.Ahead, s.Batch, s.Epoch, s.EpochBatches)
		}
		for n := a[0]; n < a[1]; n++ {
			l.ahead[at+n] = true
		}
		last = a[1]
	}
	l.done = at + s.Batch
	if l.endless {
		l.gap = at
	}
	if s.Batch > 0 && s.Batch == s.EpochBatches {
		l.emptyRest, l.atEnd = true, true
	}
	return nil
}

// delivered notes that the caller has batch n, or that it was empty.
func (l *Loader) delivered(n int) {
	l.position.Lock()
	defer l.position.Unlock()
	l.ahead[n] = true
	for l.ahead[l.done] {
		delete(l.ahead, l.done)
		l.done++
	}
	l.atEnd = l.done%l.order.perEpoch == 0 && len(l.ahead) == 0
}

// WriteFile writes the state as JSON. The file is whole at any time, even if the
// machine loses power: it is written beside path and renamed. A file that is
// replaced keeps its permissions.
func (s State) WriteFile(path string) error {
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(path, append(text, '\n'), 0o644)
}

// maxStateBytes bounds what is read as a state.
const maxStateBytes = 1 << 20

// ReadState reads what WriteFile wrote. It fails with [ErrState] for any other
// file, or with the error of the file system.
func ReadState(path string) (State, error) {
	var s State
	info, err := os.Stat(path)
	if err != nil {
		return s, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxStateBytes {
		return s, fmt.Errorf("%s: %w: %v of %d bytes, a state is a file of at most %d", path, ErrState, info.Mode(), info.Size(), maxStateBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%s: %w: %w", path, ErrState, err)
	}
	if s.Version != stateVersion {
		return s, fmt.Errorf("%s: %w: version %d, want %d", path, ErrState, s.Version, stateVersion)
	}
	return s, nil
}
