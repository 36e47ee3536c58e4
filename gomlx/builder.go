package gomlx

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pkg/errors"
)

// builder makes one computation. All it has is its main function.
type builder struct {
	notimplemented.Builder
	backend *Backend
	main    *function
}

func newBuilder(b *Backend, name string) *builder {
	new := &builder{Builder: notimplemented.Builder{ErrFn: notImplemented}, backend: b}
	new.main = &function{
		Function: notimplemented.Function{ErrFn: notImplemented},
		builder:  new,
		graph:    step.NewGraph(name),
	}
	return new
}

func notImplemented(op compute.OpType) error {
	return errors.Wrapf(compute.ErrNotImplemented, "%s has no %v", Name, op)
}

// Name implements [compute.Builder].
func (b *builder) Name() string { return b.main.graph.Name() }

// Main implements [compute.Builder].
func (b *builder) Main() compute.Function { return b.main }

// NewFunction implements [compute.Builder].
func (b *builder) NewFunction(name string) (compute.Function, error) {
	return nil, errors.Wrapf(compute.ErrNotImplemented, "%s has no functions but the main one, so there is no %q", Name, name)
}

// OpShape implements [compute.Builder].
func (b *builder) OpShape(op compute.Value) (shapes.Shape, error) { return b.main.Shape(op) }

// String prints the graph.
func (b *builder) String() string { return b.main.graph.String() }

// function is the one function of a computation. Its values are [step.Value]s.
type function struct {
	notimplemented.Function
	builder  *builder
	graph    *step.Graph
	returned bool
}

// Name implements [compute.Function].
func (f *function) Name() string { return compute.MainName }

// Builder implements [compute.Function].
func (f *function) Builder() compute.Builder { return f.builder }

// Shape implements [compute.Function].
func (f *function) Shape(v compute.Value) (shapes.Shape, error) {
	x, ok := v.(step.Value)
	if !ok || x.Node() == nil {
		return shapes.Invalid(), notAValue(0, v)
	}
	return fromShape(x.Shape()), nil
}

// Parameter implements [compute.Function].
func (f *function) Parameter(name string, shape shapes.Shape, sharding *compute.ShardingSpec) (compute.Value, error) {
	if sharding != nil {
		return nil, errors.Wrapf(compute.ErrNotImplemented, "%s: Parameter %q: one device has no shards", Name, name)
	}
	if _, err := f.operands(); err != nil {
		return nil, err
	}
	s, err := toShape(shape)
	if err != nil {
		return nil, errors.Wrapf(err, "%s: Parameter %q", Name, name)
	}
	return f.value(f.graph.Parameter(name, s))
}

// Constant implements [compute.Function]. The elements are copied.
func (f *function) Constant(flat any, dims ...int) (compute.Value, error) {
	if _, err := f.operands(); err != nil {
		return nil, err
	}
	t, _, err := flatType(flat)
	if err != nil {
		return nil, errors.Wrapf(err, "%s: Constant", Name)
	}
	return f.value(f.graph.Constant(dtypes.UnsafeByteSliceFromAny(flat), step.MakeShape(elementTypes[t], dims...)))
}

// Return implements [compute.Function].
func (f *function) Return(outputs []compute.Value, shardings []*compute.ShardingSpec) error {
	if len(shardings) > 0 {
		return errors.Wrapf(compute.ErrNotImplemented, "%s: Return: one device has no shards", Name)
	}
	in, err := f.operands(outputs...)
	if err != nil {
		return err
	}
	if len(in) == 0 {
		return errors.WithStack(fmt.Errorf("%s: %w: a function returns one value at least", Name, ErrArgument))
	}
	if err := f.graph.SetOutputs(in...); err != nil {
		return errors.WithStack(err)
	}
	f.returned = true
	return nil
}

// operands are the values as the graph knows them, while it can still grow.
func (f *function) operands(values ...compute.Value) ([]step.Value, error) {
	if f.returned {
		return nil, errors.WithStack(fmt.Errorf("%s: %w: %q has returned", Name, ErrArgument, f.graph.Name()))
	}
	in := make([]step.Value, len(values))
	for i, v := range values {
		x, ok := v.(step.Value)
		if !ok {
			return nil, notAValue(i, v)
		}
		in[i] = x
	}
	return in, nil
}

func notAValue(i int, v compute.Value) error {
	return errors.WithStack(fmt.Errorf("%s: %w: operand %d is no value of this backend but %T", Name, ErrArgument, i, v))
}

// value gives what the graph answered to GoMLX, whose errors carry a stack.
func (f *function) value(v step.Value, err error) (compute.Value, error) {
	if err != nil {
		return nil, errors.WithStack(err)
	}
	return v, nil
}
