package loader

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/loader/internal/read"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
	"github.com/pinion-gpu/pinion/loader/internal/usercode"
	"github.com/pinion-gpu/pinion/sampler"
)

// settle deals with the samples of j that could not be read, in order: the
// loader fails, or they are replaced, or it closes the gaps that they leave.
// No errors are left then.
func (n *feeder) settle(j *read.Job) error {
	if !j.Failed() {
		return nil
	}
	kept := 0
	for slot := range j.Indexes {
		keep, err := n.settleSlot(j, slot)
		if err != nil {
			return err
		}
		if keep {
			j.Move(kept, slot)
			kept++
		}
	}
	j.Cut(kept)
	j.Settled() // slots have other samples now
	return nil
}

// maxReplacements is how many samples are tried in the place of one.
const maxReplacements = 16

// settleSlot reports whether there is a sample in the slot.
func (n *feeder) settleSlot(j *read.Job, slot int) (keep bool, err error) {
	l, first := n.loader, j.Indexes[slot]
	for try := 0; j.ErrorOf(slot) != nil; try++ {
		if l.endless && errors.Is(j.ErrorOf(slot), dataset.ErrEnd) {
			j.Ended = true
			return false, nil
		}
		failed := l.sampleError(j, slot)
		policy, err := l.decide(failed)
		if err != nil {
			return false, err
		}
		l.unread.add(failed, l.options.KeepErrors)
		if policy == Skip {
			l.counters.skipped.Add(1)
			if j.LeftOut++; j.LeftOut == 1 {
				j.Why = failed
			}
			return false, nil
		}
		if try == maxReplacements {
			return false, fmt.Errorf("loader: none of %d samples tried in place of sample %d could be read; the last: %w", try, first, failed)
		}
		n.replace(j, slot, sampler.Key(l.options.Seed, j.Epoch, first)+uint64(try))
		if j.ErrorOf(slot) == nil {
			l.counters.replaced.Add(1)
		}
	}
	return true, nil
}

// replace reads another sample into the slot, drawn by key.
func (n *feeder) replace(j *read.Job, slot int, key uint64) {
	l := n.loader
	l.layout.Replace(&j.Contents, slot, int(sampler.Key(key, j.Epoch, 0)%uint64(l.samples)))
	j.Fail(slot, n.apart(func(r *read.Reader) error { return r.Sample(j, slot) }))
}

// apart has the feeder's reader read something. If the dataset ends the
// goroutine, the next read gets another reader.
func (n *feeder) apart(fn func(r *read.Reader) error) error {
	err := usercode.Apart(func() error { return fn(n.reader) })
	if errors.Is(err, usercode.ErrGoexit) {
		n.reader.Close()
		n.reader = n.loader.workers.NewReader(n.uploads.Name)
	}
	return err
}

// sampleError says what was wrong with the sample of a slot.
func (l *Loader) sampleError(j *read.Job, slot int) error {
	err, index := j.ErrorOf(slot), j.Indexes[slot]
	if errors.Is(err, read.ErrNoReader) {
		return fmt.Errorf("loader: %w", err)
	}
	ds := l.dataset()
	var target *slab.TargetError
	if errors.As(err, &target) {
		ds = l.layout.Targets[target.Target].Dataset
	}
	return &SampleError{index, nameOf(ds, index), j.Epoch, j.Number, err}
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

// decide asks what is to be done about a sample. Fail comes as an error.
func (l *Loader) decide(failed error) (policy ErrorPolicy, err error) {
	var sample *SampleError
	if !errors.As(failed, &sample) || errors.Is(failed, read.ErrStuck) || l.ctx.Err() != nil {
		return Fail, failed
	}
	policy = l.options.OnError
	if l.options.Decide != nil {
		defer usercode.Recover(&err, "loader: in Decide")
		policy = l.options.Decide(sample)
	}
	if policy == Skip || policy == Replace && !l.endless {
		return policy, nil
	}
	return Fail, failed
}
