package host

import (
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
)

// Open makes a BLAS of dev. It fails with [device.ErrNotSupported] when dev
// does not run Go functions.
func Open(dev device.Device) (blas.BLAS, error) {
	caller, ok := device.As[device.Caller](dev)
	if !ok {
		return nil, fmt.Errorf("blas: %w: %s runs no Go functions", device.ErrNotSupported, dev.Info().ID)
	}
	_, err := library()
	return &multiplier{caller: caller, openBLAS: err == nil}, nil
}

type multiplier struct {
	caller   device.Caller
	openBLAS bool
	closed   atomic.Bool
}

// Library implements [blas.BLAS].
func (h *multiplier) Library() string {
	if h.openBLAS {
		return "OpenBLAS"
	}
	return "Go"
}

// WorkspaceBytes implements [blas.BLAS].
func (h *multiplier) WorkspaceBytes() int64 { return 0 }

// Close implements [blas.BLAS].
func (h *multiplier) Close() error {
	h.closed.Store(true)
	return nil
}

// Gemm implements [blas.BLAS].
func (h *multiplier) Gemm(s device.Stream, g blas.Gemm) error {
	if err := h.gemm(s, g); err != nil {
		return fmt.Errorf("blas: gemm: %w", err)
	}
	return nil
}

func (h *multiplier) gemm(s device.Stream, g blas.Gemm) error {
	switch err := g.Check(); {
	case h.closed.Load():
		return device.ErrClosed
	case err != nil:
		return err
	case s == nil:
		return fmt.Errorf("%w: no stream", device.ErrArgument)
	case g.M == 0 || g.N == 0:
		return nil
	}
	p := product{Gemm: g}
	a, b, c := g.Shapes()
	d, apart := g.AddendShape()
	bias := blas.Stored{Rows: 1, Columns: g.N, Stride: g.N, Bytes: g.N * int64(g.ResultType().Size())}
	for _, o := range []struct {
		to    *operand
		at    device.Ptr
		shape blas.Stored
		t     dtype.DType
		used  bool
	}{{&p.a, g.A.Ptr, a, g.Type, true}, {&p.b, g.B.Ptr, b, g.Type, true}, {&p.c, g.C.Ptr, c, g.ResultType(), true},
		{&p.addend, g.Addend.Ptr, d, g.ResultType(), apart}, {&p.bias, g.Bias, bias, g.ResultType(), g.Bias != 0}} {
		if !o.used {
			continue
		}
		memory, err := h.caller.Bytes(o.at, o.shape.Bytes)
		if err != nil {
			return err
		}
		*o.to = operand{memory, o.shape, o.t}
	}
	if !apart {
		p.addend = p.c
	}
	return h.caller.Call(s, func() error {
		if !h.openBLAS || !p.fitsFortran() {
			p.inGo()
			return nil
		}
		for i := range p.Count() {
			one := p.nth(i)
			one.byBLAS()
		}
		return nil
	})
}

// product is a checked Gemm on memory of this process.
type product struct {
	blas.Gemm
	a, b, c      operand
	addend, bias operand // the addend is c where the Gemm has no other
}

// nth is one product of a batch.
func (p *product) nth(i int64) product {
	one := *p
	one.Batch = 1
	for _, o := range []*operand{&one.a, &one.b, &one.c, &one.addend} {
		o.bytes = o.bytes[i*o.BatchStride*int64(o.t.Size()):]
	}
	return one
}

// operand is a matrix as it is stored.
type operand struct {
	bytes []byte
	blas.Stored
	t dtype.DType
}

// f32 and bits are the elements of an operand of 32 and of 16 bits. Check has seen
// to it that they are aligned.
func (o *operand) f32() []float32 { return elements[float32](o.bytes) }
func (o *operand) bits() []uint16 { return elements[uint16](o.bytes) }

func elements[T float32 | uint16](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// row copies part of a row, widened.
func (o *operand) row(dst []float32, row, column int64) {
	if o.t == dtype.F32 {
		copy(dst, o.f32()[row*o.Stride+column:])
		return
	}
	o.each(int64(len(dst)), row, column, func(i int, v float32) { dst[i] = v })
}

// each calls f with n elements of a row, widened.
func (o *operand) each(n, row, column int64, f func(i int, v float32)) {
	at := row*o.Stride + column
	switch o.t {
	case dtype.F32:
		for i, v := range o.f32()[at : at+n] {
			f(i, v)
		}
	case dtype.F16:
		for i, v := range o.bits()[at : at+n] {
			f(i, float16.FromF16(v))
		}
	default:
		for i, v := range o.bits()[at : at+n] {
			f(i, float16.FromBF16(v))
		}
	}
}

// put stores a part of a row of a result, of its sums, which it changes.
func (p *product) put(sums []float32, row, column int64) {
	if p.Alpha != 1 {
		for i := range sums {
			sums[i] *= p.Alpha
		}
	}
	if p.Beta != 0 { // else the addend may be anything, a NaN too
		p.addend.each(int64(len(sums)), row, column, func(i int, v float32) { sums[i] += p.Beta * v })
	}
	if p.Bias != 0 {
		p.bias.each(int64(len(sums)), 0, column, func(i int, v float32) { sums[i] += v })
	}
	switch p.Activation {
	case blas.ReLU:
		for i, v := range sums {
			sums[i] = max(v, 0)
		}
	case blas.GELU:
		for i, v := range sums {
			x := float64(v)
			sums[i] = float32(x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))))
		}
	}
	at := row*p.c.Stride + column
	switch p.c.t {
	case dtype.F32:
		copy(p.c.f32()[at:], sums)
	case dtype.F16:
		for i, v := range sums {
			p.c.bits()[at+int64(i)] = float16.ToF16(v)
		}
	default:
		for i, v := range sums {
			p.c.bits()[at+int64(i)] = float16.ToBF16(v)
		}
	}
}

// fitsFortran reports whether 32-bit integers hold the sizes.
func (p *product) fitsFortran() bool {
	return max(p.M, p.N, p.K, p.a.Stride, p.b.Stride, p.c.Stride) <= math.MaxInt32
}

// byBLAS multiplies one product with the library; elements of 16 bits go through
// copies.
func (p *product) byBLAS() {
	widened := func(o *operand) ([]float32, int32) {
		if o.t == dtype.F32 {
			return o.f32(), int32(o.Stride)
		}
		w := make([]float32, o.Rows*o.Columns)
		for i := range o.Rows {
			o.row(w[i*o.Columns:][:o.Columns], i, 0)
		}
		return w, int32(o.Columns)
	}
	a, lda := widened(&p.a)
	b, ldb := widened(&p.b)
	m, n, k := int32(p.M), int32(p.N), int32(p.K)
	if _, apart := p.AddendShape(); p.c.t == dtype.F32 && !apart && p.Bias == 0 && p.Activation == blas.NoActivation {
		callSgemm(p.TransA, p.TransB, m, n, k, p.Alpha, a, lda, b, ldb, p.Beta, p.c.f32(), int32(p.c.Stride))
		return
	}
	sums := make([]float32, p.M*p.N)
	callSgemm(p.TransA, p.TransB, m, n, k, 1, a, lda, b, ldb, 0, sums, n)
	for i := range p.M {
		p.put(sums[i*p.N:][:p.N], i, 0)
	}
}
