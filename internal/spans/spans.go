// Package spans keeps a set of address ranges that do not overlap and finds
// the one that holds an address.
package spans

import "slices"

// Span is n bytes that start at an address.
type Span struct {
	Start uint64
	Bytes int64
}

// Set is a set of spans. The zero value is empty. It is not safe for
// concurrent use.
type Set struct {
	sorted []Span // by Start
}

// All returns the spans in ascending order. The slice is a copy.
func (s *Set) All() []Span { return slices.Clone(s.sorted) }

// Insert adds a span of n > 0 bytes. It reports false, and changes nothing,
// when the span overlaps one of the set.
func (s *Set) Insert(start uint64, n int64) bool {
	i := s.after(start)
	if i > 0 && s.sorted[i-1].end() > start {
		return false
	}
	if i < len(s.sorted) && start+uint64(n) > s.sorted[i].Start {
		return false
	}
	s.sorted = slices.Insert(s.sorted, i, Span{start, n})
	return true
}

// Remove takes out the span that starts at start and returns its length.
func (s *Set) Remove(start uint64) (n int64, ok bool) {
	i := s.after(start) - 1
	if i < 0 || s.sorted[i].Start != start {
		return 0, false
	}
	n = s.sorted[i].Bytes
	s.sorted = slices.Delete(s.sorted, i, i+1)
	return n, true
}

// Find returns the span that holds all n bytes at start.
func (s *Set) Find(start uint64, n int64) (Span, bool) {
	i := s.after(start) - 1
	if n < 0 || i < 0 {
		return Span{}, false
	}
	span := s.sorted[i]
	if offset := start - span.Start; offset > uint64(span.Bytes) || uint64(n) > uint64(span.Bytes)-offset {
		return Span{}, false
	}
	return span, true
}

func (s Span) end() uint64 { return s.Start + uint64(s.Bytes) }

// after is the index of the first span that starts behind start.
func (s *Set) after(start uint64) int {
	lo, hi := 0, len(s.sorted)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if s.sorted[mid].Start > start {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}
