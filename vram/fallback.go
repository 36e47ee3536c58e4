package vram

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/internal/space"
)

// fallback finds memory for one allocation that the space cannot serve at once.
// It tries steps in order of cost; docs/vram.md describes them. Pool.mu is held
// throughout, except while a step waits or calls a reclaimer: other goroutines
// may then take what the step has gained.
type fallback struct {
	pool  *Pool
	size  int64
	owner *owner

	limit    int64 // bytes that the pool may grow to: first the soft limit, in the end the hard one
	shortage error // why the pool could not grow, the last time it tried
}

// step returns a block, or an error that ends the search, or neither, and the
// next step is tried.
type step func(*fallback, context.Context) (*space.Block, error)

// cheapSteps take nothing away from anyone. costlySteps make someone wait or
// give memory back.
var (
	cheapSteps  = [...]step{(*fallback).flush, (*fallback).poll, (*fallback).grow}
	costlySteps = [...]step{(*fallback).trim, (*fallback).wait, (*fallback).reclaim, (*fallback).exceedSoft}
)

func newFallback(p *Pool, size int64, o *owner) *fallback {
	f := &fallback{pool: p, size: size, owner: o, limit: p.hard}
	if p.options.Soft > 0 {
		f.limit = p.options.Soft
	}
	return f
}

func (f *fallback) run(ctx context.Context, steps []step) (*space.Block, error) {
	for _, s := range steps {
		if b, err := s(f, ctx); b != nil || err != nil {
			return b, err
		}
	}
	return nil, nil
}

// fit takes a block that is free.
func (f *fallback) fit() *space.Block { return f.pool.fit(f.size, f.owner) }

// flush frees the blocks that shards cache.
func (f *fallback) flush(context.Context) (*space.Block, error) {
	f.pool.forget()
	f.pool.flush()
	return f.fit(), nil
}

// poll asks which work streams have finished.
func (f *fallback) poll(context.Context) (*space.Block, error) {
	if !f.pool.poll(f.pool.pollTime(f.size)) {
		return nil, nil
	}
	return f.fit(), nil
}

// grow takes memory from the device, up to the limit.
func (f *fallback) grow(context.Context) (*space.Block, error) {
	p := f.pool
	b, err := p.space.Grow(f.size, f.owner.inSpace(), f.limit)
	p.owes.Store(p.space.Owes())
	if !space.Short(err) {
		return b, err
	}
	if errors.Is(err, space.ErrBudget) && f.limit == p.hard && (p.options.Budget == 0 || p.options.Budget > p.hard) {
		err = device.ErrOutOfMemory // the limit is the size of the device
	}
	f.shortage = err
	return nil, nil
}

// trim returns idle memory of the other heap to the device and, if the device
// is the one that has no more, that of other pools.
func (f *fallback) trim(ctx context.Context) (*space.Block, error) {
	if _, err := f.pool.space.TrimFor(f.size); err != nil {
		return nil, err
	}
	if !errors.Is(f.shortage, space.ErrBudget) {
		f.pool.trimOthers()
	}
	return f.retry(ctx)
}

// retry tries the cheap steps again.
func (f *fallback) retry(ctx context.Context) (*space.Block, error) {
	p := f.pool
	if p.closed.Load() {
		return nil, ErrClosed
	}
	p.flush()
	p.poll(p.pollTime(0))
	if b := f.fit(); b != nil {
		return b, nil
	}
	if b, err := f.grow(ctx); b != nil || err != nil {
		return b, err
	}
	if freed, err := p.space.TrimFor(f.size); err != nil || freed == 0 {
		return nil, err
	}
	return f.grow(ctx)
}

// wait retries each time a block becomes idle, until no freed memory is in use
// any more or ctx is done.
func (f *fallback) wait(ctx context.Context) (*space.Block, error) {
	const shortest, longest = 20 * time.Microsecond, time.Millisecond
	p := f.pool
	for pause, seen := shortest, p.settled; ; {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("waiting for memory: %w", err)
		}
		if !p.busy() {
			return nil, nil
		}
		p.mu.Unlock()
		time.Sleep(pause)
		p.mu.Lock()
		if p.closed.Load() {
			return nil, ErrClosed
		}
		p.flush()
		if p.poll(0); p.settled == seen {
			pause = min(pause+pause/2, longest)
			continue
		}
		pause, seen = shortest, p.settled
		if b, err := f.retry(ctx); b != nil || err != nil {
			return b, err
		}
	}
}

// busy reports whether streams still use freed memory.
func (p *Pool) busy() bool {
	busy := len(p.pending) > 0
	p.owners.Range(func(_, x any) bool {
		o := x.(*owner)
		busy = busy || len(o.marks) > 0 && o.Blocks() > 0
		return !busy
	})
	return busy
}

// reclaim calls the reclaimers, and retries after each that freed memory. What is freed
// may be in pieces, or others may take it: then the same one is asked again. In the
// tests of tier.Store, where up to four goroutines take what leaves, one round was
// enough 70 times, two or three were needed twice, and never more. Each further round
// costs a reclaimer as many bytes again, and an allocation that fails costs its caller
// more; a reclaimer that has nothing to free ends it.
func (f *fallback) reclaim(ctx context.Context) (*space.Block, error) {
	const most = 8
	for _, r := range slices.Clone(f.pool.reclaimers) {
		for range most {
			freed, err := f.call(ctx, r)
			if err != nil {
				return nil, fmt.Errorf("reclaim: %w", err)
			}
			if freed <= 0 {
				break
			}
			if b, err := f.retry(ctx); b != nil || err != nil {
				return b, err
			}
			if b, err := f.wait(ctx); b != nil || err != nil {
				return b, err
			}
		}
	}
	return nil, nil
}

// call calls r with Pool.mu released. It is held again even if r panics.
func (f *fallback) call(ctx context.Context, r *reclaimer) (int64, error) {
	f.pool.mu.Unlock()
	defer f.pool.mu.Lock()
	return r.call(ctx, f.size)
}

// exceedSoft grows beyond the soft limit.
func (f *fallback) exceedSoft(ctx context.Context) (*space.Block, error) {
	if f.limit >= f.pool.hard {
		return nil, nil
	}
	f.limit = f.pool.hard
	return f.retry(ctx)
}
