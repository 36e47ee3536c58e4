package host

import (
	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

func init() {
	compilers[graph.DotGeneral] = (*executor).dot
}

// side is an operand of a product: a batch of matrices.
type side struct {
	batch, free, contracted walk // strides in elements of the operand
}

func sideOf(s graph.Shape, batch, contracted []int) side {
	st := strides(s.Dims)
	_, free := split(s.Rank(), append(append([]int{}, batch...), contracted...))
	of := func(axes []int) walk { return walk{pick(s.Dims, axes), [][]int{pick(st, axes)}} }
	return side{of(batch), of(free), of(contracted)}
}

// stored returns how one matrix of the side is stored: whether an element's free index
// chooses the row, and the distance between rows; false if neither index chooses rows of
// elements that lie one behind the other.
func (s side) stored() (byFree bool, stride int, ok bool) {
	free, contracted := s.free.collapse(), s.contracted.collapse()
	if len(free.dims) > 1 || len(contracted.dims) > 1 {
		return false, 0, false
	}
	apart := func(w walk) int {
		if len(w.dims) == 0 {
			return 0
		}
		return w.strides[0][0]
	}
	f, c := apart(free), apart(contracted)
	switch {
	case c <= 1: // one element, or neighbours
		return true, f, true
	case f <= 1:
		return false, c, true
	}
	return false, 0, false
}

// packed is the side after its elements were put in order.
func (s side) packed() side {
	b, f, c := product(s.batch.dims), product(s.free.dims), product(s.contracted.dims)
	return side{
		walk{[]int{b}, [][]int{{f * c}}},
		walk{[]int{f}, [][]int{{c}}},
		walk{[]int{c}, [][]int{{1}}},
	}
}

// all goes through the elements in the order batch, free, contracted.
func (s side) all() walk {
	w := walk{strides: make([][]int, 1)}
	for _, part := range []walk{s.batch, s.free, s.contracted} {
		w.dims = append(w.dims, part.dims...)
		w.strides[0] = append(w.strides[0], part.strides[0]...)
	}
	return w
}

func (e *executor) dot(t *step.Task) (step.Kernel, error) {
	n := t.Nodes[0]
	a := n.Attr.(*graph.DotAxes)
	x, y := n.Inputs[0].Shape(), n.Inputs[1].Shape()
	sides := [2]side{sideOf(x, a.Batch[0], a.Contracted[0]), sideOf(y, a.Batch[1], a.Contracted[1])}
	from, result := x.Type, n.Shapes[0].Type
	switch {
	case n.Shapes[0].Size() == 0:
		return e.single(t, func(_, _ [][]byte) {}), nil
	case product(sides[0].contracted.dims) == 0:
		return e.single(t, func(_, out [][]byte) { clear(out[0]) }), nil
	case !from.IsFloat():
		return e.single(t, dotInGo(sides, integerReader(from), integerWriter(result))), nil
	case from == dtype.F64 || result == dtype.F64:
		return e.single(t, dotInGo(sides, floatReader[float64](from), floatWriter[float64](result))), nil
	}
	k := e.sequence(t)
	var memories [2]int
	for i, s := range sides {
		memories[i] = i
		if _, _, ok := s.stored(); ok {
			continue
		}
		source := i
		all, count := s.all(), product(s.all().dims)
		packed := k.memory(int64(count * from.Size()))
		memories[i] = packed
		sides[i] = s.packed()
		all.strides = [][]int{strides(all.dims), all.strides[0]}
		k.call(func(m [][]byte) { copyStrided(m[packed], m[source], from.Size(), all, 0, 0) })
	}
	rows, columns, depth := product(sides[0].free.dims), product(sides[1].free.dims), product(sides[0].contracted.dims)
	out, type3 := k.in, result
	if result != dtype.F32 && result != from {
		type3 = dtype.F32
		out = k.memory(int64(n.Shapes[0].Size() * 4))
	}
	g := blas.Gemm{M: int64(rows), N: int64(columns), K: int64(depth), Type: from, TypeC: type3}
	byFree, stride, _ := sides[0].stored()
	g.TransA = !byFree
	g.A.Stride = orColumns(stride, byFree, depth, rows)
	byFree, stride, _ = sides[1].stored()
	g.TransB = byFree
	g.B.Stride = orColumns(stride, byFree, depth, columns)
	xs, ys := sides[0].batch.at(0), sides[1].batch.at(0)
	for i := range product(sides[0].batch.dims) {
		k.multiply(g,
			place{memories[0], int64(xs.offsets[0] * from.Size())},
			place{memories[1], int64(ys.offsets[0] * from.Size())},
			place{out, int64(i * rows * columns * type3.Size())})
		xs.next()
		ys.next()
	}
	if out != k.in {
		write := floatWriter[float32](result)
		k.call(func(m [][]byte) {
			src := view[float32](m[out])
			parallel(len(src), grain, func(from, to int) {
				for i := from; i < to; i++ {
					write(m[k.in], i, src[i])
				}
			})
		})
	}
	return k, nil
}

// orColumns is the distance between rows; where there is one row only, 0 for the
// columns as they are.
func orColumns(stride int, byFree bool, depth, free int) int64 {
	rows := depth
	if byFree {
		rows = free
	}
	if rows == 1 {
		return 0
	}
	return int64(stride)
}

// dotInGo multiplies numbers of the types that no library has.
func dotInGo[A number](sides [2]side, read func([]byte, int) A, write func([]byte, int, A)) function {
	batch, rows, columns, depth := product(sides[0].batch.dims), product(sides[0].free.dims), product(sides[1].free.dims), product(sides[0].contracted.dims)
	// The second operand is wanted by rows of its columns.
	ordered := [2]walk{sides[0].all(), side{sides[1].batch, sides[1].contracted, sides[1].free}.all()}
	return func(in, out [][]byte) {
		var values [2][]A
		for i, w := range ordered {
			values[i] = make([]A, product(w.dims))
			parallel(len(values[i]), grain, func(from, to int) {
				c := w.at(from)
				for j := from; j < to; j++ {
					values[i][j] = read(in[i], c.offsets[0])
					c.next()
				}
			})
		}
		parallel(batch*rows, max(grain/(columns*depth), 1), func(from, to int) {
			sums := make([]A, columns)
			for r := from; r < to; r++ {
				clear(sums)
				y := values[1][r/rows*depth*columns:]
				for _, a := range values[0][r*depth : (r+1)*depth] {
					for j, b := range y[:columns] {
						sums[j] += a * b
					}
					y = y[columns:]
				}
				for j, v := range sums {
					write(out[0], r*columns+j, v)
				}
			}
		})
	}
}
