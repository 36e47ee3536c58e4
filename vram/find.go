package vram

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
	p.forget()
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
	but := h // whose chunks grow takes by itself
	if p.chunk == 0 {
		but = nil
	}
	again := func(most int64) bool {
		if p.closed.Load() {
			err = ErrClosed
			return true
		}
		p.flush()
		p.poll(p.patience(0))
		if b = h.fit(size, o); b != nil {
			err = nil
			return true
		}
		if b, err = grow(most); !short(err) {
			return true
		}
		if n, e := p.trim(but); e != nil {
			err = e
			return true
		} else if n == 0 {
			return false
		}
		b, err = grow(most)
		return !short(err)
	}
	settled := func() (*block, error) {
		if err == nil {
			p.retries.Add(1)
		}
		return b, err
	}
	if _, e := p.trim(but); e != nil {
		return nil, e
	}
	if !errors.Is(err, errBudget) {
		siblings.trim(p)
	}
	if again(soft) {
		return settled()
	}
	if done, e := p.await(ctx, func() bool { return again(soft) }); e != nil {
		return nil, e
	} else if done {
		return settled()
	}
	for _, r := range slices.Clone(p.reclaimers) {
		freed, e := p.reclaim(ctx, r, size)
		if e != nil {
			return nil, fmt.Errorf("vram: %d bytes of %v: reclaim: %w", n, use.Purpose, e)
		}
		if freed <= 0 {
			continue
		}
		if again(soft) {
			return settled()
		}
		if done, e := p.await(ctx, func() bool { return again(soft) }); e != nil {
			return nil, e
		} else if done {
			return settled()
		}
	}
	if soft < hard && again(hard) {
		return settled()
	}
	if p.closed.Load() {
		return nil, ErrClosed
	}
	return nil, p.outOfMemoryLocked(n, use, err)
}

// short reports whether err says that there is no memory.
func short(err error) bool {
	return errors.Is(err, errBudget) || errors.Is(err, device.ErrOutOfMemory)
}

// await calls try each time that something became idle, until it succeeds, there
// is nothing left to wait for, or ctx is done. It lets go of Pool.mu meanwhile.
func (p *Pool) await(ctx context.Context, try func() bool) (bool, error) {
	const least, most = 20 * time.Microsecond, time.Millisecond
	for pause, seen := least, p.settled; ; {
		if err := ctx.Err(); err != nil {
			return false, fmt.Errorf("vram: while memory was waited for: %w", err)
		}
		if !p.busy() {
			return false, nil
		}
		p.mu.Unlock()
		time.Sleep(pause)
		p.mu.Lock()
		if p.closed.Load() {
			return try(), nil
		}
		p.flush()
		if p.poll(0); p.settled == seen {
			pause = min(pause+pause/2, most)
			continue
		}
		pause, seen = least, p.settled
		if try() {
			return true, nil
		}
	}
}

// busy reports whether freed memory is still in use.
func (p *Pool) busy() bool {
	busy := len(p.pending) > 0
	p.owners.Range(func(_, x any) bool {
		o := x.(*owner)
		busy = busy || len(o.marks) > 0 && o.free[smallHeap].count+o.free[largeHeap].count > 0
		return !busy
	})
	return busy
}

// reclaim calls r without Pool.mu, which is held again also when r panics.
func (p *Pool) reclaim(ctx context.Context, r *reclaimer, need int64) (int64, error) {
	p.mu.Unlock()
	defer p.mu.Lock()
	return r.call(ctx, need)
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
