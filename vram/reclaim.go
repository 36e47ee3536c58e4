package vram

import (
	"context"
	"slices"
)

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
