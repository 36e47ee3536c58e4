package conformance

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// copySizes are around the powers at which a copy may change its ways.
var copySizes = []int64{
	0, 1, 2, 3, 255, 256, 257, 4095, 4096, 4097, 65535, 65537,
	1<<20 - 1, 1 << 20, 1<<20 + 1, 64 << 20, 64<<20 - 1,
}

// copyOffsets are those of source and destination.
var copyOffsets = [][2]int64{{0, 0}, {1, 0}, {0, 1}, {3, 7}, {255, 129}, {4095, 257}}

// Guards are bytes around a destination that must stay as they are. An offset
// fits into them.
const (
	guardBytes = 4096
	guardValue = 0xA5
)

var guard = bytes.Repeat([]byte{guardValue}, 2*guardBytes)

func testCopyPageable(f *fixture.F) {
	testCopies(f, func(n int64) []byte { return make([]byte, n) })
}

func testCopyPinned(f *fixture.F) { testCopies(f, f.Pinned) }

// testCopies takes bytes from host to device, to another place there, and back
// to the host, for all sizes and offsets, and looks at what stands around them.
func testCopies(f *fixture.F, hostMemory func(int64) []byte) {
	most := copySizes[len(copySizes)-2] + 2*guardBytes
	if f.Dev.Info().TotalBytes < 3*most || testing.Short() {
		most = 1<<20 + 1 + 2*guardBytes
	}
	from, back := hostMemory(most), hostMemory(most)
	fixture.Scramble(from, 1)
	a, b := f.Alloc(most), f.Alloc(most)
	s := f.Stream()
	for _, n := range copySizes {
		all := n + 2*guardBytes
		if all > most {
			continue
		}
		for i, at := range copyOffsets {
			if n > 1<<20+1 && i != int(n%2)*3 { // once is enough for the largest
				continue
			}
			src, dst := at[0], guardBytes-1-at[1]
			what := fmt.Sprintf("%d bytes from offset %d to %d", n, src, dst)
			copy(back[:dst], guard)
			clear(back[dst : dst+n])
			copy(back[dst+n:all], guard)
			f.OK(s.Memset(a, guardValue, all))
			f.OK(s.Memset(b, guardValue, all))
			f.OK(s.CopyH2D(a.Add(dst), from[src:src+n]))
			f.OK(s.CopyD2D(b.Add(src), a.Add(dst), n))
			f.OK(s.CopyD2H(back[dst:dst+n], b.Add(src)))
			f.OK(s.Synchronize())
			want := from[src : src+n]
			guarded(f, "D2H, "+what, back[:all], dst, want)
			f.OK(s.CopyD2H(back[:all], a))
			f.OK(s.Synchronize())
			guarded(f, "H2D, "+what, back[:all], dst, want)
			f.OK(s.CopyD2H(back[:all], b))
			f.OK(s.Synchronize())
			guarded(f, "D2D, "+what, back[:all], src, want)
		}
	}
}

// guarded checks that b is want at offset at, and guard bytes around it.
func guarded(f *fixture.F, what string, b []byte, at int64, want []byte) {
	f.Helper()
	end := at + int64(len(want))
	if !bytes.Equal(b[at:end], want) {
		f.Fatalf("%s: wrong content", what)
	}
	for _, outside := range [][]byte{b[:at], b[end:]} {
		if !bytes.Equal(outside, guard[:len(outside)]) {
			f.Fatalf("%s: bytes outside changed", what)
		}
	}
}

func testCopyArguments(f *fixture.F) {
	const n = 1 << 10
	s := f.Stream()
	p, q := f.Alloc(n), f.Alloc(n)
	f.Upload(p, fixture.Unique(n, 1))

	f.OK(s.CopyH2D(p, nil))
	f.OK(s.CopyH2D(p, []byte{}))
	f.OK(s.CopyD2H(nil, p))
	f.OK(s.CopyD2H([]byte{}, p))
	f.OK(s.CopyD2D(q, p, 0))
	f.OK(s.Memset(p, 1, 0))
	f.OK(s.Synchronize())

	for _, n := range []int64{-1, math.MinInt64} {
		f.Fails("CopyD2D of less than nothing", s.CopyD2D(q, p, n), device.ErrArgument)
		f.Fails("Memset of less than nothing", s.Memset(p, 1, n), device.ErrArgument)
	}
	b := make([]byte, 16)
	f.Fails("CopyH2D to address zero", s.CopyH2D(0, b), device.ErrPointer)
	f.Fails("CopyD2H from address zero", s.CopyD2H(b, 0), device.ErrPointer)
	f.Fails("CopyD2D to address zero", s.CopyD2D(0, p, 16), device.ErrPointer)
	f.Fails("CopyD2D from address zero", s.CopyD2D(q, 0, 16), device.ErrPointer)
	f.Fails("Memset at address zero", s.Memset(0, 1, 16), device.ErrPointer)

	f.OK(s.Synchronize()) // what failed at once leaves no error behind
	if !bytes.Equal(f.Download(p, n), fixture.Unique(n, 1)) {
		f.Error("copies of nothing changed something")
	}
}

// A device whose memory Go functions see knows where its allocations end. On
// others a stray address may hit a neighbour or worse, so nothing is tried.
func testCopyOutside(f *fixture.F) {
	f.Caller()
	const n = 1 << 16
	s := f.Stream()
	p, gone := f.Alloc(n), f.Alloc(n)
	f.OK(f.Dev.Free(gone))
	b := make([]byte, n+1)
	for _, c := range []struct {
		what string
		err  error
	}{
		{"H2D too long", s.CopyH2D(p, b)},
		{"H2D over the end", s.CopyH2D(p.Add(n-1), b[:2])},
		{"H2D before the start", s.CopyH2D(p.Add(-1), b[:2])},
		{"H2D to freed memory", s.CopyH2D(gone, b[:n])},
		{"D2H too long", s.CopyD2H(b, p)},
		{"D2H from freed memory", s.CopyD2H(b[:n], gone)},
		{"D2D to freed memory", s.CopyD2D(gone, p, n)},
		{"D2D from freed memory", s.CopyD2D(p, gone, n)},
		{"D2D too long", s.CopyD2D(p, p, math.MaxInt64)},
		{"Memset too long", s.Memset(p, 0, n+1)},
		{"Memset of everything", s.Memset(p, 0, math.MaxInt64)},
		{"Memset of freed memory", s.Memset(gone, 0, 1)},
	} {
		f.Fails(c.what, c.err, device.ErrPointer)
	}
}

func testMemset(f *fixture.F) {
	const most = 1<<20 + 1 + 2*guardBytes
	p := f.Alloc(most)
	s := f.Stream()
	got := make([]byte, most)
	for _, n := range copySizes {
		all := n + 2*guardBytes
		if all > most {
			continue
		}
		for i, value := range []byte{0, 1, 0x80, 0xFF} {
			at := copyOffsets[i+1][0]
			f.OK(s.Memset(p, guardValue, all))
			f.OK(s.Memset(p.Add(at), value, n))
			f.OK(s.CopyD2H(got[:all], p))
			f.OK(s.Synchronize())
			guarded(f, fmt.Sprintf("Memset of %d bytes at %d to %d", n, at, value),
				got[:all], at, bytes.Repeat([]byte{value}, int(n)))
		}
	}
}
