package memory

import (
	"bytes"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// newChunks makes that many chunks of n bytes each.
func newChunks(f *fixture.F, m device.Mapper, count int, n int64) []device.Chunk {
	f.Helper()
	list := make([]device.Chunk, count)
	for i := range list {
		var err error
		list[i], err = m.CreateChunk(n)
		f.OK(err)
	}
	return list
}

// unreachable checks that a range that is not all mapped can be neither copied
// nor asked for.
func unreachable(f *fixture.F, what string, p device.Ptr, n int64) {
	f.Helper()
	s := f.Stream()
	host := make([]byte, n)
	f.Fails("CopyH2D to "+what, s.CopyH2D(p, host), device.ErrPointer)
	f.Fails("CopyD2H from "+what, s.CopyD2H(host, p), device.ErrPointer)
	f.Fails("Memset of "+what, s.Memset(p, 1, n), device.ErrPointer)
	if c, ok := device.As[device.RangeChecker](f.Dev); ok {
		f.Fails("CheckRange of "+what, c.CheckRange(p, n), device.ErrPointer)
	}
	if c, ok := device.As[device.Caller](f.Dev); ok {
		_, err := c.Bytes(p, n)
		f.Fails("Bytes of "+what, err, device.ErrPointer)
	}
	f.OK(s.Close())
}

// Chunks are mapped at both ends of a reservation, written, taken away, mapped
// side by side elsewhere, and keep their content.
func testVirtualMemory(f *fixture.F) {
	m, unit := f.Mapper()
	s := f.Stream()
	low, err := m.Reserve(4 * unit)
	f.OK(err)
	first, err := m.CreateChunk(unit)
	f.OK(err)
	second, err := m.CreateChunk(2 * unit)
	f.OK(err)
	f.OK(m.Map(low, []device.Chunk{first}, unit))
	f.OK(m.Map(low.Add(2*unit), []device.Chunk{second}, 2*unit))

	want := fixture.Unique(3*unit, 1)
	f.OK(s.CopyH2D(low, want[:unit]))
	f.OK(s.CopyH2D(low.Add(2*unit), want[unit:]))
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(low, unit), want[:unit]) ||
		!bytes.Equal(f.Download(low.Add(2*unit), 2*unit), want[unit:]) {
		f.Fatal("mapped chunks bring the wrong content")
	}
	f.OK(m.Unmap(low, unit))
	f.OK(m.Unmap(low.Add(2*unit), 2*unit))

	stitched, err := m.Reserve(8 * unit)
	f.OK(err)
	at := stitched.Add(5 * unit)
	f.OK(m.Map(at, []device.Chunk{first}, unit))
	f.OK(m.Map(at.Add(unit), []device.Chunk{second}, 2*unit))
	f.OK(m.ReleaseChunk(first)) // the mapping keeps it
	if !bytes.Equal(f.Download(at, 3*unit), want) {
		f.Error("chunks lost their content on the way to another address")
	}
	mem := f.Alloc(2 * unit)
	f.OK(s.CopyD2D(mem, at.Add(unit/2+1), 2*unit))
	f.OK(s.Memset(at.Add(unit-3), 7, 6))
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(mem, 2*unit), want[unit/2+1:][:2*unit]) {
		f.Error("a copy across two chunks brought the wrong content")
	}
	if !bytes.Equal(f.Download(at.Add(unit-3), 6), bytes.Repeat([]byte{7}, 6)) {
		f.Error("Memset across two chunks set something else")
	}

	f.OK(m.Unmap(at, unit))
	f.OK(m.Unmap(at.Add(unit), 2*unit))
	f.OK(m.ReleaseChunk(second))
	f.OK(m.Unreserve(stitched, 8*unit))
	f.OK(m.Unreserve(low, 4*unit))

	// And some that Close has to find.
	left, err := m.Reserve(2 * unit)
	f.OK(err)
	chunk, err := m.CreateChunk(unit)
	f.OK(err)
	f.OK(m.Map(left, []device.Chunk{chunk}, unit))
}

func testVirtualMemoryErrors(f *fixture.F) {
	m, unit := f.Mapper()
	free := func() int64 {
		f.Helper()
		memory, err := f.Dev.Memory()
		f.OK(err)
		return memory.FreeBytes
	}
	before := free()
	total := f.Dev.Info().TotalBytes
	beyond := (total/unit + 1) * unit
	p, err := m.Reserve(beyond) // address space is not memory
	f.OK(err)
	chunk, err := m.CreateChunk(unit)
	f.OK(err)
	f.OK(m.Map(p, []device.Chunk{chunk}, unit))
	if total <= fixture.Small {
		if now := free(); now > before-unit {
			f.Errorf("%d bytes free before and %d after a chunk of %d", before, now, unit)
		}
	}
	badSizes := []int64{0, -unit, unit - 1, unit + 1, math.MinInt64}
	for _, n := range badSizes {
		_, err := m.Reserve(n)
		f.Fails("Reserve of a bad size", err, device.ErrArgument)
		_, err = m.CreateChunk(n)
		f.Fails("CreateChunk of a bad size", err, device.ErrArgument)
		f.Fails("Map of a bad size", m.Map(p.Add(unit), []device.Chunk{chunk}, n), device.ErrArgument)
	}
	_, err = m.CreateChunk(beyond)
	f.Fails("CreateChunk of more than all", err, device.ErrOutOfMemory)
	f.Fails("Map over a mapping", m.Map(p, []device.Chunk{chunk}, unit), nil)
	f.Fails("Map at an odd address", m.Map(p.Add(unit+256), []device.Chunk{chunk}, unit), nil)
	f.Fails("Map of no chunk", m.Map(p.Add(unit), []device.Chunk{0}, unit), nil)
	f.Fails("Map outside a reservation", m.Map(0, []device.Chunk{chunk}, unit), nil)
	f.Fails("Unmap of what is not mapped", m.Unmap(p.Add(unit), unit), nil)
	f.Fails("Unreserve of another address", m.Unreserve(p.Add(unit), unit), nil)
	f.Fails("ReleaseChunk of none", m.ReleaseChunk(0), nil)
	for _, n := range badSizes {
		f.Fails("Unmap of a bad size", m.Unmap(p, n), device.ErrArgument)
	}
	f.Upload(p, fixture.Unique(unit, 1)) // still mapped
	f.OK(m.Unmap(p, unit))
	f.OK(m.ReleaseChunk(chunk))
	f.Fails("the second ReleaseChunk", m.ReleaseChunk(chunk), nil)
	f.OK(m.Unreserve(p, beyond))
	f.Fails("the second Unreserve", m.Unreserve(p, beyond), nil)
	if total <= fixture.Small {
		if now := free(); now != before {
			f.Errorf("%d bytes free before and %d after all", before, now)
		}
	}
}

// Several chunks are mapped by one call, taken out in other pieces than they
// came in, and mapped again in another order: the content stays with the
// chunk.
func testVirtualMemoryMany(f *fixture.F) {
	m, unit := f.Mapper()
	const count = 6
	p, err := m.Reserve(2 * count * unit)
	f.OK(err)
	chunks := newChunks(f, m, count, unit)
	handed := slices.Clone(chunks)
	f.OK(m.Map(p, handed[:4], unit))
	f.OK(m.Map(p.Add(4*unit), handed[4:], unit))
	clear(handed) // the slice is the caller's again
	f.OK(m.Map(p.Add(count*unit), nil, unit))

	want := fixture.Unique(count*unit, 1)
	f.Upload(p, want)
	if !bytes.Equal(f.Download(p.Add(unit-1), 4*unit+2), want[unit-1:5*unit+1]) {
		f.Fatal("the chunks of two calls are not one range")
	}
	mem := f.Alloc(2 * unit)
	s := f.Stream()
	if b, ok := device.As[device.BatchCopier](f.Dev); ok && b.CanCopyBatch() {
		f.OK(b.CopyBatch(s, []device.Span{{Dst: mem, Src: p.Add(unit / 2), Bytes: unit}, {Dst: mem.Add(unit), Src: p.Add(2*unit + 1), Bytes: unit}}))
		f.OK(s.Synchronize())
		if !bytes.Equal(f.Download(mem, 2*unit), slices.Concat(want[unit/2:][:unit], want[2*unit+1:][:unit])) {
			f.Error("a batch across chunks brought the wrong content")
		}
	}
	if c, ok := device.As[device.BoxCopier](f.Dev); ok {
		box := device.Box{
			Dst: mem, Src: p.Add(16), RowBytes: 1000, Rows: count, Planes: 1,
			DstRowStride: 1000, SrcRowStride: unit - 16, DstPlaneStride: count * 1000, SrcPlaneStride: count * (unit - 16),
		}
		if c.CanCopyBox(box) {
			f.OK(c.CopyBox(s, box))
			f.OK(s.Synchronize())
			got := f.Download(mem, count*1000)
			for i := range int64(count) {
				if !bytes.Equal(got[i*1000:][:1000], want[16+i*(unit-16):][:1000]) {
					f.Errorf("row %d of a box across chunks has the wrong content", i)
				}
			}
		}
	}
	if c, ok := device.As[device.Caller](f.Dev); ok {
		b, err := c.Bytes(p, count*unit)
		f.OK(err)
		f.OK(c.Call(s, func() error { b[2*unit]++; return nil }))
		f.OK(s.Synchronize())
		want[2*unit]++
	}

	// From the middle, over the border between the two calls.
	f.OK(m.Unmap(p.Add(3*unit), 2*unit))
	unreachable(f, "a hole", p.Add(3*unit), unit)
	unreachable(f, "a range with a hole", p, count*unit)
	unreachable(f, "a range that ends in a hole", p.Add(2*unit), unit+1)
	unreachable(f, "a range that starts in a hole", p.Add(5*unit-1), unit)
	f.Fails("Unmap over a hole", m.Unmap(p, count*unit), device.ErrArgument)
	f.Fails("Unmap of half a chunk", m.Unmap(p, unit/2), device.ErrArgument)
	f.Fails("Unmap from half a chunk", m.Unmap(p.Add(unit/2), unit), device.ErrArgument)
	if !bytes.Equal(f.Download(p, 3*unit), want[:3*unit]) || !bytes.Equal(f.Download(p.Add(5*unit), unit), want[5*unit:]) {
		f.Error("what stayed mapped has changed")
	}
	f.OK(m.Map(p.Add(3*unit), chunks[3:5], unit))
	if !bytes.Equal(f.Download(p, count*unit), want) {
		f.Error("the content did not come back into the hole")
	}
	f.OK(m.Unmap(p, count*unit)) // what three calls mapped
	unreachable(f, "what is unmapped", p, count*unit)

	order := []int{5, 0, 1, 3, 4, 2}
	mixed := make([]device.Chunk, count)
	var mixedWant []byte
	for i, from := range order {
		mixed[i] = chunks[from]
		mixedWant = append(mixedWant, want[int64(from)*unit:][:unit]...)
	}
	at := p.Add(5 * unit)
	f.OK(m.Map(at, mixed, unit))
	for _, c := range chunks {
		f.OK(m.ReleaseChunk(c))
	}
	f.Fails("Map of a released chunk", m.Map(p, chunks[:1], unit), nil)
	if !bytes.Equal(f.Download(at, count*unit), mixedWant) {
		f.Error("chunks lost their content in another order")
	}
	f.Fails("Unreserve of what is mapped", m.Unreserve(p, 2*count*unit), nil)
	f.OK(m.Unmap(at, count*unit))
	f.OK(m.Unreserve(p, 2*count*unit))
}

// Map maps all chunks or none.
func testVirtualMemoryAllOrNothing(f *fixture.F) {
	m, unit := f.Mapper()
	p, err := m.Reserve(4 * unit)
	f.OK(err)
	chunks := newChunks(f, m, 4, unit)
	double := newChunks(f, m, 1, 2*unit)[0]
	f.OK(m.Map(p.Add(2*unit), chunks[3:], unit))
	want := fixture.Unique(unit, 1)
	f.Upload(p.Add(2*unit), want)
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
		f.Fails("Map "+c.what, m.Map(p.Add(c.at), c.chunks, c.n), nil)
		unreachable(f, "what a failed Map began with ("+c.what+")", p, unit)
		unreachable(f, "what a failed Map began with ("+c.what+")", p.Add(3*unit), unit)
	}
	if !bytes.Equal(f.Download(p.Add(2*unit), unit), want) {
		f.Error("a failed Map changed what was mapped")
	}
	f.OK(m.Map(p, chunks[:2], unit)) // the chunks are none the worse
	f.Upload(p, fixture.Unique(2*unit, 2))
	f.OK(m.Unmap(p, 3*unit))
	f.OK(m.Map(p.Add(unit), []device.Chunk{double}, 2*unit))
	f.Upload(p.Add(unit), fixture.Unique(2*unit, 3))
	f.Fails("Unmap of half a chunk", m.Unmap(p.Add(unit), unit), device.ErrArgument)
	f.OK(m.Unmap(p.Add(unit), 2*unit))
}

// Chunks and allocations share the device's memory, which is there again when
// they are gone.
func testVirtualMemoryCapacity(f *fixture.F) {
	m, unit := f.Mapper()
	total := f.SmallDevice()
	free := func() int64 {
		f.Helper()
		memory, err := f.Dev.Memory()
		f.OK(err)
		return memory.FreeBytes
	}
	before := free()
	n := max(total/16/unit, 1) * unit
	mem := f.Alloc(total / 4)
	for range 2 {
		var chunks []device.Chunk
		for {
			c, err := m.CreateChunk(n)
			if err != nil {
				f.Fails("CreateChunk when full", err, device.ErrOutOfMemory)
				if !fixture.ASize.MatchString(err.Error()) {
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
		_, err := f.Dev.Alloc(2 * n)
		f.Fails("Alloc when chunks fill the device", err, device.ErrOutOfMemory)
		full := free()
		p, err := m.Reserve(n)
		f.OK(err)
		f.OK(m.Map(p, chunks[:1], n))
		f.OK(m.ReleaseChunk(chunks[0]))
		if now := free(); now != full {
			f.Errorf("%d bytes free, %d after a chunk was released that is mapped", full, now)
		}
		f.OK(m.Unmap(p, n))
		if now := free(); now < full+n {
			f.Errorf("%d bytes free, %d after a chunk of %d was released and unmapped", full, now, n)
		}
		f.OK(m.Unreserve(p, n))
		for _, c := range chunks[1:] {
			f.OK(m.ReleaseChunk(c))
		}
	}
	f.OK(f.Dev.Free(mem))
	if now := free(); now != before {
		f.Errorf("%d bytes free before and %d after all", before, now)
	}
}

// A chunk that is mapped at two places has the same content at both, whichever it
// was written at.
func testVirtualMemoryTwice(f *fixture.F) {
	m, unit := f.Mapper()
	s := f.Stream()
	chunks := newChunks(f, m, 2, unit)
	p, err := m.Reserve(4 * unit)
	f.OK(err)
	first, second := p, p.Add(2*unit)
	f.OK(m.Map(first, chunks, unit))
	f.OK(m.Map(second, chunks[:1], unit))
	want := fixture.Unique(unit, 2)
	half := unit / 2
	f.OK(s.CopyH2D(first, want[:half]))
	f.OK(s.CopyH2D(second.Add(half), want[half:]))
	f.OK(s.Synchronize())
	for _, at := range []device.Ptr{first, second} {
		if !bytes.Equal(f.Download(at, unit), want) {
			f.Errorf("a chunk at two places has other content at %#x", uint64(at))
		}
	}
	f.OK(m.Unmap(first, 2*unit))
	if !bytes.Equal(f.Download(second, unit), want) {
		f.Error("a chunk lost its content when one of two mappings went")
	}
	f.OK(m.Unmap(second, unit))
	for _, c := range chunks {
		f.OK(m.ReleaseChunk(c))
	}
	f.OK(m.Unreserve(p, 4*unit))
}
