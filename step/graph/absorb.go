package graph

import "slices"

// absorbed is a product of which operands are transposed, as one of the operands before
// that: it only names other axes. It is false where nothing changes, or where the axes of
// the result would come in another order.
func absorbed(n *Node, in []Value) ([]Value, *DotAxes, bool) {
	if n.Op != DotGeneral {
		return nil, nil, false
	}
	a, out, changed := *n.Attr.(*DotAxes), slices.Clone(in), false
	for side, v := range in {
		if v.node.Op != Transpose {
			continue
		}
		before := v.node.Attr.(Axes) // of each axis, which one it was
		last, ordered := -1, true
		for axis := range before {
			if !slices.Contains(a.Batch[side], axis) && !slices.Contains(a.Contracted[side], axis) {
				ordered = ordered && before[axis] > last
				last = before[axis]
			}
		}
		if !ordered {
			continue
		}
		a.Batch[side], a.Contracted[side] = through(before, a.Batch[side]), through(before, a.Contracted[side])
		out[side], changed = v.node.Inputs[0], true
	}
	return out, &a, changed
}

func through(before Axes, axes []int) []int {
	out := make([]int, len(axes))
	for i, axis := range axes {
		out[i] = before[axis]
	}
	return out
}
