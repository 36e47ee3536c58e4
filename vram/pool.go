package vram

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/callstack"
	"github.com/pinion-gpu/pinion/internal/live"
	"github.com/pinion-gpu/pinion/vram/internal/space"
)

// Pool is an allocator of device memory. All its methods are safe for
// concurrent use.
type Pool struct {
	dev     device.Device
	options Options
	source  Source
	hard    int64 // the most bytes that it may have: the budget, or all of the device
	unit    int64 // bytes of the smallest chunk; 0: there are only segments
	chunk   int64 // bytes of the largest
	start   time.Time

	shards    shards
	publishAt int64    // a shard publishes its counts when they changed by so many bytes
	owners    sync.Map // device.Stream -> *owner
	ownerIDs  atomic.Int32
	closed    atomic.Bool

	live         tally[level]
	limited      [purposes]limit
	pendingBytes atomic.Int64
	active       level // of live and pending bytes; only its peak is used
	retries      atomic.Int64
	failed       atomic.Int64 // allocations that failed
	history      *history     // nil: none
	freed        frees

	ledger     space.Ledger // of the device's memory; changes with mu held
	mu         sync.Mutex
	space      *space.Space // the memory; nil: the driver's pool has it
	async      *async       // the driver's pool; nil: space has the memory
	blocks     []*block     // all structs there are; space.Block.Tag is the place in it
	spare      *block       // those without memory, linked by kept
	pending    []*pendingBlock
	events     []device.Event // unused
	reclaimers []*reclaimer
	owes       atomic.Bool // space.Owes, as it was last
	settled    int64       // counts the blocks that became idle
	settleAt   int         // number of pending blocks at which they are polled next
	forgotten  int32       // ownerIDs when closed streams were last looked for
}

// Use says what an allocation is for.
type Use struct {
	// Stream is the stream whose queued work uses the memory. Once the block
	// is freed, that stream may reuse the memory at once, others when its work
	// is done. Nil: whoever frees the block promises that no queued work uses
	// it any more.
	Stream device.Stream

	Purpose Purpose

	// Name says more than the purpose, such as a layer; reports show it.
	Name string
}

// New makes a pool on dev, which it does not own. It takes no memory yet.
func New(dev device.Device, o Options) (*Pool, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	memory, err := dev.Memory()
	if err != nil {
		return nil, fmt.Errorf("vram: %w", err)
	}
	p := &Pool{dev: dev, options: o, source: o.Source, start: time.Now()}
	p.shards.all = newShards(o.Caches)
	capacity := memory.TotalBytes
	if o.Budget > 0 {
		capacity = min(capacity, o.Budget)
	}
	p.hard = capacity
	p.publishAt = max(1<<20, capacity/1024)
	for purpose, n := range o.Limits {
		p.limited[purpose].hard = n
	}
	for purpose, n := range o.SoftLimits {
		p.limited[purpose].soft = n
	}
	if o.History > 0 {
		p.history = newHistory(o.History)
	}
	if err := p.useSource(capacity); err != nil {
		return nil, err
	}
	live.Add(p)
	return p, nil
}

// useSource chooses where memory comes from. It is the last step of New that can
// fail: only Close gives back what it takes from the device.
func (p *Pool) useSource(capacity int64) (err error) {
	mapper, _ := device.As[device.Mapper](p.dev)
	if p.source == SourceAuto {
		p.source = SourceSegments
		if mapper != nil && mapper.CanReserve() {
			p.source = SourceChunks
		}
	}
	switch p.source {
	case SourceChunks:
		err = p.useChunks(mapper, capacity)
	case SourceSegments:
		p.useSpace(space.Config{})
	case SourceDriver:
		p.async, err = newAsync(p.dev)
	}
	return err
}

func (p *Pool) useChunks(mapper device.Mapper, capacity int64) error {
	if mapper == nil || !mapper.CanReserve() {
		return fmt.Errorf("vram: chunks: %w: %s has no virtual memory", device.ErrNotSupported, p.dev.Info().ID)
	}
	small, err := mapper.Granularity()
	if err != nil {
		return fmt.Errorf("vram: %w", err)
	}
	small = max(small, space.LeastChunk)
	if p.chunk, err = p.options.mostChunkBytes(small, capacity); err != nil {
		return err
	}
	p.unit = small
	p.useSpace(space.Config{Mapper: mapper, Unit: small, Fixed: p.options.ChunkBytes, Largest: p.chunk, Slack: p.options.slack()})
	return nil
}

func (p *Pool) useSpace(c space.Config) {
	c.Device, c.Most, c.Ledger = p.dev, p.hard, &p.ledger
	if p.history != nil {
		c.Mapped = p.logMapped
	}
	p.space = space.New(c)
}

// Alloc returns n > 0 bytes of device memory, aligned to 512 bytes, or as the
// device aligns segments and the driver's pool. The content is undefined. When
// memory is short, Alloc waits for memory that is freed but still in use, and
// calls reclaimers, until ctx is done. It fails with an [*OutOfMemoryError].
func (p *Pool) Alloc(ctx context.Context, n int64, use Use) (Block, error) {
	if n <= 0 || n > math.MaxInt64/4 || use.Purpose >= purposes {
		return Block{}, fmt.Errorf("vram: %w: %d bytes for %v", device.ErrArgument, n, use.Purpose)
	}
	size := blockBytes(n)
	s := p.shards.lock()
	if p.closed.Load() { // with the lock, so that Close sees what this takes
		p.shards.release(s)
		return Block{}, ErrClosed
	}
	o, err := p.owner(s, use.Stream)
	if err != nil {
		p.shards.release(s)
		return Block{}, err
	}
	b := s.get(size, o)
	if b == nil || p.limited[use.Purpose].set() {
		s.mu.Unlock()
		b, err = p.find(ctx, s, b, size, n, use, o)
		s.mu.Lock()
		if err == nil && p.closed.Load() { // and the memory is gone
			err = ErrClosed
		}
		if err != nil {
			p.shards.release(s)
			return Block{}, err
		}
	}
	b.requested, b.purpose, b.name, b.since = n, use.Purpose, use.Name, time.Since(p.start)
	p.count(s, b, true)
	b.stack = nil
	if p.history != nil || p.options.Stacks != StacksNone || callstack.Wanted() {
		p.recordAlloc(b)
	}
	handle := b.handOut(n)
	p.shards.release(s)
	if guard > 0 {
		p.fence(b)
	}
	return handle, nil
}

// Free returns the block to the pool, in the order of its stream: work that was
// queued there before may still use it. A function that a stream runs must not
// call Free: the pool may be waiting for that stream. Free fails with [ErrFreed]
// if the block was freed before, and with [ErrForeign] for the zero block.
//
// If no event can be recorded on another stream of the block
// ([Block.RecordStream]), Free waits for the work of that stream. If that work
// has failed, Free returns its error, and the block is free all the same.
func (h Block) Free() error {
	b := h.b
	if b == nil {
		return fmt.Errorf("vram: free: %w", ErrForeign)
	}
	p := b.pool
	if guard > 0 {
		if err := p.inspect(h); err != nil {
			return err
		}
	}
	s := p.shards.lock()
	// The block is still in this life: nobody else writes to b until take
	// succeeds.
	if !b.take(h.life) {
		p.shards.release(s)
		if p.closed.Load() {
			return h.failed("free", ErrClosed)
		}
		return h.failed("free", ErrFreed)
	}
	p.count(s, b, false)
	if p.history != nil {
		p.log(Event{Kind: EventFree, Purpose: b.purpose, Stream: b.owner.number(), Address: b.ptr, Bytes: b.bytes, Asked: b.requested, Name: b.name, Stack: b.stack})
	}
	o, bytes := b.owner, b.bytes
	b.seq = o.now()
	var evicted *block
	kept := p.async == nil && b.users == nil
	if kept {
		evicted = s.put(b)
	}
	p.shards.release(s)
	defer p.freed.tell()
	switch {
	case kept:
		if evicted != nil {
			p.mu.Lock()
			p.giveAll(evicted)
			p.mu.Unlock()
		}
		if bytes > space.LargestSmall && p.owes.Load() {
			p.prepare(o)
		}
	case p.async != nil:
		return h.failed("free", p.async.free(p, b))
	default:
		return h.failed("free", p.freeLater(b))
	}
	return nil
}

// failed wraps the error of an operation on the block; nil stays nil.
func (h Block) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("vram: %s %#x: %w", what, uint64(h.ptr), err)
}

// count updates the statistics for a block that is allocated or freed. The lock
// of s is held.
func (p *Pool) count(s *shard, b *block, comes bool) {
	l, u := &s.live, &s.live.purposes[b.purpose]
	if comes {
		l.blocks.add(1)
		l.requested.add(b.requested)
		l.allocated.add(b.bytes)
		u.requested.add(b.requested)
		u.allocated.add(b.bytes)
	} else {
		l.blocks.sub(1)
		l.requested.sub(b.requested)
		l.allocated.sub(b.bytes)
		u.requested.sub(b.requested)
		u.allocated.sub(b.bytes)
		if k := &p.limited[b.purpose]; k.set() {
			k.used.Add(-b.bytes)
		}
	}
	p.publishSome(s)
}

// giveAll frees a list of cached blocks. Pool.mu is held.
func (p *Pool) giveAll(list *block) {
	for b := list; b != nil; {
		next := b.kept
		p.give(b)
		b = next
	}
}

// give gives the memory of b back to the space. Pool.mu is held.
func (p *Pool) give(b *block) {
	p.space.Give(b.mem, b.owner.inSpace(), b.seq)
	p.retire(b)
}

// flush frees the blocks that shards cache. Pool.mu is held.
func (p *Pool) flush() {
	for _, s := range p.shards.seen() {
		p.giveAll(s.drain())
	}
}

// newBlock returns a block without memory for o. Pool.mu is held.
func (p *Pool) newBlock(o *owner) *block {
	b := p.spare
	if b == nil {
		b = &block{pool: p, index: len(p.blocks)}
		p.blocks = append(p.blocks, b)
	}
	p.spare, b.kept, b.owner = b.kept, nil, o
	return b
}

// adopt returns a block for o with memory of the space. Pool.mu is held.
func (p *Pool) adopt(mem *space.Block, o *owner) *block {
	b := p.newBlock(o)
	b.mem, b.ptr, b.bytes = mem, mem.Ptr(), mem.Bytes()
	mem.Tag = b.index
	return b
}

// retire keeps the struct, whose memory is gone, for a new block. Pool.mu is held.
func (p *Pool) retire(b *block) {
	b.mem, b.bytes, b.owner = nil, 0, nil
	b.kept, p.spare = p.spare, b
}

// RecordStream says that work on s uses the block too: after Free it is reused
// only when the work queued on s by then is done as well. It fails with
// [ErrFreed] for a block that is not live.
func (h Block) RecordStream(s device.Stream) error {
	b := h.b
	if b == nil {
		return fmt.Errorf("vram: record stream: %w", ErrForeign)
	}
	if s == nil {
		return fmt.Errorf("vram: record stream: %w: no stream", device.ErrArgument)
	}
	p := b.pool
	shard := p.shards.lock()
	o, err := p.owner(shard, s)
	p.shards.release(shard)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.life.Load() != h.life {
		return h.failed("record stream of", ErrFreed)
	}
	for _, u := range b.users {
		if u == o {
			return nil
		}
	}
	if o != b.owner {
		b.users = append(b.users, o)
	}
	return nil
}

// Trim returns idle memory to the device, and reports how many bytes.
func (p *Pool) Trim() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return 0, ErrClosed
	}
	p.flush()
	p.poll(p.pollTime(0))
	return p.trim()
}

// trim returns all idle memory to the device. Pool.mu is held.
func (p *Pool) trim() (freed int64, err error) {
	if p.async != nil {
		return 0, p.async.trim()
	}
	return p.space.Trim()
}

// Device returns the device that the pool takes memory from.
func (p *Pool) Device() device.Device { return p.dev }

// Reserved is how many bytes the pool has from the device.
func (p *Pool) Reserved() int64 { return p.ledger.Current() }

// Close waits for the device's work and returns all memory to the device, even
// that of live blocks: a [*LeakError] lists those. A second Close does nothing.
func (p *Pool) Close() error {
	live.Remove(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Swap(true) {
		return nil
	}
	p.freed.tell()
	leaks := p.leaks() // ends their life: they cannot be freed any more
	errs := []error{leaks.err(), p.dev.Synchronize()}
	if p.async != nil {
		errs = append(errs, p.async.close(p))
	} else {
		errs = append(errs, p.space.Close())
	}
	p.owners.Range(func(_, x any) bool {
		for _, m := range x.(*owner).marks {
			errs = append(errs, m.event.Close())
		}
		return true
	})
	for _, l := range p.pending {
		for _, e := range l.events {
			errs = append(errs, e.Close())
		}
	}
	for _, e := range p.events {
		errs = append(errs, e.Close())
	}
	p.ledger.Return(p.ledger.Current())
	return errors.Join(errs...)
}
