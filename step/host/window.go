package host

import (
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

func init() {
	provide(reduceWindow, graph.ReduceWindow)
	provide(selectAndScatter, graph.SelectAndScatterMax, graph.SelectAndScatterMin)
}

// along is which elements of an axis lie in a window.
type along struct {
	offsets []int // of those that are there, times the axis's stride
}

// windowsAlong lists the elements of each window along an axis.
func windowsAlong(count, d, size, stride, low, dilation, windowDilation, apart int) []along {
	all := make([]along, count)
	for w := range all {
		for i := range size {
			at := w*stride + i*windowDilation - low
			if at >= 0 && at%dilation == 0 && at/dilation < d {
				all[w].offsets = append(all[w].offsets, at/dilation*apart)
			}
		}
	}
	return all
}

// eachInWindow calls f with the places of the elements in one window, row-major.
func eachInWindow(axes []along, at int, f func(at int)) {
	if len(axes) == 0 {
		f(at)
		return
	}
	for _, o := range axes[0].offsets {
		eachInWindow(axes[1:], at+o, f)
	}
}

// overWindows calls f for each window, with its number and its elements.
func overWindows(x graph.Shape, out []int, w *graph.Windows, from, to int, f func(i int, axes []along)) {
	axes := make([][]along, len(out))
	for i, apart := range strides(x.Dims) {
		axes[i] = windowsAlong(out[i], x.Dims[i], w.Dims[i], w.Strides[i], w.Low[i], w.Dilation[i], w.WindowDilation[i], apart)
	}
	c := walk{out, nil}.at(from)
	these := make([]along, len(out))
	for i := from; i < to; i++ {
		for axis, index := range c.index {
			these[axis] = axes[axis][index]
		}
		f(i, these)
		c.next()
	}
}

func reduceWindow(n *graph.Node) (function, error) {
	op := n.Attr.(*graph.Windows).Reduction
	switch t := n.Shapes[0].Type; t {
	case dtype.F16, dtype.BF16:
		return reducingWindows(n, halfFoldOf(op, t)), nil
	case dtype.F32:
		return reducingWindows(n, floatFoldOf(op)), nil
	case dtype.F64:
		return reducingWindows(n, foldOf[float64](op)), nil
	case dtype.I8:
		return reducingWindows(n, foldOf[int8](op)), nil
	case dtype.I16:
		return reducingWindows(n, foldOf[int16](op)), nil
	case dtype.I32:
		return reducingWindows(n, foldOf[int32](op)), nil
	case dtype.I64:
		return reducingWindows(n, foldOf[int64](op)), nil
	case dtype.U8:
		return reducingWindows(n, foldOf[uint8](op)), nil
	case dtype.U16:
		return reducingWindows(n, foldOf[uint16](op)), nil
	case dtype.U32:
		return reducingWindows(n, foldOf[uint32](op)), nil
	case dtype.U64:
		return reducingWindows(n, foldOf[uint64](op)), nil
	}
	return nil, step.ErrNotSupported
}

func reducingWindows[T, A any](n *graph.Node, f fold[T, A]) function {
	w := n.Attr.(*graph.Windows)
	x, out := n.Inputs[0].Shape(), n.Shapes[0]
	return func(in, outs [][]byte) {
		src, dst := view[T](in[0]), view[T](outs[0])
		parallel(product(out.Dims), max(grain/product(w.Dims), 1), func(from, to int) {
			overWindows(x, out.Dims, w, from, to, func(i int, axes []along) {
				acc := f.neutral
				eachInWindow(axes, 0, func(at int) { acc = f.add(acc, f.get(src[at])) })
				dst[i] = f.put(acc)
			})
		})
	}
}

func selectAndScatter(n *graph.Node) (function, error) {
	switch t := n.Shapes[0].Type; t {
	case dtype.F16, dtype.BF16:
		return selecting(n, halfFoldOf(graph.ReduceSum, t)), nil
	case dtype.F32:
		return selecting(n, floatFoldOf(graph.ReduceSum)), nil
	case dtype.F64:
		return selecting(n, foldOf[float64](graph.ReduceSum)), nil
	case dtype.I8:
		return selecting(n, foldOf[int8](graph.ReduceSum)), nil
	case dtype.I16:
		return selecting(n, foldOf[int16](graph.ReduceSum)), nil
	case dtype.I32:
		return selecting(n, foldOf[int32](graph.ReduceSum)), nil
	case dtype.I64:
		return selecting(n, foldOf[int64](graph.ReduceSum)), nil
	case dtype.U8:
		return selecting(n, foldOf[uint8](graph.ReduceSum)), nil
	case dtype.U16:
		return selecting(n, foldOf[uint16](graph.ReduceSum)), nil
	case dtype.U32:
		return selecting(n, foldOf[uint32](graph.ReduceSum)), nil
	case dtype.U64:
		return selecting(n, foldOf[uint64](graph.ReduceSum)), nil
	}
	return nil, step.ErrNotSupported
}

// selecting adds each element of the source at the place that its window selects. It
// runs on one goroutine, since windows may overlap.
func selecting[T any, A number](n *graph.Node, f fold[T, A]) function {
	w := n.Attr.(*graph.Windows)
	x, windows := n.Inputs[0].Shape(), n.Inputs[1].Shape().Dims
	max := n.Op == graph.SelectAndScatterMax
	return func(in, out [][]byte) {
		src, source, dst := view[T](in[0]), view[T](in[1]), view[T](out[0])
		sums := make([]A, len(dst))
		overWindows(x, windows, w, 0, product(windows), func(i int, axes []along) {
			chosen := -1
			var value A
			eachInWindow(axes, 0, func(at int) {
				if v := f.get(src[at]); chosen < 0 || better(max, v, value) {
					chosen, value = at, v
				}
			})
			if chosen >= 0 {
				sums[chosen] = f.add(sums[chosen], f.get(source[i]))
			}
		})
		for i, v := range sums {
			dst[i] = f.put(v)
		}
	}
}
