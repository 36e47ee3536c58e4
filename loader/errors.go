package loader

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/sampler"
)

// Errors that callers can tell apart with [errors.Is].
var (
	// ErrHeld: Next was called while the caller holds every device buffer
	// that the next batch could be in.
	ErrHeld = errors.New("every device buffer is held by the caller")
	// ErrReleased: a batch was released more often than it was held.
	ErrReleased = errors.New("batch released already")
	// ErrNoSamples: every sample of an epoch was left out, see [Skip].
	ErrNoSamples = errors.New("nothing can be read")
)

var errClosed = fmt.Errorf("loader: %w", device.ErrClosed)

// ErrorPolicy says what happens when a sample cannot be read.
type ErrorPolicy int

const (
	// Fail ends the loader with an error that names the sample.
	Fail ErrorPolicy = iota
	// Skip leaves the sample out: its batch is smaller, and not delivered when
	// nothing is left of it. An epoch of which nothing is left ends the loader
	// at its end with [ErrNoSamples], which wraps the [SampleError] of the first
	// that was left out. With ranks each judges its own part; what DropLast
	// cuts off counts neither way. An epoch that Resume enters behind its first
	// batch is not judged, for what came before is not known.
	Skip
	// Replace puts another sample in its place, drawn from the seed, the
	// epoch and the index of the one that cannot be read.
	Replace
)

// SampleError is a sample that could not be read. It wraps the reason.
type SampleError struct {
	Index int // of the sample
	// Name of the sample, as the dataset has it, or of the target of it that was
	// at fault.
	Name  string
	Epoch int
	Batch int // number within the epoch
	Err   error
}

// Error names the sample by its index. Errors of package dataset hold its name
// as well.
func (e *SampleError) Error() string {
	if errors.Is(e.Err, errPanic) || errors.Is(e.Err, ErrTimeout) {
		return fmt.Sprintf("loader: sample %d: %s: %v", e.Index, e.Name, e.Err)
	}
	return fmt.Sprintf("loader: sample %d: %v", e.Index, e.Err)
}

// Unwrap returns the reason.
func (e *SampleError) Unwrap() error { return e.Err }

// sampleError says what was wrong with a sample.
func (l *Loader) sampleError(j *job, index int, err error) error {
	return &SampleError{index, nameOf(l.named(err), index), j.epoch, j.number, err}
}

// nameOf is the name of a sample, whatever the dataset does.
func nameOf(ds dataset.Dataset, index int) (name string) {
	defer func() {
		if recover() != nil {
			name = "its name"
		}
	}()
	return ds.Name(index)
}

// settle deals with the samples of j that could not be read, in order: the
// loader fails, or they are replaced, or it closes the gaps that they leave.
// No errors are left then.
func (l *Loader) settle(j *job) error {
	if len(j.errs) == 0 {
		return nil
	}
	n := 0
	for slot := range j.indexes {
		keep, err := l.settleSlot(j, slot)
		if err != nil {
			return err
		}
		if keep {
			j.move(n, slot)
			n++
		}
	}
	j.cut(n)
	clear(j.errs) // slots have other samples now
	return nil
}

// maxReplacements is how many samples are tried in the place of one.
const maxReplacements = 16

// settleSlot reports whether there is a sample in the slot.
func (l *Loader) settleSlot(j *job, slot int) (keep bool, err error) {
	first := j.indexes[slot]
	for try := 0; j.errs[slot] != nil; try++ {
		policy, err := l.decide(j.errs[slot])
		if err != nil {
			return false, err
		}
		if policy == Skip {
			l.counters.skipped.Add(1)
			if j.leftOut++; j.leftOut == 1 {
				j.why = j.errs[slot]
			}
			return false, nil
		}
		if try == maxReplacements {
			return false, fmt.Errorf("loader: none of %d samples tried in the place of sample %d could be read; at last: %w", try, first, j.errs[slot])
		}
		l.replace(j, slot, sampler.Key(l.options.Seed, j.epoch, first)+uint64(try))
		if j.errs[slot] == nil {
			l.counters.replaced.Add(1)
		}
	}
	return true, nil
}

// decide asks what is to be done about a sample. Fail comes as an error.
func (l *Loader) decide(failed error) (policy ErrorPolicy, err error) {
	var sample *SampleError
	if !errors.As(failed, &sample) || errors.Is(failed, errStuck) || l.ctx.Err() != nil {
		return Fail, failed
	}
	policy = l.options.OnError
	if l.options.Decide != nil {
		defer recoverAs(&err, "in Decide")
		policy = l.options.Decide(sample)
	}
	switch policy {
	case Skip, Replace:
		return policy, nil
	}
	return Fail, failed
}

// replace reads another sample into the slot, drawn by key.
func (l *Loader) replace(j *job, slot int, key uint64) {
	j.indexes[slot] = int(sampler.Key(key, j.epoch, 0) % uint64(l.samples))
	delete(j.errs, slot)
	j.remeasure(slot, &j.block, l.options.PadTo == 0)
	for k := range j.targets {
		j.remeasure(slot, &j.targets[k], true)
	}
	if err := j.lane.reading.sample(j, slot, nil); err != nil {
		j.errs[slot] = err
	}
}

// remeasure takes in how long another sample in the slot is, and makes room for
// it where that may be.
func (j *job) remeasure(slot int, b *block, widens bool) {
	if b.lengths == nil {
		return
	}
	n := dataset.Length(b.source.ds, j.indexes[slot])
	b.lengths[slot] = int32(n)
	if widens && n > b.rows && n <= b.source.rows {
		j.widen(b, n)
	}
}
