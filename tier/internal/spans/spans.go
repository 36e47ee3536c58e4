package spans

import "slices"

// Span is a range of addresses.
type Span struct{ At, N int64 }

// List is the free room of an address space that begins at 0. It is not safe for
// concurrent use.
type List struct {
	free        []Span // by address, no two adjacent
	bytes, used int64
}

// New returns a list of so many bytes, all free.
func New(bytes int64) *List {
	l := &List{bytes: bytes}
	if bytes > 0 {
		l.free = []Span{{0, bytes}}
	}
	return l
}

// Usage is the bytes of the address space, and those that were taken.
func (l *List) Usage() (bytes, used int64) { return l.bytes, l.used }

// Left is the bytes that are free.
func (l *List) Left() int64 { return l.bytes - l.used }

// Take takes n > 0 bytes: the first span that is large enough, or else few large
// ones. It returns nil when there is not that much.
func (l *List) Take(n int64) (spans []Span) {
	if n <= 0 || n > l.Left() {
		return nil
	}
	l.used += n
	for n > 0 {
		i := l.choose(n)
		f := &l.free[i]
		x := Span{f.At, min(n, f.N)}
		spans = append(spans, x)
		n -= x.N
		if f.At, f.N = f.At+x.N, f.N-x.N; f.N == 0 {
			l.free = slices.Delete(l.free, i, i+1)
		}
	}
	return spans
}

// choose returns the first free span of n bytes, or the largest.
func (l *List) choose(n int64) (largest int) {
	for i, f := range l.free {
		if f.N >= n {
			return i
		}
		if f.N > l.free[largest].N {
			largest = i
		}
	}
	return largest
}

// Give takes spans back that Take returned.
func (l *List) Give(spans []Span) {
	for _, x := range spans {
		l.used -= x.N
		i, _ := slices.BinarySearchFunc(l.free, x.At, func(f Span, at int64) int { return int(min(max(f.At-at, -1), 1)) })
		l.free = slices.Insert(l.free, i, x)
		if i+1 < len(l.free) && x.At+x.N == l.free[i+1].At {
			l.free[i].N += l.free[i+1].N
			l.free = slices.Delete(l.free, i+1, i+2)
		}
		if i > 0 && l.free[i-1].At+l.free[i-1].N == x.At {
			l.free[i-1].N += l.free[i].N
			l.free = slices.Delete(l.free, i, i+1)
		}
	}
}
