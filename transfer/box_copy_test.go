package transfer_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

func TestBox(t *testing.T) {
	s := openSides(t, 200_000, transfer.Options{Copiers: 3, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1})
	r := rand.New(rand.NewPCG(3, 4))
	for _, route := range s.routes() {
		t.Run(route.name, func(t *testing.T) {
			done := 0
			for round := range 40 {
				unit := []int64{1, 4, 16}[round%3]
				b := transfer.Box{Dst: route.dst, Src: route.src, Path: route.path,
					DstOffset: r.Int64N(20) * unit, SrcOffset: r.Int64N(20) * unit,
					RowBytes: (1 + r.Int64N(60)) * unit, Rows: r.Int64N(30), Planes: r.Int64N(8),
				}
				// Strides: packed (0), and with gaps, whole rows between planes.
				gap := func() int64 { return r.Int64N(3) * unit }
				if r.IntN(3) > 0 {
					b.DstRowStride, b.SrcRowStride = b.RowBytes+gap(), b.RowBytes+gap()
				}
				if r.IntN(3) > 0 {
					b.DstPlaneStride = (max(b.Rows, 1) + r.Int64N(2)) * max(b.DstRowStride, b.RowBytes)
					b.SrcPlaneStride = (max(b.Rows, 1) + r.Int64N(2)) * max(b.SrcRowStride, b.RowBytes)
				}
				dst, src := unique(s.n, byte(round)), unique(s.n, byte(round+100))
				route.set(dst, src)
				err := s.engine.Box(ctx, b)
				if errors.Is(err, device.ErrNotSupported) {
					continue
				}
				if err != nil {
					t.Fatalf("%+v: %v", b, err)
				}
				done++
				dstRow, srcRow := stride(b.DstRowStride, b.RowBytes), stride(b.SrcRowStride, b.RowBytes)
				dstPlane, srcPlane := stride(b.DstPlaneStride, max(b.Rows, 1)*dstRow), stride(b.SrcPlaneStride, max(b.Rows, 1)*srcRow)
				for p := range max(b.Planes, 1) {
					for y := range max(b.Rows, 1) {
						copy(dst[b.DstOffset+p*dstPlane+y*dstRow:][:b.RowBytes], src[b.SrcOffset+p*srcPlane+y*srcRow:])
					}
				}
				if got := route.get(); !bytes.Equal(got, dst) {
					t.Fatalf("round %d, %+v: wrong content", round, b)
				}
			}
			if done == 0 {
				t.Skip("the device has no such path")
			}
		})
	}
}

func stride(given, packed int64) int64 {
	if given == 0 {
		return packed
	}
	return given
}
