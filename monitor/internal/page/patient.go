package page

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/internal/units"
)

// errNoAnswer: what was asked has not answered for seconds.
var errNoAnswer = errors.New("no answer")

// patience is how long a request waits for a pool or a driver.
const patience = 4 * time.Second

// call is a function that may never return, such as one that waits for a driver that
// lost its device. It runs in a goroutine, once at a time; who asks meanwhile waits for
// the same answer, and not for ever.
type call[T any] struct {
	do func() T

	mu     sync.Mutex
	flight *flight[T] // nil: none is under way
}

type flight[T any] struct {
	began  time.Time
	done   chan struct{}
	answer T
}

// get asks, or waits for who asked before.
func (c *call[T]) get(ctx context.Context, wait time.Duration) (answer T, err error) {
	c.mu.Lock()
	f := c.flight
	if f == nil {
		f = &flight[T]{began: time.Now(), done: make(chan struct{})}
		c.flight = f
		go func() {
			f.answer = c.do()
			c.mu.Lock()
			c.flight = nil
			c.mu.Unlock()
			close(f.done)
		}()
	}
	c.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.answer, nil
	case <-ctx.Done():
		return answer, ctx.Err()
	case <-timer.C:
		return answer, fmt.Errorf("%w for %s: a pool is busy, or the driver of a device hangs", errNoAnswer, units.Duration(time.Since(f.began).Round(100*time.Millisecond)))
	}
}
