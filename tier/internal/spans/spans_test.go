package spans

import (
	"math/rand/v2"
	"testing"
)

// Random spans come and go: no byte is taken twice, what is left is always to be had,
// and comes together again.
func TestRandom(t *testing.T) {
	const bytes = 1000
	r := rand.New(rand.NewPCG(1, 2))
	l := New(bytes)
	var taken [bytes]bool
	var live [][]Span
	left, pieces := int64(bytes), 0
	mark := func(spans []Span, to bool) (n int64) {
		for _, x := range spans {
			for i := x.At; i < x.At+x.N; i++ {
				if taken[i] == to {
					t.Fatalf("byte %d is taken or given twice", i)
				}
				taken[i] = to
			}
			n += x.N
		}
		return n
	}
	for range 5000 {
		if n := 1 + r.Int64N(120); r.IntN(2) == 0 {
			spans := l.Take(n)
			if (spans != nil) != (n <= left) {
				t.Fatalf("%d of %d bytes: %v", n, left, spans)
			}
			if spans == nil {
				continue
			}
			if got := mark(spans, true); got != n {
				t.Fatalf("%d bytes, want %d", got, n)
			}
			left -= n
			live = append(live, spans)
			pieces = max(pieces, len(spans))
		} else if len(live) > 0 {
			i := r.IntN(len(live))
			left += mark(live[i], false)
			l.Give(live[i])
			live = append(live[:i], live[i+1:]...)
		}
		if all, used := l.Usage(); all != bytes || used != bytes-left || l.Left() != left {
			t.Fatalf("%d of %d used, want %d", used, all, bytes-left)
		}
		for i := 1; i < len(l.free); i++ {
			if l.free[i-1].At+l.free[i-1].N >= l.free[i].At {
				t.Fatalf("free spans: %v", l.free)
			}
		}
	}
	if pieces < 2 {
		t.Error("nothing was in pieces")
	}
	for _, spans := range live {
		l.Give(spans)
	}
	if got := l.Take(bytes); len(got) != 1 || got[0] != (Span{0, bytes}) {
		t.Errorf("%v", got)
	}
}

// What fits in one span is one; what does not is few.
func TestFewPieces(t *testing.T) {
	l := New(100)
	all := make([]Span, 10)
	for i := range all {
		all[i] = l.Take(10)[0]
	}
	l.Give([]Span{all[0], all[2], all[5], all[6]}) // 10, 10, 20
	if got := l.Take(25); len(got) != 2 || got[0] != (Span{50, 20}) || got[1] != (Span{0, 5}) {
		t.Errorf("%v", got)
	}
	if got := l.Take(10); len(got) != 1 || got[0] != (Span{20, 10}) {
		t.Errorf("%v", got)
	}
	if l.Take(6) != nil || l.Take(0) != nil || l.Take(-1) != nil || New(0).Take(1) != nil {
		t.Error("more than there is")
	}
}
