package host_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/host"
)

var allTypes = []dtype.DType{dtype.U8, dtype.I8, dtype.U16, dtype.I16, dtype.I32, dtype.I64, dtype.F16, dtype.BF16, dtype.F32, dtype.F64, dtype.U32, dtype.U64, dtype.Bool}

// tester builds graphs of random operands and compares what runs with the reference.
type tester struct {
	t    *testing.T
	rng  *rand.Rand
	exec step.Executor

	*graph.Graph
	inputs map[graph.Value]*tensor
}

func newTester(t *testing.T) *tester {
	dev := testkit.Must(device.Open("host"))(t)
	t.Cleanup(func() { testkit.OK(t, dev.Close()) })
	exec := testkit.Must(host.Open(dev))(t)
	t.Cleanup(func() { testkit.OK(t, exec.Close()) })
	return &tester{t: t, rng: rand.New(rand.NewPCG(1, uint64(len(t.Name())))), exec: exec}
}

// begin starts another graph.
func (x *tester) begin() {
	x.Graph = graph.New(x.t.Name())
	x.inputs = map[graph.Value]*tensor{}
}

func (x *tester) must(v graph.Value, err error) graph.Value {
	x.t.Helper()
	testkit.OK(x.t, err)
	return v
}

// param adds a parameter whose elements are given by their number.
func (x *tester) param(s graph.Shape, element func(t *tensor, i int)) graph.Value {
	x.t.Helper()
	v := x.must(x.Parameter(fmt.Sprint("p", len(x.Parameters())), s))
	data := newTensor(s)
	for i := range s.Size() {
		element(data, i)
	}
	x.inputs[v] = data
	return v
}

// whole are numbers of which sums and products are exact in every type.
func (x *tester) whole(t *tensor, i int) {
	v := x.rng.IntN(7) - 3
	switch {
	case t.f != nil:
		t.f[i] = float64(v)
	case t.s.Type == dtype.Bool:
		t.i[i] = int64(v & 1)
	default:
		t.setI(i, int64(v))
	}
}

// wild are numbers of all sizes, with those at the edges.
func (x *tester) wild(t *tensor, i int) {
	if t.f != nil {
		edges := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -2.5, 3.5, math.Inf(1), math.Inf(-1), math.NaN(), 1e-8, 1e30, -1e30, 65504, 300, -129, 2147483648, 1e19}
		if x.rng.IntN(2) == 0 {
			t.setF(i, edges[x.rng.IntN(len(edges))])
		} else {
			t.setF(i, x.rng.NormFloat64()*4)
		}
		return
	}
	v := int64(x.rng.Uint64())
	switch x.rng.IntN(3) {
	case 0:
		v = int64(x.rng.IntN(9) - 4)
	case 1:
		v = []int64{math.MinInt64, math.MaxInt64, 127, -128, 255, 1 << 15, -1 << 31, 1<<32 - 1}[x.rng.IntN(8)]
	}
	if t.s.Type == dtype.Bool {
		v &= 1
	}
	t.setI(i, v)
}

func (x *tester) dims(rank, most int) []int {
	d := make([]int, rank)
	for i := range d {
		d[i] = 1 + x.rng.IntN(most)
	}
	return d
}

func (x *tester) permutation(n int) []int { return x.rng.Perm(n) }

// check runs the graph and compares all outputs, bit for bit but for NaN.
func (x *tester) check(outputs ...graph.Value) {
	x.t.Helper()
	testkit.OK(x.t, x.SetOutputs(outputs...))
	run, err := step.Compile(x.Graph, x.exec, step.Options{})
	if err != nil {
		x.t.Fatalf("%v\n%v", err, x.Graph)
	}
	defer run.Close()
	var in []*step.Tensor
	for _, p := range x.Parameters() {
		in = append(in, testkit.Must(run.Memory().Put(x.inputs[p].bytes(), p.Shape()))(x.t))
	}
	defer func() {
		for _, t := range in {
			testkit.OK(x.t, t.Free())
		}
	}()
	results, err := run.Run(context.Background(), in, nil)
	if err != nil {
		x.t.Fatalf("%v\n%v", err, x.Graph)
	}
	want := x.reference()
	for i, r := range results {
		b := make([]byte, r.Shape().Bytes())
		testkit.OK(x.t, r.Read(b))
		testkit.OK(x.t, r.Free())
		got := fromBytes(r.Shape(), b)
		w := want[outputs[i]]
		for k := range w.s.Size() {
			if w.f != nil && (got.f[k] == w.f[k] && math.Signbit(got.f[k]) == math.Signbit(w.f[k]) || got.f[k] != got.f[k] && w.f[k] != w.f[k]) || w.f == nil && got.i[k] == w.i[k] {
				continue
			}
			var g, e any = got.f, w.f
			if w.f == nil {
				g, e = got.i, w.i
			}
			x.t.Fatalf("output %d, element %d: got %v\nwant %v\n%v", i, k, g, e, x.Graph)
		}
	}
}

func (x *tester) reference() map[graph.Value]*tensor {
	values := map[graph.Value]*tensor{}
	for _, n := range x.Nodes() {
		if n.Op == graph.Parameter {
			values[n.Value(0)] = x.inputs[n.Value(0)]
			continue
		}
		var in []*tensor
		for _, v := range n.Inputs {
			in = append(in, values[v])
		}
		for i, t := range evaluate(n, in) {
			values[n.Value(i)] = t
		}
	}
	return values
}

func TestUnary(t *testing.T) {
	x := newTester(t)
	for op := graph.Abs; op <= graph.IsNaN; op++ {
		for _, typ := range allTypes {
			for _, dims := range [][]int{nil, {0, 3}, {1500}, {3, 7}} {
				x.begin()
				v, err := x.Unary(op, x.param(graph.Shape{Type: typ, Dims: dims}, x.wild))
				if err == nil {
					x.check(v)
				}
			}
		}
	}
}

func TestBinary(t *testing.T) {
	x := newTester(t)
	for op := graph.Add; op <= graph.GreaterOrEqualTotalOrder; op++ {
		for _, typ := range allTypes {
			for _, dims := range [][2][]int{{nil, nil}, {{0}, nil}, {{1300}, {1300}}, {{3, 1, 5}, {1, 4, 5}}, {nil, {2, 3}}, {{4, 1}, {4, 6}}} {
				x.begin()
				a := x.param(graph.Shape{Type: typ, Dims: dims[0]}, x.wild)
				b := x.param(graph.Shape{Type: typ, Dims: dims[1]}, x.wild)
				v, err := x.Binary(op, a, b)
				if err == nil {
					x.check(v)
				}
			}
		}
	}
}

func TestWhereAndConvert(t *testing.T) {
	x := newTester(t)
	for _, typ := range allTypes {
		x.begin()
		s := graph.MakeShape(typ, 5, 301)
		c := x.param(s.With(dtype.Bool), x.wild)
		a, b, scalar := x.param(s, x.wild), x.param(graph.MakeShape(typ, 5, 1), x.wild), x.param(graph.MakeShape(typ), x.wild)
		outputs := []graph.Value{x.must(x.Where(c, a, b)), x.must(x.Where(c, scalar, a))}
		for _, to := range allTypes {
			outputs = append(outputs, x.must(x.Convert(a, to)))
		}
		x.check(outputs...)
	}
}

func TestMovement(t *testing.T) {
	x := newTester(t)
	for i := range 150 {
		typ := allTypes[i%len(allTypes)]
		x.begin()
		rank := x.rng.IntN(5)
		s := graph.Shape{Type: typ, Dims: x.dims(rank, 6)}
		a, fill := x.param(s, x.whole), x.param(graph.MakeShape(typ), x.whole)
		out := []graph.Value{x.must(x.Transpose(a, x.permutation(rank)...)), x.must(x.Reverse(a, x.permutation(rank)[:x.rng.IntN(rank+1)]...))}

		into := append(x.dims(x.rng.IntN(2), 4), s.Dims...)
		var axes []int
		small := slices.Clone(s.Dims)
		for k := range small {
			axes = append(axes, k+len(into)-rank)
			if x.rng.IntN(3) == 0 {
				small[k] = 1
			}
		}
		out = append(out, x.must(x.BroadcastInDim(x.param(graph.Shape{Type: typ, Dims: small}, x.whole), into, axes)))

		starts, limits, steps := make([]int, rank), make([]int, rank), make([]int, rank)
		p := graph.Padding{Low: make([]int, rank), High: make([]int, rank), Interior: make([]int, rank)}
		sizes := make([]int, rank)
		var at []graph.Value
		index := []dtype.DType{dtype.I32, dtype.I64, dtype.U8, dtype.U64}[x.rng.IntN(4)]
		for k, d := range s.Dims {
			starts[k] = x.rng.IntN(d + 1)
			limits[k] = starts[k] + x.rng.IntN(d-starts[k]+1)
			steps[k] = 1 + x.rng.IntN(3)
			p.Interior[k] = x.rng.IntN(3)
			p.Low[k], p.High[k] = x.rng.IntN(6)-3, x.rng.IntN(6)-3
			if d+(d-1)*p.Interior[k]+p.Low[k]+p.High[k] < 0 {
				p.Low[k] = 4
			}
			sizes[k] = x.rng.IntN(d + 1)
			at = append(at, x.param(graph.MakeShape(index), x.wild))
		}
		out = append(out, x.must(x.Slice(a, starts, limits, steps)), x.must(x.Pad(a, fill, p)), x.must(x.DynamicSlice(a, at, sizes)),
			x.must(x.DynamicUpdateSlice(a, x.param(graph.Shape{Type: typ, Dims: sizes}, x.whole), at)))
		if rank > 0 {
			axis := x.rng.IntN(rank)
			other := slices.Clone(s.Dims)
			other[axis] = x.rng.IntN(4)
			out = append(out, x.must(x.Concatenate(axis, a, x.param(graph.Shape{Type: typ, Dims: other}, x.whole), a)))
			if typ != dtype.Bool {
				out = append(out, x.must(x.Iota(s, axis)))
			}
		}
		out = append(out, x.must(x.Reshape(a, s.Size(), 1)))
		if typ == dtype.I32 {
			out = append(out, x.must(x.Bitcast(a, dtype.U16)), x.must(x.Bitcast(a, dtype.U32)))
		}
		x.check(out...)
	}
}

func TestReduce(t *testing.T) {
	x := newTester(t)
	for op := graph.ReduceSum; op <= graph.ReduceXor; op++ {
		for _, typ := range allTypes {
			for _, dims := range [][]int{nil, {0, 2}, {2, 0}, {7}, {3, 5, 4}, {2, 600}, {600, 2}}[:shorter(7, 5)] {
				x.begin()
				element := x.whole
				if op == graph.ReduceMax || op == graph.ReduceMin {
					element = x.wild
				}
				a := x.param(graph.Shape{Type: typ, Dims: dims}, element)
				var out []graph.Value
				for range 3 {
					v, err := x.Reduce(op, a, x.permutation(len(dims))[:x.rng.IntN(len(dims)+1)]...)
					if err == nil {
						out = append(out, v)
					}
				}
				if len(out) > 0 {
					x.check(out...)
				}
			}
		}
	}
}

// Reductions that are split over goroutines.
func TestReduceLarge(t *testing.T) {
	x := newTester(t)
	for _, dims := range [][]int{{300_000}, {3, 100_000}, {2000, 3, 50}, {20, 30, 500}} {
		x.begin()
		a := x.param(graph.Shape{Type: dtype.F32, Dims: dims}, x.whole)
		out := []graph.Value{x.must(x.Reduce(graph.ReduceSum, a)), x.must(x.Reduce(graph.ReduceMax, a))}
		testkit.OK(t, x.SetOutputs(out...))
		run := testkit.Must(step.Compile(x.Graph, x.exec, step.Options{}))(t)
		in := testkit.Must(run.Memory().Put(x.inputs[a].bytes(), a.Shape()))(t)
		results := testkit.Must(run.Run(context.Background(), []*step.Tensor{in}, nil))(t)
		var sum float64
		for _, v := range x.inputs[a].f {
			sum += v
		}
		b := make([]byte, 4)
		testkit.OK(t, results[0].Read(b))
		if got := fromBytes(results[0].Shape(), b); got.f[0] != sum {
			t.Errorf("%v: sum %v, want %v", dims, got.f[0], sum)
		}
		testkit.OK(t, run.Close())
	}
}

func TestArgMinMax(t *testing.T) {
	x := newTester(t)
	for _, typ := range allTypes[:12] {
		x.begin()
		a := x.param(graph.MakeShape(typ, 4, 9, 3), x.wild)
		x.check(x.must(x.ArgMinMax(graph.ArgMax, a, 1, dtype.I32)), x.must(x.ArgMinMax(graph.ArgMin, a, 2, dtype.U8)), x.must(x.ArgMinMax(graph.ArgMin, a, 0, dtype.I64)))
	}
}

func TestWindows(t *testing.T) {
	x := newTester(t)
	for i := range shorter(200, 36) {
		typ := allTypes[i%12]
		x.begin()
		rank := 1 + x.rng.IntN(3)
		s := graph.Shape{Type: typ, Dims: x.dims(rank, 7)}
		w := graph.Windows{Dims: x.dims(rank, 3), Strides: x.dims(rank, 3), Low: x.dims(rank, 3), High: x.dims(rank, 3)}
		a := x.param(s, x.whole)
		plain := w
		w.Reduction = graph.ReduceSum + graph.Op(x.rng.IntN(4))
		w.Dilation, w.WindowDilation = x.dims(rank, 3), x.dims(rank, 2)
		v, err := x.ReduceWindow(a, w)
		if err != nil {
			continue
		}
		out := []graph.Value{v}
		shape, err := x.ReduceWindow(a, graph.Windows{Reduction: graph.ReduceSum, Dims: plain.Dims, Strides: plain.Strides, Low: plain.Low, High: plain.High})
		if err == nil {
			out = append(out, x.must(x.SelectAndScatter(graph.SelectAndScatterMax+graph.Op(i%2), a, x.param(shape.Shape(), x.whole), plain)))
		}
		x.check(out...)
	}
}

// shorter is n, or some where tests have little time: the race detector slows down what
// only computes.
func shorter(n, some int) int {
	if testing.Short() {
		return some
	}
	return n
}

func TestDot(t *testing.T) {
	x := newTester(t)
	for i := range 200 {
		typ := allTypes[i%12]
		x.begin()
		batch, contracted := x.dims(x.rng.IntN(3), 3), x.dims(x.rng.IntN(3), 5)
		if x.rng.IntN(10) == 0 && len(contracted) > 0 {
			contracted[0] = 0
		}
		a := graph.DotAxes{}
		var values []graph.Value
		for side := range 2 {
			dims := slices.Concat(batch, contracted, x.dims(x.rng.IntN(3), 6))
			order := x.permutation(len(dims))
			if x.rng.IntN(2) == 0 {
				slices.Sort(order)
			}
			s := graph.Shape{Type: typ, Dims: make([]int, len(dims))}
			for k, place := range order {
				s.Dims[place] = dims[k]
			}
			a.Batch[side], a.Contracted[side] = order[:len(batch)], order[len(batch):len(batch)+len(contracted)]
			values = append(values, x.param(s, x.whole))
		}
		out := []graph.Value{x.must(x.DotGeneral(values[0], values[1], a))}
		for _, result := range []dtype.DType{dtype.F32, dtype.I32, dtype.F64, dtype.BF16} {
			a.Result = result
			if v, err := x.DotGeneral(values[0], values[1], a); err == nil {
				out = append(out, v)
			}
		}
		// The first operand transposed, with the axes where they went to.
		order := x.permutation(values[0].Shape().Rank())
		went := func(axes []int) []int {
			at := make([]int, len(axes))
			for k, axis := range axes {
				at[k] = slices.Index(order, axis)
			}
			return at
		}
		out = append(out, x.must(x.DotGeneral(x.must(x.Transpose(values[0], order...)), values[1],
			graph.DotAxes{Batch: [2][]int{went(a.Batch[0]), a.Batch[1]}, Contracted: [2][]int{went(a.Contracted[0]), a.Contracted[1]}})))
		if values[0].Shape().Size() <= 400 { // each element with each
			out = append(out, x.must(x.DotGeneral(values[0], values[0], graph.DotAxes{})))
		}
		x.check(out...)
	}
}

func TestConv(t *testing.T) {
	x := newTester(t)
	done := 0
	for i := range 300 {
		typ := allTypes[i%12]
		x.begin()
		spatial := x.rng.IntN(3)
		rank := spatial + 2
		places := [3][]int{x.permutation(rank), x.permutation(rank), x.permutation(rank)}
		a := graph.ConvAxes{
			ImageBatch: places[0][0], ImageChannels: places[0][1], ImageSpatial: places[0][2:],
			KernelInput: places[1][0], KernelOutput: places[1][1], KernelSpatial: places[1][2:],
			ResultBatch: places[2][0], ResultChannels: places[2][1], ResultSpatial: places[2][2:],
			Strides: x.dims(spatial, 3), Low: x.dims(spatial, 3), High: x.dims(spatial, 3), Dilation: x.dims(spatial, 3), KernelDilation: x.dims(spatial, 2),
			ChannelGroups: 1, BatchGroups: 1,
		}
		switch x.rng.IntN(3) {
		case 0:
			a.ChannelGroups = 2
		case 1:
			a.BatchGroups = 2
		}
		channels := 1 + x.rng.IntN(3)
		image, kernel := make([]int, rank), make([]int, rank)
		image[a.ImageBatch], image[a.ImageChannels] = a.BatchGroups*(1+x.rng.IntN(2)), channels*a.ChannelGroups
		kernel[a.KernelInput], kernel[a.KernelOutput] = channels, a.ChannelGroups*a.BatchGroups*(1+x.rng.IntN(3))
		for k := range spatial {
			image[a.ImageSpatial[k]], kernel[a.KernelSpatial[k]] = 1+x.rng.IntN(6), 1+x.rng.IntN(3)
		}
		v, err := x.ConvGeneral(x.param(graph.Shape{Type: typ, Dims: image}, x.whole), x.param(graph.Shape{Type: typ, Dims: kernel}, x.whole), a)
		if err == nil {
			x.check(v)
			done++
		}
	}
	if done < 100 {
		t.Errorf("only %d of 300 convolutions were possible", done)
	}
}

func TestGatherScatter(t *testing.T) {
	x := newTester(t)
	for i := range 300 {
		typ := allTypes[i%12]
		x.begin()
		rank := 1 + x.rng.IntN(3)
		s := graph.Shape{Type: typ, Dims: x.dims(rank, 5)}
		a := x.param(s, x.whole)
		indexed := x.permutation(rank)[:1+x.rng.IntN(rank)]
		batch := x.dims(x.rng.IntN(3), 4)
		vector := x.rng.IntN(len(batch) + 1)
		dims := slices.Insert(slices.Clone(batch), vector, len(indexed))
		if len(indexed) == 1 && x.rng.IntN(2) == 0 {
			dims, vector = batch, len(batch)
		}
		indices := x.param(graph.Shape{Type: []dtype.DType{dtype.I32, dtype.I64, dtype.U8, dtype.U64, dtype.I8}[i%5], Dims: dims}, x.whole)

		sizes := make([]int, rank)
		var collapsed, kept []int
		for k, d := range s.Dims {
			sizes[k] = 1 + x.rng.IntN(d)
			if x.rng.IntN(2) == 0 {
				sizes[k] = 1
				collapsed = append(collapsed, k)
			} else {
				kept = append(kept, sizes[k])
			}
		}
		offset := x.permutation(len(batch) + len(kept))[:len(kept)]
		slices.Sort(offset)
		out := []graph.Value{x.must(x.Gather(a, indices, graph.GatherAxes{IndexVector: vector, StartIndex: indexed, Sizes: sizes, Collapsed: collapsed, Offset: offset}))}
		updates := graph.Shape{Type: typ, Dims: make([]int, len(batch)+len(kept))}
		b := 0
		for axis := range updates.Dims {
			if k := slices.Index(offset, axis); k >= 0 {
				updates.Dims[axis] = kept[k]
			} else {
				updates.Dims[axis] = batch[b]
				b++
			}
		}
		op := graph.ScatterSum + graph.Op(x.rng.IntN(3))
		out = append(out, x.must(x.Scatter(op, a, indices, x.param(updates, x.whole), graph.ScatterAxes{IndexVector: vector, StartIndex: indexed, Window: offset, Inserted: collapsed})))
		x.check(out...)
	}
}

func TestRNG(t *testing.T) {
	x := newTester(t)
	for _, s := range []graph.Shape{graph.MakeShape(dtype.U32, 5), graph.MakeShape(dtype.U64, 3, 7), graph.MakeShape(dtype.U8, 0), graph.MakeShape(dtype.I16, 40_001)} {
		x.begin()
		state := x.param(graph.MakeShape(dtype.U64, 3), func(t *tensor, i int) { t.i[i] = int64(x.rng.Uint64()) })
		x.inputs[state].i[1] = -2 // the counter is carried over
		next, bits, err := x.RNGBitGenerator(state, s)
		testkit.OK(t, err)
		x.check(next, bits)
	}
}

// The known answers of the authors' implementation (Random123, kat_vectors).
func TestPhiloxKnownAnswer(t *testing.T) {
	x := newTester(t)
	x.begin()
	state := x.param(graph.MakeShape(dtype.U64, 3), func(t *tensor, i int) {})
	_, bits, err := x.RNGBitGenerator(state, graph.MakeShape(dtype.U32, 4))
	testkit.OK(t, err)
	x.check(bits)
	got := x.reference()[bits].i
	if want := []int64{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}; !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// Chains of element-wise operations that are fused, of all types.
func TestFused(t *testing.T) {
	x := newTester(t)
	for i := range 60 {
		typ := allTypes[i%12]
		x.begin()
		dims := []int{1 + x.rng.IntN(4), 1 + x.rng.IntN(900), 1 + x.rng.IntN(3)}
		s := graph.Shape{Type: typ, Dims: dims}
		values := []graph.Value{x.param(s, x.whole), x.param(s, x.whole), x.param(graph.Shape{Type: typ}, x.whole)}
		values = append(values, x.must(x.BroadcastInDim(x.param(graph.MakeShape(typ, dims[1]), x.whole), dims, []int{1})), x.must(x.Iota(s, 1)))
		for range 3 + x.rng.IntN(20) {
			a, b := values[x.rng.IntN(len(values))], values[x.rng.IntN(len(values))]
			op := []graph.Op{graph.Add, graph.Sub, graph.Mul, graph.Max, graph.Min}[x.rng.IntN(5)]
			v := x.must(x.Binary(op, a, b))
			if x.rng.IntN(4) == 0 {
				v = x.must(x.Where(x.must(x.Binary(graph.Less, a, b)), v, a))
			}
			values = append(values, v)
		}
		last := values[len(values)-1]
		x.check(last, values[len(values)-3], x.must(x.Convert(last, dtype.F32)))
	}
}

func TestBatchNorm(t *testing.T) {
	x := newTester(t)
	for _, typ := range []dtype.DType{dtype.F32, dtype.F64} {
		x.begin()
		s := graph.MakeShape(typ, 4, 5, 8)
		a, scale, offset := x.param(s, x.whole), x.param(graph.MakeShape(typ, 5), x.whole), x.param(graph.MakeShape(typ, 5), x.whole)
		y, mean, variance, err := x.BatchNormTraining(a, scale, offset, 1e-3, 1)
		testkit.OK(t, err)
		dx, dscale, doffset, err := x.BatchNormGradient(a, scale, mean, variance, y, 1e-3, 1)
		testkit.OK(t, err)
		inference := x.must(x.BatchNormInference(a, scale, offset, mean, variance, 1e-3, 1))
		values := x.reference()
		// By the definition, in float64.
		n := 32.0
		at := func(v graph.Value, i int) float64 { return values[v].f[i] }
		near := func(what string, got, want float64) {
			if !(math.Abs(got-want) <= 1e-4*(1+math.Abs(want))) {
				t.Errorf("%v %s: %v, want %v", typ, what, got, want)
			}
		}
		for c := range 5 {
			var m, v, ds, do float64
			for b := range 4 {
				for k := range 8 {
					m += at(a, b*40+c*8+k) / n
				}
			}
			for b := range 4 {
				for k := range 8 {
					v += math.Pow(at(a, b*40+c*8+k)-m, 2) / n
				}
			}
			near("mean", at(mean, c), m)
			near("variance", at(variance, c), v)
			for b := range 4 {
				for k := range 8 {
					i := b*40 + c*8 + k
					hat := (at(a, i) - m) / math.Sqrt(v+1e-3)
					near("y", at(y, i), hat*at(scale, c)+at(offset, c))
					near("inference", at(inference, i), at(y, i))
					ds += at(y, i) * hat
					do += at(y, i)
				}
			}
			near("gradient of scale", at(dscale, c), ds)
			near("gradient of offset", at(doffset, c), do)
			for b := range 4 {
				for k := range 8 {
					i := b*40 + c*8 + k
					hat := (at(a, i) - m) / math.Sqrt(v+1e-3)
					near("gradient of x", at(dx, i), at(scale, c)/math.Sqrt(v+1e-3)*(at(y, i)-do/n-hat*ds/n))
				}
			}
		}
	}
}

// Results do not depend on how many goroutines compute.
func TestWorkers(t *testing.T) {
	x := newTester(t)
	x.begin()
	s := graph.MakeShape(dtype.F32, 300, 7, 90)
	a, b := x.param(s, x.wild), x.param(s, func(t *tensor, i int) { t.f[i] = float64(float32(x.rng.NormFloat64())) })
	out := []graph.Value{
		x.must(x.Reduce(graph.ReduceSum, b)), x.must(x.Reduce(graph.ReduceSum, b, 0)), x.must(x.Reduce(graph.ReduceSum, b, 1, 2)), x.must(x.Reduce(graph.ReduceSum, b, 0, 1)),
		x.must(x.Unary(graph.Exp, x.must(x.Binary(graph.Mul, a, b)))), x.must(x.Transpose(a, 2, 0, 1)),
		x.must(x.DotGeneral(b, b, graph.DotAxes{Contracted: [2][]int{{2}, {2}}, Batch: [2][]int{{1}, {1}}})),
		x.must(x.ReduceWindow(b, graph.Windows{Reduction: graph.ReduceSum, Dims: []int{2, 3, 4}})),
	}
	testkit.OK(t, x.SetOutputs(out...))
	run := testkit.Must(step.Compile(x.Graph, x.exec, step.Options{}))(t)
	defer run.Close()
	var in []*step.Tensor
	for _, p := range x.Parameters() {
		in = append(in, testkit.Must(run.Memory().Put(x.inputs[p].bytes(), p.Shape()))(t))
	}
	var want [][]byte
	old := host.SetWorkers(0)
	defer host.SetWorkers(old)
	for _, n := range []int{0, 1, 5} {
		host.SetWorkers(n)
		for i, v := range testkit.Must(run.Run(context.Background(), in, nil))(t) {
			got := make([]byte, v.Shape().Bytes())
			testkit.OK(t, v.Read(got))
			testkit.OK(t, v.Free())
			if n == 0 {
				want = append(want, got)
			} else if string(got) != string(want[i]) {
				t.Errorf("output %d differs with %d goroutines", i, n+1)
			}
		}
	}
}

func BenchmarkGelu(b *testing.B) {
	dev, err := device.Open("host")
	testkit.OK(b, err)
	defer dev.Close()
	exec := testkit.Must(host.Open(dev))(b)
	g := graph.New("gelu")
	s := graph.MakeShape(dtype.F32, 1024, 1024)
	x := testkit.Must(g.Parameter("x", s))(b)
	bias := testkit.Must(g.Parameter("bias", graph.MakeShape(dtype.F32, 1024)))(b)
	wide := testkit.Must(g.BroadcastInDim(bias, s.Dims, []int{1}))(b)
	half := testkit.Must(g.Fill(0.5, graph.MakeShape(dtype.F32)))(b)
	y := testkit.Must(g.Binary(graph.Add, x, wide))(b)
	for range 8 {
		y = testkit.Must(g.Binary(graph.Mul, y, half))(b)
		y = testkit.Must(g.Binary(graph.Add, y, x))(b)
	}
	testkit.OK(b, g.SetOutputs(y))
	run := testkit.Must(step.Compile(g, exec, step.Options{}))(b)
	defer run.Close()
	in := []*step.Tensor{testkit.Must(run.Memory().New(s))(b), testkit.Must(run.Memory().New(bias.Shape()))(b)}
	b.SetBytes(s.Bytes())
	for b.Loop() {
		out := testkit.Must(run.Run(context.Background(), in, nil))(b)
		testkit.OK(b, out[0].Free())
	}
}
