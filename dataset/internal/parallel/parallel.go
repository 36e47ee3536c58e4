// Package parallel calls a function for many numbers at once.
package parallel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Each calls f for 0 to n-1 from several goroutines, since opening many files
// waits for the disk more than for the processor. It returns the error of the
// lowest number, so that the same input gives the same error every time, and
// calls f no more after it. The end of ctx ends it too, with its cause.
func Each(ctx context.Context, n int, f func(i int) error) error {
	var workers sync.WaitGroup
	var next atomic.Int64
	var mu sync.Mutex
	var failed error
	failedAt := n
	for range min(n, 4*runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return
				}
				if err := f(i); err != nil {
					next.Store(int64(n)) // all below i are done or under way
					mu.Lock()
					if i < failedAt {
						failed, failedAt = err, i
					}
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failed
}
