package pipeline

import (
	"errors"
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// recycler keeps memory that was freed for the next of its size: micro-batches come and go
// in the same sizes, and a device that frees memory waits for everything that is queued on
// it, such as what others have yet to send. What it keeps is what was in use at once, by
// size.
type recycler struct {
	dev device.Device

	mu    sync.Mutex
	free  map[int64][]device.Ptr
	sizes map[device.Ptr]int64 // of what is in use
}

func newRecycler(dev device.Device) *recycler {
	return &recycler{dev: dev, free: map[int64][]device.Ptr{}, sizes: map[device.Ptr]int64{}}
}

// Alloc implements [step.Allocator]. When the device has nothing left, what is kept goes
// back to it.
func (r *recycler) Alloc(n int64) (device.Ptr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if list := r.free[n]; len(list) > 0 {
		p := list[len(list)-1]
		r.free[n], r.sizes[p] = list[:len(list)-1], n
		return p, nil
	}
	p, err := r.dev.Alloc(n)
	if errors.Is(err, device.ErrOutOfMemory) && len(r.free) > 0 {
		if err := r.empty(); err != nil {
			return 0, err
		}
		p, err = r.dev.Alloc(n)
	}
	if err == nil {
		r.sizes[p] = n
	}
	return p, err
}

// Free implements [step.Allocator].
func (r *recycler) Free(p device.Ptr) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, ok := r.sizes[p]
	if !ok {
		return r.dev.Free(p) // which says what is wrong with it
	}
	delete(r.sizes, p)
	r.free[n] = append(r.free[n], p)
	return nil
}

func (r *recycler) empty() error {
	var all []error
	for _, list := range r.free {
		for _, p := range list {
			all = append(all, r.dev.Free(p))
		}
	}
	clear(r.free)
	return errors.Join(all...)
}

// Close gives what is kept back to the device.
func (r *recycler) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.empty()
}
