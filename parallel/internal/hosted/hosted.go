// Package hosted makes a communicator of an engine that moves and combines bytes in host
// memory, for devices that run Go functions in their streams ([device.Caller]).
//
// Package local has the engine for ranks that are goroutines, package mpi that of MPI.
package hosted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/parallel"
)

// Engine is one rank's way to the others. Run, Barrier and Split are called one at a
// time, Abort at any time.
type Engine interface {
	Rank() int
	Size() int
	// Run does operations of one kind, or transfers that go on at the same time, and
	// returns when this rank's part is done.
	Run(ops []Op) error
	// Barrier returns when all ranks have called it.
	Barrier() error
	// Split is that of [parallel.Comm]; nil for a color below 0.
	Split(color, key int) (Engine, error)
	// Abort makes a Run, Barrier, Split or Close that is under way, and those that
	// follow, but for Close, fail with reason.
	Abort(reason error)
	// Close ends this rank's part. After Abort it waits for nobody.
	Close() error
}

// Kind is what an operation does.
type Kind uint8

// The kinds of operations, of which Out and In are transfers.
const (
	AllReduce Kind = iota
	ReduceScatter
	AllGather
	Broadcast
	Out
	In
)

var kindNames = [...]string{"all-reduce", "reduce-scatter", "all-gather", "broadcast", "send", "receive"}

// String returns the field's name of it.
func (k Kind) String() string { return kindNames[k] }

// Op is an operation on bytes: on those of Recv alone for Broadcast and In, and on
// those of Send alone for Out.
type Op struct {
	Kind       Kind
	Recv, Send []byte
	Type       dtype.DType // of reductions
	Op         parallel.Op // of reductions
	Peer       int         // the root of a broadcast, or the other rank of a transfer
}

// span is memory of the device that becomes bytes when the operation runs.
type span struct {
	ptr device.Ptr
	n   int64
}

type queued struct {
	op         Op
	recv, send span
}

// comm is a communicator over an engine. Operations take numbers when they are queued,
// and run in their order, whichever stream runs them.
type comm struct {
	dev    device.Device
	caller device.Caller
	engine Engine

	mu      sync.Mutex
	moved   sync.Cond
	next    uint64 // number of the operation that is queued next
	turn    uint64 // of the one that may run
	running bool   // the engine is in use
	reason  error  // of Abort
	closed  bool   // nothing more is queued
	ended   bool   // the engine is closed, too
}

// New makes a communicator, which closes the engine with itself. It fails with
// [device.ErrNotSupported] for a device that runs no Go functions.
func New(dev device.Device, e Engine) (parallel.Comm, error) {
	caller, ok := device.As[device.Caller](dev)
	if !ok {
		return nil, fmt.Errorf("parallel: %w: %s runs no Go functions", device.ErrNotSupported, dev.Info().ID)
	}
	c := &comm{dev: dev, caller: caller, engine: e}
	c.moved.L = &c.mu
	return c, nil
}

func (c *comm) Rank() int             { return c.engine.Rank() }
func (c *comm) Size() int             { return c.engine.Size() }
func (c *comm) Device() device.Device { return c.dev }

func (c *comm) AllReduce(s device.Stream, t dtype.DType, op parallel.Op, parts ...parallel.Part) error {
	return c.reduce(s, AllReduce, t, op, 1, parts)
}

func (c *comm) ReduceScatter(s device.Stream, t dtype.DType, op parallel.Op, parts ...parallel.Part) error {
	return c.reduce(s, ReduceScatter, t, op, int64(c.Size()), parts)
}

// reduce queues reductions whose operands have so many shares.
func (c *comm) reduce(s device.Stream, k Kind, t dtype.DType, op parallel.Op, shares int64, parts []parallel.Part) error {
	if err := parallel.CheckReduce(k.String(), t, op, parts); err != nil {
		return err
	}
	var ops []queued
	for _, x := range parts {
		bytes := x.N * int64(t.Size())
		ops = append(ops, queued{Op{Kind: k, Type: t, Op: op}, span{x.Recv, bytes}, span{x.Send, bytes * shares}})
	}
	return c.queue(s, ops...)
}

func (c *comm) AllGather(s device.Stream, parts ...parallel.Part) error {
	var ops []queued
	for _, x := range parts {
		if err := parallel.CheckRank(AllGather.String(), c, 0, x.N); err != nil {
			return err
		}
		ops = append(ops, queued{Op{Kind: AllGather}, span{x.Recv, x.N * int64(c.Size())}, span{x.Send, x.N}})
	}
	return c.queue(s, ops...)
}

func (c *comm) Broadcast(s device.Stream, p device.Ptr, bytes int64, root int) error {
	if err := parallel.CheckRank("broadcast", c, root, bytes); err != nil {
		return err
	}
	return c.queue(s, queued{op: Op{Kind: Broadcast, Peer: root}, recv: span{p, bytes}})
}

func (c *comm) Exchange(s device.Stream, transfers ...parallel.Transfer) error {
	var ops []queued
	for _, x := range transfers {
		if err := parallel.CheckRank("exchange", c, x.Peer, x.Bytes); err != nil {
			return err
		}
		memory := span{x.Ptr, x.Bytes}
		if x.Out {
			ops = append(ops, queued{op: Op{Kind: Out, Peer: x.Peer}, send: memory})
		} else {
			ops = append(ops, queued{op: Op{Kind: In, Peer: x.Peer}, recv: memory})
		}
	}
	return c.queue(s, ops...)
}

// queue queues operations that are run together.
func (c *comm) queue(s device.Stream, ops ...queued) error {
	if s == nil {
		return fmt.Errorf("parallel: %w: no stream", parallel.ErrArgument)
	}
	ops = slices.DeleteFunc(ops, func(q queued) bool { return q.recv.n == 0 && q.send.n == 0 })
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.usable(); err != nil || len(ops) == 0 {
		return err
	}
	run := func() error { return c.run(ops) }
	if g, ok := device.As[device.Capturer](c.dev); ok && g.Capturing(s) {
		return c.caller.Call(s, func() error { // each launch of the graph takes its turn
			c.mu.Lock()
			number := c.next
			c.next++
			c.mu.Unlock()
			return c.inTurn(number, run)
		})
	}
	number := c.next
	if err := c.caller.Call(s, func() error { return c.inTurn(number, run) }); err != nil {
		return err
	}
	c.next++
	return nil
}

// usable reports why nothing can be queued. The caller holds mu.
func (c *comm) usable() error {
	switch {
	case c.reason != nil:
		return aborted(c.reason)
	case c.closed:
		return fmt.Errorf("parallel: %w", parallel.ErrClosed)
	}
	return nil
}

func aborted(reason error) error { return fmt.Errorf("parallel: %w: %w", parallel.ErrAborted, reason) }

// inTurn calls fn when everything that was queued before is done.
func (c *comm) inTurn(number uint64, fn func() error) error {
	c.mu.Lock()
	for c.turn != number {
		c.moved.Wait()
	}
	c.mu.Unlock()
	err := c.use(fn)
	c.mu.Lock()
	c.turn++
	c.moved.Broadcast()
	c.mu.Unlock()
	return err
}

// use calls fn, which uses the engine.
func (c *comm) use(fn func() error) error {
	c.mu.Lock()
	for c.running {
		c.moved.Wait()
	}
	if c.reason != nil {
		defer c.mu.Unlock()
		return aborted(c.reason)
	}
	c.running = true
	c.mu.Unlock()
	err := fn()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	c.moved.Broadcast()
	if c.reason != nil && err != nil {
		return aborted(c.reason)
	}
	return err
}

// run does operations whose turn has come.
func (c *comm) run(list []queued) error {
	ops := make([]Op, len(list))
	for i, q := range list {
		ops[i] = q.op
		var err, err2 error
		if q.recv.n > 0 {
			ops[i].Recv, err = c.caller.Bytes(q.recv.ptr, q.recv.n)
		}
		if q.send.n > 0 {
			ops[i].Send, err2 = c.caller.Bytes(q.send.ptr, q.send.n)
		}
		if err := errors.Join(err, err2); err != nil {
			// The others wait for this rank: they must not for ever.
			err = fmt.Errorf("parallel: %v: %w", q.op.Kind, err)
			c.Abort(err)
			return err
		}
	}
	return c.engine.Run(ops)
}

func (c *comm) Barrier(ctx context.Context) error {
	return c.collective(ctx, "barrier", c.engine.Barrier)
}

func (c *comm) Split(ctx context.Context, color, key int) (parallel.Comm, error) {
	var part Engine
	if err := c.collective(ctx, "split", func() (err error) {
		part, err = c.engine.Split(color, key)
		return err
	}); err != nil || part == nil {
		return nil, err
	}
	return New(c.dev, part)
}

// collective calls fn on all ranks, behind what was queued. A context that ends aborts
// the communicator: nobody knows which ranks have come.
func (c *comm) collective(ctx context.Context, what string, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	if err := c.usable(); err != nil {
		c.mu.Unlock()
		return err
	}
	number := c.next
	c.next++
	c.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { c.Abort(fmt.Errorf("%s: %w", what, context.Cause(ctx))) })
	defer stop()
	return c.inTurn(number, fn)
}

func (c *comm) Abort(reason error) {
	c.mu.Lock()
	first := c.reason == nil && !c.ended
	if first {
		c.reason = reason
	}
	c.mu.Unlock()
	if first {
		c.engine.Abort(reason)
	}
}

func (c *comm) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	for c.turn != c.next {
		c.moved.Wait()
	}
	c.mu.Unlock()
	err := c.engine.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if err != nil && c.reason != nil {
		return aborted(c.reason)
	}
	return err
}
