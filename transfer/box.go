package transfer

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/kernels"
)

// Box describes a strided copy, the slice of a tensor: Planes x Rows rows of
// RowBytes bytes. Strides are in bytes, from the start of a row, or of a
// plane, to the start of the next; zero means that rows, or planes, are adjacent.
type Box struct {
	Dst, Src             Memory
	DstOffset, SrcOffset int64 // of the first row

	RowBytes, Rows, Planes         int64 // Rows and Planes of 0 count as 1
	DstRowStride, SrcRowStride     int64
	DstPlaneStride, SrcPlaneStride int64

	// Path is how rows of pinned memory, or inside the device, are copied.
	// Default: what the model says is fastest.
	Path BatchPath

	// After and On order the copy with work that the caller has queued; see
	// "Order" in the package documentation. Default: it begins at once.
	After device.Event
	On    device.Stream

	// Progress is as in [Batch].
	Progress func(done, total int64)
}

// Box carries out a strided copy as [Engine.Batch] does one of blocks. Inside
// the device, the two sides must lie apart or be different columns of one
// matrix: rows that alternate in memory have the same stride on both sides.
func (e *Engine) Box(ctx context.Context, b Box) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	list, err := b.rows()
	if err != nil {
		return fmt.Errorf("transfer: box: %w", err)
	}
	return e.moveRows(ctx, rowsJob{
		dst: b.Dst, src: b.Src, rows: &list, path: b.Path, on: b.On, after: b.After, progress: b.Progress,
	})
}

// boxRows is a box as rows. Dimensions without gaps on both sides are joined.
type boxRows struct {
	dst, src           int64 // of the first row
	bytes              int64
	rows, planes       int64
	dstRow, srcRow     int64
	dstPlane, srcPlane int64
}

// rows checks b.
func (b Box) rows() (boxRows, error) {
	r := boxRows{
		dst: b.DstOffset, src: b.SrcOffset, bytes: b.RowBytes,
		rows: max(b.Rows, 1), planes: max(b.Planes, 1),
		dstRow: b.DstRowStride, srcRow: b.SrcRowStride, dstPlane: b.DstPlaneStride, srcPlane: b.SrcPlaneStride,
	}
	if _, err := directionOf(b.Dst, b.Src); err != nil {
		return r, err
	}
	if b.RowBytes <= 0 || b.Rows < 0 || b.Planes < 0 || b.DstOffset < 0 || b.SrcOffset < 0 {
		return r, fmt.Errorf("%w: %d planes of %d rows of %d bytes, at offsets %d and %d",
			device.ErrArgument, b.Planes, b.Rows, b.RowBytes, b.DstOffset, b.SrcOffset)
	}
	for _, side := range []struct {
		name        string
		memory      Memory
		offset      int64
		row, plane  *int64
		overlapping bool // is allowed: rows are only read
	}{
		{"destination", b.Dst, r.dst, &r.dstRow, &r.dstPlane, false},
		{"source", b.Src, r.src, &r.srcRow, &r.srcPlane, true},
	} {
		if *side.row == 0 {
			*side.row = r.bytes
		}
		planeEnd, ok := extent(r.rows, *side.row, r.bytes)
		if *side.plane == 0 {
			if *side.plane = planeEnd; *side.row > r.bytes {
				*side.plane, ok = strided(r.rows, *side.row, ok)
			}
		}
		end, ok2 := extent(r.planes, *side.plane, planeEnd)
		switch {
		case *side.row < 0 || *side.plane < 0 || !ok || !ok2 || end > side.memory.bytes || side.offset > side.memory.bytes-end:
			return r, fmt.Errorf("%w: %d planes of %d rows of %d bytes, %d and %d bytes apart, at offset %d: they do not fit the %s, %s",
				device.ErrArgument, r.planes, r.rows, r.bytes, *side.plane, *side.row, side.offset, side.name, side.memory)
		case !side.overlapping && (r.rows > 1 && *side.row < r.bytes || r.planes > 1 && *side.plane < planeEnd):
			return r, fmt.Errorf("%w: rows of %d bytes overlap in the destination: rows are %d bytes apart, planes %d",
				device.ErrArgument, r.bytes, *side.row, *side.plane)
		}
	}
	r.join()
	if !b.Dst.onHost && !b.Src.onHost {
		dst, src := b.Dst.device.Add(r.dst), b.Src.device.Add(r.src)
		if dst < src.Add(r.end(r.srcRow, r.srcPlane)) && src < dst.Add(r.end(r.dstRow, r.dstPlane)) && !r.columns(dst, src) {
			return r, fmt.Errorf("%w: the boxes at %#x and %#x overlap", device.ErrArgument, uint64(dst), uint64(src))
		}
	}
	return r, nil
}

// columns reports whether the rows of the two sides are different columns of
// one matrix, so that they share no byte though they alternate in memory.
func (r *boxRows) columns(dst, src device.Ptr) bool {
	width := r.dstRow
	if r.rows == 1 || width != r.srcRow || r.planes > 1 && (r.dstPlane%width != 0 || r.srcPlane%width != 0) {
		return false
	}
	apart := int64(max(dst, src)-min(dst, src)) % width
	return apart >= r.bytes && apart <= width-r.bytes
}

// end is the extent of the box, in bytes.
func (r *boxRows) end(row, plane int64) int64 {
	return (r.planes-1)*plane + (r.rows-1)*row + r.bytes
}

// extent is (n-1) x stride + last, and whether that is a number.
func extent(n, stride, last int64) (int64, bool) {
	if stride < 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(n-1), uint64(stride))
	sum := lo + uint64(last)
	return int64(sum), hi == 0 && lo < 1<<63 && sum < 1<<63
}

func strided(a, b int64, ok bool) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(lo), ok && hi == 0 && lo < 1<<63
}

// join makes rows, and then planes, that lie one behind the other into longer
// rows.
func (r *boxRows) join() {
	if r.rows == 1 { // then planes are what rows were
		r.rows, r.planes = r.planes, 1
		r.dstRow, r.srcRow = r.dstPlane, r.srcPlane
	}
	if r.dstRow == r.bytes && r.srcRow == r.bytes && r.rows > 1 {
		r.bytes *= r.rows
		r.rows, r.dstRow, r.srcRow = r.planes, r.dstPlane, r.srcPlane
		r.planes = 1
		if r.rows > 1 && r.dstRow == r.bytes && r.srcRow == r.bytes {
			r.bytes, r.rows = r.bytes*r.rows, 1
		}
	} else if r.planes > 1 && r.dstPlane == r.rows*r.dstRow && r.srcPlane == r.rows*r.srcRow {
		r.rows, r.planes = r.rows*r.planes, 1
	}
}

func (r *boxRows) count() int   { return int(r.rows * r.planes) }
func (r *boxRows) total() int64 { return r.rows * r.planes * r.bytes }

func (r *boxRows) at(i int) Block {
	row, plane := int64(i)%r.rows, int64(i)/r.rows
	return Block{
		Dst:   r.dst + plane*r.dstPlane + row*r.dstRow,
		Src:   r.src + plane*r.srcPlane + row*r.srcRow,
		Bytes: r.bytes,
	}
}

func (r *boxRows) mean() int64 { return r.bytes }

func (r *boxRows) part(from, most int, mostBytes int64) (rowsPart, error) {
	n := min(int64(r.count()-from), int64(most), (mostBytes-1)/r.bytes+1)
	return rowsPart{from: from, to: from + int(n), bytes: n * r.bytes, or: r.or(), each: r.bytes}, nil
}

func (r *boxRows) entries(list []byte, p rowsPart, dst, src device.Ptr, unit int64) (n int, units int64) {
	for i := p.from; i < p.to; i++ {
		k := r.at(i)
		units += k.Bytes / unit
		putEntry(list, dst.Add(k.Dst), src.Add(k.Src), units)
		list = list[entryBytes:]
	}
	return p.to - p.from, units
}

func (r *boxRows) pairs(list []byte, p rowsPart) {
	for i := p.from; i < p.to; i++ {
		k := r.at(i)
		putPair(list, k.Dst, k.Src)
		list = list[kernels.PairBytes:]
	}
}

// add, overlap and complete have nothing to do: strides were checked.
func (r *boxRows) add(rowsPart)    {}
func (r *boxRows) overlap() error  { return nil }
func (r *boxRows) complete() error { return nil }

func (r *boxRows) index() {}

func (r *boxRows) find(offset int64) (i int, start int64) {
	at := offset / r.bytes
	return int(at), at * r.bytes
}

func (r *boxRows) unit() int64 { return unitOf(r.or()) }

// or of all offsets and sizes.
func (r *boxRows) or() int64 {
	or := r.dst | r.src | r.bytes
	if r.rows > 1 {
		or |= r.dstRow | r.srcRow
	}
	if r.planes > 1 {
		or |= r.dstPlane | r.srcPlane
	}
	return or
}
