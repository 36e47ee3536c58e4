package vram

import (
	"context"
	"fmt"
	"slices"
)

// find gets a block of size bytes for o when the shard had none; b, if it had
// one after all, only needs the purpose's leave.
func (p *Pool) find(ctx context.Context, b *block, size, n int64, use Use, o *owner) (*block, error) {
	limit := &p.limited[use.Purpose]
	if limit.set() {
		if err := p.reserve(ctx, limit, size, n, use); err != nil {
			if b != nil {
				p.mu.Lock()
				p.giveAll(b)
				p.mu.Unlock()
			}
			return nil, err
		}
	}
	if b != nil {
		return b, nil
	}
	for _, s := range p.shards.seen() { // a goroutine that moved to another processor, or whose blocks another frees
		if s.mu.TryLock() {
			b = s.get(size, o)
			s.mu.Unlock()
			if b != nil {
				return b, nil
			}
		}
	}
	b, err := p.search(ctx, size, n, use, o)
	if err != nil && limit.set() {
		limit.used.Add(-size)
	}
	return b, err
}

// reserve counts size bytes against the limits of a purpose. Above the soft one
// reclaimers are called; above the other it fails.
func (p *Pool) reserve(ctx context.Context, l *limit, size, n int64, use Use) error {
	if l.over(size) {
		p.mu.Lock()
		list := slices.Clone(p.reclaimers)
		p.mu.Unlock()
		for _, r := range list {
			if _, err := r.call(ctx, size); err != nil {
				return fmt.Errorf("vram: %d bytes of %v: reclaim: %w", n, use.Purpose, err)
			}
			if !l.over(size) {
				break
			}
		}
	}
	if !l.take(size) {
		return p.outOfMemory(n, use, fmt.Errorf("%v may have %d bytes: %w", use.Purpose, l.most, ErrLimit))
	}
	return nil
}

// over reports whether a purpose that had n bytes more should give some back.
func (l *limit) over(n int64) bool {
	used := l.used.Load() + n
	return l.soft > 0 && used > l.soft || l.most > 0 && used > l.most
}

// search looks for size bytes in the heap, and makes it have them if need be.
func (p *Pool) search(ctx context.Context, size, n int64, use Use, o *owner) (*block, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return nil, ErrClosed
	}
	if p.async != nil {
		return p.async.alloc(p, size, n, use, o)
	}
	h := p.heapOf(size)
	if b := h.fit(size, o); b != nil {
		return b, nil
	}
	l := newLadder(p, h, size, o)
	b, err := l.climb(ctx, plenty[:])
	if b == nil && err == nil {
		if b, err = l.climb(ctx, scarce[:]); b != nil {
			p.retries.Add(1)
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("vram: %d bytes of %v: %w", n, use.Purpose, err)
	case b != nil:
		return b, nil
	case p.closed.Load():
		return nil, ErrClosed
	}
	return nil, p.outOfMemoryLocked(n, use, l.shortage)
}
