package outofcore

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/tier"
)

// little is a store whose device memory holds a few tiles of so many bytes.
func (r *rig) little(tileBytes int64) *tier.Store {
	r.Helper()
	if os.Getenv("PINION_DEVICE") != "" {
		return r.store(8 << 20) // what a device maps at a time is no less than 2 MiB
	}
	return r.store(4 * pagemem.RoundUp(tileBytes))
}

// TestMapTiledRandom: what is done to matrices in a store is what Map does to the
// same elements in host memory, whatever the store keeps on the device.
func TestMapTiledRandom(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		r := open(t, dev, Options{})
		moved := 0
		for range 40 {
			typ := []dtype.DType{dtype.F32, dtype.BF16}[r.random.IntN(2)]
			rows, columns := 1+r.random.Int64N(200), 1+r.random.Int64N(200)
			high, wide := 1+r.random.Int64N(rows), 1+r.random.Int64N(columns)
			if r.random.IntN(2) == 0 { // an array
				rows, columns, high, wide = 1, rows*columns, 1, 1+r.random.Int64N(rows*columns)
			}
			if ceil(rows, high)*ceil(columns, wide) > 500 {
				continue
			}
			matrix := func(a Array) Matrix { return Matrix{Bytes: a.Bytes, Type: typ, Rows: rows, Columns: columns} }
			s := r.little(high * wide * int64(typ.Size()))
			m := Map{Op: kernels.Linear + kernels.CombineOp(r.random.IntN(3)), A: 0.5, B: -2, X: r.array(rows*columns, typ), Y: r.array(rows*columns, typ)}
			q := TiledMap{Op: m.Op, A: m.A, B: m.B, X: r.tiled(s, matrix(m.X), high, wide), Y: r.tiled(s, matrix(m.Y), high, wide)}
			switch r.random.IntN(5) {
			case 0:
				q.Out = q.X
			case 1:
				q.Out = q.Y
			case 2:
				m.Y, q.Y = m.X, q.X
				q.Out = r.tiled(s, matrix(m.X), high, wide)
			case 3:
				m.Op, q.Op, m.Y, q.Y = kernels.Abs, kernels.Abs, Array{}, nil
				q.Out = q.X
			default:
				q.Out = r.tiled(s, matrix(m.X), high, wide)
			}
			m.Out = Array{make([]byte, len(m.X.Bytes)), typ}
			testkit.OK(t, second(r.runner.Map(ctx, m)))
			report, err := r.runner.MapTiled(ctx, s, q)
			testkit.OK(t, err)
			if report.Filled > 0 {
				moved++
			}
			got := make([]byte, len(m.X.Bytes))
			testkit.OK(t, q.Out.Read(ctx, matrix(Array{got, typ})))
			if !bytes.Equal(got, m.Out.Bytes) {
				t.Fatalf("operation %d on %d x %d of %v in tiles of %d x %d: other bytes", m.Op, rows, columns, typ, high, wide)
			}
		}
		if moved == 0 {
			t.Error("no map brought a tile in: the test missed a path")
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestReduceTiledRandom: a reduction of tiles has the bits of Reduce where their
// elements fill the lanes, and is as near as rounding allows elsewhere.
func TestReduceTiledRandom(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		r := open(t, dev, Options{})
		for round := range 20 {
			typ := []dtype.DType{dtype.F32, dtype.BF16}[r.random.IntN(2)]
			n := 1 + r.random.Int64N(6*kernels.ReduceLanes)
			wide := kernels.ReduceLanes * (1 + r.random.Int64N(2))
			if round%2 == 0 {
				wide = 1 + n/20 + r.random.Int64N(n)
			}
			s := r.little(wide * int64(typ.Size()))
			f := Reduction{Op: kernels.Sum + kernels.ReduceOp(round%5), X: r.array(n, typ)}
			matrix := func(a Array) Matrix { return Matrix{Bytes: a.Bytes, Type: typ, Rows: 1, Columns: n} }
			q := TiledReduction{Op: f.Op, X: r.tiled(s, matrix(f.X), 1, wide)}
			if f.Op == kernels.Dot {
				f.Y, q.Y = f.X, q.X
				if r.random.IntN(2) == 0 {
					f.Y = r.array(n, typ)
					q.Y = r.tiled(s, matrix(f.Y), 1, wide)
				}
			}
			want, _, err := r.runner.Reduce(ctx, f)
			testkit.OK(t, err)
			got, _, err := r.runner.ReduceTiled(ctx, s, q)
			testkit.OK(t, err)
			again, _, err := r.runner.ReduceTiled(ctx, s, q)
			testkit.OK(t, err)
			exact := wide%kernels.ReduceLanes == 0 || n <= wide || f.Op == kernels.Smallest || f.Op == kernels.Largest
			if got != again || exact && got != want || math.Abs(got-want) > 1e-9*float64(n) {
				t.Fatalf("reduction %d of %d elements of %v in tiles of %d: %v, then %v, want %v", f.Op, n, typ, wide, got, again, want)
			}
		}
	})
}

// TestMapTiledFunc: a function of the caller's gets the tiles, and its error ends
// the map.
func TestMapTiledFunc(t *testing.T) {
	r := open(t, devicetest.Open(t), Options{})
	s := r.store(4 << 20)
	x := r.tiled(s, Float32([]float32{1, 2, 3, 4, 5, 6}, 2, 3), 1, 2)
	y := r.tiled(s, Float32([]float32{7, 8, 9, 10, 11, 12}, 2, 3), 1, 2)
	out := r.tiled(s, Float32(make([]float32, 6), 2, 3), 1, 2)
	sizes := []int64{}
	copyY := func(s device.Stream, out, x, y device.Ptr, n int64) error {
		sizes = append(sizes, n)
		return s.CopyD2D(out, y, 4*n)
	}
	testkit.OK(t, second(r.runner.MapTiled(ctx, s, TiledMap{Func: copyY, X: x, Y: y, Out: out})))
	got := make([]float32, 6)
	testkit.OK(t, out.Read(ctx, Float32(got, 2, 3)))
	if [6]float32(got) != [6]float32{7, 8, 9, 10, 11, 12} || [4]int64(sizes) != [4]int64{2, 1, 2, 1} {
		t.Errorf("%v, by pieces of %v", got, sizes)
	}
	fails := func(device.Stream, device.Ptr, device.Ptr, device.Ptr, int64) error { return errBroken }
	if _, err := r.runner.MapTiled(ctx, s, TiledMap{Func: fails, X: x, Out: out}); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := r.runner.ReduceTiled(ended, s, TiledReduction{Op: kernels.Sum, X: x}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	sum, _, err := r.runner.ReduceTiled(ctx, s, TiledReduction{Op: kernels.Sum, X: x}) // nothing is held
	testkit.OK(t, err)
	if sum != 21 {
		t.Errorf("the sum is %v, want 21", sum)
	}
}

func TestTiledArrayArguments(t *testing.T) {
	r := open(t, devicetest.Open(t), Options{})
	s := r.store(4 << 20)
	tiles := func(typ dtype.DType, rows, columns, tileRows, tileColumns int64) *Tiled {
		m, err := NewTiled(s, "m", typ, rows, columns, tileRows, tileColumns)
		testkit.OK(t, err)
		return m
	}
	x, freed := tiles(dtype.F32, 4, 6, 2, 3), tiles(dtype.F32, 4, 6, 2, 3)
	testkit.OK(t, freed.Free())
	none := func(device.Stream, device.Ptr, device.Ptr, device.Ptr, int64) error { return nil }
	for says, m := range map[string]TiledMap{
		"X is no matrix":                 {Op: kernels.Abs, Out: x},
		"Out is no matrix":               {Op: kernels.Abs, X: x},
		"Y has 0 tiles, want 4":          {Op: kernels.Linear, X: x, Y: freed, Out: x},
		"Out 4 x 6 of bf16":              {Op: kernels.Abs, X: x, Out: tiles(dtype.BF16, 4, 6, 2, 3)},
		"Y 4 x 6 of f32 in tiles of 4 x": {Op: kernels.Linear, X: x, Y: tiles(dtype.F32, 4, 6, 4, 3), Out: x},
		"an operation and a function":    {Op: kernels.Abs, Func: none, X: x, Out: x},
		"operation 0":                    {X: x, Out: x},
	} {
		testkit.WantError(t, says, second(r.runner.MapTiled(ctx, s, m)), device.ErrArgument, says)
	}
	for says, f := range map[string]TiledReduction{
		"X is no matrix":  {Op: kernels.Sum},
		"with a Y: true":  {Op: kernels.Sum, X: x, Y: x},
		"with a Y: false": {Op: kernels.Dot, X: x},
		"reduction 0":     {X: x},
	} {
		_, _, err := r.runner.ReduceTiled(ctx, s, f)
		testkit.WantError(t, says, err, device.ErrArgument, says)
	}
}
