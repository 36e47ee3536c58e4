package outofcore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/blastest"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/directio"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

var ctx = context.Background()

// rig is a device with a runner.
type rig struct {
	testing.TB
	dev    device.Device
	engine *transfer.Engine
	runner *Runner
	pins   *pinned.Pool
	random *rand.Rand
}

func open(t testing.TB, dev device.Device, o Options) *rig {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	engine, err := transfer.New(dev, transfer.Options{Copiers: 2, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1 << 10})
	testkit.OK(t, err)
	runner, err := New(engine, o)
	testkit.OK(t, err)
	pins, err := pinned.NewPool(dev, pinned.Options{AllowPageable: true})
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, errors.Join(runner.Close(), engine.Close(), pins.Close())) })
	return &rig{t, dev, engine, runner, pins, rand.New(rand.NewPCG(3, 4))}
}

// devices are what the tests run on: that of PINION_DEVICE, and a stand-in that
// lies behind a link.
func devices(t *testing.T, test func(t *testing.T, dev device.Device)) {
	t.Run("device", func(t *testing.T) { test(t, devicetest.Open(t)) })
	if os.Getenv("PINION_DEVICE") == "" {
		t.Run("discrete", func(t *testing.T) { test(t, devicetest.OpenDiscrete(t, 256<<20)) })
	}
}

// matrix makes one with random elements, perhaps with gaps between its rows,
// and perhaps pinned.
func (r *rig) matrix(rows, columns int64, t dtype.DType, pin bool) Matrix {
	r.Helper()
	m := Matrix{Type: t, Rows: rows, Columns: columns}
	if r.random.IntN(2) == 0 {
		m.Stride = columns + r.random.Int64N(5)
	}
	n := (rows-1)*m.stride() + columns
	values := blastest.Random(r.random, n, t)
	if !pin {
		m.Bytes = values
		return m
	}
	b, err := r.pins.Alloc(ctx, int64(len(values)))
	testkit.OK(r, err)
	r.Cleanup(func() { testkit.OK(r, b.Free()) })
	m.Bytes = b.Bytes()
	copy(m.Bytes, values)
	return m
}

// product makes a random one.
func (r *rig) product(most int64, pin bool) Product {
	dim := func() int64 { return 1 + r.random.Int64N(most) }
	m, n, k := dim(), dim(), dim()
	p := Product{TransA: r.random.IntN(2) == 0, TransB: r.random.IntN(2) == 0}
	t := dtype.F32
	if r.random.IntN(2) == 0 {
		t = dtype.BF16
	}
	side := func(rows, columns int64, transposed bool) Matrix {
		if transposed {
			rows, columns = columns, rows
		}
		return r.matrix(rows, columns, t, pin)
	}
	p.A, p.B, p.C = side(m, k, p.TransA), side(k, n, p.TransB), side(m, n, false)
	if r.random.IntN(2) == 0 {
		p.Alpha = 0.5
	}
	if r.random.IntN(2) == 0 {
		p.Beta = -2
	}
	return p
}

// check compares got, the memory of C, with the product in float64; before is
// that memory before.
func (r *rig) check(p Product, got, before []byte) error {
	g := blas.Gemm{M: p.C.Rows, N: p.C.Columns, K: p.A.Columns, TransA: p.TransA, TransB: p.TransB, Alpha: p.Alpha, Beta: p.Beta,
		Type: p.A.Type, TypeC: p.C.Type, TF32: p.TF32, A: blas.Matrix{Stride: p.A.Stride}, B: blas.Matrix{Stride: p.B.Stride}, C: blas.Matrix{Stride: p.C.Stride}}
	if p.TransA {
		g.K = p.A.Rows
	}
	if g.Alpha == 0 {
		g.Alpha = 1
	}
	return blastest.Compare(g, got, blastest.Memory{A: p.A.Bytes, B: p.B.Bytes, C: before})
}

// TestRandom: products of any shape in little memory, down to a 64th of the
// data, are those of a simple model, whichever way they are planned.
func TestRandom(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		r := open(t, dev, Options{})
		b, err := r.runner.multiplier()
		testkit.OK(t, err)
		for _, typ := range []dtype.DType{dtype.F32, dtype.BF16} { // measured ones would choose other plans in each run
			r.runner.speeds[speedKey{t: typ}] = Speed{FlopRate: [speedSides]float64{1e10, 1e11}}
		}
		r.runner.makePlan = func(p Problem) (*Plan, error) {
			if list := p.kinds(manySteps); len(list) > 0 && r.random.IntN(3) > 0 {
				return p.simulate(list[r.random.IntN(len(list))]), nil
			}
			return MakePlan(p)
		}
		split, narrowed, moved, apart := 0, 0, 0, 0
		rounds, enough := 80, 5
		if testing.Short() {
			rounds, enough = 20, 1
		}
		for n := range rounds {
			p := r.product(400, n%2 == 0)
			data := len(p.A.Bytes) + len(p.B.Bytes) + len(p.C.Bytes)
			r.runner.options.DeviceBytes = b.WorkspaceBytes() + int64(data>>r.random.IntN(7)) + 20<<10
			before := append([]byte(nil), p.C.Bytes...)
			report, err := r.runner.MatMul(ctx, p)
			if errors.Is(err, ErrBudget) {
				continue
			}
			testkit.OK(t, err)
			if err := r.check(p, p.C.Bytes, before); err != nil {
				t.Fatalf("%v, plan %+v: %v", describe(p), *report.Plan, err)
			}
			count := func(counter *int, is bool) {
				if is {
					*counter++
				}
			}
			f := report.Floor
			count(&split, report.Plan.SplitK)
			count(&narrowed, report.Plan.narrows())
			count(&apart, report.Plan.B.Count > 0)
			count(&moved, report.Plan.H2DBytes > f.H2DBytes)
			if report.Plan.H2DBytes < f.H2DBytes || report.Plan.D2HBytes < f.D2HBytes {
				t.Fatalf("the plan moves %d and %d bytes, fewer than the floor: %+v", report.Plan.H2DBytes, report.Plan.D2HBytes, f)
			}
		}
		if min(split, narrowed, moved, apart) < enough {
			t.Errorf("%d plans split k, %d of them in bfloat16, %d moved tiles twice, %d had slots for A and for B: the test missed a path",
				split, narrowed, moved, apart)
		}
	})
}

func describe(p Product) string {
	return fmt.Sprintf("%v A %dx%d/%d %t B %dx%d/%d %t C %dx%d/%d alpha %v beta %v", p.A.Type, p.A.Rows, p.A.Columns, p.A.Stride, p.TransA,
		p.B.Rows, p.B.Columns, p.B.Stride, p.TransB, p.C.Rows, p.C.Columns, p.C.Stride, p.Alpha, p.Beta)
}

// TestPool: a pool gives the device memory and has it back afterwards.
func TestPool(t *testing.T) {
	dev := devicetest.Open(t)
	pool, err := vram.New(dev, vram.Options{})
	testkit.OK(t, err)
	defer func() { testkit.OK(t, pool.Close()) }()
	r := open(t, dev, Options{Pool: pool, DeviceBytes: 64 << 20})
	p := r.product(200, false)
	before := append([]byte(nil), p.C.Bytes...)
	_, err = r.runner.MatMul(ctx, p)
	testkit.OK(t, err)
	testkit.OK(t, r.check(p, p.C.Bytes, before))
	if s := pool.Stats(); s.Allocated.Current != 0 || s.Allocated.Peak == 0 {
		t.Errorf("the pool has %d bytes in use, had %d", s.Allocated.Current, s.Allocated.Peak)
	}
}

// TestPath: the result is a file that is there as a whole.
func TestPath(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		r := open(t, dev, Options{DeviceBytes: 64 << 20})
		p := r.product(200, false)
		p.Beta = 0
		m, n := p.C.Rows, p.C.Columns
		p.C, p.Path = Matrix{}, filepath.Join(t.TempDir(), "c.bin")
		_, err := r.runner.MatMul(ctx, p)
		testkit.OK(t, err)
		got := []byte(testkit.ReadFile(t, p.Path))
		if int64(len(got)) != m*n*int64(p.A.Type.Size()) {
			t.Fatalf("the file has %d bytes", len(got))
		}
		path := p.Path
		p.C, p.Path = Matrix{Bytes: got, Type: p.A.Type, Rows: m, Columns: n}, ""
		testkit.OK(t, r.check(p, got, got))

		// What was there before stays after an error.
		p.C, p.Path = Matrix{}, path
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := r.runner.MatMul(ended, p); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		files, err := os.ReadDir(filepath.Dir(path))
		testkit.OK(t, err)
		if len(files) != 1 || testkit.ReadFile(t, path) != string(got) {
			t.Errorf("%d files after a cancelled product, or another content", len(files))
		}
	})
}

// TestMappedFile: a mapped file is accepted as it is.
func TestMappedFile(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		r := open(t, dev, Options{DeviceBytes: 64 << 20})
		p := r.product(200, false)
		file, err := os.Open(testkit.WriteFile(t, p.A.Bytes, t.TempDir(), "a.bin"))
		testkit.OK(t, err)
		defer file.Close()
		mapped, unmap, err := directio.Map(file, 0, int64(len(p.A.Bytes)))
		testkit.OK(t, err)
		defer func() { testkit.OK(t, unmap()) }()
		p.A.Bytes = mapped
		before := append([]byte(nil), p.C.Bytes...)
		testkit.OK(t, must(r.runner.MatMul(ctx, p)))
		testkit.OK(t, r.check(p, p.C.Bytes, before))
	})
}

// tight is a product that takes dozens of tiles.
func tight(t *testing.T, dev device.Device) (*rig, blas.BLAS, Product) {
	r := open(t, dev, Options{})
	b, err := r.runner.multiplier()
	testkit.OK(t, err)
	r.runner.options.DeviceBytes = b.WorkspaceBytes() + 300<<10
	return r, b, Product{A: r.matrix(600, 400, dtype.F32, true), B: r.matrix(400, 600, dtype.F32, false), C: r.matrix(600, 600, dtype.F32, false)}
}

// TestCancel: a context ends a product in the middle, and the runner works on.
func TestCancel(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		testkit.NoLeaks(t)
		r, b, p := tight(t, dev)
		ended, cancel := context.WithCancel(ctx)
		r.runner.blas = cancelling{b, 10, cancel, new(int)}
		_, err := r.runner.MatMul(ended, p)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("a product that was cancelled: %v", err)
		}
		r.runner.blas = b
		before := append([]byte(nil), p.C.Bytes...)
		_, err = r.runner.MatMul(ctx, p)
		testkit.OK(t, err)
		testkit.OK(t, r.check(p, p.C.Bytes, before))
	})
}

// cancelling calls a function with its n-th product.
type cancelling struct {
	blas.BLAS
	n     int
	call  func()
	count *int
}

func (c cancelling) Gemm(s device.Stream, g blas.Gemm) error {
	if *c.count++; *c.count == c.n {
		c.call()
	}
	return c.BLAS.Gemm(s, g)
}

// failing fails with its n-th product.
type failing struct {
	blas.BLAS
	n     int
	count *int
}

var errBroken = errors.New("broken")

func (f failing) Gemm(s device.Stream, g blas.Gemm) error {
	if *f.count++; *f.count == f.n {
		return errBroken
	}
	return f.BLAS.Gemm(s, g)
}

// TestFailure: the error of a product is that of the call, and nothing hangs.
func TestFailure(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		testkit.NoLeaks(t)
		r, b, p := tight(t, dev)
		testkit.OK(t, must(r.runner.MatMul(ctx, p))) // measures the rate
		r.runner.blas = failing{b, 20, new(int)}
		if err := must(r.runner.MatMul(ctx, p)); !errors.Is(err, errBroken) {
			t.Error(err)
		}
		r.runner.blas = b
	})
}

func must(_ Report, err error) error { return err }

// TestArguments: matrices that do not go together are refused before anything
// is touched.
func TestArguments(t *testing.T) {
	r := open(t, devicetest.Open(t), Options{DeviceBytes: 64 << 20})
	f := func(rows, columns int64) Matrix {
		return Float32(make([]float32, rows*columns), rows, columns)
	}
	good := Product{A: f(6, 8), B: f(5, 6), C: f(4, 6)}
	good.A.Rows, good.A.Columns = 4, 5
	for name, c := range map[string]struct {
		change func(p *Product)
		says   string
	}{
		"inner":      {func(p *Product) { p.B = f(4, 6) }, "B is 4 x 6, want 5 x 6"},
		"result":     {func(p *Product) { p.C = f(4, 5) }, "C is 4 x 5, want 4 x 6"},
		"empty":      {func(p *Product) { p.A = f(0, 5) }, "0 x 6 x 5"},
		"types":      {func(p *Product) { p.B.Type = dtype.BF16 }, "B has elements of type bf16, want f32"},
		"no type":    {func(p *Product) { p.A.Type = dtype.I32 }, "i32"},
		"short":      {func(p *Product) { p.A.Bytes = p.A.Bytes[:76] }, "A has 76 bytes"},
		"stride":     {func(p *Product) { p.C.Stride = 3 }, "3 apart"},
		"overlap":    {func(p *Product) { p.C.Bytes = p.A.Bytes[:cap(p.A.Bytes)] }, "C and A overlap"},
		"path":       {func(p *Product) { p.Path = "x" }, "x"},
		"path, read": {func(p *Product) { p.Path, p.C, p.Beta = "x", Matrix{}, 1 }, "x"},
	} {
		p := good
		c.change(&p)
		testkit.WantError(t, name, must(r.runner.MatMul(ctx, p)), device.ErrArgument, c.says)
	}
	r.runner.options.DeviceBytes = 100
	testkit.WantError(t, "budget", must(r.runner.MatMul(ctx, good)), ErrBudget)
	if _, err := New(r.engine, Options{DeviceBytes: -1}); !errors.Is(err, device.ErrArgument) {
		t.Error(err)
	}
}

// TestBFloat16: slices of bfloat16 numbers are computed on in place.
func TestBFloat16(t *testing.T) {
	const one, two, three, four = 0x3f80, 0x4000, 0x4040, 0x4080
	r := open(t, devicetest.Open(t), Options{})
	a, turn, c := []uint16{one, two, three, four}, []uint16{0, one, one, 0}, make([]uint16, 4)
	_, err := r.runner.MatMul(ctx, Product{A: BFloat16(a, 2, 2), B: BFloat16(turn, 2, 2), C: BFloat16(c, 2, 2)})
	testkit.OK(t, err)
	if want := []uint16{two, one, four, three}; !slices.Equal(c, want) {
		t.Errorf("%#x, want %#x", c, want)
	}
	sum, _, err := r.runner.Reduce(ctx, Reduction{Op: kernels.Sum, X: BFloats(a)})
	testkit.OK(t, err)
	if sum != 10 {
		t.Errorf("the sum is %v, want 10", sum)
	}
}
