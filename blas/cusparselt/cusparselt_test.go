package cusparselt

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/blastest"
	"github.com/pinion-gpu/pinion/blas/cublaslt"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// openDevice opens the device, or skips the test where there is none.
func openDevice(t testing.TB) device.Device {
	t.Helper()
	if standIns.Missing != "" {
		t.Skip(standIns.Missing)
	}
	dev := devicetest.Open(t)
	if n, ok := device.As[device.Native](dev); !ok || n.API() != device.CUDA {
		t.Skip("not a CUDA device")
	}
	return dev
}

// rig is a library with a stream.
type rig struct {
	testing.TB
	dev     device.Device
	library *Library
	stream  device.Stream
	random  *rand.Rand
}

func open(t testing.TB) *rig {
	t.Helper()
	dev := openDevice(t)
	if _, err := library(); err != nil {
		t.Skip(err)
	}
	l, err := Open(dev)
	testkit.OK(t, err)
	s, err := dev.NewStream()
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, errors.Join(s.Close(), l.Close(), l.Close())) })
	return &rig{t, dev, l, s, rand.New(rand.NewPCG(1, 2))}
}

// alloc allocates memory until the test ends.
func (r *rig) alloc(n int64) device.Ptr {
	r.Helper()
	at, err := r.dev.Alloc(max(n, 1))
	testkit.OK(r, err)
	r.Cleanup(func() { testkit.OK(r, r.dev.Free(at)) })
	return at
}

func (r *rig) upload(b []byte) device.Ptr {
	r.Helper()
	at := r.alloc(int64(len(b)))
	testkit.OK(r, r.stream.CopyH2D(at, b))
	testkit.OK(r, r.stream.Synchronize())
	return at
}

func (r *rig) download(at device.Ptr, n int) []byte {
	r.Helper()
	b := make([]byte, n)
	testkit.OK(r, r.stream.CopyD2H(b, at))
	testkit.OK(r, r.stream.Synchronize())
	return b
}

// values are those of a stored matrix.
func (r *rig) values(s blas.Stored, t dtype.DType) []byte {
	return blastest.Random(r.random, s.Bytes/int64(t.Size()), t)
}

// sparse are values of B, 2:4 sparse: mostly two of four, some fewer.
func (r *rig) sparse(g *blas.Gemm) []byte {
	_, b, _ := g.Shapes()
	values := r.values(b, g.Type)
	for n := range g.N {
		for k := int64(0); k < g.K; k += 4 {
			zero := func(i uint32) {
				at := (k+int64(i%4))*b.Stride + n
				if g.TransB {
					at = n*b.Stride + k + int64(i%4)
				}
				binary.LittleEndian.PutUint16(values[2*at:], 0)
			}
			bits := r.random.Uint32()
			first := bits % 4
			zero(first)
			zero(first + 1 + bits>>2%3)
			if bits>>16%8 == 0 {
				zero(bits >> 20)
			}
		}
	}
	return values
}

// product is a plan with what lies in memory for it.
type product struct {
	*Plan
	memory            blastest.Memory
	a, b, c           device.Ptr
	compressed, space device.Ptr
}

// compressed makes a plan, fills its matrices, and compresses B.
func (r *rig) compressed(g blas.Gemm) *product {
	r.Helper()
	p, err := r.library.Plan(g)
	testkit.OK(r, err)
	a, _, c := g.Shapes()
	x := &product{Plan: p, memory: blastest.Memory{A: r.values(a, g.Type), B: r.sparse(&g), C: r.values(c, g.Type)}}
	x.a, x.b, x.c = r.upload(x.memory.A), r.upload(x.memory.B), r.upload(x.memory.C)
	x.compressed, x.space = r.alloc(p.CompressedBytes()), r.alloc(p.WorkspaceBytes())
	scratch := r.alloc(p.ScratchBytes())
	testkit.OK(r, p.Check(r.stream, x.b, scratch))
	testkit.OK(r, p.Compress(r.stream, x.b, x.compressed, scratch))
	return x
}

// multiply runs a product and returns the memory of C.
func (r *rig) multiply(x *product) []byte {
	r.Helper()
	testkit.OK(r, r.stream.CopyH2D(x.c, x.memory.C))
	testkit.OK(r, x.Gemm(r.stream, x.a, x.compressed, x.c, x.space))
	return r.download(x.c, len(x.memory.C))
}

var types = []dtype.DType{dtype.BF16, dtype.F16}

// TestProducts compares products with those in float64 of what is there, and with the
// dense library's.
func TestProducts(t *testing.T) {
	r := open(t)
	t.Log(r.library.Version())
	dense, err := cublaslt.Open(r.dev)
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, dense.Close()) })
	for _, size := range [][3]int64{{8, 16, 16}, {64, 64, 64}, {40, 80, 144}, {128, 96, 256}} {
		for _, kind := range types {
			for trans := range 4 {
				for _, gap := range []int64{0, 16} {
					g := blas.Gemm{M: size[0], N: size[1], K: size[2], TransA: trans&1 != 0, TransB: trans&2 != 0, Alpha: 1, Type: kind}
					if gap > 0 {
						g.Alpha = -0.75
					}
					a, b, c := g.Shapes()
					g.A.Stride, g.B.Stride, g.C.Stride = a.Columns+gap, b.Columns+gap, c.Columns+gap
					x := r.compressed(g)
					got := r.multiply(x)
					if err := blastest.Compare(g, got, x.memory); err != nil {
						t.Errorf("%+v: %v", g, err)
					}
					g.A.Ptr, g.B.Ptr, g.C.Ptr = x.a, x.b, x.c
					testkit.OK(t, dense.Gemm(r.stream, g))
					want := r.download(x.c, len(got))
					for i := range c.Rows * c.Columns {
						at := i/c.Columns*g.C.Stride + i%c.Columns
						v, w := blastest.At(got, at, kind), blastest.At(want, at, kind)
						// Both are within half a last bit, and float32's error of sums.
						if !(math.Abs(v-w) <= math.Abs(w)/100+0.01) {
							t.Fatalf("%+v: element %d is %v, and %v by the dense product", g, at, v, w)
						}
					}
				}
			}
		}
	}
}

// TestCompressedOnce: what one plan compressed is for products with other rows, too.
func TestCompressedOnce(t *testing.T) {
	r := open(t)
	g := blas.Gemm{M: 64, N: 64, K: 128, TransB: true, Alpha: 1, Type: dtype.BF16}
	x := r.compressed(g)
	g.M = 200
	y := r.compressed(g)
	y.memory.B = x.memory.B
	testkit.OK(t, y.Plan.Gemm(r.stream, y.a, x.compressed, y.c, y.space))
	if err := blastest.Compare(g, r.download(y.c, len(y.memory.C)), y.memory); err != nil {
		t.Error(err)
	}
}

// TestCheck: a matrix that is not 2:4 sparse along K is found out, wherever it is not.
func TestCheck(t *testing.T) {
	r := open(t)
	for trans := range 2 {
		g := blas.Gemm{M: 16, N: 32, K: 64, TransB: trans != 0, Alpha: 1, Type: dtype.F16}
		p, err := r.library.Plan(g)
		testkit.OK(t, err)
		scratch := r.alloc(p.ScratchBytes())
		values := r.sparse(&g)
		testkit.OK(t, p.Check(r.stream, r.upload(values), scratch))
		for _, k := range []int64{0, 24, 60} {
			full := append([]byte(nil), values...)
			n := k / 2
			for i := range int64(3) {
				at := (k+i)*g.N + n
				if g.TransB {
					at = n*g.K + k + i
				}
				binary.LittleEndian.PutUint16(full[2*at:], 0x3c00)
			}
			testkit.WantError(t, "three of four", p.Check(r.stream, r.upload(full), scratch), device.ErrArgument,
				"cusparselt: ", "B of 64 x 32 has more than two of four elements along K that are not zero")
		}
	}
}

// TestSearch: the fastest algorithm gives the product, too.
func TestSearch(t *testing.T) {
	r := open(t)
	g := blas.Gemm{M: 256, N: 128, K: 512, TransB: true, Alpha: 1, Type: dtype.BF16}
	if standIns.File != "" {
		g.M = 16
	}
	x := r.compressed(g)
	testkit.OK(t, x.Search(r.stream, x.a, x.compressed, x.c))
	x.space = r.alloc(x.WorkspaceBytes())
	if err := blastest.Compare(g, r.multiply(x), x.memory); err != nil {
		t.Error(err)
	}
	if standIns.File != "" && x.WorkspaceBytes() != 768 {
		t.Errorf("%d bytes of workspace, the library wants 768", x.WorkspaceBytes())
	}
}

// TestRefuses: what cannot be, and what the library does not do, is said with numbers.
func TestRefuses(t *testing.T) {
	r := open(t)
	good := blas.Gemm{M: 16, N: 32, K: 64, Alpha: 1, Type: dtype.BF16}
	for what, test := range map[string]struct {
		change func(g *blas.Gemm)
		kind   error
		says   string
	}{
		"float32":      {func(g *blas.Gemm) { g.Type = dtype.F32 }, device.ErrNotSupported, "elements of type f32 give f32"},
		"wide result":  {func(g *blas.Gemm) { g.TypeC = dtype.F32 }, device.ErrNotSupported, "elements of type bf16 give f32"},
		"rows":         {func(g *blas.Gemm) { g.M = 12 }, device.ErrNotSupported, "12 x 32 x 64: M must be a multiple of 8, N and K of 16"},
		"no rows":      {func(g *blas.Gemm) { g.M = 0 }, device.ErrNotSupported, "0 x 32 x 64: M must be a multiple of 8"},
		"columns":      {func(g *blas.Gemm) { g.N = 24 }, device.ErrNotSupported, "16 x 24 x 64"},
		"depth":        {func(g *blas.Gemm) { g.K = 40 }, device.ErrNotSupported, "16 x 32 x 40"},
		"stride of A":  {func(g *blas.Gemm) { g.A.Stride = 68 }, device.ErrNotSupported, "68, 32 and 32 elements apart: they must be multiples of 8, 16 and 8"},
		"stride of B":  {func(g *blas.Gemm) { g.B.Stride = 40 }, device.ErrNotSupported, "64, 40 and 32 elements apart"},
		"stride of C":  {func(g *blas.Gemm) { g.C.Stride = 36 }, device.ErrNotSupported, "64, 32 and 36 elements apart"},
		"batch":        {func(g *blas.Gemm) { g.Batch, g.C.BatchStride = 3, 16*32 }, device.ErrNotSupported, "a batch of 3 products"},
		"addend":       {func(g *blas.Gemm) { g.Beta = 1 }, device.ErrNotSupported, "no addend, bias and activation"},
		"bias":         {func(g *blas.Gemm) { g.Bias = 256 }, device.ErrNotSupported, "no addend, bias and activation"},
		"activation":   {func(g *blas.Gemm) { g.Activation = blas.ReLU }, device.ErrNotSupported, "no addend, bias and activation"},
		"short stride": {func(g *blas.Gemm) { g.A.Stride = 48 }, device.ErrArgument, "64 elements and are 48 apart"},
		"integers":     {func(g *blas.Gemm) { g.Type = dtype.I32 }, device.ErrArgument, "elements of type i32"},
	} {
		g := good
		test.change(&g)
		_, err := r.library.Plan(g)
		testkit.WantError(t, what, err, test.kind, "cusparselt: ", test.says)
	}

	x := r.compressed(good)
	scratch, large := r.alloc(x.ScratchBytes()), r.alloc(1<<20)
	for what, test := range map[string]struct {
		err  error
		kind error
		says string
	}{
		"no stream":     {x.Gemm(nil, x.a, x.compressed, x.c, x.space), device.ErrArgument, "no stream"},
		"unaligned":     {x.Gemm(r.stream, x.a.Add(8), x.compressed, x.c, x.space), device.ErrArgument, "A is at"},
		"no memory":     {x.Gemm(r.stream, 0, x.compressed, x.c, x.space), device.ErrPointer, "A: "},
		"no workspace":  {x.Gemm(r.stream, x.a, x.compressed, x.c, 0), device.ErrPointer, "workspace: "},
		"overlap":       {x.Gemm(r.stream, large, x.compressed, large, x.space), device.ErrArgument, "overlap"},
		"in place":      {x.Compress(r.stream, large, large, scratch), device.ErrArgument, "overlap"},
		"no scratch":    {x.Compress(r.stream, x.b, x.compressed, 0), device.ErrPointer, "scratch memory: "},
		"check nowhere": {x.Check(r.stream, x.b, 0), device.ErrPointer, "scratch memory: "},
		"search":        {x.Search(r.stream, x.a, 0, x.c), device.ErrPointer, "the compressed matrix: "},
	} {
		if what == "no workspace" && x.WorkspaceBytes() == 0 {
			continue
		}
		testkit.WantError(t, what, test.err, test.kind, "cusparselt: ", test.says)
	}
}

// TestPlans: the library is asked once for each product, everything is given back, and
// plans end with their library.
func TestPlans(t *testing.T) {
	r := open(t)
	l, err := Open(r.dev)
	testkit.OK(t, err)
	g := blas.Gemm{M: 16, N: 32, K: 64, Alpha: 1, Type: dtype.BF16}
	first, err := l.Plan(g)
	testkit.OK(t, err)
	g.A.Ptr, g.Workspace, g.WorkspaceBytes = 4096, 8192, 1024
	if again, err := l.Plan(g); err != nil || again != first {
		t.Errorf("another plan, or %v", err)
	}
	g.M = 24
	if other, err := l.Plan(g); err != nil || other == first {
		t.Errorf("the same plan, or %v", err)
	}
	if first.CompressedBytes() < 64*32*2/2 || first.CompressedBytes() > 64*32*2+1<<16 {
		t.Errorf("%d bytes, compressed from %d", first.CompressedBytes(), 64*32*2)
	}
	if standIns.File != "" {
		var count dl.Func
		_, err := dl.Open(dl.Library{Name: "fake", Files: []string{standIns.File}, Symbols: []dl.Symbol{{Name: "fakecusparseltCount", Func: &count}}})
		testkit.OK(t, err)
		// Two handles, and of each plan three matrices, a selection and itself.
		if n := count.Call(); n != 2+2*5 {
			t.Errorf("%d objects", n)
		}
		defer func() {
			if n := count.Call(); n != 1 {
				t.Errorf("%d of the library's objects are left", n-1)
			}
		}()
	}
	testkit.OK(t, l.Close())
	_, err = l.Plan(g)
	testkit.WantError(t, "a plan of a closed library", err, device.ErrClosed, "cusparselt: ")
	testkit.WantError(t, "a product of a closed library", first.Gemm(r.stream, 0, 0, 0, 0), device.ErrClosed, "cusparselt: ")
}

// TestMissing: where the library is not installed, that is what is said. A process of its
// own finds none.
func TestMissing(t *testing.T) {
	const inChild = "CUSPARSELT_TEST_MISSING"
	if os.Getenv(inChild) == "" {
		if standIns.Missing != "" {
			t.Skip(standIns.Missing)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestMissing$", "-test.v")
		cmd.Env = append(os.Environ(), inChild+"=1", "PINION_LIB_CUSPARSELT=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	_, err := Open(openDevice(t))
	testkit.WantError(t, "no library", err, device.ErrNotSupported, "cusparselt: ", "no cuSPARSELt library", "switched off by PINION_LIB_CUSPARSELT")
}

func TestOpenOnOther(t *testing.T) {
	dev, err := host.Open(1 << 20)
	testkit.OK(t, err)
	defer dev.Close()
	if _, err := Open(dev); !errors.Is(err, device.ErrNotSupported) || !strings.Contains(err.Error(), "is not a CUDA device") {
		t.Error(err)
	}
}

func TestError(t *testing.T) {
	for status, kind := range map[uintptr]error{statusAllocFailed: device.ErrOutOfMemory, statusInsufficientResources: device.ErrOutOfMemory,
		statusInvalidValue: device.ErrArgument, statusArchMismatch: device.ErrNotSupported, statusTypeNotSupported: device.ErrNotSupported,
		statusNotSupported: device.ErrNotSupported} {
		if err := check("call", status); !errors.Is(err, kind) || errors.Is(err, device.ErrClosed) {
			t.Errorf("%v is no %v", err, kind)
		}
	}
	if err := check("cusparseLtMatmul", 10); err.Error() != "cusparseLtMatmul: CUSPARSE_STATUS_NOT_SUPPORTED (10)" {
		t.Error(err)
	}
	if err := check("x", 99); err.Error() != "x: unknown status (99)" {
		t.Error(err)
	}
	if check("x", 0) != nil {
		t.Error("success is an error")
	}
}
