package vram

import (
	"errors"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/internal/space"
)

// async is the driver's own pool, which takes the place of the heaps. Pool.mu
// guards it.
type async struct {
	driver device.StreamAllocator
	stream device.Stream // for allocations without a stream; it never waits
	frees  device.Stream // for their frees, which may have to wait
}

func newAsync(dev device.Device) (*async, error) {
	driver, ok := device.As[device.StreamAllocator](dev)
	if !ok || !driver.CanAllocAsync() {
		return nil, fmt.Errorf("vram: the driver's pool: %w: %s has none", device.ErrNotSupported, dev.Info().ID)
	}
	// Keep what is freed, as the pools of this package do.
	if err := driver.SetReleaseThreshold(math.MaxInt64); err != nil {
		return nil, err
	}
	a := &async{driver: driver}
	var err error
	if a.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	if a.frees, err = dev.NewStream(); err != nil {
		return nil, errors.Join(err, a.stream.Close())
	}
	return a, nil
}

func (a *async) alloc(p *Pool, size, n int64, use Use, o *owner) (*block, error) {
	if budget := p.options.Budget; budget > 0 && p.ledger.Current()+size > budget {
		return nil, p.outOfMemoryLocked(n, use, space.ErrBudget)
	}
	stream := a.stream
	if o != nil {
		stream = o.stream
	}
	ptr, err := a.driver.AllocAsync(stream, size)
	if err == nil && o == nil {
		err = stream.Synchronize() // any stream may use it
	}
	if space.Short(err) {
		return nil, p.outOfMemoryLocked(n, use, err)
	}
	if err != nil {
		return nil, err
	}
	p.ledger.Calls.Create++
	p.ledger.Take(size)
	p.log(Event{Kind: EventMap, Address: ptr, Bytes: size})
	b := p.newBlock(o)
	b.ptr, b.bytes = ptr, size
	return b, nil
}

func (a *async) free(p *Pool, b *block) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return ErrClosed // Close freed it
	}
	stream := a.frees
	if b.owner != nil {
		stream = b.owner.stream
	}
	var unmarked []*owner
	for _, u := range b.users { // the free is ordered behind one stream only
		e, err := p.record(u.stream)
		if err == nil {
			err = stream.Wait(e)
			p.events = append(p.events, e)
		}
		if err != nil {
			unmarked = append(unmarked, u)
		}
	}
	failed := p.finish(unmarked)
	if p.closed.Load() {
		return errors.Join(failed, ErrClosed)
	}
	b.users = nil
	p.ledger.Calls.Release++
	p.ledger.Return(b.bytes)
	p.log(Event{Kind: EventUnmap, Address: b.ptr, Bytes: b.bytes})
	err := a.driver.FreeAsync(stream, b.ptr)
	if errors.Is(err, device.ErrClosed) { // the stream's work is over
		err = a.driver.FreeAsync(a.frees, b.ptr)
	}
	p.retire(b)
	return errors.Join(failed, err)
}

func (a *async) trim() error { return a.driver.TrimPool(0) }

func (a *async) close(p *Pool) error {
	var errs []error
	for _, b := range p.blocks {
		if b.bytes > 0 {
			errs = append(errs, p.dev.Free(b.ptr))
		}
	}
	return errors.Join(append(errs, a.driver.TrimPool(0), a.stream.Close(), a.frees.Close())...)
}
