package transfer

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
)

// Random boxes inside the device, byte by byte: those that are taken copy
// what they say, and never onto what they read or wrote.
func TestBoxRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const n = 400
	taken, refused, columns := 0, 0, 0
	for range 100_000 {
		stride := func(least int64) int64 { return max(least+rng.Int64N(12)-3, 0) }
		b := Box{
			Dst: Device(1<<20+device.Ptr(rng.Int64N(n)), n), Src: Device(1<<20+device.Ptr(rng.Int64N(n)), n),
			DstOffset: rng.Int64N(n / 4), SrcOffset: rng.Int64N(n / 4),
			RowBytes: 1 + rng.Int64N(8), Rows: rng.Int64N(5), Planes: rng.Int64N(4),
		}
		b.DstRowStride, b.SrcRowStride = stride(b.RowBytes), stride(b.RowBytes)
		if rng.IntN(2) > 0 { // columns of one matrix
			b.SrcRowStride, b.Src = b.DstRowStride, b.Dst
		}
		if rng.IntN(3) > 0 {
			plane := max(b.Rows, 1) * max(b.DstRowStride, b.RowBytes)
			b.DstPlaneStride, b.SrcPlaneStride = stride(plane), plane
		}
		list, err := b.rows()
		if err != nil && !errors.Is(err, device.ErrArgument) {
			t.Fatal(err)
		}
		// The same by the words of the documentation.
		packed := func(stride, packed int64) int64 {
			if stride == 0 {
				return packed
			}
			return stride
		}
		rows, planes := max(b.Rows, 1), max(b.Planes, 1)
		dstRow, srcRow := packed(b.DstRowStride, b.RowBytes), packed(b.SrcRowStride, b.RowBytes)
		dstPlane, srcPlane := packed(b.DstPlaneStride, rows*dstRow), packed(b.SrcPlaneStride, rows*srcRow)
		if min(dstRow, srcRow) < b.RowBytes && min(b.DstPlaneStride, b.SrcPlaneStride) == 0 {
			continue // rows that overlap have no place behind them
		}
		from := map[int64]int64{} // destination to source, in bytes
		read := map[device.Ptr]bool{}
		good := true
		for p := range planes {
			for y := range rows {
				for x := range b.RowBytes {
					dst, src := b.DstOffset+p*dstPlane+y*dstRow+x, b.SrcOffset+p*srcPlane+y*srcRow+x
					_, twice := from[dst]
					good = good && !twice && dst < n && src < n
					from[dst] = src
					read[b.Src.device.Add(src)] = true
				}
			}
		}
		for dst := range from {
			good = good && !read[b.Dst.device.Add(dst)]
		}
		if err != nil {
			refused++
			continue
		}
		if !good {
			t.Fatalf("%+v overlaps or reaches outside", b)
		}
		taken++
		if first, last := b.Dst.device.Add(list.dst), b.Src.device.Add(list.src); first < last.Add(list.end(list.srcRow, list.srcPlane)) &&
			last < first.Add(list.end(list.dstRow, list.dstPlane)) {
			columns++
		}
		total, unit := int64(0), list.unit()
		for i := range list.count() {
			k := list.at(i)
			if at, start := list.find(total + k.Bytes - 1); at != i || start != total {
				t.Fatalf("%+v: byte %d is in row %d, which starts at %d, not row %d at %d", b, total+k.Bytes-1, at, start, i, total)
			}
			total += k.Bytes
			if k.Dst%unit != 0 || k.Src%unit != 0 || k.Bytes%unit != 0 {
				t.Fatalf("%+v: row %+v is not of units of %d", b, k, unit)
			}
			for x := range k.Bytes {
				if src, ok := from[k.Dst+x]; !ok || src != k.Src+x {
					t.Fatalf("%+v: byte %d comes from %d, want %d (%t)", b, k.Dst+x, k.Src+x, src, ok)
				}
				delete(from, k.Dst+x)
			}
		}
		if len(from) != 0 || total != list.total() || total != rows*planes*b.RowBytes {
			t.Fatalf("%+v: %d bytes are left of %d", b, len(from), list.total())
		}
	}
	if taken < 1000 || refused < 1000 || columns < 100 {
		t.Errorf("%d boxes taken, %d refused, %d alternate", taken, refused, columns)
	}
}
