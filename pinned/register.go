package pinned

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/callstack"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Registration is memory of the caller that a [Pool] has page-locked. Its
// methods are safe for concurrent use.
type Registration struct {
	pool  *Pool
	mem   []byte // as it was given
	pages []byte // the whole pages that hold it; nil once unregistered; guarded by pool.mu

	serial int64     // how many there were before, and itself
	stack  []uintptr // of who asked for it, if anybody wanted to know
}

// Register page-locks memory that is there already, such as a mapped file or
// what a C library has allocated, so that copies from and to it are those of
// pinned memory. It must lie outside the Go heap, and stays the caller's: keep
// it mapped until [Registration.Unregister].
//
// The pages that b touches are locked, up to a page more than b at each end,
// and count against the budget. Two slices that share a page cannot both be
// registered; register one that holds both. Locking takes time, more than one
// copy gains by it: register what is copied again and again.
//
// It fails with [device.ErrArgument] for no bytes and for pages that are
// pinned already, with [ErrBudget], [device.ErrPinLimit] and
// [device.ErrClosed] as [Pool.Alloc] does, and with [device.ErrNotSupported]
// where the device cannot pin memory that it did not allocate.
func (p *Pool) Register(b []byte) (*Registration, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("pinned: register: %w: no bytes", device.ErrArgument)
	}
	pages := wholePages(b)
	size := int64(len(pages))
	stack := callstack.IfWanted(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed:
			return nil, p.closedError()
		case p.dev.Closed():
			return nil, p.deviceClosedError("register", size)
		case p.pinner == nil:
			return nil, fmt.Errorf("pinned: register: %w", errNoPinner(p.dev))
		}
		if p.room() >= size {
			break
		}
		if p.releasing > 0 {
			p.changed.Wait() // for the room that another is making
			continue
		}
		p.poll()
		if freed, err := p.makeRoom(size); freed == 0 {
			return nil, errors.Join(p.budgetError("register", size), err)
		}
	}
	p.transit += size
	p.busy++
	p.mu.Unlock()
	err := p.pinner.Pin(pages, p.flags&^device.PinWriteCombined)
	p.mu.Lock()
	p.transit -= size
	p.done()
	if err != nil {
		return nil, p.pinError("register", size, err)
	}
	p.registered += size
	p.registrations++
	r := &Registration{pool: p, mem: b, pages: pages, serial: p.registrations, stack: stack}
	p.callers[r] = struct{}{}
	return r, nil
}

// wholePages is b and what else is on its pages.
func wholePages(b []byte) []byte {
	page := uintptr(pagemem.PageSize())
	start := unsafe.Pointer(unsafe.SliceData(b))
	before := uintptr(start) % page
	return unsafe.Slice((*byte)(unsafe.Add(start, -int(before))), pagemem.RoundUp(int64(before)+int64(len(b))))
}

// Bytes returns the memory as it was given to Register.
func (r *Registration) Bytes() []byte { return r.mem }

// Mapped returns the address by which the device reaches the first byte, valid
// until Unregister. It fails with [device.ErrNotSupported] on devices that
// cannot map, and with [ErrFreed] after Unregister.
func (r *Registration) Mapped() (device.Ptr, error) {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	if r.pages == nil {
		return 0, r.goneError()
	}
	p, err := r.pool.pinner.Mapped(r.pages)
	if err != nil {
		return 0, err
	}
	return p.Add(int64(uintptr(unsafe.Pointer(unsafe.SliceData(r.mem))) - uintptr(unsafe.Pointer(unsafe.SliceData(r.pages))))), nil
}

// Unregister unlocks the memory. Copies that use it must be done. It works
// after the pool's Close too. A second call fails with [ErrFreed].
func (r *Registration) Unregister() error {
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.pages == nil {
		return r.goneError()
	}
	pages := r.pages
	r.pages = nil
	p.busy++
	p.mu.Unlock()
	err := p.pinner.Unpin(pages)
	p.mu.Lock()
	p.done()
	// A closed device pins nothing any more.
	if err != nil && !errors.Is(err, device.ErrClosed) {
		r.pages = pages
		return fmt.Errorf("pinned: unregister %s: %w", units.Bytes(int64(len(r.mem))), err)
	}
	p.registered -= int64(len(pages))
	delete(p.callers, r)
	p.refused = 0
	return nil
}

func (r *Registration) goneError() error {
	return fmt.Errorf("pinned: %w: the registration of %s", ErrFreed, units.Bytes(int64(len(r.mem))))
}
