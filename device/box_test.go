package device

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

func TestSpanCheck(t *testing.T) {
	for _, c := range []struct {
		span Span
		want error
	}{
		{Span{1, 2, 3}, nil},
		{Span{1, 2, math.MaxInt64}, nil},
		{Span{math.MaxUint64 - 8, 2, 8}, nil},
		{Span{1, 2, 0}, ErrArgument},
		{Span{1, 2, -1}, ErrArgument},
		{Span{1, 2, math.MinInt64}, ErrArgument},
		{Span{math.MaxUint64 - 8, 2, 9}, ErrPointer},
		{Span{1, math.MaxUint64 - 8, 9}, ErrPointer},
	} {
		if err := c.span.Check(); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.span, err, c.want)
		}
	}
}

func TestBoxCheck(t *testing.T) {
	good := Box{
		Dst: 1000, Src: 5000, RowBytes: 10, Rows: 3, Planes: 2,
		DstRowStride: 10, DstPlaneStride: 30, SrcRowStride: 16, SrcPlaneStride: 100,
	}
	for _, c := range []struct {
		name     string
		change   func(*Box)
		dst, src int64
		want     error
	}{
		{"as it is", func(b *Box) {}, 60, 142, nil},
		{"no bytes", func(b *Box) { b.RowBytes = 0 }, 0, 0, nil},
		{"no rows", func(b *Box) { b.Rows = 0 }, 0, 0, nil},
		{"no planes", func(b *Box) { b.Planes = 0 }, 0, 0, nil},
		{"nothing with bad strides", func(b *Box) { b.Planes, b.DstRowStride = 0, -7 }, 0, 0, nil},
		{"negative bytes", func(b *Box) { b.RowBytes = -1 }, 0, 0, ErrArgument},
		{"negative rows", func(b *Box) { b.Rows = math.MinInt64 }, 0, 0, ErrArgument},
		{"negative planes", func(b *Box) { b.Planes = -1 }, 0, 0, ErrArgument},
		{"negative beside zero", func(b *Box) { b.RowBytes, b.Planes = 0, -1 }, 0, 0, ErrArgument},
		{"one row needs no stride", func(b *Box) { b.Rows, b.DstRowStride, b.SrcRowStride = 1, -5, 0 }, 40, 110, nil},
		{"one plane needs no stride", func(b *Box) { b.Planes, b.DstPlaneStride, b.SrcPlaneStride = 1, -5, 0 }, 30, 42, nil},
		{"destination rows overlap", func(b *Box) { b.DstRowStride = 9 }, 0, 0, ErrArgument},
		{"source rows overlap", func(b *Box) { b.SrcRowStride = 9 }, 0, 0, ErrArgument},
		{"rows backwards", func(b *Box) { b.SrcRowStride = -16 }, 0, 0, ErrArgument},
		{"destination planes overlap", func(b *Box) { b.DstPlaneStride = 29 }, 0, 0, ErrArgument},
		{"source planes overlap", func(b *Box) { b.SrcPlaneStride = 47 }, 0, 0, ErrArgument},
		{"planes of one row overlap", func(b *Box) { b.Rows, b.DstPlaneStride = 1, 9 }, 0, 0, ErrArgument},
		{"rows beyond numbers", func(b *Box) { b.Planes, b.Rows, b.SrcRowStride = 1, 1<<32, 1<<32 }, 0, 0, ErrPointer},
		{"planes beyond numbers", func(b *Box) { b.Planes, b.DstPlaneStride = 1<<32, 1<<32 }, 0, 0, ErrPointer},
		{"planes and a row beyond numbers", func(b *Box) { b.DstPlaneStride = math.MaxInt64 }, 0, 0, ErrPointer},
		{"over the end at the destination", func(b *Box) { b.Dst = math.MaxUint64 - 59 }, 0, 0, ErrPointer},
		{"up to the end at the destination", func(b *Box) { b.Dst = math.MaxUint64 - 60 }, 60, 142, nil},
		{"over the end at the source", func(b *Box) { b.Src = math.MaxUint64 - 141 }, 0, 0, ErrPointer},
	} {
		b := good
		c.change(&b)
		dst, src, err := b.Reach()
		if !errors.Is(err, c.want) || (err == nil && (dst != c.dst || src != c.src)) {
			t.Errorf("%s: %d, %d, %v, want %d, %d, %v", c.name, dst, src, err, c.dst, c.src, c.want)
		}
		if check := b.Check(); (check == nil) != (err == nil) {
			t.Errorf("%s: Check says %v, Reach %v", c.name, check, err)
		}
	}
}

// Reach is the furthest end of any row, and no byte belongs to two rows.
func TestBoxReach(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := Box{RowBytes: rng.Int64N(5), Rows: rng.Int64N(4), Planes: rng.Int64N(4), DstRowStride: rng.Int64N(8), DstPlaneStride: rng.Int64N(20)}
		b.SrcRowStride, b.SrcPlaneStride = b.DstRowStride, b.DstPlaneStride
		taken := map[int64]bool{}
		var end int64
		apart := true
		for z := range b.Planes {
			for y := range b.Rows {
				for x := range b.RowBytes {
					at := z*b.DstPlaneStride + y*b.DstRowStride + x
					apart = apart && !taken[at]
					taken[at] = true
					end = max(end, at+1)
				}
			}
		}
		dst, src, err := b.Reach()
		if err == nil && (!apart || dst != end || src != end) {
			t.Fatalf("%+v reaches %d and %d, want %d; rows apart: %t", b, dst, src, end, apart)
		}
	}
}
