package kernels

import (
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
)

// CombineOp is an operation on elements x of X and y of Y, with the factors A
// and B. Every step rounds to float32.
type CombineOp int32

// The operations. Those of x alone take no Y.
const (
	Linear  CombineOp = iota + 1 // A x + B y; without Y, A x + B
	Product                      // A (x y)
	Ratio                        // A (x / y)
	Least                        // the lesser of x and y; a NaN if either is, y only where it is less
	Most                         // the greater, likewise
	Abs                          // |x|
	Sqrt                         // the square root of x
)

// unary reports whether an operation can, or must, do without Y.
func (op CombineOp) unary() (can, must bool) {
	return op == Linear || op == Abs || op == Sqrt, op == Abs || op == Sqrt
}

// Combine is the operand of [Set.Combine].
type Combine struct {
	Op   CombineOp
	Type dtype.DType // of all elements: F32, or BF16, which is widened and rounded once at the end

	Dst  device.Ptr // may be X or Y; otherwise it must overlap neither
	X, Y device.Ptr // Y of 0: none
	N    int64      // elements

	A, B float32 // factors; operations without them take no notice
}

// Combine queues an operation on each element of one or two arrays.
func (k *Set) Combine(s device.Stream, c Combine) error {
	j := &combineJob{c}
	if err := j.check(); err != nil {
		return fmt.Errorf("kernels: combine: %w", err)
	}
	if c.N == 0 {
		return k.enqueue(s, nil)
	}
	return k.enqueue(s, j)
}

type combineJob struct{ Combine }

// arithmeticTypes are the types that Combine and Reduce take.
var arithmeticTypes = []dtype.DType{dtype.F32, dtype.BF16}

func checkArithmetic(t dtype.DType, n int64) (bytes int64, err error) {
	if t != dtype.F32 && t != dtype.BF16 {
		return 0, fmt.Errorf("%w: elements of type %v; %v are possible", device.ErrArgument, t, arithmeticTypes)
	}
	if n < 0 {
		return 0, fmt.Errorf("%w: %d elements", device.ErrArgument, n)
	}
	return product("elements and their size", n, int64(t.Size()))
}

func (j *combineJob) check() error {
	if j.Op < Linear || j.Op > Sqrt {
		return fmt.Errorf("%w: operation %d", device.ErrArgument, j.Op)
	}
	n, err := checkArithmetic(j.Type, j.N)
	if err != nil {
		return err
	}
	if can, must := j.Op.unary(); j.N > 0 && (j.Y == 0 && !can || j.Y != 0 && must) {
		return fmt.Errorf("%w: operation %d with y at %#x", device.ErrArgument, j.Op, uint64(j.Y))
	}
	size := int64(j.Type.Size())
	var read []operand
	for _, o := range []operand{{"x", j.X, n, size}, {"y", j.Y, n, size}} {
		if o.name == "y" && j.Y == 0 || o.p == j.Dst && o.p != 0 {
			continue // the same memory: an element is read before it is written
		}
		read = append(read, o)
	}
	return checkOperands(operand{"dst", j.Dst, n, size}, read...)
}

func (j *combineJob) launch(k *Set, s device.Stream) error {
	var args device.Args
	args.Ptr(j.Dst).Ptr(j.X).Ptr(j.Y).Int64(j.N).Int32(int32(j.Op)).Float32(j.A).Float32(j.B)
	return k.start(s, "combine_"+j.Type.String(), blocksFor(j.N, threads), &args)
}

func (j *combineJob) call(c device.Caller, s device.Stream) error {
	dst, err := newFloats(c, j.Dst, j.Type, j.N)
	if err != nil {
		return err
	}
	xs, err := newFloats(c, j.X, j.Type, j.N)
	if err != nil {
		return err
	}
	ys := xs
	if j.Y != 0 {
		if ys, err = newFloats(c, j.Y, j.Type, j.N); err != nil {
			return err
		}
	}
	return c.Call(s, func() error {
		var xb, yb [512]float32
		for at := 0; at < int(j.N); at += len(xb) {
			n := min(len(xb), int(j.N)-at)
			x, y := xb[:n], yb[:n]
			xs.read(x, at)
			ys.read(y, at)
			j.apply(x, y)
			dst.write(at, x)
		}
		return nil
	})
}

// apply replaces x by the results.
func (j *combineJob) apply(x, y []float32) {
	switch j.Op {
	case Linear:
		if j.Y == 0 {
			for i := range x {
				x[i] = float32(j.A*x[i]) + j.B
			}
			return
		}
		for i := range x {
			x[i] = float32(j.A*x[i]) + float32(j.B*y[i])
		}
	case Product:
		for i := range x {
			x[i] = j.A * float32(x[i]*y[i])
		}
	case Ratio:
		for i := range x {
			x[i] = j.A * float32(x[i]/y[i])
		}
	case Least:
		for i := range x {
			if x[i] == x[i] && !(x[i] <= y[i]) { // y is less, or a NaN
				x[i] = y[i]
			}
		}
	case Most:
		for i := range x {
			if x[i] == x[i] && !(x[i] >= y[i]) {
				x[i] = y[i]
			}
		}
	case Abs:
		for i := range x {
			x[i] = math.Float32frombits(math.Float32bits(x[i]) &^ (1 << 31))
		}
	case Sqrt:
		for i := range x {
			x[i] = float32(math.Sqrt(float64(x[i])))
		}
	}
}

// floats is an array of floats in memory of this process.
type floats struct {
	narrow []uint16  // bfloat16
	wide   []float32 // or float32
}

func newFloats(c device.Caller, p device.Ptr, t dtype.DType, n int64) (f floats, err error) {
	b, err := c.Bytes(p, n*int64(t.Size()))
	if err != nil {
		return f, err
	}
	if t == dtype.BF16 {
		f.narrow, err = view[uint16](b)
	} else {
		f.wide, err = view[float32](b)
	}
	return f, err
}

func (f *floats) read(to []float32, at int) {
	if f.narrow == nil {
		copy(to, f.wide[at:])
		return
	}
	for i, v := range f.narrow[at:][:len(to)] {
		to[i] = float16.FromBF16(v)
	}
}

func (f *floats) write(at int, from []float32) {
	if f.narrow != nil {
		for i, v := range from {
			f.narrow[at+i] = float16.ToBF16(v)
		}
		return
	}
	for i, v := range from {
		if v != v {
			v = math.Float32frombits(float16.NaN32)
		}
		f.wide[at+i] = v
	}
}
