package pipeline

import (
	"errors"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// recycler keeps memory that was freed for the next of its size: micro-batches come and go
// in the same sizes, and a device that frees memory waits for everything that is queued on
// it, such as what others have yet to send.
//
// It keeps it in drawers, and gives of what is free there what lies first. Each micro-batch
// that is under way in a stage has a drawer, and what comes to the stage has others. So a pass
// has its tensors where it had them with another micro-batch, whatever the order in which
// those were let go, and what was recorded then can be launched again. What a drawer keeps is
// what was in use at once of it, by size.
type recycler struct {
	dev device.Device

	other *recycler    // what it keeps goes back to the device, too, when that has nothing left; or nil
	idle  func() error // waits until nothing uses what was freed so far; nil: nothing does

	mu    sync.Mutex
	open  drawer // that memory comes from
	free  map[shelf][]device.Ptr
	sizes map[device.Ptr]shelf // of what is in use
}

// drawer is that of a micro-batch of a stage, from 1, or of what comes to the stage: 0 on the
// way back, and below on the way forward, as many as there are micro-batches under way. Those
// of stage 0 are of batches, from 1, and those of stage -1 of weights in another type, by
// stage. The zero drawer is for all else.
type drawer struct{ stage, number int } // stages are counted from 1

// shelf is where memory of a size is kept.
type shelf struct {
	drawer
	n int64
}

func newRecycler(dev device.Device) *recycler {
	return &recycler{dev: dev, free: map[shelf][]device.Ptr{}, sizes: map[device.Ptr]shelf{}}
}

// use has memory come from a drawer from now on.
func (r *recycler) use(d drawer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = d
}

// Alloc implements [step.Allocator]. When the device has nothing left, another drawer gives
// what it has of the size, or what is kept goes back to the device.
func (r *recycler) Alloc(n int64) (device.Ptr, error) {
	p, err := r.find(n)
	if !errors.Is(err, device.ErrOutOfMemory) {
		return p, err
	}
	for _, keeper := range []*recycler{r, r.other} {
		if keeper == nil {
			continue
		}
		if err := keeper.Close(); err != nil {
			return 0, err
		}
	}
	return r.find(n)
}

// find is Alloc without what others keep.
func (r *recycler) find(n int64) (device.Ptr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := shelf{r.open, n}
	if list := r.free[s]; len(list) > 0 {
		p := list[0]
		r.free[s], r.sizes[p] = slices.Delete(list, 0, 1), s
		return p, nil
	}
	p, err := r.dev.Alloc(n)
	if errors.Is(err, device.ErrOutOfMemory) {
		for other, list := range r.free {
			if last := len(list) - 1; other.n == n && last >= 0 {
				r.free[other], r.sizes[list[last]] = list[:last], s
				return list[last], nil
			}
		}
	}
	if err == nil {
		r.sizes[p] = s
	}
	return p, err
}

// Free implements [step.Allocator].
func (r *recycler) Free(p device.Ptr) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sizes[p]
	if !ok {
		return r.dev.Free(p) // which says what is wrong with it
	}
	delete(r.sizes, p)
	i, _ := slices.BinarySearch(r.free[s], p)
	r.free[s] = slices.Insert(r.free[s], i, p)
	return nil
}

// Close gives what is kept back to the device, when nothing uses it any more.
func (r *recycler) Close() error {
	r.mu.Lock()
	free := r.free
	r.free = map[shelf][]device.Ptr{}
	r.mu.Unlock()
	if len(free) == 0 {
		return nil
	}
	var all []error
	if r.idle != nil { // others may free and find meanwhile
		all = append(all, r.idle())
	}
	for _, list := range free {
		for _, p := range list {
			all = append(all, r.dev.Free(p))
		}
	}
	return errors.Join(all...)
}
