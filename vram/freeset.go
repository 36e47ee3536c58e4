package vram

import (
	"math/bits"
	"slices"

	"github.com/pinion-gpu/pinion/internal/treap"
)

// freeSet is a set of blocks that finds the smallest that is large enough.
// Blocks of less than a MiB have a list for each size, and a bitmap tells which
// lists have any: both ways take constant time. Larger blocks are in a treap,
// where it takes a time that grows with the logarithm of their number. A block
// is removed by its own links.
type freeSet struct {
	lists *[binned / unit]*block // by size; made for the first
	some  [binned / unit / 64]uint64
	sums  uint64 // a bit for each word of some that is not zero
	large treap.Set[block]
	count int
}

// binned is the size from which blocks are in the treap.
const binned = 1 << 20

// links is the place of a block in its set.
type links struct {
	before, after *block            // in a list
	node          treap.Node[block] // in the treap
}

func (s *freeSet) insert(b *block) {
	s.count++
	if b.bytes >= binned {
		s.large.Insert(&b.set.node, b, b.bytes, b.key())
		return
	}
	b.set.before, b.set.after = nil, nil
	if s.lists == nil {
		s.lists = new([binned / unit]*block)
	}
	i := b.bytes / unit
	if first := s.lists[i]; first != nil {
		first.set.before, b.set.after = b, first
	}
	s.lists[i] = b
	s.some[i/64] |= 1 << (i % 64)
	s.sums |= 1 << (i / 64)
}

func (s *freeSet) remove(b *block) {
	s.count--
	if b.bytes >= binned {
		s.large.Remove(&b.set.node)
		return
	}
	before, after := b.set.before, b.set.after
	if after != nil {
		after.set.before = before
	}
	if before != nil {
		before.set.after = after
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
	return s.large.AtLeast(n)
}

// largest returns the largest block, or nil.
func (s *freeSet) largest() *block {
	if b := s.large.Largest(); b != nil {
		return b
	}
	if s.sums == 0 {
		return nil
	}
	word := bits.Len64(s.sums) - 1
	return s.lists[word*64+bits.Len64(s.some[word])-1]
}

// blocks appends all blocks to list.
func (s *freeSet) blocks(list []*block) []*block {
	for sums := s.sums; sums != 0; sums &= sums - 1 {
		word := bits.TrailingZeros64(sums)
		for some := s.some[word]; some != 0; some &= some - 1 {
			for b := s.lists[word*64+bits.TrailingZeros64(some)]; b != nil; b = b.set.after {
				list = append(list, b)
			}
		}
	}
	return slices.AppendSeq(list, s.large.Descending())
}
