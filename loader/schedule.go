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
	own := &reading{loader: l}
	defer own.close()
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
		j.slab.trimFiles(keepFiles / len(n.slabs.all))
		if !l.options.Unordered {
			n.jobs <- j // never blocks: there is room for every slab, and an error
		}
		switch count := len(j.indexes); {
		case count == 0:
			j.finish(0, l.options.Unordered)
		case l.quick(count):
			own.do(task{j, 0, count})
		default:
			l.desk.put(j)
		}
	}
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

// quickTime is how long reading may take that is no work for a worker: to hand
// it over takes as long.
const quickTime = 20 * time.Microsecond

// quick reports whether so many samples are read sooner than handed over. Where
// batches come in any order, none are: a read that takes its time after all
// would hold up the batches behind it, which need not wait for it.
func (l *Loader) quick(samples int) bool {
	each := l.sampleTime.Load()
	return !l.options.Unordered && each > 0 && each*int64(samples) <= int64(quickTime)
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
