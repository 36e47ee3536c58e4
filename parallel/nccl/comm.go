package nccl

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/parallel"
)

// comm is one rank's communicator: two of NCCL's. Operations go to one that blocks, where
// they are queued at once. It is split off another, the root, which never blocks: what
// waits for ranks by its nature, to begin and to split, is done there and can be given up.
//
// NCCL takes one call at a time, and none while the last is in progress.
type comm struct {
	dev        device.Device
	native     device.Native
	ranges     device.RangeChecker
	rank, size int

	life context.Context // ends with Abort or Close; its cause says which
	fail context.CancelCauseFunc
	gone chan struct{} // closed when NCCL's part is no more

	closed atomic.Bool

	mu     sync.Mutex     // held by whoever calls NCCL
	handle atomic.Uintptr // that operations go to; zero before it is there, and when it is gone
	state  int32          // that NCCL told last

	rootMu sync.Mutex // held with mu by whoever calls NCCL for root, which is never for long once life has ended
	root   uintptr    // that does not block; zero like handle
	child  uintptr    // NCCL writes the result of a split of root here

	mostBlocks int32 // of an operation; 0: as many as NCCL likes

	parted func() bool // has the end of the group that this was split off end this no more; or nil

	turn    sync.Mutex // held by a Barrier or a Split
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
	// If the device was closed before, there is nothing left to end.
	_ = c.native.WithContext(func() error {
		if handle := c.handle.Swap(0); handle != 0 {
			// In a group, NCCL ends what waits at once, and frees what that works with at
			// the end, when the call that waited has come back and the graphs that have
			// operations of the communicator are closed.
			api.groupStart.Call()
			c.abort(handle)
			c.comeBack()
			api.groupEnd.Call()
		}
		// To free waits for all that the device has to do, so what operations went to is
		// ended before.
		c.rootMu.Lock()
		c.abort(c.root)
		c.abort(c.child) // that a split has made since nobody waited for it
		c.root, c.child = 0, 0
		c.rootMu.Unlock()
		return nil
	})
}

// comeBack waits until the call that is in progress has come back. No other begins.
func (c *comm) comeBack() {
	c.mu.Lock()
	defer c.mu.Unlock()
}

// abort ends one of NCCL's communicators, or none. The context is current.
func (c *comm) abort(handle uintptr) {
	if handle != 0 {
		api.abort.Call(handle) // of which nothing is left either way
	}
}

// look asks for the state. The caller holds mu.
func (c *comm) look() error {
	handle := c.handle.Load()
	if handle == 0 {
		return nil
	}
	r := api.asyncError.Call4(handle, uintptr(unsafe.Pointer(&c.state)), 0, 0)
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

// closePatience is how long Close waits for that. Without such graphs it takes some seconds.
var closePatience = 10 * time.Second

var errGraphs = errors.New("graphs still have operations of the aborted communicator, which is freed when they are closed: those of all ranks in this process, before any device")

// call calls NCCL inside of enter for what operations go to. A failure ends the
// communicator: NCCL makes nothing more of it.
func (c *comm) call(name string, enter func(fn func() error) error, fn func() uintptr) error {
	return c.alone(func() error {
		var failed error
		err := enter(func() error {
			failed = c.settle(name, c.handle.Load, fn())
			return nil
		})
		if failed != nil {
			c.fail(failed)
			return failed
		}
		return err
	})
}

// callRoot is call for root. What it made is handed to done before anything can be ended.
func (c *comm) callRoot(name string, fn func(root uintptr) uintptr, done func()) error {
	return c.alone(func() error {
		c.rootMu.Lock()
		defer c.rootMu.Unlock()
		return c.native.WithContext(func() error {
			if err := c.usable(); err != nil {
				return err
			}
			if err := c.settle(name, func() uintptr { return c.root }, fn(c.root)); err != nil {
				c.fail(err)
				return err
			}
			done()
			c.child = 0
			return nil
		})
	})
}

// alone calls fn with mu held, if the communicator is usable then. Where it is not any
// more, it waits for NCCL's part to be gone.
func (c *comm) alone(fn func() error) error {
	if err := c.usable(); err != nil {
		return err
	}
	c.mu.Lock()
	err := c.usable()
	if err == nil {
		err = fn()
	}
	c.mu.Unlock()
	if err != nil && c.life.Err() != nil {
		c.left(patience)
	}
	return err
}

// left waits for NCCL's part to be gone, but not for ever: it may wait for graphs.
func (c *comm) left(most time.Duration) bool {
	select {
	case <-c.gone:
		return true
	case <-time.After(most):
		return false
	}
}

// settle waits until a call that may be in progress is done. The caller holds the lock of
// the handle. What an abort makes a call return is not the reason.
func (c *comm) settle(name string, handle func() uintptr, result uintptr) error {
	const hot = 500 // a group of operations is queued in less time than it takes to sleep
	for n := 0; int32(result) == inProgress; n++ {
		if err := c.usable(); err != nil {
			return err
		}
		if n > hot {
			time.Sleep(min(time.Duration(n-hot)*10*time.Microsecond, time.Millisecond))
		}
		if result = api.asyncError.Call4(handle(), uintptr(unsafe.Pointer(&c.state)), 0, 0); result == success {
			result = uintptr(c.state)
		}
	}
	if result != success && c.life.Err() != nil {
		return c.usable()
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
	if c.closed.Swap(true) {
		return nil
	}
	c.mu.Lock()
	var err error
	if c.life.Err() == nil {
		if err = c.end(); err != nil {
			err = fmt.Errorf("nccl: close: %w", err)
			c.fail(err)
		}
	}
	c.fail(parallel.ErrClosed)
	c.mu.Unlock()
	if !c.left(closePatience) && err == nil {
		err = fmt.Errorf("nccl: close: rank %d: after %v %w", c.rank, closePatience, errGraphs)
	}
	if c.parted != nil {
		c.parted()
	}
	return c.closeBarrier(err)
}

// end waits for what is queued, and ends NCCL's part. The caller holds mu.
func (c *comm) end() error {
	return c.native.WithContext(func() error {
		if err := c.endOne(c.handle.Load, func() uintptr { return c.handle.Swap(0) }); err != nil {
			return err
		}
		c.rootMu.Lock()
		defer c.rootMu.Unlock()
		return c.endOne(func() uintptr { return c.root }, func() (root uintptr) { root, c.root = c.root, 0; return root })
	})
}

// endOne ends one of NCCL's communicators, which take makes the caller's.
func (c *comm) endOne(handle, take func() uintptr) error {
	if handle() == 0 {
		return c.usable()
	}
	if err := c.settle("ncclCommFinalize", handle, api.finalize.Call(handle())); err != nil {
		return err
	}
	if taken := take(); taken != 0 {
		return check("ncclCommDestroy", api.destroy.Call(taken))
	}
	return c.usable()
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
	return c.split(ctx, color, key, c.mostBlocks)
}

// besideBlocks is how many thread blocks a transfer has that goes on beside computation. Stages
// of a GPT of 24 x 2048 on two H200 were as fast with 1, 2, 4 and 8, and slower by 3 to 4 % with
// as many as NCCL likes.
const besideBlocks = 4

// Beside is for [parallel.Beside]. A kernel that waits for another rank keeps its
// multiprocessors busy meanwhile, and slows down what runs beside it.
func (c *comm) Beside(ctx context.Context) (parallel.Comm, error) {
	return c.split(ctx, 0, c.rank, besideBlocks)
}

// split makes a part with at most so many thread blocks.
func (c *comm) split(ctx context.Context, color, key int, mostBlocks int32) (parallel.Comm, error) {
	var part *comm
	err := c.together(ctx, "split", func() error {
		var child uintptr
		err := c.splitRoot(max(color, noColor), key, newConfig(0, mostBlocks), func() { child = c.child })
		if err == nil && child != 0 {
			part, err = c.newPart(child, mostBlocks)
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

// splitRoot splits the root. The part with this rank is c.child when done is called.
func (c *comm) splitRoot(color, key int, cfg *config, done func()) error {
	return c.callRoot("ncclCommSplit", func(root uintptr) uintptr {
		c.child = 0
		r := api.split.Call(root, uintptr(color), uintptr(key), uintptr(unsafe.Pointer(&c.child)), uintptr(unsafe.Pointer(cfg)))
		if r == success { // NCCL does not say here that it is in progress; the state does
			r = inProgress
		}
		return r
	}, done)
}

// openHandle makes what operations go to.
func (c *comm) openHandle() error {
	return c.splitRoot(0, c.rank, newConfig(1, c.mostBlocks), func() { c.handle.Store(c.child) })
}

// newPart makes a communicator of a part of the root. An abort of c ends it, too: to free what
// NCCL has of c waits for all that the device has to do, and so for the part's operations.
func (c *comm) newPart(root uintptr, mostBlocks int32) (*comm, error) {
	part, err := newComm(c.dev)
	if err != nil {
		return nil, err
	}
	part.mostBlocks = mostBlocks
	part.rootMu.Lock()
	part.root = root
	part.rootMu.Unlock()
	// A Close, too, as long as the part's ranks are waited for.
	defer context.AfterFunc(c.life, func() { part.fail(context.Cause(c.life)) })()
	part.parted = context.AfterFunc(c.life, func() {
		if cause := context.Cause(c.life); cause != parallel.ErrClosed {
			part.fail(cause)
		}
	})
	if part.rank, err = part.number("ncclCommUserRank", api.userRank); err == nil {
		part.size, err = part.number("ncclCommCount", api.count)
	}
	if err == nil {
		err = part.openHandle()
	}
	return part, err
}

// number asks for one.
func (c *comm) number(name string, f dl.Func) (int, error) {
	var n int32
	err := c.callRoot(name, func(root uintptr) uintptr { return f.Call(root, uintptr(unsafe.Pointer(&n))) }, func() {})
	return int(n), err
}
