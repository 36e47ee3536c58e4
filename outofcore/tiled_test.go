package outofcore

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier"
)

// store makes a store with so much device memory.
func (r *rig) store(deviceBytes int64) *tier.Store {
	r.Helper()
	s, err := tier.New(r.dev, tier.Options{DeviceBytes: deviceBytes, HostBytes: 64 << 20})
	testkit.OK(r, err)
	r.Cleanup(func() { testkit.OK(r, s.Close()) })
	return s
}

// tiled puts a matrix into a store.
func (r *rig) tiled(s *tier.Store, m Matrix, tileRows, tileColumns int64) *Tiled {
	r.Helper()
	x, err := NewTiled(s, "x", m.Type, m.Rows, m.Columns, tileRows, tileColumns)
	testkit.OK(r, err)
	r.Cleanup(func() { testkit.OK(r, x.Free()) })
	testkit.OK(r, x.Write(ctx, m))
	return x
}

// TestTiledRandom: products of matrices in a store are those of a simple model,
// whatever the store keeps on the device.
func TestTiledRandom(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		r := open(t, dev, Options{})
		moved, resident := 0, 0
		rounds := 40
		if testing.Short() {
			rounds = 15
		}
		for range rounds {
			p := r.product(200, false)
			if p.A.Type == dtype.BF16 { // sums go to float32
				p.C = r.matrix(p.C.Rows, p.C.Columns, dtype.F32, false)
			}
			k := p.A.Columns
			if p.TransA {
				k = p.A.Rows
			}
			tile := func() int64 { return 16 + r.random.Int64N(100) }
			high, wide, deep := min(tile(), p.C.Rows), min(tile(), p.C.Columns), min(tile(), k)
			side := func(rows, columns int64, transposed bool) (int64, int64) {
				if transposed {
					return columns, rows
				}
				return rows, columns
			}
			least := int64(4 * 3 * 120 * 120)
			if os.Getenv("PINION_DEVICE") != "" {
				least = 4 << 20 // what a device maps at a time is no less than 2 MiB
			}
			s := r.store(least + r.random.Int64N(2<<20))
			highA, wideA := side(high, deep, p.TransA)
			highB, wideB := side(deep, wide, p.TransB)
			q := TiledProduct{A: r.tiled(s, p.A, highA, wideA), B: r.tiled(s, p.B, highB, wideB), C: r.tiled(s, p.C, high, wide),
				TransA: p.TransA, TransB: p.TransB, Alpha: p.Alpha, Beta: p.Beta}
			report, err := r.runner.MatMulTiled(ctx, s, q)
			testkit.OK(t, err)
			if report.Filled > 0 {
				moved++
			}
			got := append([]byte(nil), p.C.Bytes...)
			to := p.C
			to.Bytes = got
			testkit.OK(t, q.C.Read(ctx, to))
			if err := r.check(p, got, p.C.Bytes); err != nil {
				t.Fatalf("%s, tiles of %d x %d x %d: %v", describe(p), high, wide, deep, err)
			}
			// What is on the device now is used where it lies.
			if s.Stats().DeviceLimit > 3*s.Stats().Bytes {
				again, err := r.runner.MatMulTiled(ctx, s, q)
				testkit.OK(t, err)
				if again.Filled != 0 {
					t.Fatalf("%d bytes came in that were there", again.Filled)
				}
				resident++
			}
		}
		if moved == 0 || resident == 0 {
			t.Errorf("%d products moved tiles, %d found theirs on the device: the test missed a path", moved, resident)
		}
	})
}

// TestTiledSquare: a matrix may be both factors.
func TestTiledSquare(t *testing.T) {
	r := open(t, devicetest.Open(t), Options{})
	s := r.store(4 << 20)
	m := Float32([]float32{1, 2, 3, 4}, 2, 2)
	x, c := r.tiled(s, m, 1, 1), r.tiled(s, m, 1, 1)
	_, err := r.runner.MatMulTiled(ctx, s, TiledProduct{A: x, B: x, C: c})
	testkit.OK(t, err)
	got := make([]float32, 4)
	testkit.OK(t, c.Read(ctx, Float32(got, 2, 2)))
	if want := [4]float32{7, 10, 15, 22}; [4]float32(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTiledArguments(t *testing.T) {
	r := open(t, devicetest.Open(t), Options{})
	s := r.store(4 << 20)
	tiles := func(typ dtype.DType, rows, columns, tileRows, tileColumns int64) *Tiled {
		m, err := NewTiled(s, "m", typ, rows, columns, tileRows, tileColumns)
		testkit.OK(t, err)
		return m
	}
	a, b, c := tiles(dtype.F32, 4, 6, 2, 3), tiles(dtype.F32, 6, 8, 3, 4), tiles(dtype.F32, 4, 8, 2, 4)
	good := TiledProduct{A: a, B: b, C: c}
	_, err := r.runner.MatMulTiled(ctx, s, good)
	testkit.OK(t, err)
	freed := tiles(dtype.F32, 4, 8, 2, 4)
	testkit.OK(t, freed.Free())
	for name, x := range map[string]struct {
		change func(*TiledProduct)
		says   string
	}{
		"inner": {func(p *TiledProduct) { p.TransB = true }, "op(B) 8 x 6"},
		"tiles": {func(p *TiledProduct) { p.C = tiles(dtype.F32, 4, 8, 4, 4) }, "of C 4 x 4"},
		"none":  {func(p *TiledProduct) { p.B = nil }, "B is no matrix"},
		"freed": {func(p *TiledProduct) { p.C = freed }, "it was freed"},
		"types": {func(p *TiledProduct) { p.B = tiles(dtype.BF16, 6, 8, 3, 4) }, "B of bf16"},
		"shared": {func(p *TiledProduct) {
			p.A, p.B, p.C = tiles(dtype.F32, 4, 4, 2, 2), tiles(dtype.F32, 4, 4, 2, 2), nil
			p.C = p.A
		}, "shares"},
		"rounding": {func(p *TiledProduct) {
			p.A, p.B, p.C = tiles(dtype.BF16, 4, 6, 2, 3), tiles(dtype.BF16, 6, 8, 3, 4), tiles(dtype.BF16, 4, 8, 2, 4)
		}, "rounded 2 times"},
	} {
		p := good
		x.change(&p)
		_, err := r.runner.MatMulTiled(ctx, s, p)
		testkit.WantError(t, name, err, device.ErrArgument, x.says)
	}
	if _, err := NewTiled(s, "m", dtype.I32, 1, 1, 1, 1); !errors.Is(err, device.ErrArgument) {
		t.Error(err)
	}
	if _, err := NewTiled(s, "m", dtype.F32, 1<<14, 1<<14, 1<<13, 1<<13); !errors.Is(err, tier.ErrBudget) {
		t.Errorf("a tile that the device cannot hold: %v", err)
	}
	if err := c.Write(ctx, Float32([]float32{1}, 1, 1)); !errors.Is(err, device.ErrArgument) {
		t.Error(err)
	}
	for name, move := range map[string]func(context.Context, Matrix) error{"write": freed.Write, "read": freed.Read} {
		err := move(ctx, Float32(make([]float32, 4*8), 4, 8))
		testkit.WantError(t, name+" what was freed", err, device.ErrArgument, "it was freed")
	}
	swapped, none := *b, *b
	swapped.Tiles = []*tier.Array{a.Tiles[0], b.Tiles[1], b.Tiles[2], b.Tiles[3]}
	none.Tiles = []*tier.Array{b.Tiles[0], nil, b.Tiles[2], b.Tiles[3]}
	for says, m := range map[string]*Tiled{"tile 0 is no array of 3 x 4": &swapped, "tile 1 is no array of 3 x 4": &none} {
		_, err := r.runner.MatMulTiled(ctx, s, TiledProduct{A: a, B: m, C: c})
		testkit.WantError(t, says, err, device.ErrArgument, says)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := r.runner.MatMulTiled(ended, s, good); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, err = r.runner.MatMulTiled(ctx, s, good) // nothing is held
	testkit.OK(t, err)
}
