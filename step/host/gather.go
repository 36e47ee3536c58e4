package host

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/step"
)

func init() {
	provide(gather, graph.Gather)
	provide(scatter, graph.ScatterSum, graph.ScatterMax, graph.ScatterMin)
}

// split returns the axes that are named, and the others.
func split(rank int, named []int) (in, out []int) {
	for i := range rank {
		if slices.Contains(named, i) {
			in = append(in, i)
		} else {
			out = append(out, i)
		}
	}
	return in, out
}

func pick(list, at []int) []int {
	out := make([]int, len(at))
	for i, a := range at {
		out[i] = list[a]
	}
	return out
}

// vectors is how index vectors lie: loops over them, and the distance between the
// numbers of one.
func vectors(s graph.Shape, vector int) (batch walk, apart int) {
	st := strides(s.Dims)
	if vector == s.Rank() {
		return walk{s.Dims, [][]int{st}}, 0
	}
	_, others := split(s.Rank(), []int{vector})
	return walk{pick(s.Dims, others), [][]int{pick(st, others)}}, st[vector]
}

func gather(n *graph.Node) (function, error) {
	a := n.Attr.(*graph.GatherAxes)
	x, at, out := n.Inputs[0].Shape(), n.Inputs[1].Shape(), n.Shapes[0]
	src, dst := strides(x.Dims), strides(out.Dims)
	offset, batch := split(out.Rank(), a.Offset)
	_, kept := split(x.Rank(), a.Collapsed)
	window := walk{pick(a.Sizes, kept), [][]int{pick(dst, offset), pick(src, kept)}}.collapse()
	turns, apart := vectors(at, a.IndexVector)
	turns.strides = append(turns.strides, pick(dst, batch))
	size := out.Type.Size()
	per := product(window.dims)
	return func(in, outs [][]byte) {
		if per == 0 {
			return
		}
		parallel(product(turns.dims), max(grain/per, 1), func(from, to int) {
			c := turns.at(from)
			for range to - from {
				start := 0
				for i, axis := range a.StartIndex {
					start += src[axis] * clampedIndex(in[1], at.Type, c.offsets[0]+i*apart, x.Dims[axis]-a.Sizes[axis])
				}
				copyStrided(outs[0], in[0], size, window, c.offsets[1], start)
				c.next()
			}
		})
	}, nil
}

func scatter(n *graph.Node) (function, error) {
	t := n.Shapes[0].Type
	switch t {
	case dtype.F16, dtype.BF16:
		return scatterHalf(n)
	case dtype.F32:
		return scatterOf[float32](n)
	case dtype.F64:
		return scatterOf[float64](n)
	case dtype.I8:
		return scatterOf[int8](n)
	case dtype.I16:
		return scatterOf[int16](n)
	case dtype.I32:
		return scatterOf[int32](n)
	case dtype.I64:
		return scatterOf[int64](n)
	case dtype.U8:
		return scatterOf[uint8](n)
	case dtype.U16:
		return scatterOf[uint16](n)
	case dtype.U32:
		return scatterOf[uint32](n)
	case dtype.U64:
		return scatterOf[uint64](n)
	}
	return nil, step.ErrNotSupported
}

// scatterHalf adds numbers of 16 bits up in float32.
func scatterHalf(n *graph.Node) (function, error) {
	each := scatterPlaces(n)
	combine := combiner[float32](n.Op)
	t := n.Shapes[0].Type
	return func(in, out [][]byte) {
		sums, updates := make([]float32, len(in[0])/2), view[uint16](in[2])
		widen(t, sums, view[uint16](in[0]))
		from := float16.FromF16
		if t == dtype.BF16 {
			from = float16.FromBF16
		}
		each(in[1], func(dst, src int) { sums[dst] = combine(sums[dst], from(updates[src])) })
		narrow(t, view[uint16](out[0]), sums)
	}, nil
}

func scatterOf[T number](n *graph.Node) (function, error) {
	each := scatterPlaces(n)
	combine := combiner[T](n.Op)
	return func(in, out [][]byte) {
		copy(out[0], in[0])
		d, updates := view[T](out[0]), view[T](in[2])
		each(in[1], func(dst, src int) { d[dst] = combine(d[dst], updates[src]) })
	}, nil
}

func combiner[T number](op graph.Op) func(x, y T) T {
	switch op {
	case graph.ScatterMax:
		return larger[T]
	case graph.ScatterMin:
		return smaller[T]
	}
	return func(x, y T) T { return x + y }
}

// scatterPlaces goes through the updates that lie inside the operand, in order.
func scatterPlaces(n *graph.Node) func(indices []byte, f func(dst, src int)) {
	a := n.Attr.(*graph.ScatterAxes)
	x, at, u := n.Inputs[0].Shape(), n.Inputs[1].Shape(), n.Inputs[2].Shape()
	dst, src := strides(x.Dims), strides(u.Dims)
	inside, batch := split(u.Rank(), a.Window)
	_, kept := split(x.Rank(), a.Inserted)
	window := walk{pick(u.Dims, inside), [][]int{pick(dst, kept), pick(src, inside)}}
	sizes := make([]int, x.Rank()) // of a window, in the operand
	for i := range sizes {
		sizes[i] = 1
	}
	for i, axis := range kept {
		sizes[axis] = window.dims[i]
	}
	window = window.collapse()
	around, inner, steps := window.outer()
	per := product(around.dims)
	turns, apart := vectors(at, a.IndexVector)
	turns.strides = append(turns.strides, pick(src, batch))
	return func(indices []byte, f func(dst, src int)) {
		if per*inner == 0 {
			return
		}
		c := turns.at(0)
	updates:
		for range product(turns.dims) {
			start, first := 0, c.offsets[1]
			at0 := c.offsets[0]
			c.next()
			for i, axis := range a.StartIndex {
				v, ok := index(indices, at.Type, at0+i*apart)
				if !ok || v < 0 || v > x.Dims[axis]-sizes[axis] {
					continue updates
				}
				start += v * dst[axis]
			}
			w := around.at(0)
			for range per {
				d, s := start+w.offsets[0], first+w.offsets[1]
				for range inner {
					f(d, s)
					d += steps[0]
					s += steps[1]
				}
				w.next()
			}
		}
	}
}
