package conformance

import (
	"bytes"
	"math"
	"math/rand/v2"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// boxer returns the device as a [device.BoxCopier], or skips the test.
func boxer(f *fixture.F) device.BoxCopier {
	f.Helper()
	c, ok := device.As[device.BoxCopier](f.Dev)
	if !ok {
		f.Skip("the device copies no boxes")
	}
	return c
}

// copyModel does what a copy of b between two places of host memory should do.
func copyModel(dst, src []byte, b device.Box) {
	for z := range b.Planes {
		for y := range b.Rows {
			for x := range b.RowBytes {
				dst[int64(b.Dst)+z*b.DstPlaneStride+y*b.DstRowStride+x] =
					src[int64(b.Src)+z*b.SrcPlaneStride+y*b.SrcRowStride+x]
			}
		}
	}
}

// randomBox chooses a box that fits into n bytes at either side; addresses are
// offsets. Its planes are whole rows apart, except now and then.
func randomBox(rng *rand.Rand, n int64) device.Box {
	b := device.Box{RowBytes: 1 + rng.Int64N(300), Rows: 1 + rng.Int64N(9), Planes: 1 + rng.Int64N(5)}
	strides := func() (row, plane int64) {
		row = b.RowBytes + rng.Int64N(3)*rng.Int64N(200)
		plane = row * (b.Rows + rng.Int64N(3))
		if rng.IntN(6) == 0 {
			plane += rng.Int64N(row)
		}
		return row, plane
	}
	b.DstRowStride, b.DstPlaneStride = strides()
	b.SrcRowStride, b.SrcPlaneStride = strides()
	if b.Rows == 1 && rng.IntN(2) == 0 {
		b.DstRowStride, b.SrcRowStride = rng.Int64N(3)-1, 0 // does not matter
	}
	if b.Planes == 1 && rng.IntN(2) == 0 {
		b.DstPlaneStride, b.SrcPlaneStride = rng.Int64N(3)-1, 0
	}
	dst, src, err := b.Reach()
	if err != nil || dst > n || src > n {
		panic("conformance: a random box is none")
	}
	b.Dst, b.Src = device.Ptr(rng.Int64N(n-dst+1)), device.Ptr(rng.Int64N(n-src+1))
	return b
}

// Boxes of all shapes arrive whole, and nothing around them changes.
func testBox(f *fixture.F) {
	c := boxer(f)
	const n = 1 << 16
	rng := rand.New(rand.NewPCG(1, 4))
	source := fixture.Unique(n, 1)
	s := f.Stream()
	copied, refused := 0, 0
	eachWay(f, n, func(what string, dst, src place) {
		src.set(source)
		want := bytes.Repeat([]byte{guardValue}, n)
		dst.set(want)
		for range 60 {
			b := randomBox(rng, n)
			at := b
			at.Dst, at.Src = dst.p.Add(int64(b.Dst)), src.p.Add(int64(b.Src))
			if !c.CanCopyBox(at) {
				if b.Planes == 1 || b.Rows == 1 {
					f.Fatalf("cannot copy %+v, which has one stride a side", b)
				}
				if b.DstPlaneStride%b.DstRowStride == 0 && b.SrcPlaneStride%b.SrcRowStride == 0 {
					f.Fatalf("cannot copy %+v, whose planes are whole rows apart", b)
				}
				f.Fails("CopyBox of a shape that the device cannot copy", c.CopyBox(s, at), device.ErrNotSupported)
				refused++
				continue
			}
			copied++
			f.OK(c.CopyBox(s, at))
			f.Within("a box", s.Synchronize)
			copyModel(want, source, b)
			if !bytes.Equal(dst.get(), want) {
				f.Fatalf("%s: wrong content after %+v", what, b)
			}
		}
		if !bytes.Equal(src.get(), source) {
			f.Fatalf("%s: the source changed", what)
		}
	})
	f.Logf("%d boxes copied, %d of a shape that the device cannot copy", copied, refused)
}

// Boxes stand in the order of their stream: a transposition of rows and planes
// there and back.
func testBoxOrder(f *fixture.F) {
	c := boxer(f)
	const row, rows, planes = 64, 16, 8
	const n = row * rows * planes
	a, b, p := f.Alloc(n), f.Alloc(n), f.Alloc(n)
	s := f.Stream()
	want := fixture.Unique(n, 1)
	got := make([]byte, n)
	// One plane of the source becomes one row of every plane.
	turn := func(dst, src device.Ptr, rows, planes int64) {
		for z := range planes {
			f.OK(c.CopyBox(s, device.Box{
				Dst: dst.Add(z * row), Src: src.Add(z * rows * row), RowBytes: row, Rows: 1, Planes: rows,
				DstPlaneStride: planes * row, SrcPlaneStride: row,
			}))
		}
	}
	for range 4 {
		f.OK(s.Memset(a, 0, n))
		f.OK(s.CopyH2D(a, want))
		turn(b, a, rows, planes)
		f.OK(s.Memset(a, 1, n))
		turn(p, b, planes, rows)
		f.OK(s.Memset(b, 2, n))
		f.OK(s.CopyD2H(got, p))
		f.OK(s.Memset(p, 3, n))
		f.OK(s.Synchronize())
		if !bytes.Equal(got, want) {
			f.Fatal("a box did not run in the order of its stream")
		}
	}
}

func testBoxArguments(f *fixture.F) {
	c := boxer(f)
	const n = 1 << 12
	s := f.Stream()
	p, q := f.Alloc(n), f.Alloc(n)
	f.Upload(q, fixture.Unique(n, 1))
	good := device.Box{
		Dst: q, Src: p, RowBytes: 10, Rows: 4, Planes: 3,
		DstRowStride: 20, SrcRowStride: 10, DstPlaneStride: 100, SrcPlaneStride: 40,
	}
	for _, change := range []func(*device.Box){
		func(b *device.Box) { b.RowBytes = 0 },
		func(b *device.Box) { b.Rows = 0 },
		func(b *device.Box) { b.Planes = 0 },
		func(b *device.Box) { *b = device.Box{} },
	} {
		b := good
		change(&b)
		if !c.CanCopyBox(b) {
			f.Errorf("cannot copy %+v, which is empty", b)
		}
		f.OK(c.CopyBox(s, b))
	}
	for _, bad := range []struct {
		what   string
		change func(*device.Box)
		want   error
	}{
		{"negative bytes", func(b *device.Box) { b.RowBytes = -1 }, device.ErrArgument},
		{"negative rows", func(b *device.Box) { b.Rows = -1 }, device.ErrArgument},
		{"negative planes", func(b *device.Box) { b.Planes = math.MinInt64 }, device.ErrArgument},
		{"rows that overlap at the destination", func(b *device.Box) { b.DstRowStride = 9 }, device.ErrArgument},
		{"rows that overlap at the source", func(b *device.Box) { b.SrcRowStride = 0 }, device.ErrArgument},
		{"planes that overlap at the destination", func(b *device.Box) { b.DstPlaneStride = 79 }, device.ErrArgument},
		{"planes that overlap at the source", func(b *device.Box) { b.SrcPlaneStride = -40 }, device.ErrArgument},
		{"a destination over the end of all addresses", func(b *device.Box) { b.Dst = math.MaxUint64 - 100 }, device.ErrPointer},
		{"a source over the end of all addresses", func(b *device.Box) { b.Src = math.MaxUint64 - 100 }, device.ErrPointer},
		{"planes beyond all addresses", func(b *device.Box) { b.DstPlaneStride = math.MaxInt64 / 10 * 10 }, device.ErrPointer},
	} {
		b := good
		bad.change(&b)
		if c.CanCopyBox(b) {
			f.Errorf("can copy a box with %s", bad.what)
		}
		f.Fails("CopyBox with "+bad.what, c.CopyBox(s, b), bad.want)
	}
	for _, side := range []func(*device.Box){
		func(b *device.Box) { b.Dst = 0 },
		func(b *device.Box) { b.Src = 0 },
	} {
		b := good
		side(&b)
		f.Fails("CopyBox at address zero", c.CopyBox(s, b), device.ErrPointer)
		b.Rows, b.Planes = 1, 1
		f.Fails("CopyBox of one row at address zero", c.CopyBox(s, b), device.ErrPointer)
	}
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(q, n), fixture.Unique(n, 1)) {
		f.Error("a box that failed, or had no bytes, changed something")
	}

	f.Fails("CopyBox on no stream", c.CopyBox(nil, good), device.ErrArgument)
	other, err := f.Open().NewStream()
	f.OK(err)
	f.Fails("CopyBox on a stream of another device", c.CopyBox(other, good), device.ErrArgument)
	f.OK(s.Close())
	f.Fails("CopyBox on a closed stream", c.CopyBox(s, good), device.ErrClosed)
	f.Fails("CopyBox of nothing on a closed stream", c.CopyBox(s, device.Box{}), device.ErrClosed)
}
