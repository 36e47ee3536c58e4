package vram

import (
	"context"
	"runtime"
	"slices"
)

// Tidy moves idle memory together, so that the next block above 32 MiB is there
// without calls of the driver. It is for moments in which a program has time, such
// as between two steps: what it moves, no Alloc has to. Nothing is taken from the
// device or given back, and nothing moves that is live or that queued work may
// still use. Nothing is done while 3/4 of what is idle lie together. Other calls
// wait no longer than one chunk takes to move. Tidy reports how many bytes it
// moved, and ends early when ctx is done, without an error.
func (p *Pool) Tidy(ctx context.Context) (moved int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return 0, ErrClosed
	}
	c, ok := p.heaps[largeHeap].backing.(*chunked)
	if !ok {
		return 0, nil
	}
	p.flush()
	p.poll(0)
	all := c.idleTotal + c.unmappedTotal
	if b := c.heap.idle.Largest(); b != nil && c.movable(b) > all/4*3 {
		return 0, nil
	}
	for moved < all && ctx.Err() == nil && !p.closed.Load() {
		n, err := c.tidy()
		if n == 0 || err != nil {
			return moved, err
		}
		moved += n
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
	}
	return moved, nil
}

// tidy moves an idle chunk to where all of them have room together, and returns its
// size; 0: there is none. That is behind the largest idle block with such a hole
// behind it, or at the start of the largest hole.
func (c *chunked) tidy() (int64, error) {
	h := c.heap
	all := c.idleTotal + c.unmappedTotal
	gap := h.holes.Largest()
	for b := range h.idle.Large() {
		if b.next != nil && b.next.kind == hole && b.next.bytes >= all-c.movable(b) {
			gap = b.next
			break
		}
	}
	if gap == nil {
		return 0, nil
	}
	list := c.spares(all, false)
	at := slices.IndexFunc(list, func(x spare) bool {
		return x.bytes <= gap.bytes && (x.b == nil || x.b != gap.prev)
	})
	if at < 0 {
		return 0, nil
	}
	by := gap.prev // the hole may be joined with the one that the chunk leaves
	chunks, err := c.take(list, []int{at})
	if err != nil {
		return 0, err
	}
	if by != nil {
		gap = by.next
	}
	h.unset(gap)
	if err := c.put(gap, chunks, false); err != nil {
		c.store(chunks)
		h.put(gap)
		return 0, err
	}
	if gap.bytes > chunks[0].bytes {
		h.put(h.cut(gap, chunks[0].bytes))
	}
	h.pool.log(Event{Kind: EventMap, Address: gap.ptr, Bytes: gap.bytes})
	gap.kind, gap.owner, gap.seq = free, nil, 0
	h.merge(gap)
	return chunks[0].bytes, nil
}
