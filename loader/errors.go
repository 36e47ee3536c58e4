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
)

var errClosed = fmt.Errorf("loader: %w", device.ErrClosed)

// ErrorPolicy says what happens when a sample cannot be read.
type ErrorPolicy int

const (
	// Fail ends the loader with an error that names the sample.
	Fail ErrorPolicy = iota
	// Skip leaves the sample out: its batch is smaller.
	Skip
	// Replace puts another sample in its place, drawn from the seed, the
	// epoch and the index of the one that cannot be read.
	Replace
)

// SampleError is a sample that could not be read. It wraps the reason.
type SampleError struct {
	Index int    // of the sample
	Name  string // of the sample, as the dataset has it
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
	return &SampleError{index, nameOf(l.ds, index), j.epoch, j.number, err}
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
			j.move(n, slot, l.rowBytes)
			n++
		}
	}
	j.indexes, j.labels = j.indexes[:n], j.labels[:n]
	if j.lengths != nil {
		j.lengths = j.lengths[:n]
	}
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
	if l.spec.Ragged {
		n := dataset.Length(l.ds, j.indexes[slot])
		j.lengths[slot] = int32(n)
		if l.options.PadTo == 0 && n > j.rows && n <= l.rows {
			j.widen(n, l.rowBytes, l.pad)
		}
	}
	if err := j.lane.reading.sample(j, slot, nil); err != nil {
		j.errs[slot] = err
	}
}

// move puts the sample of one slot into another.
func (j *job) move(to, from, rowBytes int) {
	if to == from {
		return
	}
	stride := j.rows * rowBytes
	copy(j.slab.bytes[to*stride:(to+1)*stride], j.slab.bytes[from*stride:])
	j.indexes[to], j.labels[to] = j.indexes[from], j.labels[from]
	if files := j.slab.files; files != nil {
		files[to], files[from] = files[from], files[to]
	}
	if j.lengths != nil {
		j.lengths[to] = j.lengths[from]
	}
}
