package nccl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/parallel"
)

// AllReduce implements [parallel.Comm].
func (c *comm) AllReduce(s device.Stream, t dtype.DType, op parallel.Op, parts ...parallel.Part) error {
	return c.reduce("all-reduce", "ncclAllReduce", &api.allReduce, s, t, op, 1, parts)
}

// ReduceScatter implements [parallel.Comm].
func (c *comm) ReduceScatter(s device.Stream, t dtype.DType, op parallel.Op, parts ...parallel.Part) error {
	return c.reduce("reduce-scatter", "ncclReduceScatter", &api.reduceScatter, s, t, op, int64(c.size), parts)
}

// reduce queues reductions of what has so many shares.
func (c *comm) reduce(what, name string, f *dl.Func, s device.Stream, t dtype.DType, op parallel.Op, shares int64, parts []parallel.Part) error {
	if err := parallel.CheckReduce(what, t, op, parts); err != nil {
		return err
	}
	for _, x := range parts {
		bytes := x.N * int64(t.Size())
		if err := c.reach(what, span{x.Recv, bytes}, span{x.Send, bytes * shares}); err != nil {
			return err
		}
	}
	number, how := types[t], ops[op]
	return c.queue(what, name, s, len(parts), func(i int, stream uintptr) uintptr {
		x := &parts[i]
		if x.N == 0 {
			return success
		}
		return f.Call(uintptr(x.Send), uintptr(x.Recv), uintptr(x.N), number, how, c.handle.Load(), stream)
	})
}

// AllGather implements [parallel.Comm].
func (c *comm) AllGather(s device.Stream, parts ...parallel.Part) error {
	for _, x := range parts {
		if err := parallel.CheckRank("all-gather", c, 0, x.N); err != nil {
			return err
		}
		if err := c.reach("all-gather", span{x.Recv, x.N * int64(c.size)}, span{x.Send, x.N}); err != nil {
			return err
		}
	}
	return c.queue("all-gather", "ncclAllGather", s, len(parts), func(i int, stream uintptr) uintptr {
		x := &parts[i]
		if x.N == 0 {
			return success
		}
		return api.allGather.Call(uintptr(x.Send), uintptr(x.Recv), uintptr(x.N), typeU8, c.handle.Load(), stream)
	})
}

// Broadcast implements [parallel.Comm].
func (c *comm) Broadcast(s device.Stream, p device.Ptr, bytes int64, root int) error {
	if err := parallel.CheckRank("broadcast", c, root, bytes); err != nil {
		return err
	}
	if err := c.reach("broadcast", span{p, bytes}); err != nil {
		return err
	}
	return c.queue("broadcast", "ncclBroadcast", s, 1, func(_ int, stream uintptr) uintptr {
		if bytes == 0 {
			return success
		}
		return api.broadcast.Call(uintptr(p), uintptr(p), uintptr(bytes), typeU8, uintptr(root), c.handle.Load(), stream)
	})
}

// Exchange implements [parallel.Comm].
func (c *comm) Exchange(s device.Stream, transfers ...parallel.Transfer) error {
	for _, x := range transfers {
		if err := parallel.CheckRank("exchange", c, x.Peer, x.Bytes); err != nil {
			return err
		}
		if err := c.reach("exchange", span{x.Ptr, x.Bytes}); err != nil {
			return err
		}
	}
	return c.queue("exchange", "ncclSend and ncclRecv", s, len(transfers), func(i int, stream uintptr) uintptr {
		x := &transfers[i]
		switch {
		case x.Bytes == 0:
			return success
		case x.Out:
			return api.send.Call(uintptr(x.Ptr), uintptr(x.Bytes), typeU8, uintptr(x.Peer), c.handle.Load(), stream)
		}
		return api.recv.Call(uintptr(x.Ptr), uintptr(x.Bytes), typeU8, uintptr(x.Peer), c.handle.Load(), stream)
	})
}

// span is memory that an operation uses.
type span struct {
	ptr device.Ptr
	n   int64
}

// reach fails where memory is not the device's: a kernel that goes there may make the
// device unusable, while the other ranks wait.
func (c *comm) reach(what string, spans ...span) error {
	for _, x := range spans {
		if x.n == 0 {
			continue
		}
		if err := c.ranges.CheckRange(x.ptr, x.n); err != nil {
			return fmt.Errorf("nccl: %s: %w", what, err)
		}
	}
	return nil
}

// queue queues operations, which are one launch.
func (c *comm) queue(what, name string, s device.Stream, n int, each func(i int, stream uintptr) uintptr) error {
	if s == nil {
		return fmt.Errorf("nccl: %s: %w: no stream", what, parallel.ErrArgument)
	}
	if err := c.onStream(name, s, func(stream uintptr) uintptr {
		return group(n, func(i int) uintptr { return each(i, stream) })
	}); err != nil {
		return fmt.Errorf("nccl: %s: %w", what, err)
	}
	return nil
}

// onStream is [comm.call] for what goes to a stream.
func (c *comm) onStream(name string, s device.Stream, fn func(stream uintptr) uintptr) error {
	var stream uintptr
	enter := func(inside func() error) error {
		return c.native.WithStream(s, func(handle uintptr) error {
			stream = handle
			return inside()
		})
	}
	return c.call(name, enter, func() uintptr { return fn(stream) })
}

// group makes one operation of n, on a thread that is the caller's alone.
func group(n int, each func(i int) uintptr) uintptr {
	if n == 1 {
		return each(0)
	}
	if r := api.groupStart.Call(); r != success {
		return r
	}
	var first uintptr
	for i := 0; i < n && first == success; i++ {
		if r := each(i); int32(r) != inProgress {
			first = r
		}
	}
	if r := api.groupEnd.Call(); first == success { // also where one has failed
		return r
	}
	return first
}

// Barrier implements [parallel.Comm]: a reduction on a stream of its own, which NCCL has
// run after all operations that were queued before, on whatever streams.
func (c *comm) Barrier(ctx context.Context) error {
	return c.together(ctx, "barrier", func() error {
		if err := c.usable(); err != nil {
			return err
		}
		b := &c.barrier
		if err := c.openBarrier(); err != nil {
			return err
		}
		if err := c.onStream("ncclAllReduce", b.stream, func(stream uintptr) uintptr {
			return api.allReduce.Call(uintptr(b.word), uintptr(b.word), 1, typeU8, opMax, c.handle.Load(), stream)
		}); err != nil {
			return err
		}
		if err := b.stream.Record(b.event); err != nil {
			return err
		}
		err := device.Wait(c.life, b.event)
		if c.life.Err() != nil {
			return c.usable()
		}
		return err
	})
}

// openBarrier makes what barriers need, with the first.
func (c *comm) openBarrier() (err error) {
	b := &c.barrier
	if b.stream == nil {
		if b.stream, err = c.dev.NewStream(); err != nil {
			return err
		}
	}
	if b.event == nil {
		if b.event, err = c.dev.NewEvent(device.EventNoTiming); err != nil {
			return err
		}
	}
	if b.word == 0 {
		b.word, err = c.dev.Alloc(1)
	}
	return err
}

// closeBarrier gives that back, when the communicator is over, and returns err with what
// goes wrong.
func (c *comm) closeBarrier(err error) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	b := &c.barrier
	if b.event != nil {
		err = errors.Join(err, b.event.Close())
	}
	if b.stream != nil {
		err = errors.Join(err, b.stream.Close())
	}
	// To free waits for the whole device, where other groups of ranks that have failed may
	// never be done: then the device's Close does.
	if b.word != 0 && context.Cause(c.life) == parallel.ErrClosed {
		err = errors.Join(err, c.dev.Free(b.word))
	}
	return err
}
