package spans

import "iter"

// In gives the spans that overlap n > 0 bytes at start, in ascending order.
// The set must not change meanwhile.
func (s *Set) In(start uint64, n int64) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		b, i := s.floor(start)
		if b < 0 || s.blocks[b][i].End() <= start {
			b, i = s.next(b, i)
		}
		// Compared as distances: the range may end at the end of addresses.
		for ; b < len(s.blocks); b, i = s.next(b, i) {
			span := s.blocks[b][i]
			if span.Start > start && span.Start-start >= uint64(n) || !yield(span) {
				return
			}
		}
	}
}

// Overlaps reports whether any of n > 0 bytes at start lies in a span.
func (s *Set) Overlaps(start uint64, n int64) bool {
	for range s.In(start, n) {
		return true
	}
	return false
}

// Covers reports whether each of n > 0 bytes at start lies in a span, in one
// or in several neighbours.
func (s *Set) Covers(start uint64, n int64) bool {
	_, _, ok := s.covered(start, n)
	return ok
}

// Tiles reports whether n > 0 bytes at start are made up of whole spans, one
// right behind the other.
func (s *Set) Tiles(start uint64, n int64) bool {
	first, last, ok := s.covered(start, n)
	return ok && first.Start == start && last.End() == start+uint64(n)
}

// covered is Covers with the first and the last span.
func (s *Set) covered(start uint64, n int64) (first, last Span, ok bool) {
	at, left := start, uint64(n)
	for span := range s.In(start, n) {
		if span.Start > at {
			return first, last, false
		}
		if at == start {
			first = span
		}
		last = span
		here := span.End() - at
		if here >= left {
			return first, last, true
		}
		at, left = at+here, left-here
	}
	return first, last, false
}

// RemoveIn takes out the spans that lie inside n > 0 bytes at start, whole.
func (s *Set) RemoveIn(start uint64, n int64) {
	inside := func(span Span) bool {
		return span.Start >= start && span.Start-start <= uint64(n) && uint64(span.Bytes) <= uint64(n)-(span.Start-start)
	}
	for {
		b, i := s.floor(start)
		if b < 0 || s.blocks[b][i].Start < start {
			b, i = s.next(b, i)
		}
		if b >= len(s.blocks) {
			return
		}
		j := i
		for j < len(s.blocks[b]) && inside(s.blocks[b][j]) {
			j++
		}
		if j == i {
			return
		}
		s.cut(b, i, j)
	}
}
