// Package blastest is the conformance suite of package blas: every
// implementation passes it. Results are compared with products in float64, at
// odd sizes and strides.
package blastest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// Run runs the suite on what open makes for dev.
func Run(t *testing.T, dev device.Device, open func(device.Device) (blas.BLAS, error)) {
	b, err := open(dev)
	testkit.OK(t, err)
	stream, err := dev.NewStream()
	testkit.OK(t, err)
	t.Cleanup(func() {
		if err := errors.Join(stream.Close(), b.Close(), b.Close()); err != nil {
			t.Error(err)
		}
		if err := b.Gemm(stream, blas.Gemm{M: 1, N: 1, K: 1, Type: dtype.F32}); !errors.Is(err, device.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
	t.Logf("library: %s, workspace %d bytes", b.Library(), b.WorkspaceBytes())
	r := rig{t, dev, b, stream, rand.New(rand.NewPCG(1, 2))}
	t.Run("shapes", func(t *testing.T) { r.with(t).shapes() })
	t.Run("random", func(t *testing.T) { r.with(t).random() })
	t.Run("batches", func(t *testing.T) { r.with(t).batches() })
	t.Run("epilogues", func(t *testing.T) { r.with(t).epilogues() })
	t.Run("empty", func(t *testing.T) { r.with(t).empty() })
	t.Run("order", func(t *testing.T) { r.with(t).order() })
	t.Run("arguments", func(t *testing.T) { r.with(t).arguments() })
}

type rig struct {
	*testing.T
	dev    device.Device
	blas   blas.BLAS
	stream device.Stream
	rand   *rand.Rand
}

func (r rig) with(t *testing.T) *rig {
	r.T = t
	return &r
}

// problem is a Gemm with what the suite chooses besides.
type problem struct {
	blas.Gemm
	addend    bool // beside C
	bias      bool
	lead      int64 // elements before each matrix, which unalign it
	workspace bool
}

func (p problem) String() string {
	return fmt.Sprintf("%d of %dx%dx%d %v->%v trans %t %t alpha %v beta %v strides %d %d %d, of the batch %d %d %d, addend %t %d %d, bias %t, activation %d, lead %d tf32 %t workspace %t",
		p.Batch, p.M, p.N, p.K, p.Type, p.ResultType(), p.TransA, p.TransB, p.Alpha, p.Beta,
		p.A.Stride, p.B.Stride, p.C.Stride, p.A.BatchStride, p.B.BatchStride, p.C.BatchStride, p.addend, p.Addend.Stride, p.Addend.BatchStride,
		p.bias, p.Activation, p.lead, p.TF32, p.workspace)
}

// shapes are the cases that are easily got wrong.
func (r *rig) shapes() {
	sizes := [][3]int64{{1, 1, 1}, {1, 7, 3}, {5, 1, 9}, {64, 64, 64}, {65, 63, 257}, {3, 130, 300}, {100, 140, 270}}
	if testing.Short() {
		sizes = sizes[:4]
	}
	for _, size := range sizes {
		for trans := range 4 {
			for _, types := range pairs {
				for _, beta := range []float32{0, 1, -0.5} {
					g := blas.Gemm{M: size[0], N: size[1], K: size[2], TransA: trans&1 != 0, TransB: trans&2 != 0,
						Alpha: 1, Beta: beta, Type: types[0], TypeC: types[1]}
					r.check(problem{Gemm: g, workspace: trans == 0})
				}
			}
		}
	}
}

func (r *rig) random() {
	n := 150
	if testing.Short() {
		n = 20
	}
	for range n {
		r.check(r.any(150))
	}
}

// batches are as they come up, and any.
func (r *rig) batches() {
	for _, t := range []dtype.DType{dtype.F32, dtype.BF16, dtype.F16} {
		// Of an array [length, heads, each]: scores of each head, and what they weigh.
		const heads, length, each = 3, 24, 16
		apart := blas.Matrix{Stride: heads * each, BatchStride: each}
		scores := blas.Matrix{BatchStride: length * length}
		r.check(problem{Gemm: blas.Gemm{M: length, N: length, K: each, Batch: heads, TransB: true, Alpha: 0.25, A: apart, B: apart, C: scores, Type: t}})
		r.check(problem{Gemm: blas.Gemm{M: length, N: each, K: length, Batch: heads, Alpha: 1, A: scores, B: apart, C: apart, Type: t}})
		// One matrix for all, on either side and on both.
		dense := blas.Matrix{BatchStride: 8 * 8}
		for shared := range 4 {
			g := blas.Gemm{M: 8, N: 8, K: 8, Batch: 5, Alpha: 1, Beta: 1, A: dense, B: dense, C: dense, Type: t}
			if shared&1 != 0 {
				g.A.BatchStride = 0
			}
			if shared&2 != 0 {
				g.B.BatchStride = 0
			}
			r.check(problem{Gemm: g, workspace: true})
		}
	}
	n := 100
	if testing.Short() {
		n = 20
	}
	for range n {
		p := r.any(40)
		p.Batch = 1 + r.rand.Int64N(7)
		a, b, c := p.Shapes()
		for _, m := range []struct {
			of    *blas.Matrix
			shape blas.Stored
		}{{&p.A, a}, {&p.B, b}, {&p.C, c}} {
			behind := (m.shape.Rows-1)*m.shape.Stride + m.shape.Columns
			switch r.rand.IntN(4) {
			case 0:
				m.of.BatchStride = behind
			case 1:
				m.of.BatchStride = behind + r.rand.Int64N(20)
			case 2: // side by side
				m.of.BatchStride = m.shape.Columns + r.rand.Int64N(3)
				m.of.Stride = p.Batch*m.of.BatchStride + r.rand.Int64N(3)
			case 3: // the same for all, which a result cannot be
				if m.of == &p.C {
					m.of.BatchStride = behind
				}
			}
		}
		r.check(p)
	}
}

// epilogues are what is done to a product before it is stored: everything with
// everything, at sizes that suit every library, and any at all, which a library need
// not have.
func (r *rig) epilogues() {
	for _, types := range pairs {
		for kind := range 16 {
			p := problem{Gemm: blas.Gemm{M: 40, N: 48, K: 32, Alpha: 1, Type: types[0], TypeC: types[1], Activation: blas.Activation(kind / 4 % 3)},
				addend: kind&1 != 0, bias: kind&2 != 0}
			if p.addend {
				p.Beta = 1
			}
			if kind >= 12 {
				p.Batch, p.A.BatchStride, p.C.BatchStride = 3, 40*32, 40*48
				p.Addend.BatchStride = p.C.BatchStride
				p.Activation = blas.ReLU
			}
			if !r.check(p) {
				r.Errorf("%v: not supported", p)
			}
		}
	}
	n := 100
	if testing.Short() {
		n = 20
	}
	lacking := 0
	for range n {
		p := r.any(60)
		p.bias, p.Activation = r.rand.IntN(2) == 0, blas.Activation(r.rand.IntN(3))
		if p.addend = r.rand.IntN(2) == 0; p.addend && r.rand.IntN(2) == 0 {
			p.Addend.Stride = p.N + r.rand.Int64N(9)
		}
		if !r.check(p) {
			lacking++
		}
	}
	r.Logf("%d of %d are not supported", lacking, n)
}

// pairs are the types of factors and results.
var pairs = [][2]dtype.DType{{dtype.F32, dtype.F32}, {dtype.BF16, dtype.BF16}, {dtype.BF16, dtype.F32}, {dtype.F16, dtype.F16}, {dtype.F16, dtype.F32}}

// any is a product of up to so many rows and columns.
func (r *rig) any(most int64) problem {
	dim := func() int64 { return 1 + r.rand.Int64N(most) }
	p := problem{Gemm: blas.Gemm{M: dim(), N: dim(), K: dim(), TransA: r.rand.IntN(2) == 0, TransB: r.rand.IntN(2) == 0,
		Alpha: float32(r.rand.NormFloat64()), Type: dtype.F32}}
	if r.rand.IntN(2) == 0 {
		p.Beta = float32(r.rand.NormFloat64())
	}
	if kind := r.rand.IntN(4); kind < 3 {
		p.Type = []dtype.DType{dtype.BF16, dtype.BF16, dtype.F16}[kind]
		if r.rand.IntN(2) == 0 {
			p.TypeC = dtype.F32
		}
	} else {
		p.TF32 = r.rand.IntN(2) == 0
	}
	a, b, c := p.Shapes()
	for _, m := range []struct {
		to    *int64
		shape blas.Stored
	}{{&p.A.Stride, a}, {&p.B.Stride, b}, {&p.C.Stride, c}} {
		if r.rand.IntN(2) == 0 {
			*m.to = m.shape.Columns + r.rand.Int64N(9)
		}
	}
	p.lead = r.rand.Int64N(2) * r.rand.Int64N(5)
	p.workspace = r.rand.IntN(2) == 0
	return p
}

// check runs one product and compares every byte of C, the gaps too. It reports false if
// the library lacks an epilogue.
func (r *rig) check(p problem) bool {
	r.Helper()
	a, b, c := p.Shapes()
	t, tc := p.Type, p.ResultType()
	var free []device.Ptr
	put := func(values []byte, t dtype.DType) ([]byte, device.Ptr) {
		lead := p.lead * int64(t.Size())
		at := r.upload(values, lead)
		free = append(free, at.Add(-lead))
		return values, at
	}
	values := func(s blas.Stored, t dtype.DType) []byte { return Random(r.rand, s.Bytes/int64(t.Size()), t) }
	var m Memory
	m.A, p.A.Ptr = put(values(a, t), t)
	m.B, p.B.Ptr = put(values(b, t), t)
	m.C = values(c, tc)
	if p.Beta == 0 || p.addend {
		for i := range m.C {
			m.C[i] = 0xff // NaNs, which must not get through
		}
	}
	m.C, p.C.Ptr = put(m.C, tc)
	if p.addend && p.Beta != 0 {
		p.Addend.Ptr = 1 // so that there is a shape
		d, _ := p.AddendShape()
		m.Addend, p.Addend.Ptr = put(values(d, tc), tc)
	}
	if p.bias {
		m.Bias, p.Bias = put(Random(r.rand, p.N, tc), tc)
	}
	if n := r.blas.WorkspaceBytes(); p.workspace && n > 0 {
		at, err := r.dev.Alloc(n)
		testkit.OK(r, err)
		p.Workspace, p.WorkspaceBytes = at, n
		free = append(free, at)
	}
	got := make([]byte, len(m.C))
	err := r.blas.Gemm(r.stream, p.Gemm)
	lacks := errors.Is(err, device.ErrNotSupported) && (p.addend || p.bias || p.Activation != blas.NoActivation)
	if !lacks && err != nil {
		r.Errorf("%v: %v", p, err)
	}
	testkit.OK(r, r.stream.CopyD2H(got, p.C.Ptr))
	testkit.OK(r, r.stream.Synchronize())
	for _, at := range free {
		testkit.OK(r, r.dev.Free(at))
	}
	if err != nil {
		return !lacks
	}
	if err := Compare(p.Gemm, got, m); err != nil {
		r.Fatalf("%v: %v", p, err)
	}
	return true
}

// upload copies b behind some bytes of an allocation of its own.
func (r *rig) upload(b []byte, lead int64) device.Ptr {
	r.Helper()
	at, err := r.dev.Alloc(lead + int64(len(b)))
	testkit.OK(r, err)
	testkit.OK(r, r.stream.CopyH2D(at.Add(lead), b))
	testkit.OK(r, r.stream.Synchronize())
	return at.Add(lead)
}

// Random returns n elements of a type, between -1 and 1.
func Random(random *rand.Rand, n int64, t dtype.DType) []byte {
	b := make([]byte, 0, n*int64(t.Size()))
	for range n {
		b = Append(b, 2*random.Float32()-1, t)
	}
	return b
}

// Append appends an element.
func Append(b []byte, v float32, t dtype.DType) []byte {
	switch t {
	case dtype.BF16:
		return binary.LittleEndian.AppendUint16(b, float16.ToBF16(v))
	case dtype.F16:
		return binary.LittleEndian.AppendUint16(b, float16.ToF16(v))
	}
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
}

// At returns an element.
func At(b []byte, i int64, t dtype.DType) float64 {
	switch t {
	case dtype.BF16:
		return float64(float16.FromBF16(binary.LittleEndian.Uint16(b[2*i:])))
	case dtype.F16:
		return float64(float16.FromF16(binary.LittleEndian.Uint16(b[2*i:])))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
}

// dot is the sum of n products, and of their magnitudes. The numbers are the caller's
// alone, and the race detector takes ten times as long to look at them.
//
//go:norace
func dot(a []float64, atA, nextA int64, b []float64, atB, nextB, n int64) (sum, magnitude float64) {
	for range n {
		v := a[atA] * b[atB]
		atA, atB = atA+nextA, atB+nextB
		sum += v
		magnitude += math.Abs(v)
	}
	return sum, magnitude
}

// Memory is what lay in memory before a product: at A, B and C, and at Addend and Bias
// where the product has them.
type Memory struct{ A, B, C, Addend, Bias []byte }

// Compare compares got, the memory of C after g, with what it computes in float64 of
// what was there before. Bytes between rows and matrices must be as they were.
func Compare(g blas.Gemm, got []byte, before Memory) error {
	shapeA, shapeB, shapeC := g.Shapes()
	t, tc := g.Type, g.ResultType()
	size := int64(tc.Size())
	wide := func(b []byte, s blas.Stored) []float64 {
		list := make([]float64, s.Bytes/int64(t.Size()))
		for i := range list {
			list[i] = At(b, int64(i), t)
		}
		return list
	}
	wideA, wideB := wide(before.A, shapeA), wide(before.B, shapeB)
	addend := before.C
	shapeD, apart := g.AddendShape()
	if apart {
		addend = before.Addend
	} else {
		shapeD = shapeC
	}
	written := make([]bool, shapeC.Bytes/size)
	for n := range g.Count() {
		for i := range g.M {
			for j := range g.N {
				atA, nextA, atB, nextB := i*shapeA.Stride, int64(1), j, shapeB.Stride
				if g.TransA {
					atA, nextA = i, shapeA.Stride
				}
				if g.TransB {
					atB, nextB = j*shapeB.Stride, 1
				}
				atA, atB = atA+n*shapeA.BatchStride, atB+n*shapeB.BatchStride
				sum, magnitude := dot(wideA, atA, nextA, wideB, atB, nextB, g.K)
				at := n*shapeC.BatchStride + i*shapeC.Stride + j
				written[at] = true
				var old, bias float64
				if g.Beta != 0 {
					old = At(addend, n*shapeD.BatchStride+i*shapeD.Stride+j, tc)
				}
				if g.Bias != 0 {
					bias = At(before.Bias, j, tc)
				}
				want, bound := expected(g, sum, magnitude, old, bias)
				if v := At(got, at, tc); !(math.Abs(v-want) <= bound) {
					return fmt.Errorf("product %d, row %d, column %d is %v, want %v within %.3g", n, i, j, v, want, bound)
				}
			}
		}
	}
	for i, w := range written {
		if at := int64(i) * size; !w && !bytes.Equal(got[at:at+size], before.C[at:at+size]) {
			return fmt.Errorf("element %d, between the rows, was written", i)
		}
	}
	return nil
}

// expected is an element of a result and how far off it may be. sum is that of the
// products of g.K factors, magnitude the sum of their absolute values, and old the
// addend.
//
// A sum of K products in float32, in any order, has the bound of Higham, "Accuracy and
// Stability", 3.5. To a type of 16 bits, each value that another step takes may be
// rounded, and the last one is.
func expected(g blas.Gemm, sum, magnitude, old, bias float64) (want, bound float64) {
	unit := math.Exp2(-24) // half a last bit of a float32 of 1
	want = float64(g.Alpha) * sum
	magnitude *= math.Abs(float64(g.Alpha))
	old *= float64(g.Beta)
	bound = (float64(g.K) + 6) * unit * (magnitude + math.Abs(old) + math.Abs(bias))
	if g.TF32 {
		bound += (float64(g.K) + 6) * math.Exp2(-11) * magnitude
	}
	round := func() { bound += rounding(math.Abs(want)+bound, g.ResultType()) }
	if g.Beta != 0 {
		round()
		want += old
	}
	if g.Bias != 0 {
		round()
		want += bias
	}
	switch g.Activation {
	case blas.ReLU: // of what is rounded, it is rounded, too
		want = max(want, 0)
	case blas.GELU:
		round()
		x := want
		want = x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		bound = 1.13*bound + math.Exp2(-10)*(math.Abs(x)+bound) // its slope, and its own error
	}
	round()
	return want, bound
}

// rounding is what rounding values up to v changes at most: half a unit in the last place
// of v.
func rounding(v float64, t dtype.DType) float64 {
	_, exponent := math.Frexp(v) // v is below 2^exponent
	switch {
	case v == 0:
		return 0
	case t == dtype.BF16:
		return math.Ldexp(1, max(exponent-9, -134)) // the latter below the normal numbers
	case t == dtype.F16:
		return math.Ldexp(1, max(exponent-12, -25))
	}
	return 0 // the bound of the sum has it
}

// empty: no rows or columns are no work, and no addresses are needed.
func (r *rig) empty() {
	testkit.OK(r, r.blas.Gemm(r.stream, blas.Gemm{N: 5, K: 5, Type: dtype.F32}))
	testkit.OK(r, r.blas.Gemm(r.stream, blas.Gemm{M: 5, K: 5, Type: dtype.BF16}))
	testkit.OK(r, r.stream.Synchronize())
}

// order: a product sees what was queued before it, and what is queued behind
// it sees the product.
func (r *rig) order() {
	const n = 200
	one := make([]byte, 0, 4*n*n)
	for i := range n * n {
		v := float32(0)
		if i/n == i%n {
			v = 1
		}
		one = Append(one, v, dtype.F32)
	}
	identity := r.upload(one, 0)
	from := Random(r.rand, n*n, dtype.F32)
	x := r.upload(from, 0)
	y := r.upload(make([]byte, len(from)), 0)
	for range 10 { // there and back
		for _, way := range [][2]device.Ptr{{x, y}, {y, x}} {
			testkit.OK(r, r.blas.Gemm(r.stream, blas.Gemm{M: n, N: n, K: n, Alpha: 1, Type: dtype.F32,
				A: blas.Matrix{Ptr: way[0]}, B: blas.Matrix{Ptr: identity}, C: blas.Matrix{Ptr: way[1]}}))
			testkit.OK(r, r.stream.Memset(way[0], 0xff, int64(len(from))))
		}
	}
	got := make([]byte, len(from))
	testkit.OK(r, r.stream.CopyD2H(got, x))
	testkit.OK(r, r.stream.Synchronize())
	if !bytes.Equal(got, from) {
		r.Error("the products and fills did not run in order")
	}
	for _, at := range []device.Ptr{identity, x, y} {
		testkit.OK(r, r.dev.Free(at))
	}
}

// arguments that cannot be right are errors, and queue nothing.
func (r *rig) arguments() {
	const at = device.Ptr(1 << 20)
	good := blas.Gemm{M: 4, N: 4, K: 4, Alpha: 1, Type: dtype.F32,
		A: blas.Matrix{Ptr: at}, B: blas.Matrix{Ptr: 2 * at}, C: blas.Matrix{Ptr: 3 * at}}
	for name, change := range map[string]func(g *blas.Gemm){
		"negative":              func(g *blas.Gemm) { g.M = -1 },
		"no depth":              func(g *blas.Gemm) { g.K = 0 },
		"no type":               func(g *blas.Gemm) { g.Type = 0 },
		"other type":            func(g *blas.Gemm) { g.Type = dtype.F64 },
		"narrower result":       func(g *blas.Gemm) { g.TypeC = dtype.BF16 },
		"no A":                  func(g *blas.Gemm) { g.A.Ptr = 0 },
		"B not aligned":         func(g *blas.Gemm) { g.B.Ptr++ },
		"short rows":            func(g *blas.Gemm) { g.C.Stride = 3 },
		"negative stride":       func(g *blas.Gemm) { g.A.Stride = -8 },
		"overlap":               func(g *blas.Gemm) { g.C.Ptr = g.A.Ptr.Add(60) },
		"too large":             func(g *blas.Gemm) { g.M, g.A.Stride = 1<<40, 1<<40 },
		"negative batch":        func(g *blas.Gemm) { g.Batch = -1 },
		"large batch":           func(g *blas.Gemm) { g.Batch = 1 << 31 },
		"large batch stride":    func(g *blas.Gemm) { g.Batch, g.B.BatchStride = 1<<30, 1<<40 },
		"negative batch stride": func(g *blas.Gemm) { g.Batch, g.A.BatchStride, g.C.BatchStride = 2, -16, 16 },
		"one result for all":    func(g *blas.Gemm) { g.Batch = 2 },
		"results overlap":       func(g *blas.Gemm) { g.Batch, g.C.BatchStride = 2, 15 },
		"results cross":         func(g *blas.Gemm) { g.Batch, g.C.Stride, g.C.BatchStride = 2, 7, 4 },
		"batch overlaps":        func(g *blas.Gemm) { g.Batch, g.C.BatchStride, g.A.Ptr = 2, 16, g.C.Ptr.Add(124) },
		"addend overlaps":       func(g *blas.Gemm) { g.Beta, g.Addend.Ptr = 1, g.C.Ptr.Add(4) },
		"addend is C, wider":    func(g *blas.Gemm) { g.Beta, g.Addend = 1, blas.Matrix{Ptr: g.C.Ptr, Stride: 5} },
		"addend, short rows":    func(g *blas.Gemm) { g.Beta, g.Addend = 1, blas.Matrix{Ptr: 4 * at, Stride: 3} },
		"addend not aligned":    func(g *blas.Gemm) { g.Beta, g.Addend.Ptr = 1, 4*at+2 },
		"bias overlaps":         func(g *blas.Gemm) { g.Bias = g.C.Ptr.Add(60) },
		"bias not aligned":      func(g *blas.Gemm) { g.Bias = 4*at + 1 },
		"no such activation":    func(g *blas.Gemm) { g.Activation = blas.GELU + 1 },
		"half the type":         func(g *blas.Gemm) { g.TypeC = dtype.F16 },
		"other half":            func(g *blas.Gemm) { g.Type, g.TypeC = dtype.F16, dtype.BF16 },
		"end of memory":         func(g *blas.Gemm) { g.A.Ptr = math.MaxUint64 - 15 },
		"workspace":             func(g *blas.Gemm) { g.WorkspaceBytes = 1 },
		"workspace not aligned": func(g *blas.Gemm) { g.Workspace, g.WorkspaceBytes = 8, 1 },
	} {
		g := good
		change(&g)
		if err := r.blas.Gemm(r.stream, g); !errors.Is(err, device.ErrArgument) {
			r.Errorf("%s: %v", name, err)
		}
	}
	if err := r.blas.Gemm(nil, good); !errors.Is(err, device.ErrArgument) {
		r.Errorf("no stream: %v", err)
	}
	if err := r.blas.Gemm(r.stream, good); !errors.Is(err, device.ErrPointer) {
		r.Errorf("addresses of nobody: %v", err)
	}
}
