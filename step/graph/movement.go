package graph

import (
	"slices"
)

// Axis is the axis that an operation works along: Attr of [Iota], [Concatenate],
// [ArgMax] and [ArgMin].
type Axis int

// Axes are those that an operation names: Attr of [Transpose] (the operand's axis that
// each of the result's is), [BroadcastInDim] (the result's axis that each of the
// operand's is), [Reverse], and the reductions.
type Axes []int

// Slicing is which elements a [Slice] takes along each axis: from Starts up to, but
// without, Limits, in steps of Strides.
type Slicing struct{ Starts, Limits, Strides []int }

// Padding is how many elements a [Pad] puts before and behind those of each axis, and
// between any two. Low and High may be negative: elements are then cut off.
type Padding struct{ Low, High, Interior []int }

// Iota adds the numbers 0, 1, 2 and so on along an axis.
func (g *Graph) Iota(s Shape, axis int) (Value, error) {
	if !ops[Iota].types.has(s.Type) || axis < 0 || axis >= s.Rank() {
		return Value{}, bad(Iota, nil, "%v along axis %d", s, axis)
	}
	return g.checked(Iota, Axis(axis), MakeShape(s.Type, s.Dims...))
}

// distinct reports whether axes are different ones of a rank.
func distinct(axes []int, rank int) bool {
	for i, a := range axes {
		if a < 0 || a >= rank || slices.Contains(axes[:i], a) {
			return false
		}
	}
	return true
}

// Transpose adds x with its axes in another order: axis i of the result is axis
// permutation[i] of x.
func (g *Graph) Transpose(x Value, permutation ...int) (Value, error) {
	if err := g.check(Transpose, x); err != nil {
		return Value{}, err
	}
	s := x.Shape()
	if len(permutation) != s.Rank() || !distinct(permutation, s.Rank()) {
		return Value{}, bad(Transpose, []Value{x}, "%v does not name each axis once", permutation)
	}
	out := Shape{Type: s.Type}
	for _, a := range permutation {
		out.Dims = append(out.Dims, s.Dims[a])
	}
	return g.add(Transpose, Axes(slices.Clone(permutation)), out, x), nil
}

// BroadcastInDim adds a value of the given dimensions in which x is repeated. Axis i of
// x is axis axes[i] of the result, and is as long or has one element; axes are in
// ascending order.
func (g *Graph) BroadcastInDim(x Value, dims, axes []int) (Value, error) {
	if err := g.check(BroadcastInDim, x); err != nil {
		return Value{}, err
	}
	s := x.Shape()
	if len(axes) != s.Rank() || !distinct(axes, len(dims)) || !slices.IsSorted(axes) {
		return Value{}, bad(BroadcastInDim, []Value{x}, "%v does not name an axis of %v for each of the operand's, in ascending order", axes, dims)
	}
	for i, a := range axes {
		if s.Dims[i] != 1 && s.Dims[i] != dims[a] {
			return Value{}, bad(BroadcastInDim, []Value{x}, "axis %d does not become axis %d of %v", i, a, dims)
		}
	}
	return g.checked(BroadcastInDim, Axes(slices.Clone(axes)), MakeShape(s.Type, dims...), x)
}

// Reverse adds x with the elements along some axes in the opposite order.
func (g *Graph) Reverse(x Value, axes ...int) (Value, error) {
	if err := g.check(Reverse, x); err != nil {
		return Value{}, err
	}
	if !distinct(axes, x.Shape().Rank()) {
		return Value{}, bad(Reverse, []Value{x}, "%v are not different axes", axes)
	}
	return g.add(Reverse, Axes(slices.Clone(axes)), x.Shape(), x), nil
}

// Slice adds some of x's elements; see [Slicing]. Strides may be nil, for 1.
func (g *Graph) Slice(x Value, starts, limits, strides []int) (Value, error) {
	if err := g.check(Slice, x); err != nil {
		return Value{}, err
	}
	s := x.Shape()
	if strides == nil {
		strides = repeat(1, s.Rank())
	}
	if len(starts) != s.Rank() || len(limits) != s.Rank() || len(strides) != s.Rank() {
		return Value{}, bad(Slice, []Value{x}, "starts %v, limits %v and strides %v are not one for each axis", starts, limits, strides)
	}
	out := Shape{Type: s.Type}
	for i, d := range s.Dims {
		if starts[i] < 0 || limits[i] < starts[i] || limits[i] > d || strides[i] < 1 {
			return Value{}, bad(Slice, []Value{x}, "axis %d has no elements from %d to %d in steps of %d", i, starts[i], limits[i], strides[i])
		}
		out.Dims = append(out.Dims, ceilDiv(limits[i]-starts[i], strides[i]))
	}
	return g.add(Slice, &Slicing{slices.Clone(starts), slices.Clone(limits), slices.Clone(strides)}, out, x), nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func repeat(v, n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = v
	}
	return list
}

// Pad adds x with elements of value fill, a scalar, around and between its own.
func (g *Graph) Pad(x, fill Value, p Padding) (Value, error) {
	in := []Value{x, fill}
	if err := g.check(Pad, in...); err != nil {
		return Value{}, err
	}
	s := x.Shape()
	if fill.Shape().Rank() != 0 || fill.Shape().Type != s.Type {
		return Value{}, bad(Pad, in, "the second operand has to be a scalar of the same type")
	}
	if len(p.Low) != s.Rank() || len(p.High) != s.Rank() || len(p.Interior) != s.Rank() {
		return Value{}, bad(Pad, in, "padding %+v is not one for each axis", p)
	}
	out := Shape{Type: s.Type}
	for i, d := range s.Dims {
		n := d + max(d-1, 0)*p.Interior[i] + p.Low[i] + p.High[i]
		if p.Interior[i] < 0 || n < 0 {
			return Value{}, bad(Pad, in, "axis %d with %d elements before, %d behind and %d between", i, p.Low[i], p.High[i], p.Interior[i])
		}
		out.Dims = append(out.Dims, n)
	}
	return g.checked(Pad, &Padding{slices.Clone(p.Low), slices.Clone(p.High), slices.Clone(p.Interior)}, out, in...)
}

// Concatenate adds the operands one behind the other along an axis. The others are
// equally long.
func (g *Graph) Concatenate(axis int, xs ...Value) (Value, error) {
	if err := g.check(Concatenate, xs...); err != nil {
		return Value{}, err
	}
	if len(xs) == 0 || axis < 0 || axis >= xs[0].Shape().Rank() {
		return Value{}, bad(Concatenate, xs, "there is no axis %d", axis)
	}
	out := MakeShape(xs[0].Shape().Type, xs[0].Shape().Dims...)
	for _, x := range xs[1:] {
		s := x.Shape()
		if s.Type != out.Type || s.Rank() != out.Rank() {
			return Value{}, bad(Concatenate, xs, "types or ranks differ")
		}
		for i, d := range s.Dims {
			if i != axis && d != out.Dims[i] {
				return Value{}, bad(Concatenate, xs, "axis %d has different lengths", i)
			}
		}
		out.Dims[axis] += s.Dims[axis]
	}
	return g.checked(Concatenate, Axis(axis), out, xs...)
}

// DynamicSlice adds the elements of x in a window of the given sizes. starts are scalar
// integers of one type, one for each axis, that say where it begins; they are moved so
// that the window lies inside x.
func (g *Graph) DynamicSlice(x Value, starts []Value, sizes []int) (Value, error) {
	in := append([]Value{x}, starts...)
	if err := g.checkStarts(DynamicSlice, in, 1, x, sizes); err != nil {
		return Value{}, err
	}
	return g.add(DynamicSlice, nil, MakeShape(x.Shape().Type, sizes...), in...), nil
}

// DynamicUpdateSlice adds x with the elements in a window replaced by those of update.
// starts are as in [Graph.DynamicSlice].
func (g *Graph) DynamicUpdateSlice(x, update Value, starts []Value) (Value, error) {
	in := append([]Value{x, update}, starts...)
	if err := g.checkStarts(DynamicUpdateSlice, in, 2, x, update.Shape().Dims); err != nil {
		return Value{}, err
	}
	if x.Shape().Type != update.Shape().Type {
		return Value{}, bad(DynamicUpdateSlice, in, "the types differ")
	}
	return g.add(DynamicUpdateSlice, nil, x.Shape(), in...), nil
}

func (g *Graph) checkStarts(op Op, in []Value, first int, x Value, sizes []int) error {
	if err := g.check(op, in...); err != nil {
		return err
	}
	s := x.Shape()
	if len(sizes) != s.Rank() || len(in)-first != s.Rank() {
		return bad(op, in, "%d starts and window %v are not one for each axis", len(in)-first, sizes)
	}
	for i, v := range in[first:] {
		if t := v.Shape(); t.Rank() != 0 || !isInt(t.Type) || t.Type != in[first].Shape().Type {
			return bad(op, in, "start %d has to be a scalar integer, of the same type as the others", i)
		}
		if sizes[i] < 0 || sizes[i] > s.Dims[i] {
			return bad(op, in, "a window of %d does not fit axis %d", sizes[i], i)
		}
	}
	return nil
}

// GatherAxes is how a [Gather] reads its operands, in the words of StableHLO.
type GatherAxes struct {
	IndexVector int   // the axis of the indices along which those of one slice lie; their rank, if each is a scalar
	StartIndex  []int // the operand's axis that each index of such a vector is for
	Sizes       []int // of a slice, for each axis of the operand
	Collapsed   []int // axes of the operand, of size 1, that the result has not
	Offset      []int // axes of the result that the others are, in order
}

// Gather adds slices of x at places that indices say. Indices are moved so that slices
// lie inside x.
func (g *Graph) Gather(x, indices Value, a GatherAxes) (Value, error) {
	in := []Value{x, indices}
	if err := g.check(Gather, in...); err != nil {
		return Value{}, err
	}
	s, at := x.Shape(), indices.Shape()
	if !isInt(at.Type) || s.Rank() == 0 {
		return Value{}, bad(Gather, in, "the first operand has axes, and indices are integers")
	}
	if a.IndexVector < 0 || a.IndexVector > at.Rank() {
		return Value{}, bad(Gather, in, "indices have no axis %d", a.IndexVector)
	}
	batch, vector := splitIndices(at, a.IndexVector)
	if len(a.StartIndex) != vector || !distinct(a.StartIndex, s.Rank()) {
		return Value{}, bad(Gather, in, "%v does not name an axis of the operand for each of %d indices", a.StartIndex, vector)
	}
	if len(a.Sizes) != s.Rank() || !distinct(a.Collapsed, s.Rank()) || len(a.Collapsed)+len(a.Offset) != s.Rank() {
		return Value{}, bad(Gather, in, "sizes %v, collapsed %v and offset %v do not name each axis of the operand", a.Sizes, a.Collapsed, a.Offset)
	}
	var sizes []int
	for i, n := range a.Sizes {
		collapsed := slices.Contains(a.Collapsed, i)
		if n < 0 || n > s.Dims[i] || collapsed && n != 1 {
			return Value{}, bad(Gather, in, "slices have %d elements along axis %d", n, i)
		}
		if !collapsed {
			sizes = append(sizes, n)
		}
	}
	out := Shape{s.Type, make([]int, len(batch)+len(a.Offset))}
	if !distinct(a.Offset, out.Rank()) || !slices.IsSorted(a.Offset) {
		return Value{}, bad(Gather, in, "offset axes %v of a result of %d are not different and in ascending order", a.Offset, out.Rank())
	}
	fillAxes(out.Dims, a.Offset, sizes, batch)
	a.StartIndex, a.Sizes, a.Collapsed, a.Offset = slices.Clone(a.StartIndex), slices.Clone(a.Sizes), slices.Clone(a.Collapsed), slices.Clone(a.Offset)
	return g.checked(Gather, &a, out, in...)
}

// splitIndices returns the dimensions of indices without the axis of their vectors, and
// how long that is.
func splitIndices(s Shape, vector int) (batch []int, n int) {
	if vector == s.Rank() {
		return s.Dims, 1
	}
	return slices.Delete(slices.Clone(s.Dims), vector, vector+1), s.Dims[vector]
}

// fillAxes gives axes at the given places their dimensions, and the others theirs.
func fillAxes(dims, at, inside, outside []int) {
	i, o := 0, 0
	for axis := range dims {
		if slices.Contains(at, axis) {
			dims[axis] = inside[i]
			i++
		} else {
			dims[axis] = outside[o]
			o++
		}
	}
}

// ScatterAxes is how a scatter reads its operands, in the words of StableHLO.
type ScatterAxes struct {
	IndexVector int   // as in [GatherAxes]
	StartIndex  []int // the operand's axis that each index is for: StableHLO's scatter_dims_to_operand_dims
	Window      []int // axes of the updates that lie in the operand
	Inserted    []int // axes of the operand that updates have not, since they are one element long
}

// Scatter adds x with updates added ([ScatterSum]), or with the larger or the smaller of
// the two ([ScatterMax], [ScatterMin]), at places that indices say. Updates that do not
// lie inside x as a whole are left out. Where several have one place, they follow in
// row-major order.
func (g *Graph) Scatter(op Op, x, indices, updates Value, a ScatterAxes) (Value, error) {
	in := []Value{x, indices, updates}
	if op < ScatterSum || op > ScatterMin {
		return Value{}, bad(op, in, "it is no scatter")
	}
	if err := g.check(op, in...); err != nil {
		return Value{}, err
	}
	s, at, u := x.Shape(), indices.Shape(), updates.Shape()
	if !isInt(at.Type) || s.Type != u.Type {
		return Value{}, bad(op, in, "indices are integers, and the others of one type")
	}
	if a.IndexVector < 0 || a.IndexVector > at.Rank() {
		return Value{}, bad(op, in, "indices have no axis %d", a.IndexVector)
	}
	batch, vector := splitIndices(at, a.IndexVector)
	if len(a.StartIndex) != vector || !distinct(a.StartIndex, s.Rank()) {
		return Value{}, bad(op, in, "%v does not name an axis of the operand for each of %d indices", a.StartIndex, vector)
	}
	if !distinct(a.Inserted, s.Rank()) || !distinct(a.Window, u.Rank()) || !slices.IsSorted(a.Window) ||
		len(a.Inserted)+len(a.Window) != s.Rank() || len(batch)+len(a.Window) != u.Rank() {
		return Value{}, bad(op, in, "inserted %v and window %v do not name each axis of operand and updates", a.Inserted, a.Window)
	}
	w, o := 0, 0
	for axis, d := range u.Dims {
		if !slices.Contains(a.Window, axis) {
			if d != batch[o] {
				return Value{}, bad(op, in, "axis %d of the updates is not as long as that of the indices", axis)
			}
			o++
			continue
		}
		for slices.Contains(a.Inserted, w) {
			w++
		}
		if d > s.Dims[w] {
			return Value{}, bad(op, in, "axis %d of the updates does not fit axis %d", axis, w)
		}
		w++
	}
	a.StartIndex, a.Window, a.Inserted = slices.Clone(a.StartIndex), slices.Clone(a.Window), slices.Clone(a.Inserted)
	return g.add(op, &a, s, in...), nil
}
