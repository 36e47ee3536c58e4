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
	idle := time.Now()
	for {
		t, ok := receive(l.ctx, l.work)
		if !ok {
			l.counters.workerWait.Add(int64(time.Since(idle)))
			return
		}
		start := time.Now()
		l.counters.workerWait.Add(int64(start.Sub(idle)))
		r.run(t)
		idle = time.Now()
		l.learn(idle.Sub(start), t.to-t.from)
		t.job.finish(t.to-t.from, l.options.Unordered)
	}
}

// reading is a reader of the dataset and what is around it. It belongs to one
// goroutine.
type reading struct {
	loader *Loader
	reader dataset.Reader // nil until the first sample
	guard  *guard         // reads in place of reader where samples have a time limit
	timing dataset.Timing

	encoded dataset.EncodedReader // the reader, where a device decodes
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

// sample reads the sample of a slot, its label and the padding behind it.
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
	if j.lengths != nil && int(j.lengths[slot]) > j.rows {
		return fmt.Errorf("%w: length %d, and there is room for %d", ErrTooLong, j.lengths[slot], j.rows)
	}
	j.labels[slot] = l.ds.Label(index)
	sample, padding := j.place(slot, l.rowBytes)
	v := dataset.Visit{Index: index, Key: l.key(j, index), Timing: timing}
	l.pad.fill(padding)
	if c := j.lane.decoding; c != nil {
		return r.fetch(c, j, slot, v, sample)
	}
	if r.guard != nil {
		return r.guarded(v, sample)
	}
	return r.reader.Read(l.ctx, v, sample)
}

// open makes the reader, if there is none.
func (r *reading) open() (err error) {
	if r.reader != nil || r.guard != nil {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("loader: %w: %w", errNoReader, err)
		}
	}()
	defer recoverAs(&err, "in NewReader")
	if r.loader.encoded != nil {
		r.encoded, err = r.loader.encoded.NewEncodedReader()
		if err != nil {
			return err
		}
		r.reader = r.encoded
		return nil
	}
	reader, err := r.loader.ds.NewReader()
	if err != nil {
		return err
	}
	if r.loader.options.SampleTimeout > 0 {
		r.guard = newGuard(r.loader, reader)
	} else {
		r.reader = reader
	}
	return nil
}

func (r *reading) close() {
	if r.guard != nil {
		r.guard.close()
	}
	if r.reader != nil {
		closeReader(r.reader)
	}
}

func closeReader(reader dataset.Reader) {
	var err error // a reader only reads: nothing can be lost
	defer recoverAs(&err, "in Close of a reader")
	err = reader.Close()
}

// errPanic: code of the dataset or of a callback panicked.
var errPanic = errors.New("panic")

// recoverAs makes an error of a panic. Use it with defer.
func recoverAs(err *error, where string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w %s: %v\n%s", errPanic, where, p, debug.Stack())
	}
}
