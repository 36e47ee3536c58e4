package read

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/striped"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
	"github.com/pinion-gpu/pinion/sampler"
)

// Source says what is read, and how.
type Source struct {
	Layout  *slab.Layout
	Encoded dataset.Encoded // where a device decodes; else nil
	Seed    uint64
	Timeout time.Duration // of a sample with its targets; 0: none

	// Hungry reports whether the program waits for batches, or is about to. While
	// it does, workers that have nothing to read take pictures from the device.
	// Nil: they never do.
	Hungry func() bool
}

// Key is the key from which everything random about the visit of a sample is
// drawn.
func (s *Source) Key(epoch, index int) uint64 { return sampler.Key(s.Seed, epoch, index) }

// Workers read the samples of jobs. The caller starts their goroutines, each
// with [Workers.Work].
type Workers struct {
	source Source
	ctx    context.Context // ends the reading
	queue  *queue
	quick  bool // see Quick

	sampleTime atomic.Int64 // nanoseconds, a moving average
	stuck      atomic.Int64 // reads that did not come back in time
	times      *Times
}

// Times counts how long workers did what, over all of them.
type Times struct {
	by striped.Of[nanoseconds]
}

type nanoseconds struct{ read, decode, resize, idle, helped atomic.Int64 }

// helped counts a picture that a worker decoded although the device would.
func (c *Times) helped() { c.by.Near().helped.Add(1) }

// Helped is how many of these there were.
func (c *Times) Helped() (n int64) {
	for t := range c.by.All() {
		n += t.helped.Load()
	}
	return n
}

// waited counts that a worker had nothing to do.
func (c *Times) waited(d time.Duration) { c.by.Near().idle.Add(int64(d)) }

// Spent is what was counted so far.
func (c *Times) Spent() (work dataset.Timing, idle time.Duration) {
	for t := range c.by.All() {
		work.Read += time.Duration(t.read.Load())
		work.Decode += time.Duration(t.decode.Load())
		work.Resize += time.Duration(t.resize.Load())
		idle += time.Duration(t.idle.Load())
	}
	return work, idle
}

// NewWorkers makes the workers of a loader, which count what they do in times.
// quick says whether batches may be
// read by those who make them, see [Workers.Quick].
func NewWorkers(ctx context.Context, s Source, times *Times, quick bool) *Workers {
	return &Workers{source: s, ctx: ctx, queue: newQueue(s.Hungry), times: times, quick: quick}
}

// Put adds a job with samples.
func (w *Workers) Put(j *Job) { w.queue.put(task{job: j, from: 0, to: len(j.Indexes)}) }

// Close ends the workers, once nothing is left to read.
func (w *Workers) Close() { w.queue.close() }

// Work reads samples until there are no more. Several goroutines may work, each with
// a number. If
// the dataset ends this one, another takes its place, started by spawn.
func (w *Workers) Work(number int, spawn func(func())) {
	r := w.NewReader(fmt.Sprint("worker ", number))
	defer r.Close()
	over := false
	defer func() {
		if !over {
			spawn(func() { w.Work(number, spawn) })
		}
	}()
	own := newSleeper()
	idle := time.Now()
	for {
		t, ok := w.queue.take(w.some(), own)
		w.times.waited(time.Since(idle))
		switch {
		case !ok || w.ctx.Err() != nil:
			if t.picture {
				t.job.Files.Took(t.from, w.ctx.Err())
			}
			over = true
			return
		case t.picture:
			idle = r.help(t)
		default:
			idle = r.do(t)
		}
	}
}

// taskTime is how long a worker should be busy with a task: long compared with
// handing it over, short compared with a batch of slow samples.
const taskTime = 50 * time.Microsecond

// some is how many samples make a task.
func (w *Workers) some() int {
	each := time.Duration(w.sampleTime.Load())
	if each <= 0 {
		return 1
	}
	return int(max(1, taskTime/each))
}

// quickTime is how long a batch may take to read that is not worth handing
// over: that takes as long.
const quickTime = 20 * time.Microsecond

// Quick reports whether so many samples are read sooner than handed over.
func (w *Workers) Quick(samples int) bool {
	each := w.sampleTime.Load()
	return w.quick && each > 0 && each*int64(samples) <= int64(quickTime)
}

// learn takes in how long the samples of a task took.
func (w *Workers) learn(took time.Duration, samples int) {
	each := max(int64(took)/int64(samples), 1)
	if last := w.sampleTime.Load(); last > 0 {
		each = (7*last + each + 7) / 8
	}
	w.sampleTime.Store(each) // a lost update does no harm
}

// add counts what was done for a task.
func (c *Times) add(t *dataset.Timing) {
	n := c.by.Near()
	n.read.Add(int64(t.Read))
	n.decode.Add(int64(t.Decode))
	n.resize.Add(int64(t.Resize))
}
