package host

import (
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/step"
)

func init() {
	provide(reduce, graph.ReduceSum, graph.ReduceProduct, graph.ReduceMax, graph.ReduceMin, graph.ReduceAnd, graph.ReduceOr, graph.ReduceXor)
	provide(argMinMax, graph.ArgMax, graph.ArgMin)
}

// fold is how elements of type T are put together in numbers of type A.
type fold[T, A any] struct {
	neutral A
	get     func(T) A
	add     func(A, A) A
	put     func(A) T
	run     func([]T) A // of elements one behind the other; may be nil
}

func same[T any](x T) T { return x }

// foldOf returns how numbers of a type that is not rounded are put together.
func foldOf[T number](op graph.Op) fold[T, T] {
	f := fold[T, T]{get: same[T], put: same[T]}
	switch op {
	case graph.ReduceSum:
		f.add = func(x, y T) T { return x + y }
	case graph.ReduceProduct:
		f.neutral, f.add = 1, func(x, y T) T { return x * y }
	case graph.ReduceMax:
		f.neutral, f.add = lowest[T](), larger[T]
	case graph.ReduceMin:
		f.neutral, f.add = highest[T](), smaller[T]
	}
	return f
}

func bitFoldOf[T integer](op graph.Op) fold[T, T] {
	f := foldOf[T](op)
	switch op {
	case graph.ReduceAnd:
		f.neutral, f.add = ^T(0), func(x, y T) T { return x & y }
	case graph.ReduceOr:
		f.add = func(x, y T) T { return x | y }
	case graph.ReduceXor:
		f.add = func(x, y T) T { return x ^ y }
	}
	return f
}

// boolFoldOf is of bools; a maximum is whether any is true.
func boolFoldOf(op graph.Op) fold[uint8, uint8] {
	switch op {
	case graph.ReduceMax:
		op = graph.ReduceOr
	case graph.ReduceMin:
		op = graph.ReduceAnd
	}
	f := bitFoldOf[uint8](op)
	f.neutral &= 1
	return f
}

// wideFoldOf puts floating-point numbers together as float64.
func wideFoldOf[T any](op graph.Op, get func(T) float64, put func(float64) T) fold[T, float64] {
	f := foldOf[float64](op)
	return fold[T, float64]{neutral: f.neutral, get: get, add: f.add, put: put}
}

func floatFoldOf(op graph.Op) fold[float32, float64] {
	f := wideFoldOf(op, func(x float32) float64 { return float64(x) }, func(x float64) float32 { return float32(x) })
	if op == graph.ReduceSum {
		f.run = func(x []float32) float64 {
			var a, b, c, d float64
			for ; len(x) >= 4; x = x[4:] {
				a += float64(x[0])
				b += float64(x[1])
				c += float64(x[2])
				d += float64(x[3])
			}
			for _, v := range x {
				a += float64(v)
			}
			return a + b + (c + d)
		}
	}
	return f
}

func halfFoldOf(op graph.Op, t dtype.DType) fold[uint16, float64] {
	get, put := float16.FromF16, float16.ToF16
	if t == dtype.BF16 {
		get, put = float16.FromBF16, float16.ToBF16
	}
	return wideFoldOf(op, func(x uint16) float64 { return float64(get(x)) }, func(x float64) uint16 { return put(float16.RoundToOdd(x)) })
}

func reduce(n *graph.Node) (function, error) {
	switch t := n.Shapes[0].Type; t {
	case dtype.F16, dtype.BF16:
		return reducing(n, halfFoldOf(n.Op, t)), nil
	case dtype.F32:
		return reducing(n, floatFoldOf(n.Op)), nil
	case dtype.F64:
		return reducing(n, foldOf[float64](n.Op)), nil
	case dtype.I8:
		return reducing(n, bitFoldOf[int8](n.Op)), nil
	case dtype.I16:
		return reducing(n, bitFoldOf[int16](n.Op)), nil
	case dtype.I32:
		return reducing(n, bitFoldOf[int32](n.Op)), nil
	case dtype.I64:
		return reducing(n, bitFoldOf[int64](n.Op)), nil
	case dtype.U8:
		return reducing(n, bitFoldOf[uint8](n.Op)), nil
	case dtype.U16:
		return reducing(n, bitFoldOf[uint16](n.Op)), nil
	case dtype.U32:
		return reducing(n, bitFoldOf[uint32](n.Op)), nil
	case dtype.U64:
		return reducing(n, bitFoldOf[uint64](n.Op)), nil
	case dtype.Bool:
		return reducing(n, boolFoldOf(n.Op)), nil
	}
	return nil, step.ErrNotSupported
}

// rowBlock is how many neighbouring results are computed together.
const rowBlock = 512

// reducing is a reduction. Each result is folded in row-major order of the axes that
// go; where there are few results of many elements, those are folded in pieces whose
// number depends on the shapes alone.
func reducing[T, A any](n *graph.Node, f fold[T, A]) function {
	x, out := n.Inputs[0].Shape(), n.Shapes[0]
	gone, kept := split(x.Rank(), n.Attr.(graph.Axes))
	st := strides(x.Dims)
	results := walk{out.Dims, [][]int{pick(st, kept)}}.collapse()
	elements := walk{pick(x.Dims, gone), [][]int{pick(st, gone)}}.collapse()
	// Neighbouring results are folded together where they lie side by side in x.
	width := 1
	if last := len(results.dims) - 1; last >= 0 && results.strides[0][last] == 1 && (len(elements.dims) == 0 || elements.strides[0][len(elements.dims)-1] != 1) {
		width = results.dims[last]
		results, _, _ = results.outer()
	}
	around, inner, steps := elements.outer()
	total := product(elements.dims)
	count := product(out.Dims)
	// Elements are folded in pieces of whole turns around the innermost axis.
	turns := product(around.dims)
	pieces := 1
	if want := min(total*count/(4*grain), 64); count < 64 && total > 0 && want > 1 {
		pieces = min(want, turns)
	}
	splitInner := count < 64 && turns < 8 && inner > 8*grain && width == 1
	return func(in, outs [][]byte) {
		src, dst := view[T](in[0]), view[T](outs[0])
		if count == 0 {
			return
		}
		if total == 0 {
			for i := range dst {
				dst[i] = f.put(f.neutral)
			}
			return
		}
		run := func(acc A, at, n, step int) A {
			if step == 1 && f.run != nil {
				for ; n > 0; n, at = n-4096, at+4096 {
					acc = f.add(acc, f.run(src[at:at+min(n, 4096)]))
				}
				return acc
			}
			for range n {
				acc = f.add(acc, f.get(src[at]))
				at += step
			}
			return acc
		}
		if splitInner {
			c := results.at(0)
			const piece = 4 * grain
			partial := make([]A, (inner+piece-1)/piece)
			for r := range count {
				acc := f.neutral
				e := around.at(0)
				for range turns {
					base := c.offsets[0] + e.offsets[0]
					parallel(inner, piece, func(from, to int) { partial[from/piece] = run(f.neutral, base+from*steps[0], to-from, steps[0]) })
					for _, p := range partial {
						acc = f.add(acc, p)
					}
					e.next()
				}
				dst[r] = f.put(acc)
				c.next()
			}
			return
		}
		blocks := (width + rowBlock - 1) / rowBlock
		jobs := product(results.dims) * blocks // of up to rowBlock results each
		partial := make([]A, pieces*count)
		perPiece := (turns + pieces - 1) / pieces
		parallel(jobs*pieces, max(grain*pieces/(total*min(width, rowBlock)), 1), func(from, to int) {
			for i := from; i < to; i++ {
				job, piece := i/pieces, i%pieces
				row, first := job/blocks, job%blocks*rowBlock
				n := min(rowBlock, width-first)
				base := results.at(row).offsets[0] + first
				acc := partial[piece*count+row*width+first:][:n]
				for j := range acc {
					acc[j] = f.neutral
				}
				begin, end := piece*perPiece, min((piece+1)*perPiece, turns)
				if begin >= end {
					continue
				}
				e := around.at(begin)
				for range end - begin {
					at := base + e.offsets[0]
					if width == 1 {
						acc[0] = run(acc[0], at, inner, steps[0])
					} else {
						for range inner {
							for j, v := range src[at : at+n] {
								acc[j] = f.add(acc[j], f.get(v))
							}
							at += steps[0]
						}
					}
					e.next()
				}
			}
		})
		for i := range dst {
			acc := partial[i]
			for piece := 1; piece < pieces; piece++ {
				acc = f.add(acc, partial[piece*count+i])
			}
			dst[i] = f.put(acc)
		}
	}
}

func argMinMax(n *graph.Node) (function, error) {
	switch t := n.Inputs[0].Shape().Type; t {
	case dtype.F16, dtype.BF16:
		get := halfFoldOf(graph.ReduceMax, t).get
		return best(n, get)
	case dtype.F32:
		return best(n, same[float32])
	case dtype.F64:
		return best(n, same[float64])
	case dtype.I8:
		return best(n, same[int8])
	case dtype.I16:
		return best(n, same[int16])
	case dtype.I32:
		return best(n, same[int32])
	case dtype.I64:
		return best(n, same[int64])
	case dtype.U8:
		return best(n, same[uint8])
	case dtype.U16:
		return best(n, same[uint16])
	case dtype.U32:
		return best(n, same[uint32])
	case dtype.U64:
		return best(n, same[uint64])
	}
	return nil, step.ErrNotSupported
}

// better reports whether an element is chosen instead of one before it.
func better[A number](max bool, a, than A) bool {
	if than != than {
		return false
	}
	return a != a || max && a > than || !max && a < than
}

func best[T any, A number](n *graph.Node, get func(T) A) (function, error) {
	x := n.Inputs[0].Shape()
	axis := int(n.Attr.(graph.Axis))
	st := strides(x.Dims)
	results := walk{n.Shapes[0].Dims, [][]int{slices.Delete(slices.Clone(st), axis, axis+1)}}
	length, apart := x.Dims[axis], st[axis]
	put := integerPutter(n.Shapes[0].Type)
	max := n.Op == graph.ArgMax
	return func(in, out [][]byte) {
		src := view[T](in[0])
		parallel(product(results.dims), grain/length+1, func(from, to int) {
			c := results.at(from)
			for r := from; r < to; r++ {
				at := c.offsets[0]
				chosen, index := get(src[at]), 0
				for i := 1; i < length; i++ {
					if v := get(src[at+i*apart]); better(max, v, chosen) {
						chosen, index = v, i
					}
				}
				put(out[0], r, index)
				c.next()
			}
		})
	}, nil
}

// integerPutter writes integers of a type.
func integerPutter(t dtype.DType) func(b []byte, i, v int) {
	switch t.Size() {
	case 1:
		return func(b []byte, i, v int) { b[i] = byte(v) }
	case 2:
		return func(b []byte, i, v int) { view[uint16](b)[i] = uint16(v) }
	case 4:
		return func(b []byte, i, v int) { view[uint32](b)[i] = uint32(v) }
	}
	return func(b []byte, i, v int) { view[uint64](b)[i] = uint64(v) }
}
