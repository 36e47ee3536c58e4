package devicetest

import (
	"bytes"
	"math"

	"github.com/pinion-gpu/pinion/device"
)

// mapper returns the device as a [device.Mapper] and its granularity, or skips
// the test.
func (f *fixture) mapper() (m device.Mapper, unit int64) {
	f.Helper()
	m, ok := f.dev.(device.Mapper)
	if !ok {
		f.Skip("the device has no virtual memory")
	}
	if !m.CanReserve() {
		_, err := m.Reserve(64 << 20)
		f.fails("Reserve on a device that cannot", err, device.ErrNotSupported)
		f.Skip("the device has no virtual memory")
	}
	unit, err := m.Granularity()
	f.ok(err)
	if unit <= 0 || unit&(unit-1) != 0 {
		f.Fatalf("a granularity of %d bytes", unit)
	}
	return m, unit
}

// Chunks are mapped at both ends of a reservation, written, taken away, mapped
// side by side elsewhere, and keep their content.
func testVirtualMemory(f *fixture) {
	m, unit := f.mapper()
	s := f.stream()
	low, err := m.Reserve(4 * unit)
	f.ok(err)
	first, err := m.CreateChunk(unit)
	f.ok(err)
	second, err := m.CreateChunk(2 * unit)
	f.ok(err)
	f.ok(m.Map(low, first, unit))
	f.ok(m.Map(low.Add(2*unit), second, 2*unit))

	want := unique(3*unit, 1)
	f.ok(s.CopyH2D(low, want[:unit]))
	f.ok(s.CopyH2D(low.Add(2*unit), want[unit:]))
	f.ok(s.Synchronize())
	if !bytes.Equal(f.download(low, unit), want[:unit]) ||
		!bytes.Equal(f.download(low.Add(2*unit), 2*unit), want[unit:]) {
		f.Fatal("mapped chunks bring the wrong content")
	}
	f.ok(m.Unmap(low, unit))
	f.ok(m.Unmap(low.Add(2*unit), 2*unit))

	stitched, err := m.Reserve(8 * unit)
	f.ok(err)
	at := stitched.Add(5 * unit)
	f.ok(m.Map(at, first, unit))
	f.ok(m.Map(at.Add(unit), second, 2*unit))
	f.ok(m.ReleaseChunk(first)) // the mapping keeps it
	if !bytes.Equal(f.download(at, 3*unit), want) {
		f.Error("chunks lost their content on the way to another address")
	}
	mem := f.alloc(2 * unit)
	f.ok(s.CopyD2D(mem, at.Add(unit/2+1), 2*unit))
	f.ok(s.Memset(at.Add(unit-3), 7, 6))
	f.ok(s.Synchronize())
	if !bytes.Equal(f.download(mem, 2*unit), want[unit/2+1:][:2*unit]) {
		f.Error("a copy across two chunks brought the wrong content")
	}
	if !bytes.Equal(f.download(at.Add(unit-3), 6), bytes.Repeat([]byte{7}, 6)) {
		f.Error("Memset across two chunks set something else")
	}

	f.ok(m.Unmap(at, unit))
	f.ok(m.Unmap(at.Add(unit), 2*unit))
	f.ok(m.ReleaseChunk(second))
	f.ok(m.Unreserve(stitched, 8*unit))
	f.ok(m.Unreserve(low, 4*unit))

	// And some that Close has to find.
	left, err := m.Reserve(2 * unit)
	f.ok(err)
	chunk, err := m.CreateChunk(unit)
	f.ok(err)
	f.ok(m.Map(left, chunk, unit))
}

func testVirtualMemoryErrors(f *fixture) {
	m, unit := f.mapper()
	free := func() int64 {
		f.Helper()
		memory, err := f.dev.Memory()
		f.ok(err)
		return memory.FreeBytes
	}
	before := free()
	total := f.dev.Info().TotalBytes
	beyond := (total/unit + 1) * unit
	p, err := m.Reserve(beyond) // address space is not memory
	f.ok(err)
	chunk, err := m.CreateChunk(unit)
	f.ok(err)
	f.ok(m.Map(p, chunk, unit))
	if total <= small {
		if now := free(); now > before-unit {
			f.Errorf("%d bytes free before and %d after a chunk of %d", before, now, unit)
		}
	}
	badSizes := []int64{0, -unit, unit - 1, unit + 1, math.MinInt64}
	for _, n := range badSizes {
		_, err := m.Reserve(n)
		f.fails("Reserve of a bad size", err, device.ErrArgument)
		_, err = m.CreateChunk(n)
		f.fails("CreateChunk of a bad size", err, device.ErrArgument)
		f.fails("Map of a bad size", m.Map(p.Add(unit), chunk, n), device.ErrArgument)
	}
	_, err = m.CreateChunk(beyond)
	f.fails("CreateChunk of more than all", err, device.ErrOutOfMemory)
	f.fails("Map over a mapping", m.Map(p, chunk, unit), nil)
	f.fails("Map at an odd address", m.Map(p.Add(unit+256), chunk, unit), nil)
	f.fails("Map of no chunk", m.Map(p.Add(unit), 0, unit), nil)
	f.fails("Map outside a reservation", m.Map(0, chunk, unit), nil)
	f.fails("Unmap of what is not mapped", m.Unmap(p.Add(unit), unit), nil)
	f.fails("Unreserve of another address", m.Unreserve(p.Add(unit), unit), nil)
	f.fails("ReleaseChunk of none", m.ReleaseChunk(0), nil)
	for _, n := range badSizes {
		f.fails("Unmap of a bad size", m.Unmap(p, n), device.ErrArgument)
	}
	f.upload(p, unique(unit, 1)) // still mapped
	f.ok(m.Unmap(p, unit))
	f.ok(m.ReleaseChunk(chunk))
	f.fails("the second ReleaseChunk", m.ReleaseChunk(chunk), nil)
	f.ok(m.Unreserve(p, beyond))
	f.fails("the second Unreserve", m.Unreserve(p, beyond), nil)
	if total <= small {
		if now := free(); now != before {
			f.Errorf("%d bytes free before and %d after all", before, now)
		}
	}
}
