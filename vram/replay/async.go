package replay

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// Async replays on the stream-ordered pool of the driver, which keeps what is
// freed. Each stream of the trace is a stream of the device.
//
// It reserves what is live: what the driver keeps beyond that is not seen.
type Async struct {
	driver  device.StreamAllocator
	streams streams
	event   device.Event
	budget  budget
	blocks  slots[driverBlock]
}

// NewAsync returns an allocator on dev, which the caller has to close, that keeps
// at most so many bytes live; 0: as many as the device has. It fails with
// [device.ErrNotSupported] if the driver has no such pool.
func NewAsync(dev device.Device, capacity int64) (*Async, error) {
	driver, ok := device.As[device.StreamAllocator](dev)
	if !ok || !driver.CanAllocAsync() {
		return nil, fmt.Errorf("replay: %s: stream-ordered allocation: %w", dev.Info().ID, device.ErrNotSupported)
	}
	if err := driver.SetReleaseThreshold(math.MaxInt64); err != nil {
		return nil, err
	}
	event, err := dev.NewEvent(device.EventNoTiming)
	if err != nil {
		return nil, err
	}
	return &Async{driver: driver, streams: streams{dev: dev}, event: event, budget: budget{most: capacity}}, nil
}

// Alloc implements [Allocator].
func (a *Async) Alloc(_ context.Context, e trace.Event) (Handle, error) {
	if err := a.budget.check(e.Bytes); err != nil {
		return 0, err
	}
	stream, err := a.streams.get(e.Stream)
	if err != nil {
		return 0, err
	}
	a.budget.calls++
	ptr, err := a.driver.AllocAsync(stream, e.Bytes)
	if err != nil {
		return 0, err
	}
	a.budget.live += e.Bytes
	return a.blocks.put(driverBlock{ptr, e.Bytes, e.Stream}), nil
}

// Free implements [Allocator]. The free is queued on the allocation's stream; a
// free on another one is waited for there.
func (a *Async) Free(h Handle, e trace.Event) error {
	block, ok := a.blocks.take(h)
	if !ok {
		return errHandle
	}
	stream, err := a.streams.get(block.stream)
	if err != nil {
		return err
	}
	if e.Stream != block.stream {
		other, err := a.streams.get(e.Stream)
		if err != nil {
			return err
		}
		if err := errors.Join(other.Record(a.event), stream.Wait(a.event)); err != nil {
			return err
		}
	}
	a.budget.calls++
	a.budget.live -= block.bytes
	return a.driver.FreeAsync(stream, block.ptr)
}

// Reserved implements [Allocator].
func (a *Async) Reserved() int64 { return a.budget.live }

// Counts implements [Allocator].
func (a *Async) Counts() Counts { return Counts{DriverCalls: a.budget.calls} }

// Close implements [Allocator]. The driver's pool keeps nothing; what is live
// stays so.
func (a *Async) Close() error {
	return errors.Join(a.streams.close(), a.event.Close(), a.driver.TrimPool(0))
}

var _ Allocator = (*Async)(nil)
