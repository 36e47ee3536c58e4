package vram

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
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
	for _, s := range p.shards.list() { // a goroutine that moved to another processor, or whose blocks another frees
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
	used := l.used.Add(size)
	if l.over(used) {
		p.mu.Lock()
		list := slices.Clone(p.reclaimers)
		p.mu.Unlock()
		for _, r := range list {
			if _, err := r.call(ctx, size); err != nil {
				l.used.Add(-size)
				return fmt.Errorf("vram: %d bytes of %v: reclaim: %w", n, use.Purpose, err)
			}
			if used = l.used.Load(); !l.over(used) {
				return nil
			}
		}
	}
	if l.most > 0 && used > l.most {
		l.used.Add(-size)
		return p.outOfMemory(n, use, fmt.Errorf("%v may have %d bytes: %w", use.Purpose, l.most, ErrLimit))
	}
	return nil
}

// over reports whether a purpose that uses so much should give some back.
func (l *limit) over(used int64) bool {
	return l.soft > 0 && used > l.soft || l.most > 0 && used > l.most
}

// search looks for size bytes, from the cheapest way to the last resort.
func (p *Pool) search(ctx context.Context, size, n int64, use Use, o *owner) (b *block, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return nil, ErrClosed
	}
	if p.async != nil {
		return p.async.alloc(p, size, n, use, o)
	}
	h := p.heapOf(size)
	if b = h.fit(size, o); b != nil {
		return b, nil
	}
	p.flush()
	if b = h.fit(size, o); b != nil {
		return b, nil
	}
	if p.poll(p.patience(size)) {
		if b = h.fit(size, o); b != nil {
			return b, nil
		}
	}
	hard, soft := p.hard, p.hard
	if p.options.Soft > 0 {
		soft = p.options.Soft
	}
	grow := func(most int64) (*block, error) {
		b, err := h.backing.grow(size, o, most)
		if errors.Is(err, errBudget) && most == hard && (p.options.Budget == 0 || p.options.Budget > hard) {
			err = device.ErrOutOfMemory
		}
		return b, err
	}
	if b, err = grow(soft); !short(err) {
		return b, err
	}
	// Memory is short. What follows may let go of the lock, and what it gains
	// others may take.
	again := func(most int64) bool {
		if p.closed.Load() {
			err = ErrClosed
			return true
		}
		p.flush()
		p.poll(p.patience(0))
		if b = h.fit(size, o); b == nil {
			b, err = grow(most)
		} else {
			err = nil
		}
		return !short(err)
	}
	settled := func() (*block, error) {
		if err == nil {
			p.retries.Add(1)
		}
		return b, err
	}
	if _, e := p.trim(h); e != nil {
		return nil, e
	}
	if !errors.Is(err, errBudget) {
		siblings.trim(p)
	}
	if again(soft) {
		return settled()
	}
	if waited, e := p.wait(ctx); e != nil {
		return nil, e
	} else if waited && again(soft) {
		return settled()
	}
	for _, r := range slices.Clone(p.reclaimers) {
		p.mu.Unlock()
		freed, e := r.call(ctx, size)
		p.mu.Lock()
		if e != nil {
			return nil, fmt.Errorf("vram: %d bytes of %v: reclaim: %w", n, use.Purpose, e)
		}
		if freed <= 0 {
			continue
		}
		if again(soft) {
			return settled()
		}
		if waited, e := p.wait(ctx); e != nil {
			return nil, e
		} else if waited && again(soft) {
			return settled()
		}
	}
	if soft < hard && again(hard) {
		return settled()
	}
	return nil, p.outOfMemoryLocked(n, use, err)
}

// short reports whether err says that there is no memory.
func short(err error) bool {
	return errors.Is(err, errBudget) || errors.Is(err, device.ErrOutOfMemory)
}

// wait waits until what is freed is idle, and reports whether there was
// anything to wait for. It lets go of Pool.mu meanwhile.
func (p *Pool) wait(ctx context.Context) (waited bool, err error) {
	var events []device.Event
	p.owners.Range(func(_, x any) bool {
		for _, m := range x.(*owner).marks {
			events = append(events, m.event)
		}
		return true
	})
	for _, l := range p.pending {
		events = append(events, l.events...)
	}
	if len(events) == 0 {
		return false, ctx.Err()
	}
	// Others may settle these marks meanwhile and record the events anew: then
	// this waits a little longer than it had to.
	p.mu.Unlock()
	defer p.mu.Lock()
	for _, e := range events {
		// The error of the user's work is the user's to see.
		if device.Wait(ctx, e); ctx.Err() != nil {
			return true, fmt.Errorf("vram: while memory was waited for: %w", ctx.Err())
		}
	}
	return true, nil
}

// reclaimer is somebody who can free memory of the pool.
type reclaimer struct {
	call func(ctx context.Context, need int64) (freed int64, err error)
}

// OnShort has f called when memory is short and waiting does not help: f frees
// blocks of this pool, such as those that can be had again from elsewhere, and
// returns how many bytes. Those that were registered first are called first,
// each until the allocation succeeds. f may not allocate from the pool. An error
// of f ends the allocation. remove undoes the registration.
func (p *Pool) OnShort(f func(ctx context.Context, need int64) (freed int64, err error)) (remove func()) {
	r := &reclaimer{f}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reclaimers = append(p.reclaimers, r)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reclaimers = slices.DeleteFunc(p.reclaimers, func(x *reclaimer) bool { return x == r })
	}
}
