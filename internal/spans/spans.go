// Package spans keeps a set of address ranges that do not overlap and finds
// those at an address or in a range.
//
//	var set spans.Set
//	set.Insert(0x1000, 64)
//	span, ok := set.Find(0x1010, 16) // {0x1000 64}, true
//
// A set of a hundred thousand spans is searched and changed in a fraction of
// a microsecond.
package spans

import "slices"

// Span is n bytes that start at an address.
type Span struct {
	Start uint64
	Bytes int64
}

// End is the address behind the span.
func (s Span) End() uint64 { return s.Start + uint64(s.Bytes) }

// Set is a set of spans. The zero value is empty. It is not safe for
// concurrent use.
type Set struct {
	// The spans in ascending order, cut into blocks: a change moves what is
	// behind it in one block and not all of the set. No block is empty.
	blocks [][]Span
	spare  []Span // a block for the next one that is needed, without spans
}

// blockSpans is how many spans a block holds at most.
const blockSpans = 256

// All returns the spans in ascending order. The slice is a copy.
func (s *Set) All() []Span { return slices.Concat(s.blocks...) }

// Insert adds a span of n > 0 bytes. It reports false, and changes nothing,
// when the span overlaps one of the set.
func (s *Set) Insert(start uint64, n int64) bool {
	b, i := s.floor(start)
	if b >= 0 && s.blocks[b][i].End() > start {
		return false
	}
	if next, j := s.next(b, i); next < len(s.blocks) && start+uint64(n) > s.blocks[next][j].Start {
		return false
	}
	i++ // behind the span before it
	if b < 0 {
		b = 0
	}
	if len(s.blocks) == 0 {
		s.blocks, s.spare = append(s.blocks, s.spare), nil
	}
	if block := s.blocks[b]; len(block) == blockSpans {
		const half = blockSpans / 2
		s.blocks = slices.Insert(s.blocks, b+1, append(s.spare, block[half:]...))
		s.blocks[b], s.spare = block[:half], nil
		if i > half {
			b, i = b+1, i-half
		}
	}
	s.blocks[b] = slices.Insert(s.blocks[b], i, Span{start, n})
	return true
}

// Remove takes out the span that starts at start and returns its length.
func (s *Set) Remove(start uint64) (n int64, ok bool) {
	b, i := s.floor(start)
	if b < 0 || s.blocks[b][i].Start != start {
		return 0, false
	}
	n = s.blocks[b][i].Bytes
	s.cut(b, i, i+1)
	return n, true
}

// cut takes out the spans i up to j of block b.
func (s *Set) cut(b, i, j int) {
	s.blocks[b] = slices.Delete(s.blocks[b], i, j)
	if len(s.blocks[b]) == 0 {
		s.drop(b)
	} else if !s.join(b - 1) {
		s.join(b)
	}
}

// join makes one block of b and the next when both are small.
func (s *Set) join(b int) bool {
	if b < 0 || b+1 >= len(s.blocks) || len(s.blocks[b])+len(s.blocks[b+1]) > blockSpans/2 {
		return false
	}
	s.blocks[b] = append(s.blocks[b], s.blocks[b+1]...)
	s.drop(b + 1)
	return true
}

func (s *Set) drop(b int) {
	s.spare = s.blocks[b][:0]
	s.blocks = slices.Delete(s.blocks, b, b+1)
}

// Find returns the span that holds all n bytes at start.
func (s *Set) Find(start uint64, n int64) (Span, bool) {
	b, i := s.floor(start)
	if n < 0 || b < 0 {
		return Span{}, false
	}
	span := s.blocks[b][i]
	if offset := start - span.Start; offset > uint64(span.Bytes) || uint64(n) > uint64(span.Bytes)-offset {
		return Span{}, false
	}
	return span, true
}

// floor is the place of the last span that starts at or before start; -1, -1
// is none.
func (s *Set) floor(start uint64) (b, i int) {
	b = -1
	for lo, hi := 0, len(s.blocks); lo < hi; {
		if mid := int(uint(lo+hi) / 2); s.blocks[mid][0].Start > start {
			hi = mid
		} else {
			b, lo = mid, mid+1
		}
	}
	if b < 0 {
		return -1, -1
	}
	block := s.blocks[b]
	for lo, hi := 0, len(block); lo < hi; {
		if mid := int(uint(lo+hi) / 2); block[mid].Start > start {
			hi = mid
		} else {
			i, lo = mid, mid+1
		}
	}
	return b, i
}

// next is the place behind another. Past the last span b is the number of
// blocks.
func (s *Set) next(b, i int) (int, int) {
	if b >= 0 && i+1 < len(s.blocks[b]) {
		return b, i + 1
	}
	return b + 1, 0
}
