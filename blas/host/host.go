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
	a, b, c := g.Shapes()
	var bytes [3][]byte
	for i, side := range []struct {
		m     blas.Matrix
		shape blas.Stored
	}{{g.A, a}, {g.B, b}, {g.C, c}} {
		var err error
		if bytes[i], err = h.caller.Bytes(side.m.Ptr, side.shape.Bytes); err != nil {
			return err
		}
	}
	p := product{Gemm: g, a: operand{bytes[0], a, g.Type}, b: operand{bytes[1], b, g.Type},
		c: operand{bytes[2], c, g.ResultType()}}
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
	a, b, c operand
}

// nth is one product of a batch.
func (p *product) nth(i int64) product {
	one := *p
	one.Batch = 1
	for _, o := range []*operand{&one.a, &one.b, &one.c} {
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
	at := row*o.Stride + column
	if o.t == dtype.F32 {
		copy(dst, o.f32()[at:])
		return
	}
	src := o.bits()[at : at+int64(len(dst))]
	if o.t == dtype.F16 {
		for i, v := range src {
			dst[i] = float16.FromF16(v)
		}
		return
	}
	for i, v := range src {
		dst[i] = float16.FromBF16(v)
	}
}

// put stores one row of alpha x sums + beta c.
func (p *product) put(sums []float32, row, column int64) {
	at := row*p.c.Stride + column
	end := at + int64(len(sums))
	switch p.c.t {
	case dtype.F32:
		c := p.c.f32()[at:end]
		for i, v := range c {
			c[i] = p.scaled(sums[i], v)
		}
	case dtype.F16:
		c := p.c.bits()[at:end]
		for i, v := range c {
			c[i] = float16.ToF16(p.scaled(sums[i], float16.FromF16(v)))
		}
	default:
		c := p.c.bits()[at:end]
		for i, v := range c {
			c[i] = float16.ToBF16(p.scaled(sums[i], float16.FromBF16(v)))
		}
	}
}

func (p *product) scaled(sum, old float32) float32 {
	if p.Beta == 0 {
		return p.Alpha * sum // old may be anything, a NaN too
	}
	return p.Alpha*sum + p.Beta*old
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
	if p.c.t == dtype.F32 {
		callSgemm(p.TransA, p.TransB, m, n, k, p.Alpha, a, lda, b, ldb, p.Beta, p.c.f32(), int32(p.c.Stride))
		return
	}
	sums := make([]float32, p.M*p.N)
	callSgemm(p.TransA, p.TransB, m, n, k, 1, a, lda, b, ldb, 0, sums, n)
	for i := range p.M {
		p.put(sums[i*p.N:][:p.N], i, 0)
	}
}
