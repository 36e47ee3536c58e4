package kernels

import (
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// ReduceOp makes one value of many.
type ReduceOp int32

// The operations. Elements are widened to float64; products and sums round to
// it.
const (
	Sum        ReduceOp = iota + 1
	SumSquares          // of x x
	Dot                 // of x y
	Smallest            // a NaN if there is one
	Largest             // likewise
)

// ReduceLanes is the number of partial results, float64 each, that [Set.Reduce]
// keeps: element i goes to lane i modulo ReduceLanes, one after the other.
const ReduceLanes = 1 << 15

// Identity is what a lane holds before the first element.
func (op ReduceOp) Identity() float64 {
	switch op {
	case Smallest:
		return math.Inf(1)
	case Largest:
		return math.Inf(-1)
	}
	return 0
}

// Join makes one of two partial results.
func (op ReduceOp) Join(a, b float64) float64 {
	switch {
	case op != Smallest && op != Largest:
		return a + b
	case a != a || b != b:
		return math.NaN()
	case op == Smallest && b < a || op == Largest && b > a:
		return b
	}
	return a
}

// Finish makes one value of all lanes, which it overwrites: pairs, pairs of pairs, and so
// on, always in the same order.
func (op ReduceOp) Finish(lanes []float64) float64 {
	for n := len(lanes) / 2; n > 0; n /= 2 {
		for i := range n {
			lanes[i] = op.Join(lanes[i], lanes[i+n])
		}
	}
	return lanes[0]
}

// Reduce is the operand of [Set.Reduce].
type Reduce struct {
	Op   ReduceOp
	Type dtype.DType // of the elements: F32 or BF16

	// Lanes are [ReduceLanes] float64 in device memory, which hold
	// [ReduceOp.Identity] before the first call. An array may come in pieces:
	// if all but the last have a multiple of ReduceLanes elements, the result
	// is that of the whole, bit for bit.
	Lanes device.Ptr

	X, Y device.Ptr // Y for Dot alone
	N    int64      // elements
}

// Reduce queues adding the elements of an array to the lanes.
// [ReduceOp.Finish] makes the result of them.
func (k *Set) Reduce(s device.Stream, r Reduce) error {
	j := &reduceJob{r}
	if err := j.check(); err != nil {
		return fmt.Errorf("kernels: reduce: %w", err)
	}
	if r.N == 0 {
		return k.enqueue(s, nil)
	}
	return k.enqueue(s, j)
}

type reduceJob struct{ Reduce }

func (j *reduceJob) check() error {
	if j.Op < Sum || j.Op > Largest {
		return fmt.Errorf("%w: operation %d", device.ErrArgument, j.Op)
	}
	n, err := checkArithmetic(j.Type, j.N)
	if err != nil {
		return err
	}
	size := int64(j.Type.Size())
	read := []operand{{"x", j.X, n, size}}
	if j.Op == Dot {
		read = append(read, operand{"y", j.Y, n, size})
	} else if j.Y != 0 {
		return fmt.Errorf("%w: operation %d with y at %#x", device.ErrArgument, j.Op, uint64(j.Y))
	}
	return checkOperands(operand{"lanes", j.Lanes, ReduceLanes * 8, 8}, read...)
}

func (j *reduceJob) launch(k *Set, s device.Stream) error {
	var args device.Args
	args.Ptr(j.Lanes).Int64(ReduceLanes).Ptr(j.X).Ptr(j.Y).Int64(j.N).Int32(int32(j.Op))
	return k.start(s, "reduce_"+j.Type.String(), blocksFor(min(j.N, ReduceLanes), threads), &args)
}

func (j *reduceJob) call(c device.Caller, s device.Stream) error {
	b, err := c.Bytes(j.Lanes, ReduceLanes*8)
	if err != nil {
		return err
	}
	lanes, err := view[float64](b)
	if err != nil {
		return err
	}
	xs, err := newFloats(c, j.X, j.Type, j.N)
	if err != nil {
		return err
	}
	ys := xs
	if j.Op == Dot {
		if ys, err = newFloats(c, j.Y, j.Type, j.N); err != nil {
			return err
		}
	}
	return c.Call(s, func() error {
		var xb, yb [512]float32 // a divisor of ReduceLanes
		for at := 0; at < int(j.N); at += len(xb) {
			n := min(len(xb), int(j.N)-at)
			x, y := xb[:n], yb[:n]
			xs.read(x, at)
			if j.Op == Dot {
				ys.read(y, at)
			}
			j.add(lanes[at%ReduceLanes:][:n], x, y)
		}
		return nil
	})
}

func (j *reduceJob) add(lanes []float64, x, y []float32) {
	switch j.Op {
	case Sum:
		for i, v := range x {
			lanes[i] += float64(v)
		}
	case SumSquares:
		for i, v := range x {
			lanes[i] += float64(float64(v) * float64(v))
		}
	case Dot:
		for i, v := range x {
			lanes[i] += float64(float64(v) * float64(y[i]))
		}
	default:
		for i, v := range x {
			lanes[i] = j.Op.Join(lanes[i], float64(v))
		}
	}
	for i, v := range lanes {
		if v != v {
			lanes[i] = math.Float64frombits(0x7ff8000000000000)
		}
	}
}
