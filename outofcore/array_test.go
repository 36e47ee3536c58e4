package outofcore

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinion-gpu/pinion/blas/blastest"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/kernels"
)

// array makes one with random elements, perhaps pinned.
func (r *rig) array(n int64, t dtype.DType) Array {
	r.Helper()
	values := blastest.Random(r.random, n, t)
	if n == 0 || r.random.IntN(2) == 0 {
		return Array{append([]byte{}, values...), t}
	}
	b, err := r.pins.Alloc(ctx, int64(len(values)))
	testkit.OK(r, err)
	r.Cleanup(func() { testkit.OK(r, b.Free()) })
	copy(b.Bytes(), values)
	return Array{b.Bytes(), t}
}

// TestMapRandom: operations on arrays of any length, in any memory, are those
// of a loop.
func TestMapRandom(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		r := open(t, dev, Options{})
		for range 60 {
			typ := []dtype.DType{dtype.F32, dtype.BF16}[r.random.IntN(2)]
			n := r.random.Int64N(1 << r.random.IntN(18))
			r.runner.options.DeviceBytes = int64(r.random.IntN(2)) * (4096 + r.random.Int64N(100_000))
			m := Map{Op: kernels.Linear + kernels.CombineOp(r.random.IntN(3)), A: 0.5, B: -2, X: r.array(n, typ), Y: r.array(n, typ)}
			if m.Op == kernels.Linear && r.random.IntN(2) == 0 {
				m.Y = Array{}
			}
			want := make([]byte, 0, len(m.X.Bytes))
			for i := range n {
				x, y := float32(blastest.At(m.X.Bytes, i, typ)), float32(0)
				if m.Y.Bytes != nil {
					y = float32(blastest.At(m.Y.Bytes, i, typ))
				}
				v := float32(m.A*x) + float32(m.B*y)
				switch {
				case m.Op == kernels.Linear && m.Y.Bytes == nil:
					v = float32(m.A*x) + m.B
				case m.Op == kernels.Product:
					v = m.A * float32(x*y)
				case m.Op == kernels.Ratio:
					v = m.A * float32(x/y)
				}
				want = blastest.Append(want, v, typ)
			}
			path := filepath.Join(t.TempDir(), "out.bin")
			switch r.random.IntN(4) {
			case 0:
				m.Out = m.X
			case 1:
				m.Path = path
			default:
				m.Out = r.array(n, typ)
			}
			report, err := r.runner.Map(ctx, m)
			testkit.OK(t, err)
			got := m.Out.Bytes
			if m.Path != "" {
				got = []byte(testkit.ReadFile(t, path))
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("operation %d on %d elements of %v (path %q): other bytes", m.Op, n, typ, m.Path)
			}
			if limit := r.runner.options.DeviceBytes; limit > 0 && report.DeviceBytes > limit {
				t.Fatalf("%d bytes of device memory, %d are allowed", report.DeviceBytes, limit)
			}
		}
	})
}

// TestMapFunc: a function of the caller's gets the pieces.
func TestMapFunc(t *testing.T) {
	r := open(t, devicetest.Open(t), Options{DeviceBytes: 64 << 10})
	x, y := r.array(50_000, dtype.F32), r.array(50_000, dtype.F32)
	out := Floats(make([]float32, 50_000))
	_, err := r.runner.Map(ctx, Map{X: x, Y: y, Out: out, Func: func(s device.Stream, out, x, y device.Ptr, n int64) error {
		return s.CopyD2D(out, y, 4*n)
	}})
	testkit.OK(t, err)
	if !bytes.Equal(out.Bytes, y.Bytes) {
		t.Error("the function did not get the elements of Y")
	}
	broken := errors.New("broken")
	_, err = r.runner.Map(ctx, Map{X: x, Out: out, Func: func(device.Stream, device.Ptr, device.Ptr, device.Ptr, int64) error { return broken }})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestReduceRandom: a reduction does not depend on chunks, memory and budget.
func TestReduceRandom(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		r := open(t, dev, Options{})
		for round := range 40 {
			typ := []dtype.DType{dtype.F32, dtype.BF16}[r.random.IntN(2)]
			n := r.random.Int64N(1 << (5 + r.random.IntN(14)))
			if round == 0 {
				n = 0
			}
			f := Reduction{Op: kernels.Sum + kernels.ReduceOp(r.random.IntN(5)), X: r.array(n, typ)}
			if f.Op == kernels.Dot {
				f.Y = r.array(n, typ)
			}
			least, most, sum, squares, dot, magnitude := math.Inf(1), math.Inf(-1), 0.0, 0.0, 0.0, 0.0
			for i := range n {
				v := blastest.At(f.X.Bytes, i, typ)
				least, most, sum, squares = min(least, v), max(most, v), sum+v, squares+v*v
				magnitude += math.Abs(v)
				if f.Op == kernels.Dot {
					dot += v * blastest.At(f.Y.Bytes, i, typ)
				}
			}
			want := map[kernels.ReduceOp]float64{kernels.Sum: sum, kernels.SumSquares: squares, kernels.Dot: dot,
				kernels.Smallest: least, kernels.Largest: most}[f.Op]
			var first float64
			for try := range 3 {
				r.runner.options.DeviceBytes = []int64{0, 2 << 20, 5 << 20}[try]
				got, _, err := r.runner.Reduce(ctx, f)
				testkit.OK(t, err)
				if try == 0 {
					first = got
				}
				if math.Float64bits(got) != math.Float64bits(first) {
					t.Fatalf("reduction %d of %d elements: %v, with other memory %v", f.Op, n, first, got)
				}
				if got != want && !(math.Abs(got-want) <= 1e-9*(magnitude+1)) {
					t.Fatalf("reduction %d of %d elements of %v: %v, want %v", f.Op, n, typ, got, want)
				}
			}
		}
	})
}

func TestArrayArguments(t *testing.T) {
	r := open(t, devicetest.Open(t), Options{})
	x := Floats(make([]float32, 100))
	mapped := func(change func(m *Map)) error {
		m := Map{Op: kernels.Linear, X: x, Y: Floats(make([]float32, 100)), Out: Floats(make([]float32, 100))}
		change(&m)
		_, err := r.runner.Map(ctx, m)
		return err
	}
	reduced := func(f Reduction) error {
		_, _, err := r.runner.Reduce(ctx, f)
		return err
	}
	none := func(device.Stream, device.Ptr, device.Ptr, device.Ptr, int64) error { return nil }
	for name, err := range map[string]error{
		"type":            mapped(func(m *Map) { m.X.Type = dtype.U8 }),
		"part of X":       mapped(func(m *Map) { m.X.Bytes = m.X.Bytes[:399] }),
		"length of Y":     mapped(func(m *Map) { m.Y.Bytes = m.Y.Bytes[:396] }),
		"type of Y":       mapped(func(m *Map) { m.Y.Type = dtype.BF16 }),
		"length of Out":   mapped(func(m *Map) { m.Out.Bytes = m.Out.Bytes[:396] }),
		"no Out":          mapped(func(m *Map) { m.Out = Array{} }),
		"Out and Path":    mapped(func(m *Map) { m.Path = "x" }),
		"Op and Func":     mapped(func(m *Map) { m.Func = none }),
		"no Op":           mapped(func(m *Map) { m.Op = 0 }),
		"overlap":         mapped(func(m *Map) { m.X.Bytes, m.Y, m.Out.Bytes = x.Bytes[:200], Array{}, x.Bytes[4:204] }),
		"reduce: none":    reduced(Reduction{X: x}),
		"reduce: Y":       reduced(Reduction{Op: kernels.Sum, X: x, Y: x}),
		"reduce: no Y":    reduced(Reduction{Op: kernels.Dot, X: x}),
		"reduce: no type": reduced(Reduction{Op: kernels.Sum, X: Array{Bytes: x.Bytes}}),
	} {
		if !errors.Is(err, device.ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.runner.options.DeviceBytes = 1000
	if err := reduced(Reduction{Op: kernels.Sum, X: Floats(make([]float32, 1<<20))}); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
}

// TestMapCancel: a context ends a map, and a file that was there stays.
func TestMapCancel(t *testing.T) {
	r := open(t, devicetest.Open(t), Options{DeviceBytes: 64 << 10})
	path := testkit.WriteFile(t, "before", t.TempDir(), "out.bin")
	ended, cancel := context.WithCancel(ctx)
	calls := 0
	_, err := r.runner.Map(ended, Map{X: r.array(200_000, dtype.F32), Path: path,
		Func: func(device.Stream, device.Ptr, device.Ptr, device.Ptr, int64) error {
			if calls++; calls == 5 {
				cancel()
			}
			return nil
		}})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 || testkit.ReadFile(t, path) != "before" {
		t.Errorf("%d files, %v", len(files), err)
	}
}
