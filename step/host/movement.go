package host

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
)

func init() {
	provide(transpose, graph.Transpose)
	provide(reverse, graph.Reverse)
	provide(slice, graph.Slice)
	provide(pad, graph.Pad)
	provide(concatenate, graph.Concatenate)
	provide(dynamicSlice, graph.DynamicSlice)
	provide(dynamicUpdateSlice, graph.DynamicUpdateSlice)
}

// moved is a function that copies elements of the first operand.
func moved(n *graph.Node, w walk, dstAt, srcAt int) function {
	size := n.Shapes[0].Type.Size()
	return func(in, out [][]byte) { copyStrided(out[0], in[0], size, w, dstAt, srcAt) }
}

func transpose(n *graph.Node) (function, error) {
	dims := n.Shapes[0].Dims
	src := make([]int, len(dims))
	from := strides(n.Inputs[0].Shape().Dims)
	for i, axis := range n.Attr.(graph.Axes) {
		src[i] = from[axis]
	}
	return moved(n, walk{dims, [][]int{strides(dims), src}}, 0, 0), nil
}

func reverse(n *graph.Node) (function, error) {
	dims := n.Shapes[0].Dims
	src := strides(dims)
	at := 0
	for _, axis := range n.Attr.(graph.Axes) {
		at += (dims[axis] - 1) * src[axis]
		src[axis] = -src[axis]
	}
	return moved(n, walk{dims, [][]int{strides(dims), src}}, 0, at), nil
}

func slice(n *graph.Node) (function, error) {
	a := n.Attr.(*graph.Slicing)
	dims := n.Shapes[0].Dims
	src := strides(n.Inputs[0].Shape().Dims)
	at := 0
	for i := range src {
		at += a.Starts[i] * src[i]
		src[i] *= a.Strides[i]
	}
	return moved(n, walk{dims, [][]int{strides(dims), src}}, 0, at), nil
}

func pad(n *graph.Node) (function, error) {
	a := n.Attr.(*graph.Padding)
	out, in := n.Shapes[0].Dims, n.Inputs[0].Shape().Dims
	dst, src := strides(out), strides(in)
	dims := slices.Clone(in)
	dstAt, srcAt := 0, 0
	for i := range dims {
		apart := a.Interior[i] + 1
		// Elements that stay: those with 0 <= low + index*apart < out.
		first := 0
		if a.Low[i] < 0 {
			first = (-a.Low[i] + apart - 1) / apart
		}
		last := -1
		if room := out[i] - 1 - a.Low[i]; room >= 0 {
			last = min(room/apart, in[i]-1)
		}
		dims[i] = max(last-first+1, 0)
		dstAt += (a.Low[i] + first*apart) * dst[i]
		srcAt += first * src[i]
		dst[i] *= apart
	}
	size := n.Shapes[0].Type.Size()
	fill := walk{[]int{product(out)}, [][]int{{1}, {0}}}
	w := walk{dims, [][]int{dst, src}}
	return func(in, out [][]byte) {
		copyStrided(out[0], in[1], size, fill, 0, 0)
		copyStrided(out[0], in[0], size, w, dstAt, srcAt)
	}, nil
}

func concatenate(n *graph.Node) (function, error) {
	axis := int(n.Attr.(graph.Axis))
	dst := strides(n.Shapes[0].Dims)
	size := n.Shapes[0].Type.Size()
	return func(in, out [][]byte) {
		at := 0
		for i, v := range n.Inputs {
			dims := v.Shape().Dims
			copyStrided(out[0], in[i], size, walk{dims, [][]int{dst, strides(dims)}}, at, 0)
			at += dims[axis] * dst[axis]
		}
	}, nil
}

// startsOf is where a window begins that scalars say, moved inside.
func startsOf(scalars [][]byte, t dtype.DType, dims, sizes, strides []int) int {
	at := 0
	for i, b := range scalars {
		start := clampedIndex(b, t, 0, dims[i]-sizes[i])
		at += start * strides[i]
	}
	return at
}

// clampedIndex is integer number i of memory, or the nearest number from 0 to limit.
func clampedIndex(b []byte, t dtype.DType, i, limit int) int {
	v, ok := index(b, t, i)
	if !ok {
		return limit
	}
	return min(max(v, 0), limit)
}

// index is integer number i of memory; it is false if that is too large for an int.
func index(b []byte, t dtype.DType, i int) (int, bool) {
	switch t {
	case dtype.I8:
		return int(view[int8](b)[i]), true
	case dtype.I16:
		return int(view[int16](b)[i]), true
	case dtype.I32:
		return int(view[int32](b)[i]), true
	case dtype.I64:
		return int(view[int64](b)[i]), true
	case dtype.U8:
		return int(b[i]), true
	case dtype.U16:
		return int(view[uint16](b)[i]), true
	case dtype.U32:
		return int(view[uint32](b)[i]), true
	}
	v := view[uint64](b)[i]
	return int(v), v < 1<<62
}

func dynamicSlice(n *graph.Node) (function, error) {
	dims, sizes := n.Inputs[0].Shape().Dims, n.Shapes[0].Dims
	src := strides(dims)
	w := walk{sizes, [][]int{strides(sizes), src}}
	size := n.Shapes[0].Type.Size()
	return func(in, out [][]byte) {
		at := 0
		if len(in) > 1 {
			at = startsOf(in[1:], n.Inputs[1].Shape().Type, dims, sizes, src)
		}
		copyStrided(out[0], in[0], size, w, 0, at)
	}, nil
}

func dynamicUpdateSlice(n *graph.Node) (function, error) {
	dims, sizes := n.Shapes[0].Dims, n.Inputs[1].Shape().Dims
	dst := strides(dims)
	whole := walk{[]int{product(dims)}, [][]int{{1}, {1}}}
	w := walk{sizes, [][]int{dst, strides(sizes)}}
	size := n.Shapes[0].Type.Size()
	return func(in, out [][]byte) {
		at := 0
		if len(in) > 2 {
			at = startsOf(in[2:], n.Inputs[2].Shape().Type, dims, sizes, dst)
		}
		copyStrided(out[0], in[0], size, whole, 0, 0)
		copyStrided(out[0], in[1], size, w, at, 0)
	}, nil
}
