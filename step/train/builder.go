package train

import (
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
)

// builder adds operations to a graph until one fails.
type builder struct {
	*graph.Graph
	err error
}

func (b *builder) keep(v graph.Value, err error) graph.Value {
	if b.err == nil {
		b.err = err
	}
	return v
}

func (b *builder) do(f func() (graph.Value, error)) graph.Value {
	if b.err != nil {
		return graph.Value{}
	}
	return b.keep(f())
}

func (b *builder) unary(op graph.Op, x graph.Value) graph.Value {
	return b.do(func() (graph.Value, error) { return b.Unary(op, x) })
}

func (b *builder) binary(op graph.Op, x, y graph.Value) graph.Value {
	return b.do(func() (graph.Value, error) { return b.Binary(op, x, y) })
}

func (b *builder) where(condition, onTrue, onFalse graph.Value) graph.Value {
	return b.do(func() (graph.Value, error) { return b.Where(condition, onTrue, onFalse) })
}

func (b *builder) reduce(op graph.Op, x graph.Value, axes ...int) graph.Value {
	return b.do(func() (graph.Value, error) { return b.Reduce(op, x, axes...) })
}

func (b *builder) convert(x graph.Value, t dtype.DType) graph.Value {
	return b.do(func() (graph.Value, error) { return b.Convert(x, t) })
}

func (b *builder) reshape(x graph.Value, dims ...int) graph.Value {
	return b.do(func() (graph.Value, error) { return b.Reshape(x, dims...) })
}

// at is an element along an axis, as an axis of one.
func (b *builder) at(x graph.Value, axis, i int) graph.Value {
	return b.do(func() (graph.Value, error) {
		starts, limits := make([]int, x.Shape().Rank()), append([]int{}, x.Shape().Dims...)
		starts[axis], limits[axis] = i, i+1
		return b.Slice(x, starts, limits, nil)
	})
}

func (b *builder) join(axis int, xs ...graph.Value) graph.Value {
	return b.do(func() (graph.Value, error) { return b.Concatenate(axis, xs...) })
}

// number is a scalar of a type.
func (b *builder) number(v float64, t dtype.DType) graph.Value {
	return b.do(func() (graph.Value, error) { return b.Fill(v, graph.MakeShape(t)) })
}
