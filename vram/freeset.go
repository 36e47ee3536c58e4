package vram

import (
	"math/bits"
	"math/rand/v2"
)

// freeSet is a set of blocks that finds the smallest that is large enough.
// Blocks of less than a MiB have a list for each size, and a bitmap tells which
// lists have any: both ways take constant time. Larger blocks are in a treap
// (Seidel and Aragon 1996) by size and, among equals, by address, where it
// takes a time that grows with the logarithm of their number. A block is
// removed by its own links.
type freeSet struct {
	lists *[binned / unit]*block // by size; made for the first
	some  [binned / unit / 64]uint64
	sums  uint64 // which words of some are not zero
	root  *block
	count int
}

// binned is the size from which blocks are in the treap.
const binned = 1 << 20

// links are a block's place in its set.
type links struct {
	left, right, parent *block // in the treap; in a list left is the one before, right the one after
	priority            uint32
}

func (s *freeSet) insert(b *block) {
	s.count++
	b.set = links{}
	if b.bytes >= binned {
		b.set.priority = rand.Uint32()
		s.insertTree(b)
		return
	}
	if s.lists == nil {
		s.lists = new([binned / unit]*block)
	}
	i := b.bytes / unit
	if first := s.lists[i]; first != nil {
		first.set.left, b.set.right = b, first
	}
	s.lists[i] = b
	s.some[i/64] |= 1 << (i % 64)
	s.sums |= 1 << (i / 64)
}

func (s *freeSet) remove(b *block) {
	s.count--
	if b.bytes >= binned {
		s.removeTree(b)
		return
	}
	before, after := b.set.left, b.set.right
	if after != nil {
		after.set.left = before
	}
	if before != nil {
		before.set.right = after
		return
	}
	i := b.bytes / unit
	if s.lists[i] = after; after == nil {
		if s.some[i/64] &^= 1 << (i % 64); s.some[i/64] == 0 {
			s.sums &^= 1 << (i / 64)
		}
	}
}

// best returns the smallest block of at least n bytes, or nil.
func (s *freeSet) best(n int64) *block {
	if n < binned && s.sums != 0 {
		i := (n + unit - 1) / unit
		word := i / 64
		if left := s.some[word] >> (i % 64); left != 0 {
			return s.lists[i+int64(bits.TrailingZeros64(left))]
		}
		if sums := s.sums >> word >> 1; sums != 0 {
			word += 1 + int64(bits.TrailingZeros64(sums))
			return s.lists[word*64+int64(bits.TrailingZeros64(s.some[word]))]
		}
	}
	var found *block
	for b := s.root; b != nil; {
		if b.bytes >= n {
			found, b = b, b.set.left
		} else {
			b = b.set.right
		}
	}
	return found
}

// largest returns the largest block, or nil.
func (s *freeSet) largest() *block {
	if b := s.root; b != nil {
		for b.set.right != nil {
			b = b.set.right
		}
		return b
	}
	if s.sums == 0 {
		return nil
	}
	word := bits.Len64(s.sums) - 1
	return s.lists[word*64+bits.Len64(s.some[word])-1]
}

// smaller returns the block of the treap that comes before b, or nil.
func smaller(b *block) *block {
	if b.set.left != nil {
		for b = b.set.left; b.set.right != nil; b = b.set.right {
		}
		return b
	}
	for b.set.parent != nil && b.set.parent.set.left == b {
		b = b.set.parent
	}
	return b.set.parent
}

// blocks appends all blocks to list.
func (s *freeSet) blocks(list []*block) []*block {
	for sums := s.sums; sums != 0; sums &= sums - 1 {
		word := bits.TrailingZeros64(sums)
		for some := s.some[word]; some != 0; some &= some - 1 {
			for b := s.lists[word*64+bits.TrailingZeros64(some)]; b != nil; b = b.set.right {
				list = append(list, b)
			}
		}
	}
	if s.root != nil {
		for b := s.largest(); b != nil; b = smaller(b) {
			list = append(list, b)
		}
	}
	return list
}

// before is the order of the treap.
func before(a, b *block) bool {
	return a.bytes < b.bytes || a.bytes == b.bytes && a.ptr < b.ptr
}

func (s *freeSet) insertTree(b *block) {
	at := &s.root
	var parent *block
	for *at != nil {
		parent = *at
		if before(b, parent) {
			at = &parent.set.left
		} else {
			at = &parent.set.right
		}
	}
	*at, b.set.parent = b, parent
	for parent := b.set.parent; parent != nil && parent.set.priority < b.set.priority; parent = b.set.parent {
		s.rotateUp(b)
	}
}

func (s *freeSet) removeTree(b *block) {
	// Down to where it has one child at most.
	for b.set.left != nil && b.set.right != nil {
		if b.set.left.set.priority > b.set.right.set.priority {
			s.rotateUp(b.set.left)
		} else {
			s.rotateUp(b.set.right)
		}
	}
	child := b.set.left
	if child == nil {
		child = b.set.right
	}
	s.replace(b, child)
}

// replace puts child, which may be nil, where b is.
func (s *freeSet) replace(b, child *block) {
	parent := b.set.parent
	switch {
	case parent == nil:
		s.root = child
	case parent.set.left == b:
		parent.set.left = child
	default:
		parent.set.right = child
	}
	if child != nil {
		child.set.parent = parent
	}
}

// rotateUp makes b the parent of its parent.
func (s *freeSet) rotateUp(b *block) {
	parent := b.set.parent
	s.replace(parent, b)
	if parent.set.left == b {
		if parent.set.left = b.set.right; b.set.right != nil {
			b.set.right.set.parent = parent
		}
		b.set.right = parent
	} else {
		if parent.set.right = b.set.left; b.set.left != nil {
			b.set.left.set.parent = parent
		}
		b.set.left = parent
	}
	parent.set.parent = b
}
