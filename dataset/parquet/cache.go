package parquet

import (
	"context"
	"errors"
	"sync"
)

// block is the samples of one row group, decoded.
type block struct {
	data    []byte
	offsets []int64 // of the samples, one more than there are; nil if all are of one size
	size    int     // bytes of a sample, where offsets is nil
	faults  faults
}

// sample returns the bytes of a row of the group.
func (b *block) sample(row int) ([]byte, error) {
	switch {
	case b.faults[row] != nil:
		return nil, b.faults[row]
	case b.offsets != nil:
		return b.data[b.offsets[row]:b.offsets[row+1]], nil
	}
	return b.data[row*b.size:][:b.size], nil
}

// bytes is what the block counts in the cache.
func (b *block) bytes() int64 { return int64(cap(b.data)) + 8*int64(cap(b.offsets)) }

// cache holds the blocks that were used last, and those that are being
// decoded: together at most max bytes. What was evicted lives on while a
// reader still copies from it.
type cache struct {
	max int64

	mu      sync.Mutex
	used    int64
	clock   int64
	entries map[*group]*entry
	freed   chan struct{} // closed when used has fallen
}

type entry struct {
	need  int64
	last  int64         // clock of the last use
	ready chan struct{} // closed when block or err is there
	block *block
	err   error
}

func newCache(max int64) *cache {
	return &cache{max: max, entries: map[*group]*entry{}, freed: make(chan struct{})}
}

// get returns the block of g, which load makes if it is not there: once,
// however many readers wait for it. It takes need bytes of room while it is
// loaded, at most max, and what it has thereafter.
func (c *cache) get(ctx context.Context, g *group, need int64, load func() (*block, error)) (*block, error) {
	for {
		e, wait, mine := c.enter(g, need)
		switch {
		case mine:
			b, err := load()
			c.settle(g, e, b, err)
			return b, err
		case wait == nil:
			return e.block, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		// The reader that loaded it may have been cancelled; this one was not.
		if e != nil && e.err != nil && !errors.Is(e.err, context.Canceled) && !errors.Is(e.err, context.DeadlineExceeded) {
			return nil, e.err
		}
	}
}

// enter returns the entry of g: to use, to wait for, or to load. Without an
// entry there is no room yet.
func (c *cache) enter(g *group, need int64) (e *entry, wait chan struct{}, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	if e := c.entries[g]; e != nil {
		e.last = c.clock
		if e.block == nil {
			return e, e.ready, false
		}
		return e, nil, false
	}
	for c.used+need > c.max {
		if !c.evict() {
			return nil, c.freed, false
		}
	}
	e = &entry{need: need, last: c.clock, ready: make(chan struct{})}
	c.entries[g] = e
	c.used += need
	return e, nil, true
}

// evict removes the block that was not used for longest.
func (c *cache) evict() bool {
	var oldest *group
	for g, e := range c.entries {
		if e.block != nil && (oldest == nil || e.last < c.entries[oldest].last) {
			oldest = g
		}
	}
	if oldest == nil {
		return false
	}
	c.used -= c.entries[oldest].need
	delete(c.entries, oldest)
	return true
}

// settle ends the loading of an entry.
func (c *cache) settle(g *group, e *entry, b *block, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used -= e.need
	if err == nil {
		e.block, e.need = b, b.bytes()
		c.used += e.need
	} else {
		e.err = err
		delete(c.entries, g)
	}
	close(e.ready)
	close(c.freed) // every waiter looks again: there may be a block to evict
	c.freed = make(chan struct{})
}
