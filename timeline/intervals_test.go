package timeline

import (
	"math/rand/v2"
	"testing"
)

// Unions, what two of them share and the gaps of one are those of a model that looks
// at each nanosecond.
func TestIntervals(t *testing.T) {
	const end = 200
	r := rand.New(rand.NewPCG(1, 2))
	random := func() (list []interval, busy [end]bool) {
		for range r.IntN(20) {
			from := r.Int64N(end)
			x := interval{from, from + r.Int64N(min(end-from, 30))}
			list = append(list, x)
			for i := x.from; i < x.to; i++ {
				busy[i] = true
			}
		}
		return union(list), busy
	}
	for range 5000 {
		a, busyA := random()
		b, busyB := random()
		var want, both int64
		var gaps []interval
		least := r.Int64N(6)
		last := int64(-1) // busy before
		for i := range int64(end) {
			if busyA[i] && busyB[i] {
				both++
			}
			if !busyA[i] {
				continue
			}
			want++
			if last >= 0 && last < i-1 && i-1-last >= least {
				gaps = append(gaps, interval{last + 1, i})
			}
			last = i
		}
		if got := total(a); got != want {
			t.Fatalf("%v: %d are busy, want %d", a, got, want)
		}
		if got := shared(a, b); got != both || shared(b, a) != both {
			t.Fatalf("%v and %v share %d, want %d", a, b, got, both)
		}
		got := between(a, least)
		if len(got) != len(gaps) {
			t.Fatalf("%v: gaps %v, want %v", a, got, gaps)
		}
		for i := range got {
			if got[i] != gaps[i] {
				t.Fatalf("%v: gaps %v, want %v", a, got, gaps)
			}
		}
		for i := 1; i < len(a); i++ {
			if a[i-1].to >= a[i].from || a[i].from >= a[i].to {
				t.Fatalf("%v is no union", a)
			}
		}
	}
}
