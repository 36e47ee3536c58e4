package cli

import (
	"context"
	"time"
)

// grace is how long work may take to notice that its context ended.
const grace = 500 * time.Millisecond

// Promptly calls work, and returns ctx's error when ctx has ended and work has not
// noticed it for half a second: a call of the driver cannot be cut short, and
// page-locking a GiB may take seconds on a busy machine. Work then goes on until the
// process ends, which the caller must be about to do. So it is for work that leaves
// nothing behind but memory, and files that are written beside and renamed.
func Promptly[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := work()
		done <- result{value, err}
	}()
	late := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(late) }) })()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late:
	}
	select {
	case r := <-done: // just in time, on a busy machine
		return r.value, r.err
	default:
		var none T
		return none, ctx.Err()
	}
}
