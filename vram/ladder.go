package vram

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// ladder is how one allocation comes by memory that its heap does not have at
// hand: by steps, from the cheapest to the last resort. docs/vram.md describes
// them. Pool.mu is held, but not while a step waits or calls a reclaimer: then
// others may take what it gained.
type ladder struct {
	pool  *Pool
	heap  *heap
	size  int64
	owner *owner

	most     int64 // bytes that the pool may grow to: the soft limit, at the end the hard one
	shortage error // why it could not grow, the last time that it tried
}

// step gets a block, or an error that ends the search, or neither: then the
// next one has to.
type step func(*ladder, context.Context) (*block, error)

// While there is plenty, nothing is given up for a block; when memory is scarce,
// somebody has to wait or to give something back.
var (
	plenty = [...]step{(*ladder).flush, (*ladder).look, (*ladder).grow}
	scarce = [...]step{(*ladder).trim, (*ladder).wait, (*ladder).reclaim, (*ladder).exceed}
)

func newLadder(p *Pool, h *heap, size int64, o *owner) *ladder {
	l := &ladder{pool: p, heap: h, size: size, owner: o, most: p.hard}
	if p.options.Soft > 0 {
		l.most = p.options.Soft
	}
	return l
}

func (l *ladder) climb(ctx context.Context, steps []step) (*block, error) {
	for _, s := range steps {
		if b, err := s(l, ctx); b != nil || err != nil {
			return b, err
		}
	}
	return nil, nil
}

// fit takes a block that the heap has.
func (l *ladder) fit() *block { return l.heap.fit(l.size, l.owner) }

// flush makes free what shards keep.
func (l *ladder) flush(context.Context) (*block, error) {
	l.pool.forget()
	l.pool.flush()
	return l.fit(), nil
}

// look looks what streams have finished.
func (l *ladder) look(context.Context) (*block, error) {
	if !l.pool.poll(l.pool.patience(l.size)) {
		return nil, nil
	}
	return l.fit(), nil
}

// grow takes memory from the device, up to the limit.
func (l *ladder) grow(context.Context) (*block, error) {
	p := l.pool
	b, err := l.heap.backing.grow(l.size, l.owner, l.most)
	if !short(err) {
		return b, err
	}
	if errors.Is(err, errBudget) && l.most == p.hard && (p.options.Budget == 0 || p.options.Budget > p.hard) {
		err = device.ErrOutOfMemory // that is all of the device
	}
	l.shortage = err
	return nil, nil
}

// trim has others give back what they do not use: the other heap and, if it is
// the device that has no more, the other pools.
func (l *ladder) trim(ctx context.Context) (*block, error) {
	if _, err := l.trimHeaps(); err != nil {
		return nil, err
	}
	if !errors.Is(l.shortage, errBudget) {
		siblings.trim(l.pool)
	}
	return l.again(ctx)
}

// trimHeaps gives back what heaps do not use.
func (l *ladder) trimHeaps() (int64, error) {
	if l.pool.chunk > 0 {
		return l.pool.trim(l.heap) // whose idle chunks grow takes by itself
	}
	return l.pool.trim(nil)
}

// again tries all that is cheap once more.
func (l *ladder) again(ctx context.Context) (*block, error) {
	p := l.pool
	if p.closed.Load() {
		return nil, ErrClosed
	}
	p.flush()
	p.poll(p.patience(0))
	if b := l.fit(); b != nil {
		return b, nil
	}
	if b, err := l.grow(ctx); b != nil || err != nil {
		return b, err
	}
	if freed, err := l.trimHeaps(); err != nil || freed == 0 {
		return nil, err
	}
	return l.grow(ctx)
}

// wait tries again each time that something became idle, until there is nothing
// left to wait for, or ctx is done.
func (l *ladder) wait(ctx context.Context) (*block, error) {
	const least, most = 20 * time.Microsecond, time.Millisecond
	p := l.pool
	for pause, seen := least, p.settled; ; {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("while memory was waited for: %w", err)
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
			pause = min(pause+pause/2, most)
			continue
		}
		pause, seen = least, p.settled
		if b, err := l.again(ctx); b != nil || err != nil {
			return b, err
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

// reclaim calls the reclaimers, and tries again after each that freed something.
func (l *ladder) reclaim(ctx context.Context) (*block, error) {
	for _, r := range slices.Clone(l.pool.reclaimers) {
		freed, err := l.ask(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("reclaim: %w", err)
		}
		if freed <= 0 {
			continue
		}
		if b, err := l.again(ctx); b != nil || err != nil {
			return b, err
		}
		if b, err := l.wait(ctx); b != nil || err != nil {
			return b, err
		}
	}
	return nil, nil
}

// ask calls r without Pool.mu, which is held again also when r panics.
func (l *ladder) ask(ctx context.Context, r *reclaimer) (int64, error) {
	l.pool.mu.Unlock()
	defer l.pool.mu.Lock()
	return r.call(ctx, l.size)
}

// exceed goes beyond the soft limit.
func (l *ladder) exceed(ctx context.Context) (*block, error) {
	if l.most >= l.pool.hard {
		return nil, nil
	}
	l.most = l.pool.hard
	return l.again(ctx)
}

// short reports whether err says that there is no memory.
func short(err error) bool {
	return errors.Is(err, errBudget) || errors.Is(err, device.ErrOutOfMemory)
}
