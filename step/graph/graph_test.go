package graph_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
)

func f32(dims ...int) graph.Shape { return graph.MakeShape(dtype.F32, dims...) }

// maker makes graphs whose operations are right.
type maker struct {
	*graph.Graph
	t testing.TB
}

func newMaker(t testing.TB) maker { return maker{graph.New(t.Name()), t} }

func (m maker) param(s graph.Shape) graph.Value {
	m.t.Helper()
	return m.must(m.Parameter(fmt.Sprintf("p%d", len(m.Parameters())), s))
}

func (m maker) must(v graph.Value, err error) graph.Value {
	m.t.Helper()
	testkit.OK(m.t, err)
	return v
}

func ExampleGraph() {
	g := graph.New("softmax")
	x, _ := g.Parameter("x", graph.MakeShape(dtype.F32, 2, 3))
	e, _ := g.Unary(graph.Exp, x)
	sum, _ := g.Reduce(graph.ReduceSum, e, 1)
	sum, _ = g.BroadcastInDim(sum, []int{2, 3}, []int{0})
	y, err := g.Binary(graph.Div, e, sum)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := g.SetOutputs(y); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(g)
	_, err = g.Binary(graph.Add, x, sum.Node().Inputs[0])
	fmt.Println(err)
	// Output:
	// graph "softmax"
	//   %0 = Parameter {Name:x Index:0} : f32[2,3]
	//   %1 = Exp %0 : f32[2,3]
	//   %2 = ReduceSum %1 {[1]} : f32[2]
	//   %3 = BroadcastInDim %2 {[0]} : f32[2,3]
	//   %4 = Div %1 %3 : f32[2,3]
	//   return %4
	// step: Add of f32[2,3], f32[2]: bad argument: the ranks differ
}

func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, op := range graph.Ops() {
		if op.String() == "" || names[op.String()] || op.Class() == 0 {
			t.Errorf("operation %d: %q of class %d", op, op, op.Class())
		}
		names[op.String()] = true
	}
}

// Shapes of results, one line for each constructor.
func TestShapes(t *testing.T) {
	m := newMaker(t)
	x, k := m.param(f32(2, 9, 8, 3)), m.param(f32(3, 3, 3, 5))
	v, i, s := m.param(f32(4)), m.param(graph.MakeShape(dtype.I32, 7, 2)), m.param(f32())
	at := m.param(graph.MakeShape(dtype.I64))
	rng := m.param(graph.MakeShape(dtype.U64, 3))
	boolean := m.must(m.Binary(graph.Less, x, s))
	first := func(a, b graph.Value, err error) (graph.Value, error) { return b, err }
	third := func(_, _, c graph.Value, err error) (graph.Value, error) { return c, err }
	shared := m.param(f32(2, 5, 4, 3))
	grouped := graph.AttentionOptions{HeadsBehind: true}
	sums := m.must(first(m.Attention(x, shared, shared, grouped)))
	for _, c := range []struct {
		want string
		v    graph.Value
	}{
		{"f32[2,9,8,3]", m.must(m.Binary(graph.Add, x, m.param(f32(1, 9, 1, 3))))},
		{"bool[2,9,8,3]", boolean},
		{"f32[2,9,8,3]", m.must(m.Where(boolean, s, s))},
		{"i8[2,9,8,3]", m.must(m.Convert(x, dtype.I8))},
		{"f32[18,24]", m.must(m.Reshape(x, 18, 24))},
		{"u8[4,4]", m.must(m.Bitcast(v, dtype.U8))},
		{"i64[7]", m.must(m.Bitcast(i, dtype.I64))},
		{"f32[3,2,8,9]", m.must(m.Transpose(x, 3, 0, 2, 1))},
		{"f32[5,4,6]", m.must(m.BroadcastInDim(v, []int{5, 4, 6}, []int{1}))},
		{"f32[1,3,4,3]", m.must(m.Slice(x, []int{1, 0, 0, 0}, []int{2, 9, 8, 3}, []int{1, 3, 2, 1}))},
		{"f32[10]", m.must(m.Pad(v, s, graph.Padding{Low: []int{2}, High: []int{-2}, Interior: []int{2}}))},
		{"f32[8]", m.must(m.Concatenate(0, v, v))},
		{"f32[2]", m.must(m.DynamicSlice(v, []graph.Value{at}, []int{2}))},
		{"f32[4]", m.must(m.DynamicUpdateSlice(v, m.param(f32(3)), []graph.Value{at}))},
		{"f32[7,8,3]", m.must(m.Gather(x, i, graph.GatherAxes{IndexVector: 1, StartIndex: []int{0, 1}, Sizes: []int{1, 1, 8, 3}, Collapsed: []int{0, 1}, Offset: []int{1, 2}}))},
		{"f32[2,9,8,3]", m.must(m.Scatter(graph.ScatterSum, x, i, m.param(f32(7, 8, 3)), graph.ScatterAxes{IndexVector: 1, StartIndex: []int{0, 1}, Window: []int{1, 2}, Inserted: []int{0, 1}}))},
		{"f32[2,3]", m.must(m.Reduce(graph.ReduceMax, x, 2, 1))},
		{"f32[]", m.must(m.Reduce(graph.ReduceSum, x))},
		{"i32[2,9,3]", m.must(m.ArgMinMax(graph.ArgMax, x, 2, dtype.I32))},
		{"f32[2,4,4,3]", m.must(m.ReduceWindow(x, graph.Windows{Reduction: graph.ReduceMax, Dims: []int{1, 2, 2, 1}}))},
		{"f32[2,9,8,3]", m.must(m.SelectAndScatter(graph.SelectAndScatterMax, x, m.param(f32(2, 4, 4, 3)), graph.Windows{Dims: []int{1, 2, 2, 1}}))},
		{"f32[2,8,3,3]", m.must(m.DotGeneral(x, x, graph.DotAxes{Contracted: [2][]int{{1}, {1}}, Batch: [2][]int{{0, 2}, {0, 2}}}))},
		{"f32[2,4,3,5]", m.must(m.ConvGeneral(x, k, graph.ConvAxes{ImageBatch: 0, ImageSpatial: []int{1, 2}, ImageChannels: 3, KernelSpatial: []int{0, 1}, KernelInput: 2, KernelOutput: 3,
			ResultSpatial: []int{1, 2}, ResultChannels: 3, Strides: []int{2, 2}}))},
		{"f32[2,8,9]", sums},
		{"f32[2,5,4,3]", m.must(third(m.AttentionBackward(x, shared, shared, x, sums, x, grouped)))},
		{"u32[5]", m.must(first(m.RNGBitGenerator(rng, graph.MakeShape(dtype.U32, 5))))},
		{"f32[6]", m.must(m.Iota(f32(6), 0))},
		{"bf16[2,3]", m.must(m.Fill(1, graph.MakeShape(dtype.BF16, 2, 3)))},
	} {
		if got := c.v.Shape().String(); got != c.want {
			t.Errorf("%v: want %s", c.v.Node(), c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	m := newMaker(t)
	x, i := m.param(f32(2, 3)), m.param(graph.MakeShape(dtype.I32, 2, 3))
	other := newMaker(t).param(f32(2, 3))
	err := func(_ graph.Value, err error) error { return err }
	q, k := m.param(f32(2, 4, 8, 16)), m.param(f32(2, 3, 8, 16))
	attend := func(q, k, v graph.Value, a graph.AttentionOptions) error {
		_, _, err := m.Attention(q, k, v, a)
		return err
	}
	back := func(out, sums, dout graph.Value) error {
		_, _, _, err := m.AttentionBackward(q, q, q, out, sums, dout, graph.AttentionOptions{})
		return err
	}
	for _, c := range []struct {
		err  error
		says string
	}{
		{err(m.Binary(graph.Add, x, other)), "of graph"},
		{err(m.Binary(graph.Add, x, i)), "types differ"},
		{err(m.Binary(graph.Add, x, graph.Value{})), "no value"},
		{err(m.Binary(graph.Exp, x, x)), "no operation of two"},
		{err(m.Unary(graph.Exp, i)), "takes floating-point numbers"},
		{err(m.Binary(graph.Add, x, m.param(f32(3, 2)))), "axis 0"},
		{err(m.Where(x, x, x)), "has to be bool"},
		{err(m.Reshape(x, 4, 2)), "has 8 elements, not 6"},
		{err(m.Transpose(x, 0, 0)), "each axis once"},
		{err(m.Slice(x, []int{0, 2}, []int{2, 4}, nil)), "axis 1 has no elements from 2 to 4"},
		{err(m.Reduce(graph.ReduceSum, x, 2)), "not different axes"},
		{err(m.DotGeneral(x, x, graph.DotAxes{Contracted: [2][]int{{1}, {0}}})), "axes 1 and 0"},
		{attend(x, x, x, graph.AttentionOptions{}), "four axes"},
		{attend(q, q, k, graph.AttentionOptions{}), "keys and values have different shapes"},
		{attend(q, k, k, graph.AttentionOptions{}), "4 heads cannot share 3"},
		{attend(q, m.param(f32(2, 4, 8, 8)), m.param(f32(2, 4, 8, 8)), graph.AttentionOptions{}), "elements of a head"},
		{attend(q, m.param(f32(2, 4, 0, 16)), m.param(f32(2, 4, 0, 16)), graph.AttentionOptions{}), "no keys"},
		{attend(q, q, q, graph.AttentionOptions{Scale: math.Inf(1)}), "scale of +Inf"},
		{attend(i, i, i, graph.AttentionOptions{}), "takes floating-point numbers"},
		{back(k, m.param(f32(2, 4, 8)), q), "the shape of the queries"},
		{back(q, m.param(f32(2, 8, 4)), q), "the sums are f32[2,4,8]"},
		{err(m.Parameter("p0", f32())), "already"},
		{err(m.Parameter("n", f32(-1))), "-1 elements"},
		{err(m.Parameter("n", f32(1<<40, 1<<40))), "too many"},
		{err(m.Constant(make([]byte, 3), f32())), "4 bytes, not 3"},
		{m.SetOutputs(other), "output 0"},
	} {
		testkit.WantError(t, c.says, c.err, step.ErrArgument, c.says)
	}
}

func TestInline(t *testing.T) {
	double := newMaker(t)
	x := double.param(f32(2))
	testkit.OK(t, double.SetOutputs(double.must(double.Binary(graph.Add, x, x)), x))

	m := newMaker(t)
	p := m.param(f32(2))
	once, err := m.Inline(double.Graph, p)
	testkit.OK(t, err)
	twice, err := m.Inline(double.Graph, once[0])
	testkit.OK(t, err)
	if once[1] != p || twice[1] != once[0] {
		t.Errorf("a parameter that is returned became %v and %v", once[1], twice[1])
	}
	testkit.OK(t, m.SetOutputs(twice[0]))
	want := "graph \"TestInline\"\n  %0 = Parameter {Name:p0 Index:0} : f32[2]\n  %1 = Add %0 %0 : f32[2]\n  %2 = Add %1 %1 : f32[2]\n  return %2\n"
	if got := m.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for what, args := range map[string][]graph.Value{
		"no argument": nil, "another shape": {m.param(f32(3))}, "another graph's value": {x}, "no value": {{}},
	} {
		_, err := m.Inline(double.Graph, args...)
		testkit.WantError(t, what, err, step.ErrArgument)
	}
	_, err = m.Inline(m.Graph, p)
	testkit.WantError(t, "a graph in itself", err, step.ErrArgument)
}

func TestPart(t *testing.T) {
	m := newMaker(t)
	x, y := m.param(f32(3)), m.param(f32(3))
	sum := m.must(m.Binary(graph.Add, x, y))
	e := m.must(m.Unary(graph.Exp, sum))
	z := m.must(m.Binary(graph.Mul, e, x))
	part := testkit.Must(m.Part([]graph.Value{sum, x}, []graph.Value{z, x, sum}))(t)
	if got, want := part.String(), `graph "TestPart"
  %0 = Parameter {Name:%2 Index:0} : f32[3]
  %1 = Parameter {Name:p0 Index:1} : f32[3]
  %2 = Exp %0 : f32[3]
  %3 = Mul %2 %1 : f32[3]
  return %3 %1 %0
`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	_, err := m.Part([]graph.Value{x}, []graph.Value{z})
	testkit.WantError(t, "a parameter that is missing", err, step.ErrArgument, `needs the parameter "p1"`)
	_, err = m.Part([]graph.Value{x, x}, []graph.Value{x})
	testkit.WantError(t, "a parameter twice", err, step.ErrArgument, `"p0" already`)
	_, err = m.Part(nil, []graph.Value{part.Outputs()[0]})
	testkit.WantError(t, "another graph's", err, step.ErrArgument)
	_, err = m.Part([]graph.Value{{}}, nil)
	testkit.WantError(t, "no value", err, step.ErrArgument)
}
