package access

import "slices"

// Axis is a batch axis of a product: how many there are, and how many elements of the
// operands and the result lie from one to the next.
type Axis struct {
	Count   int64
	Strides [3]int64
}

// Batches are the batch axes of a product, the innermost first, whose results of that
// many elements lie one behind the other. What can be one axis is: two of an operand
// that was transposed cannot.
func Batches(sides *[2]Matrix, elements int64) []Axis {
	var list []Axis
	for i := len(sides[0].Batch) - 1; i >= 0; i-- {
		x, y := sides[0].Batch[i], sides[1].Batch[i]
		next := Axis{int64(x.Count), [3]int64{int64(x.Stride), int64(y.Stride), elements}}
		elements *= next.Count
		if next.Count == 1 {
			continue
		}
		if n := len(list); n > 0 {
			last := &list[n-1]
			if next.Strides == [3]int64{last.Count * last.Strides[0], last.Count * last.Strides[1], last.Count * last.Strides[2]} {
				last.Count *= next.Count
				continue
			}
		}
		list = append(list, next)
	}
	return list
}

// Strided is how many elements lie along an axis, and how far one is from the next, in
// elements; backwards if that is negative.
type Strided struct{ Count, Stride int }

// Matrix is an operand of a product.
type Matrix struct {
	Batch            []Strided // its axes
	Free, Contracted int       // how many there are
	ByContracted     bool      // a row has a contracted index, and a free one for each element
	Stride           int       // from row to row
}

// MatrixOf sees an operand as matrices, if it can be: axes of its own order are at order
// in memory, of dimensions dims.
func MatrixOf(dims, order, batch, contracted []int) (Matrix, bool) {
	strides := make([]int, len(dims))
	n := 1
	for i := len(dims) - 1; i >= 0; i-- {
		strides[i] = n
		n *= dims[i]
	}
	// join puts axes together to one, of a length and a stride.
	join := func(axes []int) (length, stride int, ok bool) {
		length, stride = 1, 0
		for _, axis := range slices.Backward(axes) {
			d, s := dims[order[axis]], strides[order[axis]]
			switch {
			case d == 1:
				continue
			case length == 1:
				stride = s
			case s != stride*length:
				return 0, 0, false
			}
			length *= d
		}
		return length, stride, true
	}
	var free []int
	for axis := range order {
		if !slices.Contains(batch, axis) && !slices.Contains(contracted, axis) {
			free = append(free, axis)
		}
	}
	var m Matrix
	var f, c int
	var ok bool
	if m.Free, f, ok = join(free); !ok {
		return m, false
	}
	if m.Contracted, c, ok = join(contracted); !ok {
		return m, false
	}
	switch {
	case c == 1 || m.Contracted == 1 && f != 1:
		m.Stride = max(f, m.Contracted)
	case f == 1 || m.Free == 1:
		m.ByContracted, m.Stride = true, max(c, m.Free)
	default:
		return m, false
	}
	for _, axis := range batch {
		m.Batch = append(m.Batch, Strided{dims[order[axis]], strides[order[axis]]})
	}
	return m, true
}
