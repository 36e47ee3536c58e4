package vram

import (
	"context"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/live"
)

// reclaimer frees memory of the pool on demand.
type reclaimer struct {
	call func(ctx context.Context, need int64) (freed int64, err error)
}

// OnLowMemory registers f as a reclaimer: a function that is called when memory
// is short and waiting does not help. f frees blocks of this pool whose content
// can be restored, such as caches, and returns how many bytes it freed. The
// reclaimers are called in the order of their registration, until the
// allocation succeeds; one that freed something is called again, a few times, if
// that did not do. f must not allocate from the pool. If f fails, the
// allocation fails with its error. remove undoes the registration.
func (p *Pool) OnLowMemory(f func(ctx context.Context, need int64) (freed int64, err error)) (remove func()) {
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

// trimOthers returns the idle memory of the other pools on p's device. Pool.mu is
// held, but released while the list of pools is locked: whoever has that asks pools
// for their statistics. A pool that is locked is skipped: it may be waiting for p.
func (p *Pool) trimOthers() {
	var others []*Pool
	p.mu.Unlock()
	live.View(func(all []*Pool) {
		for _, x := range all {
			if x != p && device.Same(x.dev, p.dev) {
				others = append(others, x)
			}
		}
	})
	p.mu.Lock()
	for _, x := range others {
		if !x.mu.TryLock() {
			continue
		}
		if !x.closed.Load() && x.async == nil {
			x.flush()
			x.poll(0)
			x.trim() // an error only means that p gets less
		}
		x.mu.Unlock()
	}
}
