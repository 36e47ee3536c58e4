package replay

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// Plain replays with an allocation and a free of the device for each event.
//
// It reserves what is live: what the driver rounds up is not seen.
type Plain struct {
	dev    device.Device
	budget budget
	blocks slots[driverBlock]
}

// driverBlock is an allocation of the driver.
type driverBlock struct {
	ptr    device.Ptr
	bytes  int64
	stream int
}

// NewPlain returns an allocator on dev, which the caller has to close, that keeps
// at most so many bytes live; 0: as many as the device has.
func NewPlain(dev device.Device, capacity int64) *Plain {
	return &Plain{dev: dev, budget: budget{most: capacity}}
}

// Alloc implements [Allocator].
func (p *Plain) Alloc(_ context.Context, e trace.Event) (Handle, error) {
	if err := p.budget.check(e.Bytes); err != nil {
		return 0, err
	}
	p.budget.calls++
	ptr, err := p.dev.Alloc(e.Bytes)
	if err != nil {
		return 0, err
	}
	p.budget.live += e.Bytes
	return p.blocks.put(driverBlock{ptr: ptr, bytes: e.Bytes}), nil
}

// Free implements [Allocator].
func (p *Plain) Free(h Handle, _ trace.Event) error {
	block, ok := p.blocks.take(h)
	if !ok {
		return errHandle
	}
	p.budget.calls++
	p.budget.live -= block.bytes
	return p.dev.Free(block.ptr)
}

// Reserved implements [Allocator].
func (p *Plain) Reserved() int64 { return p.budget.live }

// Counts implements [Allocator].
func (p *Plain) Counts() Counts { return Counts{DriverCalls: p.budget.calls} }

// Close implements [Allocator]. What is live stays so.
func (p *Plain) Close() error { return nil }

var _ Allocator = (*Plain)(nil)

// budget counts what goes to the driver.
type budget struct {
	most  int64 // live bytes; 0: no limit
	live  int64
	calls int64
}

// check fails where n bytes more are too many.
func (b *budget) check(n int64) error {
	if b.most > 0 && n > b.most-b.live {
		return fmt.Errorf("replay: %w: asked for %s, %s of %s free", device.ErrOutOfMemory, units.Bytes(n), units.Bytes(b.most-b.live), units.Bytes(b.most))
	}
	return nil
}
