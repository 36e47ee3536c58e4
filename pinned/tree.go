package pinned

import "math/rand/v2"

// tree is the set of free blocks, ordered by size and then address, so that
// the best fit is found, put in and taken out in O(log n). It is a treap
// (Seidel and Aragon, "Randomized search trees", 1996) whose nodes are the
// blocks themselves: it allocates nothing.
type tree struct{ root *block }

// before is the tree's order.
func (b *block) before(c *block) bool {
	return b.size < c.size || b.size == c.size && b.addr < c.addr
}

func (t *tree) insert(b *block) {
	b.priority = rand.Uint32()
	link := &t.root
	for *link != nil && (*link).priority >= b.priority {
		if b.before(*link) {
			link = &(*link).left
		} else {
			link = &(*link).right
		}
	}
	// Everything below goes to either side of b.
	low, high := &b.left, &b.right
	for n := *link; n != nil; {
		if n.before(b) {
			*low, low, n = n, &n.right, n.right
		} else {
			*high, high, n = n, &n.left, n.left
		}
	}
	*low, *high = nil, nil
	*link = b
}

// remove takes out b, which must be in the tree.
func (t *tree) remove(b *block) {
	link := &t.root
	for *link != b {
		if b.before(*link) {
			link = &(*link).left
		} else {
			link = &(*link).right
		}
	}
	low, high := b.left, b.right
	for low != nil && high != nil {
		if low.priority >= high.priority {
			*link, link, low = low, &low.right, low.right
		} else {
			*link, link, high = high, &high.left, high.left
		}
	}
	if low == nil {
		low = high
	}
	*link = low
	b.left, b.right = nil, nil
}

// best returns the smallest block of at least size bytes, the one at the
// lowest address among equals, or nil.
func (t *tree) best(size int64) *block {
	var fit *block
	for n := t.root; n != nil; {
		if n.size >= size {
			fit, n = n, n.left
		} else {
			n = n.right
		}
	}
	return fit
}

// largest returns the size of the largest block, or 0.
func (t *tree) largest() int64 {
	var size int64
	for n := t.root; n != nil; n = n.right {
		size = n.size
	}
	return size
}
