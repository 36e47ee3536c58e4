package pinned

import (
	"cmp"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/numa"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/units"
)

// class tells segments apart by whom they serve.
type class int

const (
	shared class = iota // of Options.SegmentBytes, for small requests
	own                 // made for one large request
)

// poolSegment is memory of a pool that was mapped and pinned in one piece.
type poolSegment struct {
	mem       []byte
	class     class
	pinned    bool
	driver    bool   // made by the device's HostAllocator
	placeErr  error  // why it is not placed on the pool's node
	first     *block // at the lowest address
	used      int64  // bytes of blocks that are not free
	idleSince time.Time
}

func (s *poolSegment) base() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s.mem))) }
func (s *poolSegment) size() int64   { return int64(len(s.mem)) }

// grow makes a segment of size bytes, or of fewer but at least least where the
// system does not lock as many, and adds it, as one free block, to the pool. It
// unlocks the pool for the time of that; the budget must have room.
func (p *Pool) grow(size, least int64, c class) (*poolSegment, error) {
	p.transit += size
	p.busy++
	if c == shared {
		p.growingShared = true
	}
	pinBytes := size
	if c == shared && p.refused > 0 {
		pinBytes = max(halved(p.refused), least)
	}
	p.mu.Unlock()

	start := time.Now()
	seg, refused, err := p.makeSegment(size, min(pinBytes, size), least)
	took := time.Since(start)

	p.mu.Lock()
	p.transit -= size
	p.done()
	if c == shared {
		p.growingShared = false
	}
	p.pinTime += took
	if err != nil {
		err = p.pinError("pin", cmp.Or(refused, size), err)
	}
	if refused > 0 && c == shared {
		p.refused = refused
	}
	if seg == nil {
		return nil, err
	}
	if !seg.pinned {
		p.pageableReason = err.Error()
	}
	if seg.placeErr != nil {
		p.numaErr = seg.placeErr
	}
	seg.class = c
	seg.first = p.newBlock()
	*seg.first = block{
		seg: seg, addr: seg.base(), size: seg.size(), free: true, marks: seg.first.marks,
	}
	p.free[c].insert(seg.first)
	p.list(seg)
	p.segmentAllocs++
	return seg, nil
}

// makeSegment makes pinned memory of pinBytes, or of half as many again and
// again, down to least, while the system refuses to lock so many; refused is
// the smallest size that it refused. With AllowPageable the last resort is
// memory of size bytes that is not pinned, and the error of pinning beside it.
func (p *Pool) makeSegment(size, pinBytes, least int64) (seg *poolSegment, refused int64, err error) {
	for {
		if seg, err = p.pinSegment(pinBytes); err == nil {
			return seg, refused, nil
		}
		if !errors.Is(err, device.ErrPinLimit) {
			break
		}
		if refused = pinBytes; pinBytes <= least {
			break
		}
		pinBytes = max(halved(pinBytes), least)
	}
	if !p.allowPageable {
		return nil, refused, err
	}
	mem, placeErr, mapErr := p.mapPages(size)
	if mapErr != nil {
		return nil, refused, errors.Join(err, mapErr)
	}
	return &poolSegment{mem: mem, placeErr: placeErr}, refused, err
}

// halved is half of a size, in whole pages.
func halved(size int64) int64 { return pagemem.RoundUp(size / 2) }

// pinSegment makes pinned memory, by the driver where the pool wants that or
// where the driver cannot pin what is there.
func (p *Pool) pinSegment(size int64) (*poolSegment, error) {
	if p.byDriver.Load() {
		return p.allocHost(size)
	}
	if p.pinner == nil {
		return nil, errNoPinner(p.dev)
	}
	mem, placeErr, err := p.mapPages(size)
	if err != nil {
		return nil, err
	}
	err = p.pinner.Pin(mem, p.flags)
	if err == nil {
		return &poolSegment{mem: mem, pinned: true, placeErr: placeErr}, nil
	}
	if e := pagemem.Unmap(mem); e != nil {
		return nil, errors.Join(err, e)
	}
	if errors.Is(err, device.ErrNotSupported) && p.hostAllocator != nil {
		// A driver without host registration still allocates pinned memory.
		seg, allocErr := p.allocHost(size)
		if allocErr != nil {
			return nil, errors.Join(err, allocErr)
		}
		p.byDriver.Store(true)
		return seg, nil
	}
	return nil, err
}

// allocHost lets the driver make pinned memory. It takes pages near the thread
// that asks.
func (p *Pool) allocHost(size int64) (*poolSegment, error) {
	leave, placeErr := numa.Enter(p.node)
	mem, err := p.hostAllocator.AllocHost(size, p.flags)
	leave()
	if err != nil {
		return nil, err
	}
	return &poolSegment{mem: mem, pinned: true, driver: true, placeErr: placeErr}, nil
}

// mapPages maps memory on the pool's node and faults it in.
func (p *Pool) mapPages(size int64) (mem []byte, placeErr, err error) {
	if mem, err = pagemem.Map(size); err != nil {
		return nil, nil, err
	}
	pagemem.Huge(mem)
	placeErr = numa.Bind(mem, p.node)
	if err := pagemem.Populate(mem, p.prefaultWorkers); err != nil {
		return nil, nil, errors.Join(err, pagemem.Unmap(mem))
	}
	return mem, placeErr, nil
}

// drop gives a segment's memory back to the system. When that fails, the
// memory stays mapped: the device may still hold it.
func (p *Pool) drop(s *poolSegment) error {
	var err error
	switch {
	case s.driver:
		err = p.hostAllocator.FreeHost(s.mem)
	case s.pinned:
		// A closed device has finished its work and pins nothing any more.
		if err = p.pinner.Unpin(s.mem); err == nil || errors.Is(err, device.ErrClosed) {
			err = pagemem.Unmap(s.mem)
		}
	default:
		err = pagemem.Unmap(s.mem)
	}
	if err != nil {
		return fmt.Errorf("pinned: give back a segment of %s: %w", units.Bytes(s.size()), err)
	}
	return nil
}
