package vram

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/vram/internal/space"
)

// find returns a block of size bytes for o when the shard near has none cached. If
// it does have one, b, only the limits of the purpose are checked.
func (p *Pool) find(ctx context.Context, near *shard, b *block, size, n int64, use Use, o *owner) (*block, error) {
	limit := &p.limited[use.Purpose]
	if limit.set() {
		if err := p.charge(ctx, limit, size, n, use); err != nil {
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
	// The goroutine may have moved from another processor, or another goroutine
	// frees its blocks.
	for _, s := range p.shards.seen() {
		if s != near && s.mu.TryLock() {
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

// search takes size bytes from the heap, and if it has none makes room step by
// step.
func (p *Pool) search(ctx context.Context, size, n int64, use Use, o *owner) (*block, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return nil, ErrClosed
	}
	if p.async != nil {
		return p.async.alloc(p, size, n, use, o)
	}
	if o != nil && p.chunk > 0 && size > space.LargestSmall {
		// Idle memory joins with its neighbours, and can be moved. What is freed
		// since is for the next time.
		p.settle(o)
		p.mark(o)
	}
	if p.space.Scarce(size) {
		p.flush()
		if mem, err := p.space.Squeeze(size, o.inSpace()); err != nil {
			return nil, err
		} else if mem != nil {
			return p.adopt(mem, o), nil
		}
	}
	if mem := p.fit(size, o); mem != nil {
		if size > space.LargestSmall && p.owes.Load() {
			p.prepareLocked()
		}
		return p.adopt(mem, o), nil
	}
	f := newFallback(p, size, o)
	mem, err := f.run(ctx, cheapSteps[:])
	if mem == nil && err == nil {
		if mem, err = f.run(ctx, costlySteps[:]); mem != nil {
			p.retries.Add(1)
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("vram: %s of %v: %w", units.Bytes(n), use.Purpose, err)
	case mem != nil:
		return p.adopt(mem, o), nil
	case p.closed.Load():
		return nil, ErrClosed
	}
	return nil, p.outOfMemoryLocked(n, use, f.shortage)
}

// fit takes size bytes for o from what is free, or returns nil. Pool.mu is held.
func (p *Pool) fit(size int64, o *owner) *space.Block {
	for range 2 {
		b, waits := p.space.Fit(size, o.inSpace(), false)
		if !waits {
			return b
		}
		if !p.poll(p.pollTime(0)) {
			b, _ = p.space.Fit(size, o.inSpace(), true)
			return b
		}
	}
	return nil
}
