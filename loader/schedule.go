package loader

import (
	"context"
	"time"
)

// schedule hands the samples of the lane's batches to the workers, as slabs
// come free. Epochs follow on each other without a pause. It ends behind a
// batch that cannot be made, which comes back as an error in its place.
func (n *lane) schedule() {
	l := n.loader
	for b := l.first; b < l.order.total; b++ {
		if l.lanes[b%len(l.lanes)] != n || l.skip[b] {
			continue
		}
		j, err := l.newJob(b)
		if err != nil {
			n.jobs <- failedJob(b, l.order.epoch(b), err)
			return
		}
		var ok bool
		if j.slab, ok = receive(l.ctx, n.free); !ok {
			return
		}
		if !l.options.Unordered {
			n.jobs <- j // never blocks: there is room for every slab, and an error
		}
		if !l.hand(j) {
			return
		}
	}
}

// hand gives the samples of j to the workers, in runs; false when the loader
// ended.
func (l *Loader) hand(j *job) bool {
	n := len(j.indexes) // behind its last task a job may change
	if n == 0 {
		j.finish(0, l.options.Unordered)
	}
	for from := 0; from < n; {
		to := min(from+l.run(), n)
		select {
		case l.work <- task{j, from, to}:
		case <-l.ctx.Done():
			return false
		}
		from = to
	}
	return true
}

// runTime is how long a worker should be busy with a task: long beside
// handing it over, short beside a batch of samples that take their time.
const runTime = 50 * time.Microsecond

// run is how many samples make a task.
func (l *Loader) run() int {
	each := time.Duration(l.sampleTime.Load())
	if each <= 0 {
		return 1
	}
	return int(max(1, runTime/each))
}

// learn takes in how long the samples of a task took.
func (l *Loader) learn(took time.Duration, samples int) {
	each := max(int64(took)/int64(samples), 1)
	if last := l.sampleTime.Load(); last > 0 {
		each = (7*last + each + 7) / 8
	}
	l.sampleTime.Store(each) // a lost update does no harm
}

// receive is a receive that the end of ctx cuts short; ok is false then, and
// when c is closed.
func receive[T any](ctx context.Context, c <-chan T) (v T, ok bool) {
	select {
	case v, ok = <-c:
		return v, ok
	case <-ctx.Done():
		return v, false
	}
}
