package vram

import (
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// siblings are the open pools of each device. When the device has no memory
// left for one, the others give back what they do not use.
var siblings = family{pools: map[device.Device][]*Pool{}}

type family struct {
	mu    sync.Mutex
	pools map[device.Device][]*Pool
}

func (f *family) add(p *Pool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pools[p.dev] = append(f.pools[p.dev], p)
}

func (f *family) remove(p *Pool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pools[p.dev] = slices.DeleteFunc(f.pools[p.dev], func(x *Pool) bool { return x == p }); len(f.pools[p.dev]) == 0 {
		delete(f.pools, p.dev)
	}
}

// trim has p's siblings give back what is idle. The lock of p is held, so that
// one that is busy is left out: it may be waiting for p.
func (f *family) trim(p *Pool) {
	f.mu.Lock()
	list := slices.Clone(f.pools[p.dev])
	f.mu.Unlock()
	for _, x := range list {
		if x != p && x.mu.TryLock() {
			if !x.closed.Load() && x.async == nil {
				x.flush()
				x.poll(0)
				x.trim(nil) // what it cannot give back p does without
			}
			x.mu.Unlock()
		}
	}
}
