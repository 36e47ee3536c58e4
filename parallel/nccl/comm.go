package nccl

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/parallel"
)

// comm is one rank's communicator. NCCL takes one call for it at a time, and none while the
// last is in progress.
type comm struct {
	dev        device.Device
	native     device.Native
	ranges     device.RangeChecker
	rank, size int

	life context.Context // ends with Abort or Close; its cause says which
	fail context.CancelCauseFunc
	gone chan struct{} // closed when NCCL's part is no more

	mu     sync.Mutex // held by whoever calls NCCL
	handle uintptr    // zero when it is gone
	state  int32      // that NCCL told last
	closed bool

	turn    sync.Mutex // held by a Barrier or a Split
	child   uintptr    // NCCL writes the result of a split here
	barrier struct {
		stream device.Stream
		event  device.Event
		word   device.Ptr
	}
}

// newComm makes a communicator that has no handle yet.
func newComm(dev device.Device) (*comm, error) {
	c := &comm{dev: dev, gone: make(chan struct{})}
	var ok1, ok2 bool
	c.native, ok1 = device.As[device.Native](dev)
	c.ranges, ok2 = device.As[device.RangeChecker](dev)
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("nccl: %w: %s", device.ErrNotSupported, dev.Info().ID)
	}
	c.life, c.fail = context.WithCancelCause(context.Background())
	go c.keep()
	return c, nil
}

// watchEvery is how often a communicator that nobody calls is asked for errors.
const watchEvery = 500 * time.Millisecond

// keep looks for errors that come later, such as of a connection, until the communicator's
// life ends, and then ends NCCL's part.
func (c *comm) keep() {
	defer close(c.gone)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for c.life.Err() == nil {
		select {
		case <-c.life.Done():
		case <-ticker.C:
			if c.mu.TryLock() { // or else whoever calls NCCL hears of them
				if err := c.look(); err != nil {
					c.fail(err)
				}
				c.mu.Unlock()
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle != 0 {
		// If the device was closed before, there is nothing left to end.
		_ = c.native.WithContext(func() error { return check("ncclCommAbort", api.abort.Call(c.handle)) })
		c.handle = 0
	}
}

// look asks for the state. The caller holds mu.
func (c *comm) look() error {
	if c.handle == 0 {
		return nil
	}
	r := api.asyncError.Call4(c.handle, uintptr(unsafe.Pointer(&c.state)), 0, 0)
	if r == success && c.state != inProgress {
		r = uintptr(c.state)
	}
	return check("ncclCommGetAsyncError", r)
}

// usable is why no call can be made.
func (c *comm) usable() error {
	switch cause := context.Cause(c.life); cause {
	case nil:
		return nil
	case parallel.ErrClosed:
		return cause
	default:
		return fmt.Errorf("%w: %w", parallel.ErrAborted, cause)
	}
}

// patience is how long a call that was aborted waits for NCCL to let go of the stream.
// NCCL takes longer where graphs have operations of the communicator.
const patience = time.Second

// call calls NCCL inside of enter, and waits until that is done. A failure ends the
// communicator: NCCL makes nothing more of it.
func (c *comm) call(name string, enter func(fn func() error) error, fn func() uintptr) error {
	if err := c.usable(); err != nil {
		return err
	}
	c.mu.Lock()
	if err := c.usable(); err != nil {
		c.mu.Unlock()
		return err
	}
	var failed error
	err := enter(func() error {
		failed = c.settle(name, fn())
		return nil
	})
	c.mu.Unlock()
	if failed == nil {
		return err
	}
	c.fail(failed)
	select {
	case <-c.gone:
	case <-time.After(patience):
	}
	return failed
}

// settle waits until a call that may be in progress is done. The caller holds mu.
func (c *comm) settle(name string, result uintptr) error {
	const hot = 500 // a group of operations is queued in less time than it takes to sleep
	for n := 0; int32(result) == inProgress; n++ {
		if err := c.usable(); err != nil {
			return err
		}
		if n > hot {
			time.Sleep(min(time.Duration(n-hot)*10*time.Microsecond, time.Millisecond))
		}
		if result = api.asyncError.Call4(c.handle, uintptr(unsafe.Pointer(&c.state)), 0, 0); result == success {
			result = uintptr(c.state)
		}
	}
	return check(name, result)
}

func (c *comm) Rank() int             { return c.rank }
func (c *comm) Size() int             { return c.size }
func (c *comm) Device() device.Device { return c.dev }

// Abort implements [parallel.Comm]. The goroutine of keep does it.
func (c *comm) Abort(reason error) { c.fail(reason) }

// Close implements [parallel.Comm].
func (c *comm) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	var err error
	if c.life.Err() == nil {
		if err = c.end(); err != nil {
			err = fmt.Errorf("nccl: close: %w", err)
			c.fail(err)
		}
	}
	c.fail(parallel.ErrClosed)
	c.mu.Unlock()
	<-c.gone
	return c.closeBarrier(err)
}

// end waits for what is queued, and ends NCCL's part. The caller holds mu.
func (c *comm) end() error {
	return c.native.WithContext(func() error {
		if err := c.settle("ncclCommFinalize", api.finalize.Call(c.handle)); err != nil {
			return err
		}
		handle := c.handle
		c.handle = 0
		return check("ncclCommDestroy", api.destroy.Call(handle))
	})
}

// together makes a call of all ranks. A context that ends aborts the communicator: nobody
// knows which ranks have come.
func (c *comm) together(ctx context.Context, what string, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("nccl: %s: %w", what, err)
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	defer context.AfterFunc(ctx, func() { c.fail(fmt.Errorf("%s: %w", what, context.Cause(ctx))) })()
	err := fn()
	if err == nil {
		err = c.usable()
	}
	if err != nil {
		return fmt.Errorf("nccl: %s: %w", what, err)
	}
	return nil
}

// Split implements [parallel.Comm].
func (c *comm) Split(ctx context.Context, color, key int) (parallel.Comm, error) {
	if int(int32(color)) != color || int(int32(key)) != key {
		return nil, fmt.Errorf("nccl: split: %w: color %d, key %d", parallel.ErrArgument, color, key)
	}
	var part *comm
	err := c.together(ctx, "split", func() error {
		c.child = 0
		err := c.call("ncclCommSplit", c.native.WithContext, func() uintptr {
			r := api.split.Call(c.handle, uintptr(max(color, noColor)), uintptr(key), uintptr(unsafe.Pointer(&c.child)), 0)
			if r == success { // NCCL does not say here that it is in progress; the state does
				r = inProgress
			}
			return r
		})
		if err == nil && c.child != 0 {
			part, err = c.newPart()
		}
		return err
	})
	if err != nil && part != nil {
		part.Abort(err)
		_ = part.Close()
	}
	if err != nil || part == nil {
		return nil, err
	}
	return part, nil
}

// newPart makes a communicator of the child of a split.
func (c *comm) newPart() (*comm, error) {
	part, err := newComm(c.dev)
	if err != nil {
		return nil, err
	}
	part.mu.Lock()
	part.handle = c.child
	part.mu.Unlock()
	err = part.call("ncclCommSplit", c.native.WithContext, func() uintptr { return inProgress })
	if err == nil {
		part.rank, err = part.number("ncclCommUserRank", api.userRank)
	}
	if err == nil {
		part.size, err = part.number("ncclCommCount", api.count)
	}
	return part, err
}

// number asks for one.
func (c *comm) number(name string, f dl.Func) (int, error) {
	var n int32
	err := c.call(name, c.native.WithContext, func() uintptr { return f.Call(c.handle, uintptr(unsafe.Pointer(&n))) })
	return int(n), err
}
