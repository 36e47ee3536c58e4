package devicetest

import (
	"bytes"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// mapper returns the device as a [device.Mapper] and its granularity, or skips
// the test.
func (f *fixture) mapper() (m device.Mapper, unit int64) {
	f.Helper()
	m, ok := device.As[device.Mapper](f.dev)
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

// chunks makes that many chunks of n bytes each.
func (f *fixture) chunks(m device.Mapper, count int, n int64) []device.Chunk {
	f.Helper()
	list := make([]device.Chunk, count)
	for i := range list {
		var err error
		list[i], err = m.CreateChunk(n)
		f.ok(err)
	}
	return list
}

// unreachable checks that a range that is not all mapped can be neither copied
// nor asked for.
func (f *fixture) unreachable(what string, p device.Ptr, n int64) {
	f.Helper()
	s := f.stream()
	host := make([]byte, n)
	f.fails("CopyH2D to "+what, s.CopyH2D(p, host), device.ErrPointer)
	f.fails("CopyD2H from "+what, s.CopyD2H(host, p), device.ErrPointer)
	f.fails("Memset of "+what, s.Memset(p, 1, n), device.ErrPointer)
	if c, ok := device.As[device.RangeChecker](f.dev); ok {
		f.fails("CheckRange of "+what, c.CheckRange(p, n), device.ErrPointer)
	}
	if c, ok := device.As[device.Caller](f.dev); ok {
		_, err := c.Bytes(p, n)
		f.fails("Bytes of "+what, err, device.ErrPointer)
	}
	f.ok(s.Close())
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
	f.ok(m.Map(low, []device.Chunk{first}, unit))
	f.ok(m.Map(low.Add(2*unit), []device.Chunk{second}, 2*unit))

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
	f.ok(m.Map(at, []device.Chunk{first}, unit))
	f.ok(m.Map(at.Add(unit), []device.Chunk{second}, 2*unit))
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
	f.ok(m.Map(left, []device.Chunk{chunk}, unit))
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
	f.ok(m.Map(p, []device.Chunk{chunk}, unit))
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
		f.fails("Map of a bad size", m.Map(p.Add(unit), []device.Chunk{chunk}, n), device.ErrArgument)
	}
	_, err = m.CreateChunk(beyond)
	f.fails("CreateChunk of more than all", err, device.ErrOutOfMemory)
	f.fails("Map over a mapping", m.Map(p, []device.Chunk{chunk}, unit), nil)
	f.fails("Map at an odd address", m.Map(p.Add(unit+256), []device.Chunk{chunk}, unit), nil)
	f.fails("Map of no chunk", m.Map(p.Add(unit), []device.Chunk{0}, unit), nil)
	f.fails("Map outside a reservation", m.Map(0, []device.Chunk{chunk}, unit), nil)
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

// Several chunks are mapped by one call, taken out in other pieces than they
// came in, and mapped again in another order: the content stays with the
// chunk.
func testVirtualMemoryMany(f *fixture) {
	m, unit := f.mapper()
	const count = 6
	p, err := m.Reserve(2 * count * unit)
	f.ok(err)
	chunks := f.chunks(m, count, unit)
	handed := slices.Clone(chunks)
	f.ok(m.Map(p, handed[:4], unit))
	f.ok(m.Map(p.Add(4*unit), handed[4:], unit))
	clear(handed) // the slice is the caller's again
	f.ok(m.Map(p.Add(count*unit), nil, unit))

	want := unique(count*unit, 1)
	f.upload(p, want)
	if !bytes.Equal(f.download(p.Add(unit-1), 4*unit+2), want[unit-1:5*unit+1]) {
		f.Fatal("the chunks of two calls are not one range")
	}
	mem := f.alloc(2 * unit)
	s := f.stream()
	if b, ok := device.As[device.BatchCopier](f.dev); ok && b.CanCopyBatch() {
		f.ok(b.CopyBatch(s, []device.Span{{Dst: mem, Src: p.Add(unit / 2), Bytes: unit}, {Dst: mem.Add(unit), Src: p.Add(2*unit + 1), Bytes: unit}}))
		f.ok(s.Synchronize())
		if !bytes.Equal(f.download(mem, 2*unit), slices.Concat(want[unit/2:][:unit], want[2*unit+1:][:unit])) {
			f.Error("a batch across chunks brought the wrong content")
		}
	}
	if c, ok := device.As[device.BoxCopier](f.dev); ok {
		box := device.Box{
			Dst: mem, Src: p.Add(16), RowBytes: 1000, Rows: count, Planes: 1,
			DstRowStride: 1000, SrcRowStride: unit - 16, DstPlaneStride: count * 1000, SrcPlaneStride: count * (unit - 16),
		}
		if c.CanCopyBox(box) {
			f.ok(c.CopyBox(s, box))
			f.ok(s.Synchronize())
			got := f.download(mem, count*1000)
			for i := range int64(count) {
				if !bytes.Equal(got[i*1000:][:1000], want[16+i*(unit-16):][:1000]) {
					f.Errorf("row %d of a box across chunks has the wrong content", i)
				}
			}
		}
	}
	if c, ok := device.As[device.Caller](f.dev); ok {
		b, err := c.Bytes(p, count*unit)
		f.ok(err)
		f.ok(c.Call(s, func() error { b[2*unit]++; return nil }))
		f.ok(s.Synchronize())
		want[2*unit]++
	}

	// From the middle, over the border between the two calls.
	f.ok(m.Unmap(p.Add(3*unit), 2*unit))
	f.unreachable("a hole", p.Add(3*unit), unit)
	f.unreachable("a range with a hole", p, count*unit)
	f.unreachable("a range that ends in a hole", p.Add(2*unit), unit+1)
	f.unreachable("a range that starts in a hole", p.Add(5*unit-1), unit)
	f.fails("Unmap over a hole", m.Unmap(p, count*unit), device.ErrArgument)
	f.fails("Unmap of half a chunk", m.Unmap(p, unit/2), device.ErrArgument)
	f.fails("Unmap from half a chunk", m.Unmap(p.Add(unit/2), unit), device.ErrArgument)
	if !bytes.Equal(f.download(p, 3*unit), want[:3*unit]) || !bytes.Equal(f.download(p.Add(5*unit), unit), want[5*unit:]) {
		f.Error("what stayed mapped has changed")
	}
	f.ok(m.Map(p.Add(3*unit), chunks[3:5], unit))
	if !bytes.Equal(f.download(p, count*unit), want) {
		f.Error("the content did not come back into the hole")
	}
	f.ok(m.Unmap(p, count*unit)) // what three calls mapped
	f.unreachable("what is unmapped", p, count*unit)

	order := []int{5, 0, 1, 3, 4, 2}
	mixed := make([]device.Chunk, count)
	var mixedWant []byte
	for i, from := range order {
		mixed[i] = chunks[from]
		mixedWant = append(mixedWant, want[int64(from)*unit:][:unit]...)
	}
	at := p.Add(5 * unit)
	f.ok(m.Map(at, mixed, unit))
	for _, c := range chunks {
		f.ok(m.ReleaseChunk(c))
	}
	f.fails("Map of a released chunk", m.Map(p, chunks[:1], unit), nil)
	if !bytes.Equal(f.download(at, count*unit), mixedWant) {
		f.Error("chunks lost their content in another order")
	}
	f.fails("Unreserve of what is mapped", m.Unreserve(p, 2*count*unit), nil)
	f.ok(m.Unmap(at, count*unit))
	f.ok(m.Unreserve(p, 2*count*unit))
}

// Map maps all chunks or none.
func testVirtualMemoryAllOrNothing(f *fixture) {
	m, unit := f.mapper()
	p, err := m.Reserve(4 * unit)
	f.ok(err)
	chunks := f.chunks(m, 4, unit)
	double := f.chunks(m, 1, 2*unit)[0]
	f.ok(m.Map(p.Add(2*unit), chunks[3:], unit))
	want := unique(unit, 1)
	f.upload(p.Add(2*unit), want)
	for _, c := range []struct {
		what   string
		chunks []device.Chunk
		at     int64
		n      int64
	}{
		{"into a mapping", chunks[:3], 0, unit},
		{"past the end of the reservation", chunks[:2], 3 * unit, unit},
		{"with a chunk of another size", []device.Chunk{chunks[0], double}, 0, unit},
		{"with no chunk among them", []device.Chunk{chunks[0], 0}, 0, unit},
		{"of half of each chunk", chunks[:2], 0, unit / 2},
		{"of more than the address space", chunks, 0, math.MaxInt64/4 + 1},
	} {
		f.fails("Map "+c.what, m.Map(p.Add(c.at), c.chunks, c.n), nil)
		f.unreachable("what a failed Map began with ("+c.what+")", p, unit)
		f.unreachable("what a failed Map began with ("+c.what+")", p.Add(3*unit), unit)
	}
	if !bytes.Equal(f.download(p.Add(2*unit), unit), want) {
		f.Error("a failed Map changed what was mapped")
	}
	f.ok(m.Map(p, chunks[:2], unit)) // the chunks are none the worse
	f.upload(p, unique(2*unit, 2))
	f.ok(m.Unmap(p, 3*unit))
	f.ok(m.Map(p.Add(unit), []device.Chunk{double}, 2*unit))
	f.upload(p.Add(unit), unique(2*unit, 3))
	f.fails("Unmap of half a chunk", m.Unmap(p.Add(unit), unit), device.ErrArgument)
	f.ok(m.Unmap(p.Add(unit), 2*unit))
}

// Chunks and allocations share the device's memory, which is there again when
// they are gone.
func testVirtualMemoryCapacity(f *fixture) {
	m, unit := f.mapper()
	total := f.smallDevice()
	free := func() int64 {
		f.Helper()
		memory, err := f.dev.Memory()
		f.ok(err)
		return memory.FreeBytes
	}
	before := free()
	n := max(total/16/unit, 1) * unit
	mem := f.alloc(total / 4)
	for range 2 {
		var chunks []device.Chunk
		for {
			c, err := m.CreateChunk(n)
			if err != nil {
				f.fails("CreateChunk when full", err, device.ErrOutOfMemory)
				if !aSize.MatchString(err.Error()) {
					f.Errorf("no sizes in %q", err)
				}
				break
			}
			if chunks = append(chunks, c); int64(len(chunks))*n > total-total/4 {
				f.Fatalf("%d chunks of %d bytes beside %d on a device of %d", len(chunks), n, total/4, total)
			}
		}
		if len(chunks) < 6 {
			f.Errorf("full after %d chunks of a sixteenth", len(chunks))
		}
		_, err := f.dev.Alloc(2 * n)
		f.fails("Alloc when chunks fill the device", err, device.ErrOutOfMemory)
		full := free()
		p, err := m.Reserve(n)
		f.ok(err)
		f.ok(m.Map(p, chunks[:1], n))
		f.ok(m.ReleaseChunk(chunks[0]))
		if now := free(); now != full {
			f.Errorf("%d bytes free, %d after a chunk was released that is mapped", full, now)
		}
		f.ok(m.Unmap(p, n))
		if now := free(); now < full+n {
			f.Errorf("%d bytes free, %d after a chunk of %d was released and unmapped", full, now, n)
		}
		f.ok(m.Unreserve(p, n))
		for _, c := range chunks[1:] {
			f.ok(m.ReleaseChunk(c))
		}
	}
	f.ok(f.dev.Free(mem))
	if now := free(); now != before {
		f.Errorf("%d bytes free before and %d after all", before, now)
	}
}
