package pipeline

import (
	"fmt"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/saved"
)

// builder adds operations to a graph until one fails.
type builder struct {
	*graph.Graph
	err error
}

func (b *builder) do(f func() (graph.Value, error)) graph.Value {
	if b.err != nil {
		return graph.Value{}
	}
	v, err := f()
	b.err = err
	return v
}

func (b *builder) parameter(name string, s graph.Shape) graph.Value {
	return b.do(func() (graph.Value, error) { return b.Parameter(name, s) })
}

func (b *builder) binary(op graph.Op, x, y graph.Value) graph.Value {
	return b.do(func() (graph.Value, error) { return b.Binary(op, x, y) })
}

func (b *builder) convert(x graph.Value, t dtype.DType) graph.Value {
	return b.do(func() (graph.Value, error) { return b.Convert(x, t) })
}

// sumShape is the shape in which gradients are added up.
func sumShape(g graph.Value) graph.Shape {
	t := dtype.F32
	if g.Shape().Type == dtype.F64 {
		t = dtype.F64
	}
	return g.Shape().With(t)
}

func sumName(gradient int) string { return fmt.Sprintf("sum of gradient %d", gradient) }

// addUp has a graph add gradients, which are the last of its outputs, to sums. Sums are its
// last parameters but one, which says whether this is the first micro-batch.
func addUp(g *graph.Graph, gradients []int) error {
	b := &builder{Graph: g}
	outputs := g.Outputs()
	mine := outputs[len(outputs)-len(gradients):]
	outputs = append([]graph.Value{}, outputs[:len(outputs)-len(gradients)]...)
	var sums []graph.Value
	for k, i := range gradients {
		sums = append(sums, b.parameter(sumName(i), sumShape(mine[k])))
	}
	first := b.parameter("first micro-batch", graph.MakeShape(dtype.Bool))
	for k, sum := range sums {
		v := b.convert(mine[k], sum.Shape().Type)
		both := b.binary(graph.Add, sum, v)
		outputs = append(outputs, b.do(func() (graph.Value, error) { return b.Where(first, v, both) }))
	}
	if b.err != nil {
		return b.err
	}
	return b.SetOutputs(outputs...)
}

// mean gives a graph the means of gradients over micro-batches, of what was added up: sums
// are there for those of its parameters that have a shape in sums.
func mean(g *graph.Graph, sums map[int]graph.Shape, micro int) (*graph.Graph, error) {
	b := &builder{Graph: graph.New(g.Name())}
	var args []graph.Value
	for k, p := range g.Parameters() {
		s, ok := sums[k]
		if !ok {
			args = append(args, b.parameter(saved.Name(p), p.Shape()))
			continue
		}
		sum := b.parameter("sum of "+saved.Name(p), s)
		share := b.do(func() (graph.Value, error) { return b.Fill(1/float64(micro), graph.MakeShape(s.Type)) })
		args = append(args, b.convert(b.binary(graph.Mul, sum, share), p.Shape().Type))
	}
	if b.err != nil {
		return nil, b.err
	}
	outputs, err := b.Inline(g, args...)
	if err != nil {
		return nil, err
	}
	return b.Graph, b.SetOutputs(outputs...)
}
