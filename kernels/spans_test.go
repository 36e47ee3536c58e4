package kernels_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/kernels"
)

// The device reads entries where kernels.cu has them.
func TestSpanEntryLayout(t *testing.T) {
	var e kernels.SpanEntry
	got := [4]uintptr{unsafe.Offsetof(e.Dst), unsafe.Offsetof(e.Src), unsafe.Offsetof(e.End), unsafe.Sizeof(e)}
	if want := [4]uintptr{0, 8, 16, 24}; got != want {
		t.Errorf("offsets of Dst, Src and End, and size: %d, want %d", got, want)
	}
}

func entryBytes(entries []kernels.SpanEntry) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, entries)
	return b
}

// spansCase is copies of lengths units each, of Unit bytes.
type spansCase struct {
	unit    int
	lengths []int
	blocks  int
}

// lengths makes n random lengths, one in four of them 0.
func lengths(rng *rand.Rand, n, most int) []int {
	list := make([]int, n)
	for i := range list {
		if rng.IntN(4) > 0 {
			list[i] = rng.IntN(most + 1)
		}
	}
	return list
}

func spansCases(rng *rand.Rand) []spansCase {
	var cases []spansCase
	single := slices.Repeat([]int{1}, 3000) // tiles of as many entries as units
	for _, unit := range []int{16, 4, 1} {
		cases = append(cases,
			spansCase{unit, []int{1}, 0},
			spansCase{unit, []int{0, 0, 1, 0}, 0},
			spansCase{unit, []int{0, 0}, 0},
			spansCase{unit, []int{70001}, 0}, // over many tiles
			spansCase{unit, []int{70001}, 3},
			spansCase{unit, []int{1024, 1024, 1024}, 1}, // tiles that are full
			spansCase{unit, []int{1, 50000, 1, 1023, 1}, 2},
			spansCase{unit, single, 0},
			spansCase{unit, single, 1},
			spansCase{unit, make([]int, 40000), 0},
			spansCase{unit, append(make([]int, 40000), 5), 0}, // a tile of 40001 entries
			spansCase{unit, lengths(rng, 5000, 9), 7})
		for range 25 {
			cases = append(cases, spansCase{unit, lengths(rng, 1+rng.IntN(100), 1+rng.IntN(900)), rng.IntN(5)})
		}
	}
	return cases
}

// spans is a case laid out: in dst the copies lie in random order with gaps
// between, in src anywhere.
type spans struct {
	offsets [][2]int // bytes into dst and src, for each length
	dst     int      // bytes
	content []byte   // of src
	want    []byte   // dst, when all is done
}

func (c spansCase) lay(rng *rand.Rand) spans {
	longest := 0
	for _, n := range c.lengths {
		longest = max(longest, n)
	}
	s := spans{offsets: make([][2]int, len(c.lengths)), content: random(rng, (longest+50)*c.unit)}
	for _, i := range rng.Perm(len(c.lengths)) {
		s.offsets[i] = [2]int{s.dst * c.unit, rng.IntN(longest+50-c.lengths[i]) * c.unit}
		s.dst += c.lengths[i] + rng.IntN(3)
	}
	s.dst *= c.unit
	s.want = bytes.Repeat([]byte{poison}, s.dst)
	for i, at := range s.offsets {
		copy(s.want[at[0]:], s.content[at[1]:][:c.lengths[i]*c.unit])
	}
	return s
}

// queue uploads the list and queues the copies, without waiting between. The
// list must be freed when they are done.
func (f *fixture) queue(c spansCase, s spans, dst, src device.Ptr) (list device.Ptr) {
	f.Helper()
	entries := make([]kernels.SpanEntry, len(c.lengths))
	end := int64(0)
	for i, at := range s.offsets {
		end += int64(c.lengths[i])
		entries[i] = kernels.SpanEntry{Dst: dst.Add(int64(at[0])), Src: src.Add(int64(at[1])), End: end}
		if c.lengths[i] == 0 {
			entries[i].Dst, entries[i].Src = 0, 1 // nobody looks
		}
	}
	b := entryBytes(entries)
	list, err := f.dev.Alloc(int64(len(b)))
	testkit.OK(f, err)
	testkit.OK(f, f.stream.CopyH2D(list, b))
	testkit.OK(f, f.set.CopySpans(f.stream, kernels.SpanList{
		Entries: list, N: int64(len(entries)), Units: end, Unit: int64(c.unit), Blocks: c.blocks}))
	return list
}

// differ fails the test at the first byte that is wrong.
func (f *fixture) differ(c spansCase, got, want []byte) {
	f.Helper()
	if bytes.Equal(got, want) {
		return
	}
	for i := range want {
		if got[i] != want[i] {
			f.Fatalf("%d copies in units of %d bytes with %d blocks: byte %d of %d is %#x, want %#x",
				len(c.lengths), c.unit, c.blocks, i, len(want), got[i], want[i])
		}
	}
}

func TestCopySpans(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(8, 8))
	for _, c := range spansCases(rng) {
		s := c.lay(rng)
		src, dst := f.upload(s.content, c.unit*rng.IntN(4)), f.result(s.dst, c.unit*rng.IntN(4))
		list := f.queue(c, s, dst.p, src.p)
		f.differ(c, dst.download(), s.want)
		testkit.OK(t, f.dev.Free(list))
		src.free()
		dst.free()
	}
}

// TestCopySpansMapped copies from pinned host memory to the device and back to
// pinned host memory, by their mapped addresses.
func TestCopySpansMapped(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(9, 9))
	for _, c := range []spansCase{
		{16, lengths(rng, 200, 300), 0},
		{16, lengths(rng, 200, 300), 2},
		{4, lengths(rng, 300, 200), 0},
		{1, lengths(rng, 500, 100), 3},
	} {
		s := c.lay(rng)
		from, src := f.mapped(int64(len(s.content)))
		copy(from, s.content)
		dst := f.result(s.dst, 0)
		list := f.queue(c, s, dst.p, src)
		f.differ(c, dst.download(), s.want)
		testkit.OK(t, f.dev.Free(list))
		dst.free()

		up := f.upload(s.content, 0)
		to, back := f.mapped(int64(s.dst) + guard)
		for i := range to {
			to[i] = poison
		}
		list = f.queue(c, s, back, up.p)
		testkit.OK(t, f.stream.Synchronize())
		f.differ(c, to, append(s.want, bytes.Repeat([]byte{poison}, guard)...))
		testkit.OK(t, f.dev.Free(list))
		up.free()
	}
}

// TestCopySpansHuge has copies that begin, go on and end behind unit 2^32.
func TestCopySpansHuge(t *testing.T) {
	f := open(t)
	if _, ok := device.As[device.Launcher](f.dev); !ok {
		t.Skip("for compiled kernels: it takes 8 GiB of the device's memory")
	}
	const huge, tail = 1<<32 + 777, 1 << 16
	memory, err := f.dev.Memory()
	testkit.OK(t, err)
	if memory.FreeBytes < 10<<30 {
		t.Skipf("it takes 8 GiB of the device's memory, and %d bytes are free", memory.FreeBytes)
	}
	src, err := f.dev.Alloc(huge + tail)
	testkit.OK(t, err)
	dst, err := f.dev.Alloc(huge + tail)
	testkit.OK(t, err)
	content := random(rand.New(rand.NewPCG(10, 10)), 2*tail)
	testkit.OK(t, f.stream.Memset(src, 1, huge+tail))
	testkit.OK(t, f.stream.Memset(dst, poison, huge+tail))
	testkit.OK(t, f.stream.CopyH2D(src.Add(huge-tail), content))
	entries := []kernels.SpanEntry{
		{Dst: dst, Src: src, End: 3},
		{Dst: dst.Add(3), Src: src.Add(3), End: huge},
		{Dst: dst.Add(huge), Src: src.Add(huge), End: huge + tail - 5},
	}
	list := f.upload(entryBytes(entries), 0)
	testkit.OK(t, f.set.CopySpans(f.stream, kernels.SpanList{Entries: list.p, N: 3, Units: huge + tail - 5, Unit: 1}))
	first, last := make([]byte, tail), make([]byte, 2*tail)
	testkit.OK(t, f.stream.CopyD2H(first, dst))
	testkit.OK(t, f.stream.CopyD2H(last, dst.Add(huge-tail)))
	testkit.OK(t, f.stream.Synchronize())
	copy(content[2*tail-5:], bytes.Repeat([]byte{poison}, 5))
	if !bytes.Equal(first, bytes.Repeat([]byte{1}, tail)) || !bytes.Equal(last, content) {
		t.Error("the first or the last bytes are wrong")
	}
}

// TestCopySpansReadsListLate: the list counts as it is when the work runs.
func TestCopySpansReadsListLate(t *testing.T) {
	f := open(t)
	caller, ok := device.As[device.Caller](f.dev)
	if !ok {
		t.Skip("for Go functions, which can hold the stream up")
	}
	gate := make(chan struct{})
	testkit.OK(t, caller.Call(f.stream, func() error { <-gate; return nil }))
	c := spansCase{unit: 1, lengths: []int{3, 4}}
	s := c.lay(rand.New(rand.NewPCG(11, 11)))
	src, err := f.dev.Alloc(int64(len(s.content)))
	testkit.OK(t, err)
	dst, err := f.dev.Alloc(int64(s.dst))
	testkit.OK(t, err)
	testkit.OK(t, f.stream.CopyH2D(src, s.content))
	testkit.OK(t, f.stream.Memset(dst, poison, int64(s.dst)))
	f.queue(c, s, dst, src)
	close(gate)
	got := make([]byte, s.dst)
	testkit.OK(t, f.stream.CopyD2H(got, dst))
	testkit.OK(t, f.stream.Synchronize())
	f.differ(c, got, s.want)
}

// TestCopySpansBadEntries: Go functions look at what the list says.
func TestCopySpansBadEntries(t *testing.T) {
	f := open(t)
	if _, ok := device.As[device.Caller](f.dev); !ok {
		t.Skip("compiled kernels cannot check the list")
	}
	buf, source := f.result(2048, 0), f.upload(make([]byte, 2048), 0)
	defer buf.free()
	defer source.free()
	p, q := buf.p, source.p
	freed, err := f.dev.Alloc(1 << 20)
	testkit.OK(t, err)
	testkit.OK(t, f.dev.Free(freed))
	for name, c := range map[string]struct {
		entries []kernels.SpanEntry // 4 units of 16 bytes
		want    error
	}{
		"no Dst":             {[]kernels.SpanEntry{{0, q, 4}}, device.ErrPointer},
		"no Src":             {[]kernels.SpanEntry{{p, 0, 4}}, device.ErrPointer},
		"freed Dst":          {[]kernels.SpanEntry{{p, q, 0}, {freed, q, 4}}, device.ErrPointer},
		"freed Src":          {[]kernels.SpanEntry{{p, q, 0}, {p, freed, 4}}, device.ErrPointer},
		"odd Dst":            {[]kernels.SpanEntry{{p + 8, q, 4}}, device.ErrArgument},
		"odd Src":            {[]kernels.SpanEntry{{p, q + 1, 4}}, device.ErrArgument},
		"End falls":          {[]kernels.SpanEntry{{p, q, 0}, {p, q, -1}, {p, q, 4}}, device.ErrArgument},
		"first End negative": {[]kernels.SpanEntry{{p, q, -4}, {p, q, 4}}, device.ErrArgument},
		"too many units":     {[]kernels.SpanEntry{{p, q, 5}}, device.ErrArgument},
		"too few units":      {[]kernels.SpanEntry{{0, 0, 0}, {0, 0, 0}}, device.ErrArgument},
		"huge End":           {[]kernels.SpanEntry{{p, q, 1 << 62}, {p, q, 4}}, device.ErrArgument},
	} {
		list := f.upload(entryBytes(c.entries), 0)
		testkit.OK(t, f.set.CopySpans(f.stream, kernels.SpanList{Entries: list.p, N: int64(len(c.entries)), Units: 4, Unit: 16}))
		if err := f.stream.Synchronize(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		list.free()
	}
	for i, x := range buf.download() {
		if x != poison {
			t.Fatalf("a bad entry made byte %d %#x", i, x)
		}
	}
	if err := f.set.CopySpans(f.stream, kernels.SpanList{Entries: freed, N: 1, Units: 1, Unit: 1}); !errors.Is(err, device.ErrPointer) {
		t.Errorf("a list that was freed: %v, want ErrPointer", err)
	}
}

// BenchmarkCopySpans copies spans in random order over the link, both ways,
// with as many thread blocks as the work has and with few.
func BenchmarkCopySpans(b *testing.B) {
	f := open(b)
	rng := rand.New(rand.NewPCG(12, 12))
	const size = 64 << 20
	for _, way := range []string{"h2d", "d2h"} {
		for _, spanBytes := range []int64{512, 4 << 10, 16 << 10, 256 << 10, size} {
			for _, blocks := range []int{0, 8, 16, 32, 64} {
				b.Run(fmt.Sprintf("%s/span=%d/blocks=%d", way, spanBytes, blocks), func(b *testing.B) {
					g := *f
					g.TB = b
					_, from := g.mapped(size)
					dst := g.result(size, 0)
					defer dst.free()
					to := dst.p
					if way == "d2h" {
						from, to = to, from
					}
					n := size / spanBytes
					entries := make([]kernels.SpanEntry, n)
					for i, at := range rng.Perm(int(n)) {
						entries[i] = kernels.SpanEntry{
							Dst: to.Add(int64(i) * spanBytes), Src: from.Add(int64(at) * spanBytes), End: int64(i+1) * spanBytes / 16}
					}
					list := g.upload(entryBytes(entries), 0)
					defer list.free()
					l := kernels.SpanList{Entries: list.p, N: n, Units: size / 16, Unit: 16, Blocks: blocks}
					b.SetBytes(size)
					for b.Loop() {
						testkit.OK(b, g.set.CopySpans(g.stream, l))
						testkit.OK(b, g.stream.Synchronize())
					}
				})
			}
		}
	}
}
