package train

import (
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step"
)

// builder adds operations to a graph until one fails.
type builder struct {
	*step.Graph
	err error
}

func (b *builder) keep(v step.Value, err error) step.Value {
	if b.err == nil {
		b.err = err
	}
	return v
}

func (b *builder) do(f func() (step.Value, error)) step.Value {
	if b.err != nil {
		return step.Value{}
	}
	return b.keep(f())
}

func (b *builder) unary(op step.Op, x step.Value) step.Value {
	return b.do(func() (step.Value, error) { return b.Unary(op, x) })
}

func (b *builder) binary(op step.Op, x, y step.Value) step.Value {
	return b.do(func() (step.Value, error) { return b.Binary(op, x, y) })
}

func (b *builder) where(condition, onTrue, onFalse step.Value) step.Value {
	return b.do(func() (step.Value, error) { return b.Where(condition, onTrue, onFalse) })
}

func (b *builder) reduce(op step.Op, x step.Value, axes ...int) step.Value {
	return b.do(func() (step.Value, error) { return b.Reduce(op, x, axes...) })
}

func (b *builder) convert(x step.Value, t dtype.DType) step.Value {
	return b.do(func() (step.Value, error) { return b.Convert(x, t) })
}

func (b *builder) reshape(x step.Value, dims ...int) step.Value {
	return b.do(func() (step.Value, error) { return b.Reshape(x, dims...) })
}

// at is an element along an axis, as an axis of one.
func (b *builder) at(x step.Value, axis, i int) step.Value {
	return b.do(func() (step.Value, error) {
		starts, limits := make([]int, x.Shape().Rank()), append([]int{}, x.Shape().Dims...)
		starts[axis], limits[axis] = i, i+1
		return b.Slice(x, starts, limits, nil)
	})
}

func (b *builder) join(axis int, xs ...step.Value) step.Value {
	return b.do(func() (step.Value, error) { return b.Concatenate(axis, xs...) })
}

// number is a scalar of a type.
func (b *builder) number(v float64, t dtype.DType) step.Value {
	return b.do(func() (step.Value, error) { return b.Fill(v, step.MakeShape(t)) })
}
