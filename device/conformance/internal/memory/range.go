package memory

import (
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

func testRange(f *fixture.F) {
	c, ok := device.As[device.RangeChecker](f.Dev)
	if !ok {
		f.Skip("the device does not know where its memory lies")
	}
	const n = 4096
	p, err := f.Dev.Alloc(n)
	f.OK(err)
	f.OK(c.CheckRange(p, n))
	f.OK(c.CheckRange(p, 0))
	f.OK(c.CheckRange(p.Add(1), n-1))
	f.OK(c.CheckRange(p.Add(n-1), 1))
	f.OK(c.CheckRange(0, 0))
	f.Fails("nowhere", c.CheckRange(0, 1), device.ErrPointer)
	f.Fails("far past the end", c.CheckRange(p, 1<<50), device.ErrPointer)
	f.Fails("a negative size", c.CheckRange(p, -1), device.ErrArgument)
	f.Fails("over the end of the address space", c.CheckRange(math.MaxUint64, math.MaxInt64), nil)
	f.OK(f.Dev.Free(p))
	f.Fails("freed memory", c.CheckRange(p, n), device.ErrPointer)

	other := f.OpenOther()
	q, err := other.Alloc(n)
	f.OK(err)
	if other.Info().UUID != f.Dev.Info().UUID || f.Dev.Info().UUID == "" {
		f.Fails("memory of another device", c.CheckRange(q, n), device.ErrPointer)
	}
	f.OK(other.Free(q))

	if pinner, ok := device.As[device.Pinner](f.Dev); ok && pinner.CanMap() {
		b := f.Pinned(2 * n)
		p, err := pinner.Mapped(b)
		f.OK(err)
		f.OK(c.CheckRange(p, int64(len(b))))
	}
	if m, ok := device.As[device.Mapper](f.Dev); ok && m.CanReserve() {
		size, err := m.Granularity()
		f.OK(err)
		at, err := m.Reserve(3 * size)
		f.OK(err)
		for i := range int64(2) {
			chunk, err := m.CreateChunk(size)
			f.OK(err)
			f.OK(m.Map(at.Add(i*size), []device.Chunk{chunk}, size))
		}
		f.OK(c.CheckRange(at, 2*size))
		f.Fails("reserved and not mapped", c.CheckRange(at, 2*size+1), device.ErrPointer)
	}
}
