package train

import (
	"fmt"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
)

// Magnitude adds a mask of the weights that are left when the smallest are pruned: a bool
// for each of w. sparsity is the share that goes, a scalar of type float32 from 0 to 1; it
// may be a parameter, so that one executable serves a [Schedule]. Weights as large as the
// smallest that stays stay, too. It reads w 31 times: the threshold is found bit by bit.
func Magnitude(g *graph.Graph, w, sparsity graph.Value) (mask graph.Value, err error) {
	s := w.Shape()
	if err := checkWeights(w); err != nil {
		return graph.Value{}, err
	}
	if !sparsity.Shape().Equal(graph.MakeShape(dtype.F32)) {
		return graph.Value{}, fmt.Errorf("train: %w: a sparsity is one float32, and not %v", ErrArgument, sparsity.Shape())
	}
	b := &builder{Graph: g}
	// Positive numbers are in the order of their bits.
	bits := b.do(func() (graph.Value, error) { return b.Bitcast(b.unary(graph.Abs, b.convert(w, dtype.F32)), dtype.U32) })
	left := b.binary(graph.Mul, b.binary(graph.Sub, b.number(1, dtype.F32), sparsity), b.number(float64(s.Size()), dtype.F32))
	keep := b.convert(b.unary(graph.Round, left), dtype.I32)
	threshold := b.number(0, dtype.U32)
	for bit := 30; bit >= 0; bit-- {
		higher := b.binary(graph.Or, threshold, b.number(float64(int64(1)<<bit), dtype.U32))
		count := b.convert(b.binary(graph.GreaterOrEqual, bits, higher), dtype.I32)
		if s.Rank() > 0 {
			count = b.reduce(graph.ReduceSum, count)
		}
		threshold = b.where(b.binary(graph.GreaterOrEqual, count, keep), higher, threshold)
	}
	return b.binary(graph.GreaterOrEqual, bits, threshold), b.err
}

// TwoOfFour adds a mask of the two largest of every four weights along an axis: that over
// which products add up, for devices that skip the others. The first of equal ones stays.
// The axis has a multiple of four elements.
func TwoOfFour(g *graph.Graph, w graph.Value, axis int) (mask graph.Value, err error) {
	s := w.Shape()
	if err := checkWeights(w); err != nil {
		return graph.Value{}, err
	}
	if axis < 0 || axis >= s.Rank() || s.Dims[axis]%4 != 0 {
		return graph.Value{}, fmt.Errorf("train: %w: %v has no axis %d of a multiple of four elements", ErrArgument, s, axis)
	}
	b := &builder{Graph: g}
	before, behind := 1, 1
	for i, d := range s.Dims {
		if i < axis {
			before *= d
		} else if i > axis {
			behind *= d
		}
	}
	size := b.reshape(b.unary(graph.Abs, w), before*s.Dims[axis]/4, 4, behind)
	var lane, stays [4]graph.Value
	for i := range lane {
		lane[i] = b.at(size, 1, i)
	}
	for i := range lane {
		var larger graph.Value // how many of the others are
		for j := range lane {
			op := graph.Greater
			switch {
			case j == i:
				continue
			case j < i:
				op = graph.GreaterOrEqual
			}
			one := b.convert(b.binary(op, lane[j], lane[i]), dtype.I32)
			if larger == (graph.Value{}) {
				larger = one
			} else {
				larger = b.binary(graph.Add, larger, one)
			}
		}
		stays[i] = b.binary(graph.Less, larger, b.number(2, dtype.I32))
	}
	return b.reshape(b.join(1, stays[:]...), s.Dims...), b.err
}

// Masked adds w with zeros where mask is false: what a product reads in the place of w,
// while the optimizer goes on with w itself.
func Masked(g *graph.Graph, w, mask graph.Value) (graph.Value, error) {
	b := &builder{Graph: g}
	return b.where(mask, w, b.number(0, w.Shape().Type)), b.err
}

func checkWeights(w graph.Value) error {
	switch w.Shape().Type {
	case dtype.F16, dtype.BF16, dtype.F32:
		return nil
	}
	return fmt.Errorf("train: %w: weights to prune are f32, f16 or bf16, and not %v", ErrArgument, w.Shape())
}

// Schedule is how sparse weights are at each step: it rises fast at first, and then ever
// more slowly, as 1 - (1-x)³ does (Zhu and Gupta, 2017).
type Schedule struct {
	Begin, End     int     // steps
	Initial, Final float64 // sparsity up to Begin, and from End on
}

// At is the sparsity at a step.
func (s Schedule) At(step int) float64 {
	switch {
	case step >= s.End:
		return s.Final
	case step <= s.Begin:
		return s.Initial
	}
	left := 1 - float64(step-s.Begin)/float64(s.End-s.Begin)
	return s.Final + (s.Initial-s.Final)*left*left*left
}
