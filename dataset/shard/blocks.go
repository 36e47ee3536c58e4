package shard

import (
	"context"
	"io/fs"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

const (
	memoryBlocks = 16 // that were used last, 64 MiB
	readAhead    = 2  // blocks behind the one that is read
)

// blocks gets blocks of remote shards: from memory, from the cache, or from
// the server, once for all who wait.
type blocks struct {
	bytes  int64 // of a block
	cache  *cache
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	work   sync.WaitGroup
	writes chan struct{} // a place for each block on its way into the cache

	fetched, fetchedBytes, fromCache, fromMemory atomic.Int64

	mu      sync.Mutex
	closed  bool
	flights map[blockID]*flight
	memory  []kept // used last comes first
}

// blockID names a block of a shard.
type blockID struct {
	shard  *remote
	number int64
}

// name is that in the cache.
func (id blockID) name() string {
	return id.shard.prefix + strconv.FormatInt(id.number, 10) + blockSuffix
}

// kept is a block in memory. Nobody writes to it again.
type kept struct {
	id   blockID
	data []byte
}

// flight is a block on its way.
type flight struct {
	done    chan struct{} // closed when data or err is there
	data    []byte
	err     error
	waiters int
	cancel  context.CancelFunc
}

func newBlocks(bytes int64, c *cache) *blocks {
	ctx, cancel := context.WithCancel(context.Background())
	return &blocks{
		bytes: bytes, cache: c, ctx: ctx, cancel: cancel,
		flights: map[blockID]*flight{}, writes: make(chan struct{}, memoryBlocks),
	}
}

// read fills dst from a place in a block, and fetches ahead what may be read
// next.
func (b *blocks) read(ctx context.Context, id blockID, dst []byte, at int64) error {
	err := b.copy(ctx, id, dst, at)
	if err == nil {
		b.aheadOf(id)
	}
	return err
}

// copy fills dst from a place in a block.
func (b *blocks) copy(ctx context.Context, id blockID, dst []byte, at int64) error {
	if data := b.remembered(id); data != nil {
		b.fromMemory.Add(1)
		copy(dst, data[at:])
		return nil
	}
	if b.cache.readBlock(id.name(), id.shard.blockLen(id.number), dst, at) {
		b.fromCache.Add(1)
		return nil
	}
	data, err := b.wait(ctx, id)
	if err != nil {
		return err
	}
	copy(dst, data[at:])
	return nil
}

// aheadOf fetches the blocks behind one, if the shard is read in order.
func (b *blocks) aheadOf(id blockID) {
	if last := id.shard.last.Swap(id.number); id.number != last+1 {
		return
	}
	for range readAhead {
		if id.number++; id.number == id.shard.blockCount() {
			if id = (blockID{id.shard.next, 0}); id.shard == nil || id.shard.size == 0 {
				return
			}
		}
		b.fetchAhead(id)
	}
}

// fetchAhead begins to fetch a block that is wanted soon. There cannot be many:
// who reads waits for the first of them.
func (b *blocks) fetchAhead(id blockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.work.Go(func() {
		if b.remembered(id) == nil && !b.cache.has(id.name()) {
			b.wait(b.ctx, id) // who reads it sees the error
		}
	})
}

// remembered returns a block that is in memory, or nil.
func (b *blocks) remembered(id blockID) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recall(id)
}

// recall is remembered with the lock held.
func (b *blocks) recall(id blockID) []byte {
	i := slices.IndexFunc(b.memory, func(k kept) bool { return k.id == id })
	if i < 0 {
		return nil
	}
	k := b.memory[i]
	copy(b.memory[1:i+1], b.memory[:i])
	b.memory[0] = k
	return k.data
}

// remember keeps a block in memory, with the lock held.
func (b *blocks) remember(id blockID, data []byte) {
	if len(b.memory) < memoryBlocks {
		b.memory = append(b.memory, kept{})
	}
	copy(b.memory[1:], b.memory)
	b.memory[0] = kept{id, data}
}

// wait joins the flight of a block, or starts one, and waits for it.
func (b *blocks) wait(ctx context.Context, id blockID) ([]byte, error) {
	f, data := b.join(id)
	if f == nil {
		if data == nil {
			return nil, fs.ErrClosed
		}
		return data, nil
	}
	defer b.leave(id, f)
	select {
	case <-f.done:
		return f.data, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join returns the flight of a block, or the block if it has arrived, or
// nothing after close.
func (b *blocks) join(id blockID) (*flight, []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil
	}
	if data := b.recall(id); data != nil {
		return nil, data
	}
	f := b.flights[id]
	if f == nil {
		ctx, cancel := context.WithCancel(b.ctx)
		f = &flight{done: make(chan struct{}), cancel: cancel}
		b.flights[id] = f
		b.work.Go(func() { b.fly(ctx, id, f) })
	}
	f.waiters++
	return f, nil
}

// leave ends the wait for a flight. The last one who leaves ends it.
func (b *blocks) leave(id blockID, f *flight) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.cancel()
		if b.flights[id] == f {
			delete(b.flights, id) // who comes now wants one that goes on
		}
	}
}

// fly fetches a block. Where the cache takes blocks more slowly than servers
// send them, those who read wait for it: else blocks would pile up in memory.
func (b *blocks) fly(ctx context.Context, id blockID, f *flight) {
	data, err := id.shard.fetch(ctx, id.number)
	if err == nil {
		select {
		case b.writes <- struct{}{}:
			defer func() { <-b.writes }()
		case <-ctx.Done():
			data, err = nil, context.Cause(ctx)
		}
	}
	if err != nil && b.ctx.Err() != nil {
		err = fs.ErrClosed
	}
	b.mu.Lock()
	f.data, f.err = data, err
	if b.flights[id] == f {
		delete(b.flights, id)
	}
	if err == nil {
		b.remember(id, data)
	}
	b.mu.Unlock()
	close(f.done)
	if err == nil {
		b.fetched.Add(1)
		b.fetchedBytes.Add(int64(len(data)))
		b.cache.putBlock(id.name(), data)
	}
}

// close ends all flights and waits for their ends.
func (b *blocks) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.work.Wait()
	b.mu.Lock()
	b.memory = nil
	b.mu.Unlock()
}
