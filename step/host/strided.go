package host

// strides are those of a shape in row-major order, in elements.
func strides(dims []int) []int {
	s := make([]int, len(dims))
	n := 1
	for i := len(dims) - 1; i >= 0; i-- {
		s[i] = n
		n *= dims[i]
	}
	return s
}

func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// walk is a nest of loops, with one offset into each of several memories.
type walk struct {
	dims    []int
	strides [][]int // for each memory, for each loop
}

// collapse joins loops that are one for all memories, and leaves out those of one turn.
func (w walk) collapse() walk {
	out := walk{strides: make([][]int, len(w.strides))}
	for i, d := range w.dims {
		if d == 1 {
			continue
		}
		last := len(out.dims) - 1
		join := last >= 0
		for m := range w.strides {
			join = join && out.strides[m][last] == w.strides[m][i]*d
		}
		if join {
			out.dims[last] *= d
		} else {
			out.dims = append(out.dims, d)
			last++
		}
		for m := range w.strides {
			if join {
				out.strides[m][last] = w.strides[m][i]
			} else {
				out.strides[m] = append(out.strides[m], w.strides[m][i])
			}
		}
	}
	return out
}

// cursor goes through the outer loops of a walk.
type cursor struct {
	walk
	index   []int
	offsets []int // into each memory
}

// at starts at turn number n of the loops, counted row-major.
func (w walk) at(n int) *cursor {
	c := &cursor{w, make([]int, len(w.dims)), make([]int, len(w.strides))}
	for i := len(w.dims) - 1; i >= 0; i-- {
		c.index[i] = n % w.dims[i]
		n /= w.dims[i]
		for m := range c.offsets {
			c.offsets[m] += c.index[i] * w.strides[m][i]
		}
	}
	return c
}

// next goes on by one turn, of the innermost loop.
func (c *cursor) next() {
	for i := len(c.dims) - 1; i >= 0; i-- {
		c.index[i]++
		for m := range c.offsets {
			c.offsets[m] += c.strides[m][i]
		}
		if c.index[i] < c.dims[i] {
			return
		}
		for m := range c.offsets {
			c.offsets[m] -= c.dims[i] * c.strides[m][i]
		}
		c.index[i] = 0
	}
}

// outer splits a walk into the loops around the innermost one, and that one.
func (w walk) outer() (around walk, n int, steps []int) {
	last := len(w.dims) - 1
	steps = make([]int, len(w.strides))
	if last < 0 {
		return w, 1, steps
	}
	around.dims = w.dims[:last]
	around.strides = make([][]int, len(w.strides))
	for m, s := range w.strides {
		around.strides[m] = s[:last]
		steps[m] = s[last]
	}
	return around, w.dims[last], steps
}

// copyStrided copies elements of a size between two memories: memory 0 of the walk is
// the destination, 1 the source, from an offset each.
func copyStrided(dst, src []byte, size int, w walk, dstAt, srcAt int) {
	switch size {
	case 1:
		copyElements(dst, src, w, dstAt, srcAt)
	case 2:
		copyElements(view[uint16](dst), view[uint16](src), w, dstAt, srcAt)
	case 4:
		copyElements(view[uint32](dst), view[uint32](src), w, dstAt, srcAt)
	default:
		copyElements(view[uint64](dst), view[uint64](src), w, dstAt, srcAt)
	}
}

func copyElements[T any](dst, src []T, w walk, dstAt, srcAt int) {
	if product(w.dims) == 0 {
		return
	}
	w = w.collapse()
	around, n, steps := w.outer()
	turns := product(around.dims)
	parallel(turns, max(grain/n, 1), func(from, to int) {
		c := around.at(from)
		for range to - from {
			d, s := dstAt+c.offsets[0], srcAt+c.offsets[1]
			switch {
			case steps[0] == 1 && steps[1] == 1:
				copy(dst[d:d+n], src[s:s+n])
			case steps[0] == 1 && steps[1] == 0:
				v := src[s]
				for i := range dst[d : d+n] {
					dst[d+i] = v
				}
			default:
				for range n {
					dst[d] = src[s]
					d += steps[0]
					s += steps[1]
				}
			}
			c.next()
		}
	})
}
