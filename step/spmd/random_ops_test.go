package spmd_test

import (
	"slices"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
)

// covered are operations that some random graph has.
var covered = []graph.Op{
	graph.Iota, graph.Constant, graph.Neg, graph.Add, graph.Sub, graph.Mul, graph.Max, graph.Less, graph.Where, graph.Convert,
	graph.Identity, graph.Reshape, graph.Bitcast, graph.OptimizationBarrier, graph.SchedulingBarrier,
	graph.Transpose, graph.BroadcastInDim, graph.Reverse, graph.Slice, graph.Pad, graph.Concatenate, graph.DynamicSlice, graph.DynamicUpdateSlice,
	graph.Gather, graph.ScatterSum, graph.ScatterMax, graph.ReduceSum, graph.ReduceProduct, graph.ReduceMax, graph.ReduceMin, graph.ReduceOr, graph.ReduceXor,
	graph.ArgMax, graph.ReduceWindow, graph.DotGeneral, graph.RNGBitGenerator,
}

// operation adds a random operation, or none.
func (m *maker) operation() {
	x := m.value(nil)
	if m.rng.IntN(2) == 0 {
		x = m.values[len(m.values)-1]
	}
	s, bound := x.Shape(), m.bound[x]
	number := s.Type != dtype.Bool
	switch k := m.rng.IntN(30); k {
	case 0:
		if number {
			m.note(m.must(m.g.Unary([]graph.Op{graph.Neg, graph.Abs}[m.rng.IntN(2)], x)), bound)
			m.note(m.must(m.g.Unary(graph.Sign, x)), 1)
		}
	case 1, 2, 3, 4:
		m.binary(x, m.like(x), number)
	case 5:
		m.repeated(x, number)
	case 6:
		c := m.value(func(v graph.Value) bool {
			return v.Shape().Type == dtype.Bool && slices.Equal(v.Shape().Dims, s.Dims)
		})
		if c != (graph.Value{}) {
			y := m.like(x)
			m.note(m.must(m.g.Where(c, x, y)), max(bound, m.bound[y]))
		}
	case 7, 8:
		to := m.pick(dtype.F32, dtype.F16, dtype.I32, dtype.I16, dtype.Bool)
		if to != dtype.F16 || s.Type.IsFloat() && bound <= 1024 {
			if s.Type.IsFloat() || to != dtype.F32 {
				m.note(m.must(m.g.Convert(x, to)), bound)
			}
		}
	case 28:
		m.view(x)
	case 9, 10:
		m.note(m.must(m.g.Reshape(x, m.factors(s.Size())...)), bound)
	case 11:
		m.note(m.must(m.g.Transpose(x, m.permutation(s.Rank())...)), bound)
	case 12:
		m.broadcast(x)
	case 13, 14:
		m.cut(x)
	case 15:
		m.join(x)
	case 16:
		m.dynamic(x)
	case 17:
		m.gather(x)
	case 18:
		m.scatter(x)
	case 19, 20, 21:
		m.reduce(x)
	case 22, 23, 24, 25, 26:
		m.dot(x)
	case 27:
		m.source()
	case 29:
		m.summands(x)
		m.summands(m.values[m.rng.IntN(min(4, len(m.values)))])
	default:
		v := m.must(m.g.Fill(float64(m.rng.IntN(5)-2), graph.MakeShape(s.Type)))
		if number {
			m.note(m.must(m.g.Binary(graph.Mul, x, v)), 2*bound)
		}
	}
}

func (m *maker) binary(x, y graph.Value, number bool) {
	ops := []graph.Op{graph.Add, graph.Sub, graph.Mul, graph.Max, graph.Min, graph.Less, graph.Equal}
	if !number {
		ops = []graph.Op{graph.And, graph.Or, graph.Xor}
	}
	a, b := m.bound[x], m.bound[y]
	op := ops[m.rng.IntN(len(ops))]
	bound := a + b
	if op == graph.Mul {
		bound = a * b
	}
	m.note(m.must(m.g.Binary(op, x, y)), bound)
}

// repeated combines a value with one that has some axes of one element.
func (m *maker) repeated(x graph.Value, number bool) {
	dims := slices.Clone(x.Shape().Dims)
	for i, d := range dims {
		if m.rng.IntN(2) == 0 && d > 0 {
			dims[i] = 1
		}
	}
	limits := slices.Clone(dims)
	y := m.must(m.g.Slice(x, make([]int, len(dims)), limits, nil))
	m.bound[y] = m.bound[x]
	if m.rng.IntN(2) == 0 {
		x, y = y, x
	}
	m.binary(x, y, number)
}

func (m *maker) view(x graph.Value) {
	s := x.Shape()
	switch m.rng.IntN(4) {
	case 0:
		m.note(m.must(m.g.Identity(x)), m.bound[x])
	case 1:
		y := m.value(nil)
		list, err := m.g.OptimizationBarrier(x, y)
		m.must(x, err)
		m.note(list[0], m.bound[x])
		m.note(list[1], m.bound[y])
	case 2:
		m.note(m.must(m.g.SchedulingBarrier(x, m.value(nil))), m.bound[x])
	default:
		if s.Type == dtype.I32 {
			bytes := m.must(m.g.Bitcast(x, dtype.U8))
			m.note(m.must(m.g.Bitcast(m.must(m.g.Unary(graph.Not, bytes)), dtype.I32)), 0)
		}
	}
}

// factors are dimensions of so many elements.
func (m *maker) factors(n int) (dims []int) {
	if n == 0 {
		return []int{[]int{0, 4, 8}[m.rng.IntN(3)], 0, 4}
	}
	for n > 1 || m.rng.IntN(4) == 0 {
		d := []int{1, 2, 3, 4, 5, 6, 8, n}[m.rng.IntN(8)]
		if n%d == 0 {
			dims, n = append(dims, d), n/d
		}
		if len(dims) > 5 {
			return append(dims, n)
		}
	}
	return dims
}

func (m *maker) broadcast(x graph.Value) {
	dims, axes := slices.Clone(x.Shape().Dims), []int(nil)
	for i, d := range dims {
		if d == 1 && m.rng.IntN(2) == 0 {
			dims[i] = 4
		}
	}
	at := 0
	for range dims {
		if m.rng.IntN(2) == 0 {
			dims = slices.Insert(dims, at, []int{2, 4, 3}[m.rng.IntN(3)])
			at++
		}
		axes = append(axes, at)
		at++
	}
	if m.rng.IntN(3) == 0 {
		dims = append(dims, 8)
	}
	m.note(m.must(m.g.BroadcastInDim(x, dims, axes)), m.bound[x])
}

// cut takes, pads or turns some of a value.
func (m *maker) cut(x graph.Value) {
	s := x.Shape()
	switch m.rng.IntN(3) {
	case 0:
		m.note(m.must(m.g.Reverse(x, m.some(s.Rank())...)), m.bound[x])
	case 1:
		starts, limits, strides := make([]int, s.Rank()), slices.Clone(s.Dims), slices.Repeat([]int{1}, s.Rank())
		for _, i := range m.some(s.Rank()) {
			starts[i] = m.rng.IntN(s.Dims[i] + 1)
			limits[i] = starts[i] + m.rng.IntN(s.Dims[i]-starts[i]+1)
			strides[i] = 1 + m.rng.IntN(2)
		}
		m.note(m.must(m.g.Slice(x, starts, limits, strides)), m.bound[x])
	default:
		none := func() []int { return make([]int, s.Rank()) }
		p := graph.Padding{Low: none(), High: none(), Interior: none()}
		for _, i := range m.some(s.Rank()) {
			p.Low[i], p.High[i], p.Interior[i] = m.rng.IntN(3), m.rng.IntN(3)-min(1, s.Dims[i]), m.rng.IntN(2)
		}
		if s.Type != dtype.Bool {
			m.note(m.must(m.g.Pad(x, m.must(m.g.Fill(2, graph.MakeShape(s.Type))), p)), m.bound[x]+2)
		}
	}
}

func (m *maker) join(x graph.Value) {
	if x.Shape().Rank() == 0 {
		return
	}
	list, bound := []graph.Value{x}, m.bound[x]
	for range m.rng.IntN(3) {
		y := m.like(x)
		list, bound = append(list, y), max(bound, m.bound[y])
	}
	m.note(m.must(m.g.Concatenate(m.rng.IntN(x.Shape().Rank()), list...)), bound)
}

// index is a scalar integer that is computed.
func (m *maker) index() graph.Value {
	v := m.value(func(v graph.Value) bool { return v.Shape().Type == dtype.I32 && v.Shape().Size() > 0 })
	if v == (graph.Value{}) {
		return m.must(m.g.Fill(float64(m.rng.IntN(4)), graph.MakeShape(dtype.I32)))
	}
	dims := slices.Repeat([]int{1}, v.Shape().Rank())
	return m.must(m.g.Reshape(m.must(m.g.Slice(v, make([]int, len(dims)), dims, nil))))
}

func (m *maker) dynamic(x graph.Value) {
	s := x.Shape()
	if s.Rank() == 0 {
		return
	}
	var starts []graph.Value
	sizes := slices.Clone(s.Dims)
	for range sizes {
		starts = append(starts, m.index())
	}
	for _, i := range m.some(s.Rank()) {
		sizes[i] = m.rng.IntN(s.Dims[i] + 1)
	}
	window := m.must(m.g.DynamicSlice(x, starts, sizes))
	m.note(window, m.bound[x])
	if m.rng.IntN(2) == 0 {
		slices.Reverse(starts)
		m.note(m.must(m.g.DynamicUpdateSlice(m.like(x), window, starts)), mostBound)
		m.bound[m.values[len(m.values)-1]] = mostBound
	}
}

// indices are places, some of them outside.
func (m *maker) indices() graph.Value {
	v := m.value(func(v graph.Value) bool {
		return v.Shape().Type == dtype.I32 && v.Shape().Rank() > 0 && v.Shape().Size() < 64
	})
	if v == (graph.Value{}) {
		return m.must(m.g.Iota(graph.MakeShape(dtype.I32, 4), 0))
	}
	return v
}

func (m *maker) gather(x graph.Value) {
	s, at := x.Shape(), m.indices()
	if s.Rank() == 0 || slices.Contains(s.Dims, 0) {
		return
	}
	a := graph.GatherAxes{IndexVector: at.Shape().Rank(), StartIndex: []int{m.rng.IntN(s.Rank())}, Sizes: slices.Clone(s.Dims)}
	if d := at.Shape().Dims; m.rng.IntN(3) == 0 && d[0] > 0 && d[0] <= s.Rank() {
		a.IndexVector, a.StartIndex = 0, m.rng.Perm(s.Rank())[:d[0]]
	}
	result := at.Shape().Rank() - 1 // axes
	if a.IndexVector == at.Shape().Rank() {
		result++
	}
	for i := range s.Rank() {
		if slices.Contains(a.StartIndex, i) && m.rng.IntN(3) > 0 {
			a.Sizes[i] = 1
			a.Collapsed = append(a.Collapsed, i)
			continue
		}
		if m.rng.IntN(3) == 0 {
			a.Sizes[i] = 1 + m.rng.IntN(s.Dims[i])
		}
		result++
	}
	a.Offset = m.rng.Perm(result)[:s.Rank()-len(a.Collapsed)]
	slices.Sort(a.Offset)
	if v, err := m.g.Gather(x, at, a); err == nil {
		m.note(v, m.bound[x])
	}
}

func (m *maker) scatter(x graph.Value) {
	s, at := x.Shape(), m.indices()
	if s.Rank() == 0 || s.Type != dtype.F32 && s.Type != dtype.I32 {
		return
	}
	a := graph.ScatterAxes{IndexVector: at.Shape().Rank(), StartIndex: []int{m.rng.IntN(s.Rank())}}
	rank := at.Shape().Rank() + s.Rank()
	if m.rng.IntN(3) > 0 {
		a.Inserted = slices.Clone(a.StartIndex)
		rank--
	}
	a.Window = m.rng.Perm(rank)[:s.Rank()-len(a.Inserted)]
	slices.Sort(a.Window)
	dims, batch, window := make([]int, rank), 0, 0
	for i := range dims {
		if !slices.Contains(a.Window, i) {
			dims[i] = at.Shape().Dims[batch]
			batch++
			continue
		}
		for slices.Contains(a.Inserted, window) {
			window++
		}
		if dims[i] = s.Dims[window]; m.rng.IntN(3) == 0 {
			dims[i] = m.rng.IntN(s.Dims[window] + 1)
		}
		window++
	}
	if n := product(dims); n > mostSize || n == 0 || at.Shape().Size() == 0 || s.Size() == 0 {
		return
	}
	updates := m.value(func(v graph.Value) bool { return v.Shape().Equal(graph.MakeShape(s.Type, dims...)) })
	if updates == (graph.Value{}) {
		counted := m.must(m.g.Iota(graph.MakeShape(s.Type, max(1, product(dims))), 0))
		updates = m.must(m.g.Reshape(m.must(m.g.Slice(counted, []int{0}, []int{product(dims)}, nil)), dims...))
		m.bound[updates] = mostSize
	}
	if m.rng.IntN(2) == 0 {
		x = m.must(m.g.Fill(0, s))
	}
	op := []graph.Op{graph.ScatterSum, graph.ScatterSum, graph.ScatterMax, graph.ScatterMin}[m.rng.IntN(4)]
	m.note(m.must(m.g.Scatter(op, x, at, updates, a)), m.bound[x]+m.bound[updates]*float64(product(dims)))
}

func product(dims []int) int { return graph.Shape{Dims: dims}.Size() }

func (m *maker) reduce(x graph.Value) {
	s := x.Shape()
	axes := m.some(s.Rank())
	if len(axes) == 0 {
		return
	}
	over := 1
	for _, axis := range axes {
		over *= s.Dims[axis]
	}
	ops := []graph.Op{graph.ReduceSum}
	switch {
	case s.Type == dtype.Bool:
		ops = []graph.Op{graph.ReduceAnd, graph.ReduceOr, graph.ReduceXor}
	case s.Type == dtype.I32:
		ops = append(ops, graph.ReduceSum, graph.ReduceProduct, graph.ReduceMax, graph.ReduceMin, graph.ReduceXor, graph.ReduceOr)
	case over > 0:
		ops = append(ops, graph.ReduceSum, graph.ReduceMax, graph.ReduceMin)
	}
	if m.rng.IntN(8) == 0 && s.Dims[axes[0]] > 0 && s.Type != dtype.Bool {
		m.note(m.must(m.g.ArgMinMax(graph.ArgMax, x, axes[0], dtype.I32)), 0)
		return
	}
	if m.rng.IntN(8) == 0 && s.Type == dtype.I32 && s.Dims[axes[0]] > 1 && s.Size() > 0 {
		dims := slices.Repeat([]int{1}, s.Rank())
		dims[axes[0]] = 2
		m.note(m.must(m.g.ReduceWindow(x, graph.Windows{Reduction: graph.ReduceSum, Dims: dims})), 0)
		return
	}
	m.note(m.must(m.g.Reduce(ops[m.rng.IntN(len(ops))], x, axes...)), m.bound[x]*float64(max(over, 1)))
}

// dot multiplies a value with one whose axes go with some of it.
func (m *maker) dot(x graph.Value) {
	s := x.Shape()
	if s.Type == dtype.Bool || s.Type == dtype.U8 {
		return
	}
	y := m.value(func(y graph.Value) bool { return y.Shape().Type == s.Type && y != x })
	if y == (graph.Value{}) {
		y = x
	}
	a, over, used := graph.DotAxes{}, 1, []int(nil)
	for _, i := range m.rng.Perm(s.Rank()) {
		for _, j := range m.rng.Perm(y.Shape().Rank()) {
			if y.Shape().Dims[j] != s.Dims[i] || slices.Contains(used, j) || m.rng.IntN(3) == 0 {
				continue
			}
			used = append(used, j)
			if m.rng.IntN(3) == 0 {
				a.Batch[0], a.Batch[1] = append(a.Batch[0], i), append(a.Batch[1], j)
			} else {
				a.Contracted[0], a.Contracted[1] = append(a.Contracted[0], i), append(a.Contracted[1], j)
				over *= s.Dims[i]
			}
			break
		}
	}
	bound := m.bound[x] * m.bound[y] * float64(max(over, 1))
	if s.Size()*y.Shape().Size()/max(over*over, 1) > mostSize || bound > mostBound && s.Type.IsFloat() {
		return
	}
	m.note(m.must(m.g.DotGeneral(x, y, a)), bound)
}

// summands adds sums over one axis of values of one shape, and a chain of operations of
// which most take summands.
func (m *maker) summands(x graph.Value) {
	s := x.Shape()
	if s.Rank() < 2 || s.Type == dtype.Bool || s.Type == dtype.U8 {
		return
	}
	axis, bound := m.rng.IntN(s.Rank()), m.bound[x]*float64(1+s.Size())
	if bound > mostBound/64 && s.Type.IsFloat() {
		return
	}
	sum := func(x graph.Value) graph.Value { return m.must(m.g.Reduce(graph.ReduceSum, x, axis)) }
	v, w := sum(x), sum(m.must(m.g.Unary(graph.Abs, x)))
	for range 1 + m.rng.IntN(5) {
		switch k := m.rng.IntN(8); k {
		case 0:
			v = m.must(m.g.Unary(graph.Neg, v))
		case 1:
			v = m.must(m.g.Binary(graph.Mul, m.must(m.g.Fill(2, v.Shape())), v))
		case 2:
			if v.Shape().Type == dtype.F32 {
				v = m.must(m.g.Convert(v, dtype.F64))
			}
		case 3:
			order := m.rng.Perm(v.Shape().Rank())
			v = m.must(m.g.Transpose(v, order...))
		case 4:
			v = m.must(m.g.Reshape(v, m.factors(v.Shape().Size())...))
		case 5:
			if v.Shape().Rank() > 0 {
				v = m.must(m.g.Reduce(graph.ReduceSum, v, 0))
			}
		default:
			if v.Shape().Equal(w.Shape()) {
				v = m.must(m.g.Binary([]graph.Op{graph.Add, graph.Sub, graph.Max, graph.Mul}[m.rng.IntN(4)], v, w))
			}
		}
	}
	if m.rng.IntN(4) == 0 {
		m.note(w, bound)
	}
	if v.Shape().Type == dtype.F64 {
		v = m.must(m.g.Convert(v, dtype.F32))
	}
	m.note(v, bound*bound*32)
}

// source adds values that come from nowhere, and random numbers.
func (m *maker) source() {
	s := graph.MakeShape(m.pick(dtype.F32, dtype.I32), m.dims()...)
	switch m.rng.IntN(3) {
	case 0:
		if s.Rank() > 0 {
			m.note(m.must(m.g.Iota(s, m.rng.IntN(s.Rank()))), 16)
		}
	case 1:
		m.note(m.must(m.g.Constant(m.data(s, 3), s)), 3)
	default:
		state := m.must(m.g.Constant(make([]byte, 24), graph.MakeShape(dtype.U64, 3)))
		_, bits, err := m.g.RNGBitGenerator(state, s.With(dtype.I32))
		m.note(m.must(bits, err), 0)
	}
}
