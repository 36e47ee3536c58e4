package devicetest

import (
	"math"

	"github.com/pinion-gpu/pinion/device"
)

func testRange(f *fixture) {
	c, ok := device.As[device.RangeChecker](f.dev)
	if !ok {
		f.Skip("the device does not know where its memory lies")
	}
	const n = 4096
	p, err := f.dev.Alloc(n)
	f.ok(err)
	f.ok(c.CheckRange(p, n))
	f.ok(c.CheckRange(p, 0))
	f.ok(c.CheckRange(p.Add(1), n-1))
	f.ok(c.CheckRange(p.Add(n-1), 1))
	f.ok(c.CheckRange(0, 0))
	f.fails("nowhere", c.CheckRange(0, 1), device.ErrPointer)
	f.fails("far past the end", c.CheckRange(p, 1<<50), device.ErrPointer)
	f.fails("a negative size", c.CheckRange(p, -1), device.ErrArgument)
	f.fails("over the end of the address space", c.CheckRange(math.MaxUint64, math.MaxInt64), nil)
	f.ok(f.dev.Free(p))
	f.fails("freed memory", c.CheckRange(p, n), device.ErrPointer)

	other := f.openOther()
	q, err := other.Alloc(n)
	f.ok(err)
	if other.Info().UUID != f.dev.Info().UUID || f.dev.Info().UUID == "" {
		f.fails("memory of another device", c.CheckRange(q, n), device.ErrPointer)
	}
	f.ok(other.Free(q))

	if pinner, ok := device.As[device.Pinner](f.dev); ok && pinner.CanMap() {
		b := f.pinned(2 * n)
		p, err := pinner.Mapped(b)
		f.ok(err)
		f.ok(c.CheckRange(p, int64(len(b))))
	}
	if m, ok := device.As[device.Mapper](f.dev); ok && m.CanReserve() {
		size, err := m.Granularity()
		f.ok(err)
		at, err := m.Reserve(3 * size)
		f.ok(err)
		for i := range int64(2) {
			chunk, err := m.CreateChunk(size)
			f.ok(err)
			f.ok(m.Map(at.Add(i*size), []device.Chunk{chunk}, size))
		}
		f.ok(c.CheckRange(at, 2*size))
		f.fails("reserved and not mapped", c.CheckRange(at, 2*size+1), device.ErrPointer)
	}
}
