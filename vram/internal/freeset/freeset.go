// Package freeset keeps free blocks of memory by size, and finds the smallest that
// is large enough. Blocks of less than a MiB have a list for each size, and a bitmap
// tells which lists have any: both ways take constant time. Larger blocks are in a
// treap, where it takes a time that grows with the logarithm of their number. A
// block is removed by its own links; nothing is allocated for it.
package freeset

import (
	"math/bits"

	"github.com/pinion-gpu/pinion/internal/treap"
)

// Unit divides all sizes.
const Unit = 512

// Binned is the size from which blocks are in the treap.
const Binned = 1 << 20

// Set is a set of blocks of type T. The zero value is empty.
type Set[T any] struct {
	lists *[Binned / Unit]*Links[T] // by size; made for the first
	some  [Binned / Unit / 64]uint64
	sums  uint64 // a bit for each word of some that is not zero
	large treap.Set[T]
	count int
}

// Links is the place of a block in a set. It is a field of the block.
type Links[T any] struct {
	block         *T
	bytes         int64
	before, after *Links[T]     // in a list
	node          treap.Node[T] // in the treap
}

// Len is how many blocks there are.
func (s *Set[T]) Len() int { return s.count }

// Insert adds block, whose links are l and in no set. Its size is a multiple of
// Unit; size and address do not change until it is removed.
func (s *Set[T]) Insert(l *Links[T], block *T, bytes int64, address uint64) {
	s.count++
	l.block, l.bytes = block, bytes
	if bytes >= Binned {
		s.large.Insert(&l.node, block, bytes, address)
		return
	}
	l.before, l.after = nil, nil
	if s.lists == nil {
		s.lists = new([Binned / Unit]*Links[T])
	}
	i := bytes / Unit
	if first := s.lists[i]; first != nil {
		first.before, l.after = l, first
	}
	s.lists[i] = l
	s.some[i/64] |= 1 << (i % 64)
	s.sums |= 1 << (i / 64)
}

// Remove removes the block with the links.
func (s *Set[T]) Remove(l *Links[T]) {
	s.count--
	if l.bytes >= Binned {
		s.large.Remove(&l.node)
		return
	}
	before, after := l.before, l.after
	if after != nil {
		after.before = before
	}
	if before != nil {
		before.after = after
		return
	}
	i := l.bytes / Unit
	if s.lists[i] = after; after == nil {
		if s.some[i/64] &^= 1 << (i % 64); s.some[i/64] == 0 {
			s.sums &^= 1 << (i / 64)
		}
	}
}

// Best returns the smallest block of at least n bytes, or nil.
func (s *Set[T]) Best(n int64) *T {
	if n < Binned && s.sums != 0 {
		i := (n + Unit - 1) / Unit
		word := i / 64
		if left := s.some[word] >> (i % 64); left != 0 {
			return s.lists[i+int64(bits.TrailingZeros64(left))].block
		}
		if sums := s.sums >> word >> 1; sums != 0 {
			word += 1 + int64(bits.TrailingZeros64(sums))
			return s.lists[word*64+int64(bits.TrailingZeros64(s.some[word]))].block
		}
	}
	return s.large.AtLeast(n)
}

// Largest returns the largest block, or nil.
func (s *Set[T]) Largest() *T {
	if b := s.large.Largest(); b != nil {
		return b
	}
	if s.sums == 0 {
		return nil
	}
	word := bits.Len64(s.sums) - 1
	return s.lists[word*64+bits.Len64(s.some[word])-1].block
}

// Large returns the blocks of Binned bytes and more, the largest first.
func (s *Set[T]) Large() func(yield func(*T) bool) { return s.large.Descending() }

// AtLeast lists the blocks of at least n bytes, n up to Binned, in an order that depends only on
// what was inserted and removed.
func (s *Set[T]) AtLeast(n int64) (list []*T) {
	for b := range s.large.Descending() {
		list = append(list, b)
	}
	for i := (n + Unit - 1) / Unit; i < Binned/Unit; i++ {
		if s.some[i/64]>>(i%64) == 0 {
			i |= 63 // none in the rest of the word
			continue
		}
		for l := s.lists[i]; l != nil; l = l.after {
			list = append(list, l.block)
		}
	}
	return list
}
