package blas

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// BLAS multiplies matrices on one device. Its methods are safe for concurrent
// use.
type BLAS interface {
	// Gemm queues g on s. The matrices and the workspace must stay allocated
	// until the work is done. It fails with [device.ErrArgument], having
	// queued nothing, when g cannot be right, and with
	// [device.ErrNotSupported] when the library has no routine for it.
	Gemm(s device.Stream, g Gemm) error

	// Library names what multiplies, with its version where there is one:
	// "cuBLASLt 13.0.2", "Go".
	Library() string

	// WorkspaceBytes is how much workspace is worth giving to a Gemm; 0 for
	// none.
	WorkspaceBytes() int64

	// Close gives the library's handle back. Close it before the device. Gemm
	// fails with [device.ErrClosed] afterwards; a second Close does nothing.
	Close() error
}

// Tuner is a BLAS that can find its fastest routine by measuring.
type Tuner interface {
	BLAS

	// Tune chooses what Gemm takes for products like g from now on: those of
	// the same shapes, strides, types and workspace, whose addresses are aligned
	// alike. It runs g several times on s, and waits. C is overwritten, so it must
	// not be its own addend. Nothing may record s meanwhile ([device.Capturer]).
	//
	// Another routine may add up in another order, so a choice that was once made
	// stays: it is kept in the user's cache directory, by the library's version and
	// the kind of device, and taken from there the next time, without measuring.
	// One that cannot be kept is not made: Tune fails, and Gemm goes on as before.
	Tune(s device.Stream, g Gemm) error
}

// WorkspaceAlign is what the address of [Gemm].Workspace is a multiple of, in bytes.
const WorkspaceAlign = 256

// Gemm is a product of matrices, or a batch of them:
//
//	C = activation(Alpha op(A) op(B) + Beta Addend + Bias)
//
// where op(A) has M rows and K columns, op(B) K and N, and C M and N. op
// transposes where TransA or TransB says so. Products are summed in float32. What
// follows is done from the left to the right: Alpha, the addend, the bias, the
// activation. A result of 16 bits is rounded at the end, and may have been rounded to
// C's type before each step after Alpha.
type Gemm struct {
	M, N, K        int64 // M and N of 0 are no work; K is 1 or more
	TransA, TransB bool  // A is stored K x M; B is stored N x K

	// Batch is the number of products, at most 2^31-1: the first of the matrices
	// at the addresses of A, B and C, the others at their [Matrix.BatchStride]
	// from one another. Default: 1.
	Batch int64

	Alpha, Beta float32

	A, B, C Matrix // C must overlap neither A nor B

	// Addend is a matrix of C's type and shape that Beta multiplies: a residual,
	// say. It is C, or does not overlap it. With a Beta of 0 it is not read.
	// Default: C.
	Addend Matrix

	// Bias is a vector of N elements of C's type that is added to each row of all
	// products. It must not overlap C. Default: none.
	Bias device.Ptr

	Activation Activation // default: none

	Type  dtype.DType // of the elements of A and B: F32, BF16 or F16
	TypeC dtype.DType // of those of C: F32, or the same as Type; default: Type

	// TF32 allows factors of type F32 to be rounded to the 10 bits of
	// TensorFloat-32 where that is faster. Sums stay float32.
	TF32 bool

	// Workspace is scratch memory, aligned to [WorkspaceAlign], that nothing else may
	// use until the work is done; see [BLAS.WorkspaceBytes]. Default: none.
	Workspace      device.Ptr
	WorkspaceBytes int64
}

// Activation is a function of each element of a result.
type Activation uint8

// The activations. None has the error function, which the exact GELU is made of.
const (
	NoActivation Activation = iota
	ReLU                    // max(x, 0)
	GELU                    // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), within 2^-10 |x|
)

// Matrix is a row-major matrix in device memory, or a batch of them.
type Matrix struct {
	Ptr device.Ptr // a multiple of the element's size

	// Stride is the number of elements from the start of a row to that of the
	// next. Default: 0, the columns as they are stored.
	Stride int64

	// BatchStride is the number of elements from the start of a matrix to that
	// of the next. 0 is the same matrix for all products, which C cannot be.
	// Those of C lie one behind the other, or side by side between the starts of
	// two rows. Without a batch it says nothing.
	BatchStride int64
}

// Stored is the shape of a matrix as it is stored.
type Stored struct {
	Rows, Columns int64
	Stride        int64 // elements
	BatchStride   int64 // elements; 0 without a batch
	Bytes         int64 // from the first element to behind the last, of all matrices
}

// Shapes returns how A, B and C are stored, with defaults filled in.
func (g *Gemm) Shapes() (a, b, c Stored) {
	return g.stored(&g.A, g.M, g.K, g.TransA, g.Type), g.stored(&g.B, g.K, g.N, g.TransB, g.Type),
		g.stored(&g.C, g.M, g.N, false, g.ResultType())
}

// AddendShape returns how the addend is stored, and false if none is read or it
// is C itself.
func (g *Gemm) AddendShape() (Stored, bool) {
	if g.Beta == 0 || g.Addend.Ptr == 0 || g.Addend.Ptr == g.C.Ptr {
		return Stored{}, false
	}
	return g.stored(&g.Addend, g.M, g.N, false, g.ResultType()), true
}

func (g *Gemm) stored(m *Matrix, rows, columns int64, transposed bool, t dtype.DType) Stored {
	if transposed {
		rows, columns = columns, rows
	}
	s := Stored{Rows: rows, Columns: columns, Stride: cmp.Or(m.Stride, columns)}
	n := (rows-1)*s.Stride + columns
	if count := g.Count(); count > 1 {
		s.BatchStride = m.BatchStride
		n += (count - 1) * m.BatchStride
	}
	s.Bytes = n * int64(t.Size())
	return s
}

// Count is the number of products: Batch with its default filled in.
func (g *Gemm) Count() int64 { return cmp.Or(g.Batch, 1) }

// ResultType is the type of the elements of C.
func (g *Gemm) ResultType() dtype.DType { return cmp.Or(g.TypeC, g.Type) }

// Check finds what is wrong with g; its error matches [device.ErrArgument].
// Implementations call it first.
func (g *Gemm) Check() error {
	var memory [5]operand
	list := g.operands(memory[:0])
	if err := g.checkShapes(list); err != nil || g.M == 0 || g.N == 0 {
		return err
	}
	if g.WorkspaceBytes < 0 || g.WorkspaceBytes > 0 && (g.Workspace == 0 || g.Workspace%WorkspaceAlign != 0) {
		return bad("workspace of %d bytes at %#x, which must be a multiple of %d", g.WorkspaceBytes, uint64(g.Workspace), WorkspaceAlign)
	}
	for i := range list {
		o := &list[i]
		size := int64(o.t.Size())
		switch {
		case o.at == 0 || int64(o.at)%size != 0:
			return bad("%s is at %#x, which must be a multiple of %d and not zero", o.name, uint64(o.at), size)
		case o.at.Add(o.shape.Bytes) < o.at:
			return bad("%s: %d bytes at %#x run over the end of the address space", o.name, o.shape.Bytes, uint64(o.at))
		}
	}
	c := &list[0]
	for i := range list[1:] {
		o := &list[1+i]
		if o.at < c.at.Add(c.shape.Bytes) && c.at < o.at.Add(o.shape.Bytes) {
			return bad("%s (%d bytes at %#x) and C (%d bytes at %#x) overlap", o.name,
				o.shape.Bytes, uint64(o.at), c.shape.Bytes, uint64(c.at))
		}
	}
	return nil
}

// CheckShapes is [Gemm.Check] of all but addresses and the workspace, which need not be
// known yet.
func (g *Gemm) CheckShapes() error {
	var memory [5]operand
	return g.checkShapes(g.operands(memory[:0]))
}

func (g *Gemm) checkShapes(list []operand) error {
	t, tc := g.Type, g.ResultType()
	switch {
	case g.M < 0 || g.N < 0 || g.K < 1:
		return bad("%d x %d x %d", g.M, g.N, g.K)
	case g.Batch < 0 || g.Batch > math.MaxInt32:
		return bad("a batch of %d products", g.Batch)
	case t != dtype.F32 && t != dtype.BF16 && t != dtype.F16 || tc != dtype.F32 && tc != t:
		return bad("elements of type %v give %v; f32, bf16 and f16 give their own type or f32", t, tc)
	case g.Activation > GELU:
		return bad("activation %d", g.Activation)
	}
	for i := range list {
		o := &list[i]
		s := &o.shape
		if s.Stride < s.Columns {
			return bad("the rows of %s have %d elements and are %d apart", o.name, s.Columns, s.Stride)
		}
		if s.BatchStride < 0 {
			return bad("the matrices of %s are %d elements apart", o.name, s.BatchStride)
		}
		high, low := bits.Mul64(uint64(s.Rows), uint64(s.Stride))
		high2, low2 := bits.Mul64(uint64(g.Count()), uint64(s.BatchStride))
		switch {
		case high != 0 || low > math.MaxInt64/16:
			return bad("%s has %d rows of %d elements", o.name, s.Rows, s.Stride)
		case high2 != 0 || low2 > math.MaxInt64/16:
			return bad("%s has %d matrices, %d elements apart", o.name, g.Count(), s.BatchStride)
		}
	}
	// What lies one behind the other, or side by side, does not overlap.
	c := &list[0].shape
	if n := g.Count(); n > 1 && g.M > 0 && g.N > 0 && c.BatchStride < (c.Rows-1)*c.Stride+c.Columns &&
		(c.BatchStride < c.Columns || (n-1)*c.BatchStride+c.Columns > c.Stride) {
		return bad("C has %d matrices of %d rows of %d elements, the rows %d apart: %d apart, the matrices overlap", n, c.Rows, c.Columns, c.Stride, c.BatchStride)
	}
	if g.Beta != 0 && g.Addend.Ptr != 0 && g.Addend.Ptr == g.C.Ptr {
		if d := g.stored(&g.Addend, g.M, g.N, false, tc); d != *c {
			return bad("the addend lies where C does, with other strides: %d and %d, not %d and %d", d.Stride, d.BatchStride, c.Stride, c.BatchStride)
		}
	}
	return nil
}

type operand struct {
	name  string
	at    device.Ptr
	shape Stored
	t     dtype.DType
}

// operands appends C, and what is read.
func (g *Gemm) operands(list []operand) []operand {
	a, b, c := g.Shapes()
	tc := g.ResultType()
	list = append(list, operand{"C", g.C.Ptr, c, tc}, operand{"A", g.A.Ptr, a, g.Type}, operand{"B", g.B.Ptr, b, g.Type})
	if d, ok := g.AddendShape(); ok {
		list = append(list, operand{"the addend", g.Addend.Ptr, d, tc})
	}
	if g.Bias != 0 {
		list = append(list, operand{"the bias", g.Bias, Stored{Rows: 1, Columns: g.N, Stride: g.N, Bytes: g.N * int64(tc.Size())}, tc})
	}
	return list
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{device.ErrArgument}, args...)...)
}
