package host_test

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
)

// tensor is a value as the reference has it: floating-point numbers as float64, which
// holds them all, and integers and bools as int64, which holds the bits of u64.
type tensor struct {
	s graph.Shape
	f []float64
	i []int64
}

func isSigned(t dtype.DType) bool {
	return t == dtype.I8 || t == dtype.I16 || t == dtype.I32 || t == dtype.I64
}

func newTensor(s graph.Shape) *tensor {
	if s.Type.IsFloat() {
		return &tensor{s: s, f: make([]float64, s.Size())}
	}
	return &tensor{s: s, i: make([]int64, s.Size())}
}

// round is what a type holds of a number.
func round(t dtype.DType, x float64) float64 {
	switch t {
	case dtype.F16:
		return float64(float16.FromF16(float16.ToF16(float16.RoundToOdd(x))))
	case dtype.BF16:
		return float64(float16.FromBF16(float16.ToBF16(float16.RoundToOdd(x))))
	case dtype.F32:
		return float64(float32(x))
	}
	return x
}

// wrap is what an integer type holds of a number.
func wrap(t dtype.DType, x int64) int64 {
	shift := 64 - 8*t.Size()
	if isSigned(t) {
		return x << shift >> shift
	}
	return int64(uint64(x) << shift >> shift)
}

func (x *tensor) setF(i int, v float64) { x.f[i] = round(x.s.Type, v) }
func (x *tensor) setI(i int, v int64)   { x.i[i] = wrap(x.s.Type, v) }

// set copies an element of a tensor of the same type.
func (x *tensor) set(i int, y *tensor, j int) {
	if x.f != nil {
		x.f[i] = y.f[j]
	} else {
		x.i[i] = y.i[j]
	}
}

func (x *tensor) bytes() []byte {
	var b []byte
	for k := range x.s.Size() {
		var v uint64
		switch x.s.Type {
		case dtype.F16:
			v = uint64(float16.ToF16(float32(x.f[k])))
		case dtype.BF16:
			v = uint64(float16.ToBF16(float32(x.f[k])))
		case dtype.F32:
			v = uint64(math.Float32bits(float32(x.f[k])))
		case dtype.F64:
			v = math.Float64bits(x.f[k])
		default:
			v = uint64(x.i[k])
		}
		b = append(b, binary.LittleEndian.AppendUint64(nil, v)[:x.s.Type.Size()]...)
	}
	return b
}

func fromBytes(s graph.Shape, b []byte) *tensor {
	x := newTensor(s)
	n := s.Type.Size()
	for k := range s.Size() {
		var word [8]byte
		copy(word[:], b[k*n:(k+1)*n])
		v := binary.LittleEndian.Uint64(word[:])
		switch s.Type {
		case dtype.F16:
			x.f[k] = float64(float16.FromF16(uint16(v)))
		case dtype.BF16:
			x.f[k] = float64(float16.FromBF16(uint16(v)))
		case dtype.F32:
			x.f[k] = float64(math.Float32frombits(uint32(v)))
		case dtype.F64:
			x.f[k] = math.Float64frombits(v)
		default:
			x.i[k] = wrap(s.Type, int64(v))
		}
	}
	return x
}

// each goes through the indices of dimensions, row-major.
func each(dims []int, f func(index []int)) {
	if slices.Contains(dims, 0) {
		return
	}
	index := make([]int, len(dims))
	for {
		f(index)
		i := len(dims) - 1
		for ; i >= 0; i-- {
			if index[i]++; index[i] < dims[i] {
				break
			}
			index[i] = 0
		}
		if i < 0 {
			return
		}
	}
}

// flat is the number of an element.
func flat(dims, index []int) int {
	n := 0
	for i, d := range dims {
		n = n*d + index[i]
	}
	return n
}

// broadcastAt is the element of an operand for an index of the result.
func broadcastAt(s graph.Shape, index []int) int {
	if s.Rank() == 0 {
		return 0
	}
	at := slices.Clone(index)
	for i, d := range s.Dims {
		if d == 1 {
			at[i] = 0
		}
	}
	return flat(s.Dims, at)
}

// evaluate computes an operation in the most obvious way.
func evaluate(n *graph.Node, in []*tensor) []*tensor {
	out := newTensor(n.Shapes[0])
	dims := n.Shapes[0].Dims
	t := n.Shapes[0].Type
	switch n.Op.Class() {
	case graph.Elementwise:
		each(dims, func(index []int) {
			args := make([]int, len(in))
			for i, x := range in {
				args[i] = broadcastAt(x.s, index)
			}
			element(n.Op, out, flat(dims, index), in, args)
		})
		return []*tensor{out}
	case graph.View:
		b := in[0].bytes()
		return []*tensor{fromBytes(n.Shapes[0], b)}
	}
	move := func(from func(index []int) []int) {
		each(dims, func(index []int) { out.set(flat(dims, index), in[0], flat(in[0].s.Dims, from(index))) })
	}
	switch n.Op {
	case graph.Constant:
		return []*tensor{fromBytes(n.Shapes[0], n.Attr.(graph.Data))}
	case graph.Iota:
		each(dims, func(index []int) {
			k, v := flat(dims, index), index[n.Attr.(graph.Axis)]
			if out.f != nil {
				out.setF(k, float64(v))
			} else {
				out.setI(k, int64(v))
			}
		})
	case graph.Transpose:
		move(func(index []int) []int {
			at := make([]int, len(index))
			for i, axis := range n.Attr.(graph.Axes) {
				at[axis] = index[i]
			}
			return at
		})
	case graph.BroadcastInDim:
		move(func(index []int) []int {
			at := make([]int, in[0].s.Rank())
			for i, axis := range n.Attr.(graph.Axes) {
				if in[0].s.Dims[i] > 1 {
					at[i] = index[axis]
				}
			}
			return at
		})
	case graph.Reverse:
		move(func(index []int) []int {
			at := slices.Clone(index)
			for _, axis := range n.Attr.(graph.Axes) {
				at[axis] = dims[axis] - 1 - at[axis]
			}
			return at
		})
	case graph.Slice:
		a := n.Attr.(*graph.Slicing)
		move(func(index []int) []int {
			at := slices.Clone(index)
			for i := range at {
				at[i] = a.Starts[i] + at[i]*a.Strides[i]
			}
			return at
		})
	case graph.Pad:
		a := n.Attr.(*graph.Padding)
		each(dims, func(index []int) { out.set(flat(dims, index), in[1], 0) })
		each(in[0].s.Dims, func(index []int) {
			at := slices.Clone(index)
			for i := range at {
				at[i] = a.Low[i] + at[i]*(a.Interior[i]+1)
				if at[i] < 0 || at[i] >= dims[i] {
					return
				}
			}
			out.set(flat(dims, at), in[0], flat(in[0].s.Dims, index))
		})
	case graph.Concatenate:
		axis := int(n.Attr.(graph.Axis))
		first := 0
		for _, x := range in {
			each(x.s.Dims, func(index []int) {
				at := slices.Clone(index)
				at[axis] += first
				out.set(flat(dims, at), x, flat(x.s.Dims, index))
			})
			first += x.s.Dims[axis]
		}
	case graph.DynamicSlice:
		move(func(index []int) []int {
			at := slices.Clone(index)
			for i := range at {
				at[i] += clampIndex(in[1+i], 0, in[0].s.Dims[i]-dims[i])
			}
			return at
		})
	case graph.DynamicUpdateSlice:
		move(func(index []int) []int { return index })
		each(in[1].s.Dims, func(index []int) {
			at := slices.Clone(index)
			for i := range at {
				at[i] += clampIndex(in[2+i], 0, dims[i]-in[1].s.Dims[i])
			}
			out.set(flat(dims, at), in[1], flat(in[1].s.Dims, index))
		})
	case graph.Gather:
		a := n.Attr.(*graph.GatherAxes)
		move(func(index []int) []int {
			var batch, offset []int
			for i, v := range index {
				if slices.Contains(a.Offset, i) {
					offset = append(offset, v)
				} else {
					batch = append(batch, v)
				}
			}
			at := make([]int, in[0].s.Rank())
			for i, axis := range a.StartIndex {
				at[axis] = clampIndex(in[1], vectorAt(in[1].s, a.IndexVector, batch, i), in[0].s.Dims[axis]-a.Sizes[axis])
			}
			for axis := range at {
				if !slices.Contains(a.Collapsed, axis) {
					at[axis] += offset[0]
					offset = offset[1:]
				}
			}
			return at
		})
	case graph.ScatterSum, graph.ScatterMax, graph.ScatterMin:
		scatter(n, out, in)
	case graph.ReduceSum, graph.ReduceProduct, graph.ReduceMax, graph.ReduceMin, graph.ReduceAnd, graph.ReduceOr, graph.ReduceXor:
		axes := n.Attr.(graph.Axes)
		each(dims, func(index []int) {
			acc := newAccumulator(n.Op, t)
			each(in[0].s.Dims, func(at []int) {
				var kept []int
				for i, v := range at {
					if !slices.Contains(axes, i) {
						kept = append(kept, v)
					}
				}
				if slices.Equal(kept, index) {
					acc.add(in[0], flat(in[0].s.Dims, at))
				}
			})
			acc.put(out, flat(dims, index))
		})
	case graph.ArgMax, graph.ArgMin:
		axis := int(n.Attr.(graph.Axis))
		each(dims, func(index []int) {
			best, at := -1, 0
			for i := range in[0].s.Dims[axis] {
				k := flat(in[0].s.Dims, slices.Insert(slices.Clone(index), axis, i))
				if best < 0 || chosen(n.Op == graph.ArgMax, in[0], k, at) {
					best, at = i, k
				}
			}
			out.setI(flat(dims, index), int64(best))
		})
	case graph.ReduceWindow:
		w := n.Attr.(*graph.Windows)
		each(dims, func(index []int) {
			acc := newAccumulator(w.Reduction, t)
			window(in[0].s, w, index, func(at int) { acc.add(in[0], at) })
			acc.put(out, flat(dims, index))
		})
	case graph.SelectAndScatterMax, graph.SelectAndScatterMin:
		w := n.Attr.(*graph.Windows)
		each(in[1].s.Dims, func(index []int) {
			best := -1
			window(in[0].s, w, index, func(at int) {
				if best < 0 || chosen(n.Op == graph.SelectAndScatterMax, in[0], at, best) {
					best = at
				}
			})
			k := flat(in[1].s.Dims, index)
			switch {
			case best < 0:
			case out.f != nil:
				out.setF(best, out.f[best]+in[1].f[k])
			default:
				out.setI(best, out.i[best]+in[1].i[k])
			}
		})
	case graph.DotGeneral:
		a := n.Attr.(*graph.DotAxes)
		rank := len(a.Batch[0])
		var free [2][]int
		for side, x := range in {
			for axis := range x.s.Dims {
				if !slices.Contains(a.Batch[side], axis) && !slices.Contains(a.Contracted[side], axis) {
					free[side] = append(free[side], axis)
				}
			}
		}
		var depth []int
		for _, axis := range a.Contracted[0] {
			depth = append(depth, in[0].s.Dims[axis])
		}
		each(dims, func(index []int) {
			acc := newAccumulator(graph.ReduceSum, t)
			each(depth, func(along []int) {
				var at [2]int
				for side, x := range in {
					place := make([]int, x.s.Rank())
					for i, axis := range a.Batch[side] {
						place[axis] = index[i]
					}
					for i, axis := range a.Contracted[side] {
						place[axis] = along[i]
					}
					for i, axis := range free[side] {
						place[axis] = index[rank+side*len(free[0])+i]
					}
					at[side] = flat(x.s.Dims, place)
				}
				acc.addProduct(in[0], at[0], in[1], at[1])
			})
			acc.put(out, flat(dims, index))
		})
	case graph.ConvGeneral:
		convolve(n, out, in)
	case graph.RNGBitGenerator:
		return randomBits(n, in[0])
	default:
		panic("the reference lacks " + n.Op.String())
	}
	return []*tensor{out}
}

// chosen reports whether an element is chosen instead of one before it.
func chosen(largest bool, x *tensor, i, than int) bool {
	op := graph.Less
	if largest {
		op = graph.Greater
	}
	if x.f != nil && (math.IsNaN(x.f[i]) || math.IsNaN(x.f[than])) {
		return !math.IsNaN(x.f[than])
	}
	return compare(op, x, i, x, than)
}

func asFloat(x *tensor, i int) float64 {
	if x.f != nil {
		return x.f[i]
	}
	if x.s.Type == dtype.U64 {
		return float64(uint64(x.i[i]))
	}
	return float64(x.i[i])
}

func clampIndex(x *tensor, i, limit int) int {
	v := x.i[i]
	if x.s.Type == dtype.U64 && v < 0 {
		return limit
	}
	return int(min(max(v, 0), int64(limit)))
}

// vectorAt is number i of an index vector.
func vectorAt(s graph.Shape, vector int, batch []int, i int) int {
	if vector == s.Rank() {
		return flat(s.Dims, batch)
	}
	return flat(s.Dims, slices.Insert(slices.Clone(batch), vector, i))
}

func scatter(n *graph.Node, out *tensor, in []*tensor) {
	a := n.Attr.(*graph.ScatterAxes)
	accs := make([]*accumulator, out.s.Size())
	op := map[graph.Op]graph.Op{graph.ScatterSum: graph.ReduceSum, graph.ScatterMax: graph.ReduceMax, graph.ScatterMin: graph.ReduceMin}[n.Op]
	for i := range accs {
		accs[i] = newAccumulator(op, out.s.Type)
		accs[i].add(in[0], i)
	}
	each(in[2].s.Dims, func(index []int) {
		var batch, offset []int
		for i, v := range index {
			if slices.Contains(a.Window, i) {
				offset = append(offset, v)
			} else {
				batch = append(batch, v)
			}
		}
		at, size := make([]int, out.s.Rank()), make([]int, out.s.Rank())
		w := 0
		for axis := range at {
			size[axis] = 1
			if !slices.Contains(a.Inserted, axis) {
				at[axis], size[axis] = offset[w], in[2].s.Dims[a.Window[w]]
				w++
			}
		}
		for i, axis := range a.StartIndex {
			start := in[1].i[vectorAt(in[1].s, a.IndexVector, batch, i)]
			if start < 0 || start > int64(out.s.Dims[axis]-size[axis]) {
				return
			}
			at[axis] += int(start)
		}
		accs[flat(out.s.Dims, at)].add(in[2], flat(in[2].s.Dims, index))
	})
	for i, acc := range accs {
		acc.put(out, i)
	}
}

// window calls f for the elements of a window, which are there.
func window(s graph.Shape, w *graph.Windows, index []int, f func(at int)) {
	each(w.Dims, func(inside []int) {
		at := make([]int, len(inside))
		for i := range at {
			v := index[i]*w.Strides[i] + inside[i]*w.WindowDilation[i] - w.Low[i]
			if v < 0 || v%w.Dilation[i] != 0 || v/w.Dilation[i] >= s.Dims[i] {
				return
			}
			at[i] = v / w.Dilation[i]
		}
		f(flat(s.Dims, at))
	})
}

func convolve(n *graph.Node, out *tensor, in []*tensor) {
	a := n.Attr.(*graph.ConvAxes)
	x, k := in[0].s, in[1].s
	made := out.s.Dims[a.ResultChannels]
	var spatial []int
	for _, axis := range a.KernelSpatial {
		spatial = append(spatial, k.Dims[axis])
	}
	each(out.s.Dims, func(index []int) {
		acc := newAccumulator(graph.ReduceSum, out.s.Type)
		o := index[a.ResultChannels]
		each(spatial, func(e []int) {
			at, kat := make([]int, x.Rank()), make([]int, k.Rank())
			for i := range e {
				v := index[a.ResultSpatial[i]]*a.Strides[i] + e[i]*a.KernelDilation[i] - a.Low[i]
				if v < 0 || v%a.Dilation[i] != 0 || v/a.Dilation[i] >= x.Dims[a.ImageSpatial[i]] {
					return
				}
				at[a.ImageSpatial[i]], kat[a.KernelSpatial[i]] = v/a.Dilation[i], e[i]
			}
			kat[a.KernelOutput] = o
			at[a.ImageBatch] = index[a.ResultBatch] + o/(made/a.BatchGroups)*(x.Dims[a.ImageBatch]/a.BatchGroups)
			for c := range k.Dims[a.KernelInput] {
				kat[a.KernelInput] = c
				at[a.ImageChannels] = o/(made/a.ChannelGroups)*k.Dims[a.KernelInput] + c
				acc.addProduct(in[0], flat(x.Dims, at), in[1], flat(k.Dims, kat))
			}
		})
		acc.put(out, flat(out.s.Dims, index))
	})
}

// accumulator reduces elements: floating-point numbers as float64.
type accumulator struct {
	op graph.Op
	t  dtype.DType
	f  float64
	i  int64
}

func newAccumulator(op graph.Op, t dtype.DType) *accumulator {
	a := &accumulator{op: op, t: t}
	switch op {
	case graph.ReduceProduct:
		a.f, a.i = 1, 1
	case graph.ReduceMax:
		a.f = math.Inf(-1)
		if isSigned(t) {
			a.i = math.MinInt64 >> (64 - 8*t.Size())
		}
	case graph.ReduceMin:
		a.f = math.Inf(1)
		a.i = -1
		if isSigned(t) {
			a.i = math.MaxInt64 >> (64 - 8*t.Size())
		}
		if t == dtype.Bool {
			a.i = 1
		}
	case graph.ReduceAnd:
		a.i = -1
	}
	a.i = wrap(t, a.i)
	if t == dtype.Bool {
		a.i &= 1
	}
	return a
}

func (a *accumulator) add(x *tensor, k int) {
	if a.t.IsFloat() {
		a.addFloat(asFloat(x, k))
		return
	}
	v := x.i[k]
	switch a.op {
	case graph.ReduceSum:
		a.i += v
	case graph.ReduceProduct:
		a.i *= v
	case graph.ReduceMax:
		if less(a.t, a.i, v) {
			a.i = v
		}
	case graph.ReduceMin:
		if less(a.t, v, a.i) {
			a.i = v
		}
	case graph.ReduceAnd:
		a.i &= v
	case graph.ReduceOr:
		a.i |= v
	case graph.ReduceXor:
		a.i ^= v
	}
}

func (a *accumulator) addFloat(v float64) {
	switch a.op {
	case graph.ReduceSum:
		a.f += v
	case graph.ReduceProduct:
		a.f *= v
	case graph.ReduceMax:
		a.f = binaryFloat(graph.Max, a.f, v)
	case graph.ReduceMin:
		a.f = binaryFloat(graph.Min, a.f, v)
	}
}

func (a *accumulator) addProduct(x *tensor, i int, y *tensor, j int) {
	if x.f != nil {
		a.f += x.f[i] * y.f[j]
	} else {
		a.i += x.i[i] * y.i[j]
	}
}

func (a *accumulator) put(x *tensor, k int) {
	if x.f != nil {
		x.setF(k, a.f)
	} else {
		x.setI(k, a.i)
	}
}

func less(t dtype.DType, x, y int64) bool {
	if isSigned(t) {
		return x < y
	}
	return uint64(x) < uint64(y)
}

// element computes an element of an element-wise operation.
func element(op graph.Op, out *tensor, k int, in []*tensor, at []int) {
	x := in[0]
	truth := func(b bool) {
		out.i[k] = 0
		if b {
			out.i[k] = 1
		}
	}
	switch {
	case op == graph.Where:
		which := 2
		if x.i[at[0]] != 0 {
			which = 1
		}
		out.set(k, in[which], at[which])
	case op == graph.Convert:
		convert(out, k, x, at[0])
	case op.Comparison():
		truth(compare(op, x, at[0], in[1], at[1]))
	case op == graph.IsNaN:
		truth(math.IsNaN(x.f[at[0]]))
	case op == graph.IsFinite:
		truth(!math.IsNaN(x.f[at[0]]) && !math.IsInf(x.f[at[0]], 0))
	case x.f != nil && len(in) == 1:
		out.setF(k, computed(x.s.Type, unaryFloat(op, x.f[at[0]])))
	case x.f != nil:
		out.setF(k, computed(x.s.Type, binaryFloat(op, x.f[at[0]], in[1].f[at[1]])))
	case len(in) == 1:
		out.setI(k, unaryInt(op, x.s.Type, x.i[at[0]]))
		if x.s.Type == dtype.Bool {
			out.i[k] &= 1
		}
	default:
		out.setI(k, binaryInt(op, x.s.Type, x.i[at[0]], in[1].i[at[1]]))
	}
}

// computed is a result before it is rounded to a type: numbers of 16 bits are computed in
// float32.
func computed(t dtype.DType, x float64) float64 {
	if t == dtype.F16 || t == dtype.BF16 {
		return float64(float32(x))
	}
	return x
}

func convert(out *tensor, k int, x *tensor, i int) {
	t := out.s.Type
	switch {
	case t == dtype.Bool:
		out.i[k] = 0
		if x.f != nil && x.f[i] != 0 || x.f == nil && x.i[i] != 0 {
			out.i[k] = 1
		}
	case out.f != nil:
		out.setF(k, asFloat(x, i))
	case x.f == nil:
		out.setI(k, x.i[i])
	case math.IsNaN(x.f[i]):
		out.i[k] = 0
	default:
		low, high := big.NewInt(0), new(big.Int).Lsh(big.NewInt(1), uint(8*t.Size()))
		if isSigned(t) {
			low = new(big.Int).Neg(new(big.Int).Lsh(big.NewInt(1), uint(8*t.Size()-1)))
			high.Rsh(high, 1)
		}
		high.Sub(high, big.NewInt(1))
		v := new(big.Int)
		switch {
		case math.IsInf(x.f[i], 1):
			v = high
		case math.IsInf(x.f[i], -1):
			v = low
		default:
			big.NewFloat(x.f[i]).Int(v)
		}
		if v.Cmp(low) < 0 {
			v = low
		}
		if v.Cmp(high) > 0 {
			v = high
		}
		out.setI(k, int64(new(big.Int).And(v, new(big.Int).SetUint64(math.MaxUint64)).Uint64()))
	}
}

// order is a number by which floating-point numbers are in their total order.
func order(t dtype.DType, x float64) int64 {
	if math.IsNaN(x) {
		if math.Signbit(x) {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	b := int64(math.Float64bits(x))
	if b < 0 {
		b = -(b & math.MaxInt64) - 1
	}
	return b
}

func compare(op graph.Op, x *tensor, i int, y *tensor, j int) bool {
	var lt, eq, unordered bool
	switch {
	case x.f != nil && op >= graph.EqualTotalOrder:
		a, b := order(x.s.Type, x.f[i]), order(x.s.Type, y.f[j])
		lt, eq = a < b, a == b
	case x.f != nil:
		lt, eq = x.f[i] < y.f[j], x.f[i] == y.f[j]
		unordered = math.IsNaN(x.f[i]) || math.IsNaN(y.f[j])
	default:
		lt, eq = less(x.s.Type, x.i[i], y.i[j]), x.i[i] == y.i[j]
	}
	switch op {
	case graph.Equal, graph.EqualTotalOrder:
		return eq
	case graph.NotEqual, graph.NotEqualTotalOrder:
		return !eq
	case graph.Less, graph.LessTotalOrder:
		return lt
	case graph.LessOrEqual, graph.LessOrEqualTotalOrder:
		return lt || eq
	case graph.Greater, graph.GreaterTotalOrder:
		return !lt && !eq && !unordered
	}
	return !lt && !unordered
}

func unaryFloat(op graph.Op, x float64) float64 {
	switch op {
	case graph.Abs:
		return math.Abs(x)
	case graph.Neg:
		return -x
	case graph.Sign:
		if x > 0 || x < 0 {
			return math.Copysign(1, x)
		}
		return x
	case graph.Sqrt:
		return math.Sqrt(x)
	case graph.Rsqrt:
		return 1 / math.Sqrt(x)
	case graph.Exp:
		return math.Exp(x)
	case graph.Expm1:
		return math.Expm1(x)
	case graph.Log:
		return math.Log(x)
	case graph.Log1p:
		return math.Log1p(x)
	case graph.Logistic:
		return 1 / (1 + math.Exp(-x))
	case graph.Erf:
		return math.Erf(x)
	case graph.Sin:
		return math.Sin(x)
	case graph.Cos:
		return math.Cos(x)
	case graph.Tanh:
		return math.Tanh(x)
	case graph.Floor:
		return math.Floor(x)
	case graph.Ceil:
		return math.Ceil(x)
	case graph.Round:
		return math.RoundToEven(x)
	}
	panic(op)
}

func binaryFloat(op graph.Op, x, y float64) float64 {
	switch op {
	case graph.Add:
		return x + y
	case graph.Sub:
		return x - y
	case graph.Mul:
		return x * y
	case graph.Div:
		return x / y
	case graph.Rem:
		return math.Mod(x, y)
	case graph.Pow:
		return math.Pow(x, y)
	case graph.Atan2:
		return math.Atan2(x, y)
	case graph.Max:
		if math.IsNaN(x) || math.IsNaN(y) {
			return math.NaN()
		}
		return math.Max(x, y)
	case graph.Min:
		if math.IsNaN(x) || math.IsNaN(y) {
			return math.NaN()
		}
		return math.Min(x, y)
	}
	panic(op)
}

func unaryInt(op graph.Op, t dtype.DType, x int64) int64 {
	unsigned := uint64(x) << (64 - 8*t.Size()) >> (64 - 8*t.Size())
	switch op {
	case graph.Abs:
		if isSigned(t) && x < 0 {
			return -x
		}
		return x
	case graph.Neg:
		return -x
	case graph.Sign:
		switch {
		case x == 0:
			return 0
		case isSigned(t) && x < 0:
			return -1
		}
		return 1
	case graph.Not:
		return ^x
	case graph.BitCount:
		return int64(bits.OnesCount64(unsigned))
	case graph.LeadingZeros:
		return int64(bits.LeadingZeros64(unsigned) - (64 - 8*t.Size()))
	}
	panic(op)
}

func binaryInt(op graph.Op, t dtype.DType, x, y int64) int64 {
	width := uint64(8 * t.Size())
	ux, uy := uint64(x)<<(64-width)>>(64-width), uint64(y)<<(64-width)>>(64-width)
	switch op {
	case graph.Add:
		return x + y
	case graph.Sub:
		return x - y
	case graph.Mul:
		return x * y
	case graph.Div:
		switch {
		case y == 0:
			return -1
		case isSigned(t):
			return x / y
		}
		return int64(ux / uy)
	case graph.Rem:
		switch {
		case y == 0:
			return x
		case isSigned(t):
			return x % y
		}
		return int64(ux % uy)
	case graph.Pow:
		if isSigned(t) && y < 0 {
			switch x {
			case 1:
				return 1
			case -1:
				return 1 - 2*(y&1)
			case 0:
				return -1
			}
			return 0
		}
		word := new(big.Int).Lsh(big.NewInt(1), 64)
		return int64(new(big.Int).Exp(new(big.Int).SetUint64(uint64(x)), new(big.Int).SetUint64(uy), word).Uint64())
	case graph.Max:
		if less(t, x, y) {
			return y
		}
		return x
	case graph.Min:
		if less(t, x, y) {
			return x
		}
		return y
	case graph.And:
		return x & y
	case graph.Or:
		return x | y
	case graph.Xor:
		return x ^ y
	case graph.ShiftLeft:
		if uy >= width {
			return 0
		}
		return x << uy
	case graph.ShiftRightLogical:
		if uy >= width {
			return 0
		}
		return int64(ux >> uy)
	case graph.ShiftRightArithmetic:
		signed := x << (64 - width) >> (64 - width)
		return signed >> min(uy, 63)
	}
	panic(op)
}

// randomBits is Philox4x32-10, written after the paper's definition.
func randomBits(n *graph.Node, state *tensor) []*tensor {
	words := func(high, low uint64, k uint64) [4]uint32 {
		c := [4]uint32{uint32(low), uint32(low >> 32), uint32(high), uint32(high >> 32)}
		k0, k1 := uint32(k), uint32(k>>32)
		for round := range 10 {
			if round > 0 {
				k0 += 0x9E3779B9
				k1 += 0xBB67AE85
			}
			p0, p1 := uint64(c[0])*0xD2511F53, uint64(c[2])*0xCD9E8D57
			c = [4]uint32{uint32(p1>>32) ^ c[1] ^ k0, uint32(p1), uint32(p0>>32) ^ c[3] ^ k1, uint32(p0)}
		}
		return c
	}
	key, counter := uint64(state.i[0]), new(big.Int).SetUint64(uint64(state.i[2]))
	counter.Lsh(counter, 64).Add(counter, new(big.Int).SetUint64(uint64(state.i[1])))
	mask := new(big.Int).SetUint64(math.MaxUint64)
	halves := func() (high, low uint64) {
		return new(big.Int).And(new(big.Int).Rsh(counter, 64), mask).Uint64(), new(big.Int).And(counter, mask).Uint64()
	}
	var b []byte
	size := int(n.Shapes[1].Bytes())
	for len(b) < size {
		high, low := halves()
		for _, w := range words(high, low, key) {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		counter.Add(counter, big.NewInt(1))
	}
	next := newTensor(n.Shapes[0])
	high, low := halves()
	next.i = []int64{state.i[0], int64(low), int64(high)}
	return []*tensor{next, fromBytes(n.Shapes[1], b[:size])}
}
