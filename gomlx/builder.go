package gomlx

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
)

// builder makes one computation.
type builder struct {
	notimplemented.Builder
	backend   *Backend
	main      *function
	functions map[string]bool // names that are taken
}

func newBuilder(b *Backend, name string) *builder {
	new := &builder{Builder: notimplemented.Builder{ErrFn: notImplemented}, backend: b, functions: map[string]bool{compute.MainName: true}}
	new.main = new.function(compute.MainName, graph.New(name))
	return new
}

func (b *builder) function(name string, g *graph.Graph) *function {
	return &function{Function: notimplemented.Function{ErrFn: notImplemented}, builder: b, name: name, graph: g}
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
	if name == "" || b.functions[name] {
		return nil, errors.WithStack(fmt.Errorf("%s: %w: a function cannot be called %q, or there is one already", Name, ErrArgument, name))
	}
	b.functions[name] = true
	return b.function(name, graph.New(name)), nil
}

// OpShape implements [compute.Builder].
func (b *builder) OpShape(op compute.Value) (shapes.Shape, error) { return b.main.Shape(op) }

// String prints the graph.
func (b *builder) String() string { return b.main.graph.String() }

// function is a function of a computation, whose values are [graph.Value]s. One with a
// name has a graph of its own, which becomes part of those of its callers. A closure adds
// to its parent's graph.
type function struct {
	notimplemented.Function
	builder  *builder
	name     string
	parent   *function
	graph    *graph.Graph
	returned bool
	results  []graph.Value
}

// Name implements [compute.Function].
func (f *function) Name() string { return f.name }

// Parent implements [compute.Function].
func (f *function) Parent() compute.Function {
	if f.parent == nil {
		return nil
	}
	return f.parent
}

// Closure implements [compute.Function].
func (f *function) Closure() (compute.Function, error) {
	if _, err := f.operands(); err != nil {
		return nil, err
	}
	c := f.builder.function("", f.graph)
	c.parent = f
	return c, nil
}

// Builder implements [compute.Function].
func (f *function) Builder() compute.Builder { return f.builder }

// Shape implements [compute.Function].
func (f *function) Shape(v compute.Value) (shapes.Shape, error) {
	x, ok := v.(graph.Value)
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
	if f.parent != nil {
		return nil, errors.Wrapf(compute.ErrNotImplemented, "%s: closures have no parameters, such as %q, since there are no loops and sorts", Name, name)
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
	return f.value(f.graph.Constant(dtypes.UnsafeByteSliceFromAny(flat), graph.MakeShape(elementTypes[t], dims...)))
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
	if f.parent == nil {
		if err := f.graph.SetOutputs(in...); err != nil {
			return errors.WithStack(err)
		}
	}
	f.returned, f.results = true, in
	return nil
}

// Call implements [compute.Function]. What is called becomes part of the graph.
func (f *function) Call(callee compute.Function, inputs ...compute.Value) ([]compute.Value, error) {
	in, err := f.operands(inputs...)
	if err != nil {
		return nil, err
	}
	c, err := f.finished(callee)
	if err != nil {
		return nil, err
	}
	out, err := f.together(c, in)
	if out == nil && err == nil {
		out, err = f.graph.Inline(c.graph, in...)
	}
	if err != nil {
		return nil, errors.WithStack(err)
	}
	return values(out), nil
}

// together is a call of what ranks do together, or nil if the function is something else.
func (f *function) together(c *function, in []graph.Value) (out []graph.Value, err error) {
	ranks := f.builder.backend.opts.Ranks
	if ranks == nil {
		return nil, nil
	}
	gradients := graph.AllReduceOptions{Mean: true, Type: f.builder.backend.opts.Average}
	switch {
	case strings.HasPrefix(c.name, MeanOfRanks):
		out, err = f.graph.AllReduce(graph.AllReduceOptions{Mean: true}, in...)
	case strings.HasPrefix(c.name, MeanOfGradients):
		out, err = f.graph.AllReduce(gradients, in...)
	case strings.HasPrefix(c.name, ShareOfMean):
		out, err = f.graph.ReduceScatter(gradients, ranks.Size(), in...)
	case strings.HasPrefix(c.name, GatherFromRanks) && len(in) != 2:
		err = fmt.Errorf("%s: %w: %q is called with %d operands, not with 2", Name, ErrArgument, c.name, len(in))
	case strings.HasPrefix(c.name, GatherFromRanks):
		var v graph.Value
		v, err = f.graph.AllGatherInto(ranks.Size(), in[1], in[0])
		out = []graph.Value{v}
	}
	if err != nil {
		return nil, err
	}
	for i, v := range out {
		if i >= len(c.results) || !v.Shape().Equal(c.results[i].Shape()) {
			return nil, fmt.Errorf("%s: %w: %q is called by %d ranks, for whom result %d is %v", Name, ErrArgument, c.name, ranks.Size(), i, v.Shape())
		}
	}
	return out, nil
}

// If implements [compute.Function]. Both branches are computed, and one is chosen.
func (f *function) If(pred compute.Value, trueBranch, falseBranch compute.Function) ([]compute.Value, error) {
	in, err := f.operands(pred)
	if err != nil {
		return nil, err
	}
	onTrue, err := f.finished(trueBranch)
	if err != nil {
		return nil, err
	}
	onFalse, err := f.finished(falseBranch)
	if err != nil {
		return nil, err
	}
	if p := in[0].Shape(); p.Rank() != 0 || onTrue.parent != f || onFalse.parent != f || len(onTrue.results) != len(onFalse.results) {
		return nil, errors.WithStack(fmt.Errorf("%s: %w: If takes a scalar, not %v, and two closures with as many results, not %d and %d", Name, ErrArgument, p, len(onTrue.results), len(onFalse.results)))
	}
	out := make([]graph.Value, len(onTrue.results))
	for i, x := range onTrue.results {
		y := onFalse.results[i]
		if !x.Shape().Equal(y.Shape()) {
			return nil, errors.WithStack(fmt.Errorf("%s: %w: result %d of the branches of If is %v or %v", Name, ErrArgument, i, x.Shape(), y.Shape()))
		}
		if out[i], err = f.graph.Where(in[0], x, y); err != nil {
			return nil, errors.WithStack(err)
		}
	}
	return values(out), nil
}

// finished returns a function of the same computation that has returned.
func (f *function) finished(other compute.Function) (*function, error) {
	o, ok := other.(*function)
	if !ok || o.builder != f.builder || !o.returned {
		return nil, errors.WithStack(fmt.Errorf("%s: %w: %q takes a function of its own computation that has returned", Name, ErrArgument, f.builder.Name()))
	}
	return o, nil
}

func values(list []graph.Value) []compute.Value {
	out := make([]compute.Value, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

// operands are the values as the graph knows them, while it can still grow.
func (f *function) operands(values ...compute.Value) ([]graph.Value, error) {
	if f.returned {
		return nil, errors.WithStack(fmt.Errorf("%s: %w: %q has returned", Name, ErrArgument, f.name))
	}
	in := make([]graph.Value, len(values))
	for i, v := range values {
		x, ok := v.(graph.Value)
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
func (f *function) value(v graph.Value, err error) (compute.Value, error) {
	if err != nil {
		return nil, errors.WithStack(err)
	}
	return v, nil
}
