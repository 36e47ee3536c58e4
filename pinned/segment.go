package pinned

import (
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

// grow makes a segment of size bytes and adds it, as one free block, to the
// pool. It unlocks the pool for the time of that; the budget must have room.
func (p *Pool) grow(size int64, c class) (*poolSegment, error) {
	p.transit += size
	p.busy++
	if c == shared {
		p.growingShared = true
	}
	p.mu.Unlock()

	start := time.Now()
	seg, err := p.makeSegment(size)
	took := time.Since(start)

	p.mu.Lock()
	p.transit -= size
	p.done()
	if c == shared {
		p.growingShared = false
	}
	p.pinTime += took
	if seg == nil {
		return nil, p.pinError(size, err)
	}
	if err != nil {
		p.pageableReason = p.pinError(size, err).Error()
	}
	if seg.placeErr != nil {
		p.numaErr = seg.placeErr
	}
	seg.class = c
	seg.first = p.newBlock()
	*seg.first = block{
		seg: seg, addr: seg.base(), size: size, free: true, marks: seg.first.marks,
	}
	p.free[c].insert(seg.first)
	p.list(seg)
	p.segmentAllocs++
	return seg, nil
}

// makeSegment maps and pins memory. With AllowPageable, it gives both a
// segment and an error when only pinning failed.
func (p *Pool) makeSegment(size int64) (*poolSegment, error) {
	var pinErr error
	if p.hostAllocator != nil {
		// The driver takes pages near the thread that asks.
		leave, placeErr := numa.Enter(p.node)
		mem, err := p.hostAllocator.AllocHost(size, p.flags)
		leave()
		if err == nil {
			return &poolSegment{mem: mem, pinned: true, driver: true, placeErr: placeErr}, nil
		}
		if !p.allowPageable {
			return nil, err
		}
		pinErr = err
	}
	mem, err := pagemem.Map(size)
	if err != nil {
		return nil, err
	}
	pagemem.Huge(mem)
	placeErr := numa.Bind(mem, p.node)
	if err := pagemem.Populate(mem, p.prefaultWorkers); err != nil {
		return nil, errors.Join(err, pagemem.Unmap(mem))
	}
	if pinErr == nil {
		if pinErr = p.pin(mem); pinErr == nil {
			return &poolSegment{mem: mem, pinned: true, placeErr: placeErr}, nil
		}
	}
	if p.allowPageable {
		return &poolSegment{mem: mem, placeErr: placeErr}, pinErr
	}
	return nil, errors.Join(pinErr, pagemem.Unmap(mem))
}

func (p *Pool) pin(mem []byte) error {
	if p.pinner == nil {
		return errNoPinner(p.dev)
	}
	return p.pinner.Pin(mem, p.flags)
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
