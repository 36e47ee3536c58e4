package read

import (
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
	"github.com/pinion-gpu/pinion/loader/internal/usercode"
)

// Reader reads samples for one goroutine.
type Reader struct {
	workers *Workers
	readers *readers // nil until the first sample
	guard   *guard   // reads in their place where samples have a time limit
	places  [][]byte // of a sample, and of its targets
	slot    int      // of the sample that is being read
	timing  dataset.Timing
	row     probe.Row // of a timeline
}

// NewReader makes a reader, which a timeline shows by that name. It opens the dataset
// with its first sample.
func (w *Workers) NewReader(name string) *Reader {
	return &Reader{workers: w, row: probe.Row{Group: "loader", Name: name}}
}

// Do reads all samples of a job.
func (r *Reader) Do(j *Job) { r.do(task{job: j, from: 0, to: len(j.Indexes)}) }

// do reads the samples of a task, and returns when it ended.
func (r *Reader) do(t task) (end time.Time) {
	mark := probe.Begin(r.row, "samples")
	start, count := time.Now(), t.to-t.from
	over := false
	defer func() {
		if !over {
			mark.End(r.row, probe.Span{Name: "samples", Batch: t.job.N + 1})
			r.left(t)
		}
	}()
	r.timing = dataset.Timing{}
	r.run(t)
	over = true
	end = time.Now()
	mark.End(r.row, probe.Span{
		Name: "samples", Start: start, End: end, Batch: t.job.N + 1, Samples: count,
		Stages: probe.Stages{Read: r.timing.Read, Decode: r.timing.Decode, Resize: r.timing.Resize},
	})
	r.workers.learn(end.Sub(start), count)
	if t.job.Finish(count) {
		r.workers.queue.offer(t.job)
	}
	return end
}

// help decodes a picture of a job that a device was to decode. A worker that the
// dataset ends leaves it to the device's goroutine.
func (r *Reader) help(t task) (end time.Time) {
	j, slot := t.job, t.from
	err := usercode.ErrGoexit
	defer func() {
		j.Files.Took(slot, err)
		r.workers.queue.helped()
	}()
	mark := probe.Begin(r.row, "samples")
	start := time.Now()
	r.timing = dataset.Timing{}
	if err = r.open(); err == nil {
		content, key := j.Files.Content(slot)
		v := dataset.Visit{Index: j.Indexes[slot], Key: key, Timing: &r.timing}
		err = r.readers.decode(r.workers.ctx, v, content, j.Sample(slot))
	}
	r.workers.times.add(&r.timing)
	end = time.Now()
	mark.End(r.row, probe.Span{
		Name: "samples", Start: start, End: end, Batch: j.N + 1, Samples: 1,
		Stages: probe.Stages{Decode: r.timing.Decode, Resize: r.timing.Resize},
	})
	if err == nil {
		r.workers.times.helped()
	}
	return end
}

// left deals with a task in whose middle the dataset ended the goroutine. The
// sample that it was about fails, and others read what is behind it.
func (r *Reader) left(t task) {
	t.job.Fail(r.slot, usercode.ErrGoexit)
	if r.slot+1 < t.to {
		r.workers.queue.put(task{job: t.job, from: r.slot + 1, to: t.to})
	}
	t.job.Finish(r.slot + 1 - t.from)
}

// timed is the number of samples of a task from which on the clock is read
// once for all of them and not for each: those samples are small, and their
// time is reading.
const timed = 16

// run reads the samples of a task.
func (r *Reader) run(t task) {
	timing := &r.timing
	start := time.Time{}
	if t.to-t.from >= timed {
		timing, start = nil, time.Now()
	}
	for slot := t.from; slot < t.to; slot++ {
		r.slot = slot
		if err := r.read(t.job, slot, timing); err != nil {
			t.job.Fail(slot, err)
		}
	}
	if timing == nil {
		r.timing.Read = time.Since(start)
	}
	r.workers.times.add(&r.timing)
}

// Sample reads the sample of a slot with all that goes with it.
func (r *Reader) Sample(j *Job, slot int) error { return r.read(j, slot, nil) }

// read reads the sample of a slot and its targets, its label and the padding
// behind them.
func (r *Reader) read(j *Job, slot int, timing *dataset.Timing) (err error) {
	defer usercode.Recover(&err, "in the dataset")
	if err := r.open(); err != nil {
		return err
	}
	if err := r.take(j, slot); err != nil {
		return err
	}
	source, index := &r.workers.source, j.Indexes[slot]
	v := dataset.Visit{Index: index, Key: source.Key(j.Epoch, index), Timing: timing}
	switch {
	case j.Files != nil:
		err = r.fetch(j, slot, v)
	case r.guard != nil:
		err = r.guarded(v, r.places)
	default:
		err = r.readers.read(r.workers.ctx, v, r.places)
	}
	if err == nil { // a stream knows its label only now
		j.Labels[slot] = source.Layout.Samples.Dataset.Label(index)
	}
	return err
}

// fetch reads the file of a sample, for the device to decode, and its targets.
func (r *Reader) fetch(j *Job, slot int, v dataset.Visit) error {
	r.readers.begin(&v)
	if err := j.Files.Fetch(r.workers.ctx, r.readers.encoded, slot, v, r.places[0]); err != nil {
		return err
	}
	return r.readers.readTargets(r.workers.ctx, v, r.places[1:])
}

// take finds the places of a sample and its targets, and pads them.
func (r *Reader) take(j *Job, slot int) error {
	place, err := j.Samples.Place(j.Slab.Bytes, slot)
	if err != nil {
		return err
	}
	r.places = append(r.places[:0], place)
	for k := range j.Targets {
		place, err := j.Targets[k].Place(j.Slab.Bytes, slot)
		if err != nil {
			return &slab.TargetError{Target: k, Err: err}
		}
		r.places = append(r.places, place)
	}
	return nil
}

// Decode makes the samples of pictures that the device refused. Those that
// cannot be made are errors of the job. It fails if no reader can be opened.
func (r *Reader) Decode(j *Job) error {
	for _, slot := range j.Files.Refused() {
		if err := r.open(); err != nil {
			return err
		}
		content, key := j.Files.Content(slot)
		v := dataset.Visit{Index: j.Indexes[slot], Key: key}
		if err := r.readers.decode(r.workers.ctx, v, content, j.Sample(slot)); err != nil {
			j.Fail(slot, err)
		}
	}
	return nil
}

// open makes the readers, if there are none.
func (r *Reader) open() error {
	if r.readers != nil || r.guard != nil {
		return nil
	}
	readers, err := newReaders(&r.workers.source)
	if err != nil {
		return err
	}
	if r.workers.source.Timeout > 0 {
		r.guard = newGuard(readers)
	} else {
		r.readers = readers
	}
	return nil
}

// Close closes the readers of the dataset.
func (r *Reader) Close() {
	if r.guard != nil {
		r.guard.close()
	}
	if r.readers != nil {
		r.readers.close()
	}
}
