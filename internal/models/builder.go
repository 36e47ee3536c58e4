package models

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
)

// builder adds the layers of a model to a graph. Each layer adds what it computes
// forward, and leaves on a tape what it adds backward, with what it saved for that.
type builder struct {
	g      *graph.Graph
	model  *Model
	full   dtype.DType // of weights, sums, and what is computed element by element
	narrow dtype.DType // of operands and results of products
	tape   []func()
	later  []func() // what is added behind everything else

	gradients map[graph.Value]graph.Value
	weights   []graph.Value
}

// failure is what a builder panics with: thousands of operations fail in one place.
type failure struct{ err error }

// build makes a model of what fill adds. narrow is the type of products.
func build(name string, narrow dtype.DType, fill func(b *builder)) (*Model, error) {
	b := &builder{g: graph.New(name), full: dtype.F32, narrow: narrow, gradients: map[graph.Value]graph.Value{}}
	switch narrow {
	case 0:
		b.narrow = dtype.F32
	case dtype.F64:
		b.full = dtype.F64
	case dtype.F32, dtype.BF16, dtype.F16:
	default:
		return nil, fmt.Errorf("models: %w: %s cannot compute in %v", errs.ErrArgument, name, narrow)
	}
	b.model = &Model{Graph: b.g}
	if err := b.attempt(func() {
		fill(b)
		for _, f := range b.later {
			f()
		}
		b.must(b.g.SetOutputs(b.model.outputs...))
		b.model.Lend = make([]bool, len(b.model.outputs))
		for k := range b.model.Lend {
			b.model.Lend[k] = !slices.Contains(b.model.Next, k)
		}
	}); err != nil {
		return nil, fmt.Errorf("models: %s: %w", name, err)
	}
	return b.model, nil
}

// attempt is what fill fails with.
func (b *builder) attempt(fill func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.err
		}
	}()
	fill()
	return nil
}

func (b *builder) must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func (b *builder) ok(v graph.Value, err error) graph.Value {
	b.must(err)
	return v
}

func (b *builder) unary(op graph.Op, x graph.Value) graph.Value { return b.ok(b.g.Unary(op, x)) }
func (b *builder) binary(op graph.Op, x, y graph.Value) graph.Value {
	return b.ok(b.g.Binary(op, x, y))
}
func (b *builder) add(x, y graph.Value) graph.Value { return b.binary(graph.Add, x, y) }
func (b *builder) sub(x, y graph.Value) graph.Value { return b.binary(graph.Sub, x, y) }
func (b *builder) mul(x, y graph.Value) graph.Value { return b.binary(graph.Mul, x, y) }

// times is x times a number.
func (b *builder) times(x graph.Value, v float64) graph.Value { return b.mul(x, b.number(v)) }

// number is a scalar of the full type.
func (b *builder) number(v float64) graph.Value { return b.filled(v, graph.MakeShape(b.full)) }

func (b *builder) filled(v float64, s graph.Shape) graph.Value { return b.ok(b.g.Fill(v, s)) }

func (b *builder) reshape(x graph.Value, dims ...int) graph.Value {
	return b.ok(b.g.Reshape(x, dims...))
}

func (b *builder) transpose(x graph.Value, order ...int) graph.Value {
	return b.ok(b.g.Transpose(x, order...))
}

// sum adds up along axes.
func (b *builder) sum(x graph.Value, axes ...int) graph.Value {
	return b.ok(b.g.Reduce(graph.ReduceSum, x, axes...))
}

// rowSum adds up along the last axis.
func (b *builder) rowSum(x graph.Value) graph.Value { return b.sum(x, x.Shape().Rank()-1) }

// rows repeats a number for each row along the last axis of a shape.
func (b *builder) rows(v graph.Value, dims []int) graph.Value {
	return b.ok(b.g.BroadcastInDim(v, dims, first(len(dims)-1)))
}

// columns repeats a number for each element of a row in all rows of a shape.
func (b *builder) columns(v graph.Value, dims []int) graph.Value {
	return b.ok(b.g.BroadcastInDim(v, dims, []int{len(dims) - 1}))
}

func first(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// as is x in another type. What was made wider is narrowed without a trace.
func (b *builder) as(t dtype.DType, x graph.Value) graph.Value {
	if x.Shape().Type == t {
		return x
	}
	if n := x.Node(); n.Op == graph.Convert && n.Inputs[0].Shape().Type == t && t.Size() < x.Shape().Type.Size() {
		return n.Inputs[0]
	}
	return b.ok(b.g.Convert(x, t))
}

func (b *builder) wide(x graph.Value) graph.Value { return b.as(b.full, x) }
func (b *builder) thin(x graph.Value) graph.Value { return b.as(b.narrow, x) }

// dot multiplies matrices, over an axis of each.
func (b *builder) dot(x, y graph.Value, i, j int, t dtype.DType) graph.Value {
	return b.ok(b.g.DotGeneral(x, y, graph.DotAxes{Contracted: [2][]int{{i}, {j}}, Result: t}))
}

// saved are values of the way forward for use on the way back: what is cheap to make of
// them is made again, and not kept.
func (b *builder) saved(xs ...graph.Value) []graph.Value {
	list, err := b.g.OptimizationBarrier(xs...)
	b.must(err)
	return list
}

// backward leaves what a layer does on the way back.
func (b *builder) backward(f func()) { b.tape = append(b.tape, f) }

// give adds to the gradient of a value.
func (b *builder) give(v, gradient graph.Value) {
	if old, ok := b.gradients[v]; ok {
		gradient = b.add(b.wide(old), b.wide(gradient))
	}
	b.gradients[v] = gradient
}

// gradient is that of a value whose readers have given it theirs, in its type.
func (b *builder) gradient(v graph.Value) graph.Value {
	return b.as(v.Shape().Type, b.gradients[v])
}

// differentiate goes back over the tape, from a number whose gradient is one.
func (b *builder) differentiate() {
	for i := len(b.tape) - 1; i >= 0; i-- {
		b.tape[i]()
	}
	b.tape = nil
}

// input adds a parameter, which stays from step to step unless [builder.replace] has it
// replaced.
func (b *builder) input(name string, s graph.Shape, how initial) graph.Value {
	b.model.Donate = append(b.model.Donate, false)
	b.model.Next = append(b.model.Next, -1)
	b.model.initial = append(b.model.initial, how)
	return b.ok(b.g.Parameter(name, s))
}

// batch adds a parameter that users give anew in each step.
func (b *builder) batch(name string, s graph.Shape, how initial) graph.Value {
	b.model.Batch = append(b.model.Batch, len(b.model.initial))
	return b.input(name, s, how)
}

// weight adds a parameter that is trained.
func (b *builder) weight(name string, how initial, dims ...int) graph.Value {
	w := b.input(name, graph.MakeShape(b.full, dims...), how)
	b.model.Weights += int64(w.Shape().Size())
	b.weights = append(b.weights, w)
	return w
}

// output adds a result, and returns its number.
func (b *builder) output(v graph.Value) int {
	b.model.outputs = append(b.model.outputs, v)
	return len(b.model.outputs) - 1
}

// replace has v in the place of a parameter in the next step.
func (b *builder) replace(parameter, v graph.Value) {
	at := parameter.Node().Attr.(*graph.Input).Index
	b.model.Donate[at], b.model.Next[at] = true, b.output(v)
}
