package replay

import (
	"slices"
	"time"
)

// stopwatch times calls of some nanoseconds.
type stopwatch struct {
	base time.Time
	cost time.Duration // of a measurement of nothing
}

func newStopwatch() stopwatch {
	w := stopwatch{base: time.Now()}
	var empty [1001]time.Duration
	for i := range empty {
		start := w.now()
		empty[i] = w.now() - start
	}
	slices.Sort(empty[:])
	w.cost = empty[len(empty)/2]
	return w
}

// now reads the monotonic clock alone, which is cheaper than [time.Now].
func (w *stopwatch) now() time.Duration { return time.Since(w.base) }

// since is the time since start, without what measuring takes.
func (w *stopwatch) since(start time.Duration) time.Duration {
	return max(w.now()-start-w.cost, 0)
}
