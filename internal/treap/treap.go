// Package treap orders blocks of memory by size, so that the smallest that is
// large enough is found in a time that grows with the logarithm of their
// number. It is a treap (Seidel and Aragon, "Randomized search trees", 1996)
// whose nodes are embedded in the blocks: it allocates nothing.
package treap

import (
	"iter"
	"math/rand/v2"
)

// Set is a set of blocks of type T, by size and, among equals, by address. The
// zero value is empty.
type Set[T any] struct{ root *Node[T] }

// Node is the place of a block in a set. It is a field of the block.
type Node[T any] struct {
	left, right, parent *Node[T]
	block               *T
	size                int64
	address             uint64
	priority            uint32
}

// before is the order of a set.
func (n *Node[T]) before(m *Node[T]) bool {
	return n.size < m.size || n.size == m.size && n.address < m.address
}

// Insert adds block, whose node is n and in no set. Until it is removed, size
// and address are those given here. No other block of the set has the address.
func (s *Set[T]) Insert(n *Node[T], block *T, size int64, address uint64) {
	*n = Node[T]{block: block, size: size, address: address, priority: rand.Uint32()}
	at := &s.root
	for *at != nil {
		n.parent = *at
		if n.before(n.parent) {
			at = &n.parent.left
		} else {
			at = &n.parent.right
		}
	}
	*at = n
	for n.parent != nil && n.parent.priority < n.priority {
		s.rotateUp(n)
	}
}

// Remove takes out the block of n, which is in the set.
func (s *Set[T]) Remove(n *Node[T]) {
	// Down to where it has one child at most.
	for n.left != nil && n.right != nil {
		if n.left.priority > n.right.priority {
			s.rotateUp(n.left)
		} else {
			s.rotateUp(n.right)
		}
	}
	child := n.left
	if child == nil {
		child = n.right
	}
	s.replace(n, child)
	*n = Node[T]{}
}

// AtLeast returns the smallest block of at least size bytes, the one at the
// lowest address among equals, or nil.
func (s *Set[T]) AtLeast(size int64) *T {
	var fit *T
	for n := s.root; n != nil; {
		if n.size >= size {
			fit, n = n.block, n.left
		} else {
			n = n.right
		}
	}
	return fit
}

// Largest returns the largest block, the one at the highest address among
// equals, or nil.
func (s *Set[T]) Largest() *T {
	if n := s.last(); n != nil {
		return n.block
	}
	return nil
}

func (s *Set[T]) last() *Node[T] {
	n := s.root
	for n != nil && n.right != nil {
		n = n.right
	}
	return n
}

// Descending lists all blocks, the largest first. The set may not change
// meanwhile.
func (s *Set[T]) Descending() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for n := s.last(); n != nil && yield(n.block); n = n.previous() {
		}
	}
}

// previous returns the node before n, or nil.
func (n *Node[T]) previous() *Node[T] {
	if n.left != nil {
		for n = n.left; n.right != nil; n = n.right {
		}
		return n
	}
	for n.parent != nil && n.parent.left == n {
		n = n.parent
	}
	return n.parent
}

// replace puts child, which may be nil, where n is.
func (s *Set[T]) replace(n, child *Node[T]) {
	parent := n.parent
	switch {
	case parent == nil:
		s.root = child
	case parent.left == n:
		parent.left = child
	default:
		parent.right = child
	}
	if child != nil {
		child.parent = parent
	}
}

// rotateUp makes n the parent of its parent.
func (s *Set[T]) rotateUp(n *Node[T]) {
	parent := n.parent
	s.replace(parent, n)
	if parent.left == n {
		if parent.left = n.right; n.right != nil {
			n.right.parent = parent
		}
		n.right = parent
	} else {
		if parent.right = n.left; n.left != nil {
			n.left.parent = parent
		}
		n.left = parent
	}
	parent.parent = n
}
