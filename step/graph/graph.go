package graph

import (
	"fmt"
	"slices"
	"strings"
)

// Graph is a step while it is built: operations in static single assignment form, in
// the order in which they were added. It is not safe for concurrent use.
type Graph struct {
	name    string
	nodes   []*Node
	params  []Value
	outputs []Value
}

// Node is one operation of a graph. It does not change once it was added; whoever reads
// it changes none of its slices.
type Node struct {
	Op     Op
	Inputs []Value
	Shapes []Shape // of its results
	Attr   any     // what else it has to know, such as [*Dot]; see the constructors

	graph *Graph
	id    int
}

// ID is the node's place in its graph.
func (n *Node) ID() int { return n.id }

// Value returns a result of the node.
func (n *Node) Value(i int) Value { return Value{n, i} }

// Value is a result of an operation. Values can be compared, and be keys of maps. The
// zero value is none.
type Value struct {
	node  *Node
	index int
}

// Node is the operation that the value is a result of, nil for no value.
func (v Value) Node() *Node { return v.node }

// Index says which of the operation's results it is.
func (v Value) Index() int { return v.index }

// Shape is the value's shape, which is empty for no value.
func (v Value) Shape() Shape {
	if v.node == nil {
		return Shape{}
	}
	return v.node.Shapes[v.index]
}

// String names the value, as [Graph.String] does: "%12", or "%12.1" for the second
// result of an operation.
func (v Value) String() string {
	switch {
	case v.node == nil:
		return "no value"
	case v.index > 0:
		return fmt.Sprintf("%%%d.%d", v.node.id, v.index)
	}
	return fmt.Sprintf("%%%d", v.node.id)
}

// New makes an empty graph. The name is for people.
func New(name string) *Graph { return &Graph{name: name} }

// Name is what the graph was named.
func (g *Graph) Name() string { return g.name }

// Nodes are the operations, in the order in which they were added: each after those
// whose results it takes.
func (g *Graph) Nodes() []*Node { return g.nodes }

// Parameters are the inputs of the step, in the order in which they were added.
func (g *Graph) Parameters() []Value { return g.params }

// Outputs are what [Graph.SetOutputs] was given.
func (g *Graph) Outputs() []Value { return g.outputs }

// Input describes a [Parameter]: Attr of its node.
type Input struct {
	Name  string
	Index int // among the parameters
}

// Data is what a [Constant] holds: Attr of its node.
type Data []byte

// Parameter adds an input of the step. Its name must be its own.
func (g *Graph) Parameter(name string, s Shape) (Value, error) {
	if err := s.Check(); err != nil {
		return Value{}, fmt.Errorf("step: Parameter %q: %w: %w", name, ErrArgument, err)
	}
	for _, p := range g.params {
		if p.node.Attr.(*Input).Name == name {
			return Value{}, fmt.Errorf("step: %w: there is a Parameter %q already", ErrArgument, name)
		}
	}
	v := g.add(Parameter, &Input{name, len(g.params)}, s)
	g.params = append(g.params, v)
	return v, nil
}

// Constant adds a value that is always the same. data is its elements, little-endian in
// row-major order; it is copied.
func (g *Graph) Constant(data []byte, s Shape) (Value, error) {
	if err := s.Check(); err != nil {
		return Value{}, fmt.Errorf("step: Constant: %w: %w", ErrArgument, err)
	}
	if int64(len(data)) != s.Bytes() {
		return Value{}, fmt.Errorf("step: %w: a Constant of %v has %d bytes, not %d", ErrArgument, s, s.Bytes(), len(data))
	}
	return g.add(Constant, Data(slices.Clone(data)), s), nil
}

// SetOutputs says what the step returns. A value may be named more than once.
func (g *Graph) SetOutputs(outputs ...Value) error {
	for i, v := range outputs {
		if err := g.owns(v); err != nil {
			return fmt.Errorf("step: output %d: %w", i, err)
		}
	}
	g.outputs = slices.Clone(outputs)
	return nil
}

// Inline adds the operations of another graph, with values of this one in the place of
// its parameters, and returns what its outputs are then. It is how a function is called.
func (g *Graph) Inline(f *Graph, args ...Value) ([]Value, error) {
	if f == g || len(args) != len(f.params) {
		return nil, fmt.Errorf("step: %w: graph %q with %d values for its %d parameters cannot become part of %q", ErrArgument, f.name, len(args), len(f.params), g.name)
	}
	now := map[Value]Value{}
	for i, v := range args {
		if err := g.owns(v); err != nil {
			return nil, fmt.Errorf("step: argument %d of %q: %w", i, f.name, err)
		}
		if want := f.params[i].Shape(); !v.Shape().Equal(want) {
			return nil, fmt.Errorf("step: %w: argument %d of %q is %v, and has to be %v", ErrArgument, i, f.name, v.Shape(), want)
		}
		now[f.params[i]] = v
	}
	for _, n := range f.nodes {
		if n.Op == Parameter {
			continue
		}
		g.Copy(n, now)
	}
	return Translated(f.outputs, now), nil
}

// Part returns a graph of its own that computes outputs. Its parameters are inputs, in
// that order. What is no parameter of g among them is given to the part, instead of being
// computed, and has the name that it prints as. It fails with [ErrArgument] if an output
// needs a parameter that is not among inputs.
func (g *Graph) Part(inputs, outputs []Value) (*Graph, error) {
	for _, v := range append(slices.Clone(inputs), outputs...) {
		if err := g.owns(v); err != nil {
			return nil, fmt.Errorf("step: part of %q: %w", g.name, err)
		}
	}
	part, now := New(g.name), map[Value]Value{}
	for _, v := range inputs {
		name := v.String()
		if in, ok := v.node.Attr.(*Input); ok {
			name = in.Name
		}
		var err error
		if now[v], err = part.Parameter(name, v.Shape()); err != nil {
			return nil, fmt.Errorf("step: part of %q: %w", g.name, err)
		}
	}
	given := func(n *Node) bool {
		for i := range n.Shapes {
			if _, ok := now[n.Value(i)]; !ok {
				return false
			}
		}
		return true
	}
	needed := map[*Node]bool{}
	for _, v := range outputs {
		if _, ok := now[v]; !ok {
			needed[v.node] = true
		}
	}
	for _, n := range slices.Backward(g.nodes) {
		if !needed[n] || given(n) {
			continue
		}
		if in, ok := n.Attr.(*Input); ok {
			return nil, fmt.Errorf("step: part of %q: %w: it needs the parameter %q", g.name, ErrArgument, in.Name)
		}
		for _, v := range n.Inputs {
			if _, ok := now[v]; !ok {
				needed[v.node] = true
			}
		}
	}
	for _, n := range g.nodes {
		if !needed[n] || given(n) {
			continue
		}
		m := part.Append(n.Op, n.Attr, n.Shapes, Translated(n.Inputs, now)...)
		for i := range n.Shapes {
			if _, ok := now[n.Value(i)]; !ok {
				now[n.Value(i)] = m.Value(i)
			}
		}
	}
	part.outputs = Translated(outputs, now)
	return part, nil
}

func (g *Graph) owns(v Value) error {
	switch {
	case v.node == nil:
		return fmt.Errorf("%w: no value", ErrArgument)
	case v.node.graph != g:
		return fmt.Errorf("%w: %v is a value of graph %q, not of %q", ErrArgument, v, v.node.graph.name, g.name)
	}
	return nil
}

// check fails unless all inputs are values of the graph, with types that op takes.
func (g *Graph) check(op Op, inputs ...Value) error {
	for i, v := range inputs {
		if err := g.owns(v); err != nil {
			return fmt.Errorf("step: %v: operand %d: %w", op, i, err)
		}
	}
	for i, v := range inputs {
		if t := v.Shape().Type; !ops[op].types.has(t) {
			return bad(op, inputs, "operand %d has elements of type %v; %v takes %v", i, t, op, ops[op].types)
		}
	}
	return nil
}

// bad is an error about operands.
func bad(op Op, inputs []Value, format string, args ...any) error {
	return fmt.Errorf("step: %v of %v: %w: %s", op, shapesOf(inputs), ErrArgument, fmt.Sprintf(format, args...))
}

func shapesOf(values []Value) shapeList {
	list := make(shapeList, len(values))
	for i, v := range values {
		list[i] = v.Shape()
	}
	return list
}

type shapeList []Shape

func (l shapeList) String() string {
	var parts []string
	for _, s := range l {
		parts = append(parts, s.String())
	}
	return strings.Join(parts, ", ")
}

// add appends a node with one result whose shape is known to be right.
func (g *Graph) add(op Op, attr any, s Shape, inputs ...Value) Value {
	return g.Append(op, attr, []Shape{s}, inputs...).Value(0)
}

// Append adds an operation whose attributes and results' shapes are known to be right,
// for passes that write a graph anew. It checks nothing: what is wrong shows when the
// graph runs, or never.
func (g *Graph) Append(op Op, attr any, shapes []Shape, inputs ...Value) *Node {
	n := &Node{Op: op, Inputs: slices.Clone(inputs), Shapes: shapes, Attr: attr, graph: g, id: len(g.nodes)}
	g.nodes = append(g.nodes, n)
	return n
}

// checked is add, which fails if the shape cannot be.
func (g *Graph) checked(op Op, attr any, s Shape, inputs ...Value) (Value, error) {
	if err := s.Check(); err != nil {
		return Value{}, bad(op, inputs, "%v", err)
	}
	return g.add(op, attr, s, inputs...), nil
}

// Copy appends a copy of an operation of another graph, which reads what now has for its
// operands, and adds its results to now. The copy of a parameter is a parameter.
func (g *Graph) Copy(n *Node, now map[Value]Value) {
	m := g.Append(n.Op, n.Attr, n.Shapes, Translated(n.Inputs, now)...)
	if n.Op == Parameter {
		g.params = append(g.params, m.Value(0))
	}
	for i := range n.Shapes {
		now[n.Value(i)] = m.Value(i)
	}
}

// Translated are the values that now has for others.
func Translated(values []Value, now map[Value]Value) []Value {
	out := make([]Value, len(values))
	for i, v := range values {
		out[i] = now[v]
	}
	return out
}

// String prints one operation a line:
//
//	%2 = Add %0 %1 : f32[2,3]
func (g *Graph) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "graph %q\n", g.name)
	for _, n := range g.nodes {
		b.WriteString("  ")
		b.WriteString(n.String())
		b.WriteByte('\n')
	}
	if len(g.outputs) > 0 {
		b.WriteString("  return")
		for _, v := range g.outputs {
			fmt.Fprintf(&b, " %v", v)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// String prints the operation as a line of [Graph.String].
func (n *Node) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%%%d = %v", n.id, n.Op)
	for _, v := range n.Inputs {
		fmt.Fprintf(&b, " %v", v)
	}
	if a := attrString(n.Attr); a != "" {
		fmt.Fprintf(&b, " {%s}", a)
	}
	b.WriteString(" : ")
	b.WriteString(shapeList(n.Shapes).String())
	return b.String()
}

// Kind says what an operation computes of its operands' shapes, but not which operands they
// are, nor what a constant holds: operations of one kind take the same time.
func (n *Node) Kind() string {
	s := fmt.Sprint(n.Op, shapesOf(n.Inputs), n.Shapes)
	if _, ok := n.Attr.(Data); !ok {
		s += attrString(n.Attr)
	}
	return s
}

// attrString prints what an operation has to know. Two operations with the same one do
// the same, but for constants of more than a few bytes.
func attrString(attr any) string {
	switch a := attr.(type) {
	case nil:
		return ""
	case Data:
		if len(a) > 16 {
			return fmt.Sprintf("%x...", []byte(a[:16]))
		}
		return fmt.Sprintf("%x", []byte(a))
	}
	return strings.Trim(strings.TrimPrefix(fmt.Sprintf("%+v", attr), "&"), "{}")
}
