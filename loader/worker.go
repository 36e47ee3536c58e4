package loader

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/sampler"
)

// errNoReader: a reader could not be made. It is no sample's fault.
var errNoReader = errors.New("no reader")

// reads reads samples into their places until there are none.
func (l *Loader) reads() {
	r := &reading{loader: l}
	defer r.close()
	own := newNap()
	idle := time.Now()
	for {
		t, ok := l.desk.take(l.run(), own)
		if !ok || l.ctx.Err() != nil {
			l.counters.workerWait.Add(int64(time.Since(idle)))
			return
		}
		l.counters.workerWait.Add(int64(time.Since(idle)))
		idle = r.do(t)
	}
}

// do reads the samples of a task, and returns when it ended.
func (r *reading) do(t task) (end time.Time) {
	start, count := time.Now(), t.to-t.from
	r.run(t)
	end = time.Now()
	r.loader.learn(end.Sub(start), count)
	t.job.finish(count, r.loader.options.Unordered)
	return end
}

// reading is what a goroutine reads samples with.
type reading struct {
	loader  *Loader
	readers *readers // nil until the first sample
	guard   *guard   // reads in their place where samples have a time limit
	places  [][]byte // of a sample, and of its targets
	timing  dataset.Timing
}

// key is what everything random about the visit of a sample is drawn from.
func (l *Loader) key(j *job, index int) uint64 {
	return sampler.Key(l.options.Seed, j.epoch, index)
}

// timed is the number of samples of a task from which on the clock is read
// once for all of them and not for each: those samples are small, and their
// time is reading.
const timed = 16

// run reads the samples of a task.
func (r *reading) run(t task) {
	timing := &r.timing
	start := time.Time{}
	if t.to-t.from >= timed {
		timing, start = nil, time.Now()
	}
	for slot := t.from; slot < t.to; slot++ {
		if err := r.sample(t.job, slot, timing); err != nil {
			t.job.fail(slot, err)
		}
	}
	if timing == nil {
		r.timing.Read = time.Since(start)
	}
	r.loader.counters.read(&r.timing)
}

// sample reads the sample of a slot and its targets, its label and the padding
// behind them.
func (r *reading) sample(j *job, slot int, timing *dataset.Timing) (err error) {
	l, index := r.loader, j.indexes[slot]
	defer func() {
		if err != nil && !errors.Is(err, errNoReader) {
			err = l.sampleError(j, index, err)
		}
	}()
	defer recoverAs(&err, "in the dataset")
	if err := r.open(); err != nil {
		return err
	}
	if err := r.take(j, slot); err != nil {
		return err
	}
	j.labels[slot] = l.ds.Label(index)
	v := dataset.Visit{Index: index, Key: l.key(j, index), Timing: timing}
	switch c := j.lane.decoding; {
	case c != nil:
		r.readers.begin(&v)
		if err := r.fetch(c, j, slot, v, r.places[0]); err != nil {
			return err
		}
		return r.readers.readTargets(l.ctx, v, r.places[1:])
	case r.guard != nil:
		return r.guarded(v, r.places)
	}
	return r.readers.read(l.ctx, v, r.places)
}

// take finds the places of a sample and its targets, and pads them.
func (r *reading) take(j *job, slot int) error {
	r.places = r.places[:0]
	if err := r.add(j, slot, &j.block); err != nil {
		return err
	}
	for k := range j.targets {
		if err := r.add(j, slot, &j.targets[k]); err != nil {
			return &targetError{k, err}
		}
	}
	return nil
}

func (r *reading) add(j *job, slot int, b *block) error {
	if b.lengths != nil && int(b.lengths[slot]) > b.rows {
		return fmt.Errorf("%w: length %d, and there is room for %d", ErrTooLong, b.lengths[slot], b.rows)
	}
	place, padding := b.place(j.slab.bytes, slot)
	b.source.pad.fill(padding)
	r.places = append(r.places, place)
	return nil
}

// open makes the readers, if there are none.
func (r *reading) open() error {
	if r.readers != nil || r.guard != nil {
		return nil
	}
	readers, err := r.loader.newReaders()
	if err != nil {
		return err
	}
	if r.loader.options.SampleTimeout > 0 {
		r.guard = newGuard(readers)
	} else {
		r.readers = readers
	}
	return nil
}

func (r *reading) close() {
	if r.guard != nil {
		r.guard.close()
	}
	if r.readers != nil {
		r.readers.close()
	}
}

// errPanic: code of the dataset or of a callback panicked.
var errPanic = errors.New("panic")

// recoverAs makes an error of a panic. Use it with defer.
func recoverAs(err *error, where string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w %s: %v\n%s", errPanic, where, p, debug.Stack())
	}
}
