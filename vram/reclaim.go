package vram

import (
	"context"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
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

// openPools lists the open pools of this process. When a device has no memory
// left for one of them, the others on it return what they do not use.
var openPools poolList

type poolList struct {
	mu   sync.Mutex
	list []*Pool
}

func (l *poolList) add(p *Pool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, p)
}

func (l *poolList) remove(p *Pool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(x *Pool) bool { return x == p })
}

// trim returns the idle memory of the other pools on p's device. The lock of p is
// held, so a pool that is locked is skipped: it may be waiting for p.
func (l *poolList) trim(p *Pool) {
	l.mu.Lock()
	list := slices.Clone(l.list)
	l.mu.Unlock()
	for _, x := range list {
		if x == p || !device.Same(x.dev, p.dev) || !x.mu.TryLock() {
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
