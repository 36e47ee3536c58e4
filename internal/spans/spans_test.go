package spans

import (
	"math/rand/v2"
	"testing"
)

// TestRandom compares the set with a map of single bytes.
func TestRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var set Set
	owner := map[uint64]uint64{} // byte -> start of its span
	length := map[uint64]int64{}
	for range 20000 {
		start, n := uint64(rng.IntN(300)), int64(1+rng.IntN(20))
		switch rng.IntN(3) {
		case 0:
			free := true
			for b := start; b < start+uint64(n); b++ {
				if _, taken := owner[b]; taken {
					free = false
				}
			}
			if got := set.Insert(start, n); got != free {
				t.Fatalf("Insert(%d, %d) = %v, want %v", start, n, got, free)
			}
			if free {
				length[start] = n
				for b := start; b < start+uint64(n); b++ {
					owner[b] = start
				}
			}
		case 1:
			want, live := length[start]
			got, ok := set.Remove(start)
			if ok != live || got != want {
				t.Fatalf("Remove(%d) = %d, %v, want %d, %v", start, got, ok, want, live)
			}
			for b := start; b < start+uint64(want); b++ {
				delete(owner, b)
			}
			delete(length, start)
		case 2:
			first, ok := owner[start]
			last, ok2 := owner[start+uint64(n)-1]
			want := ok && ok2 && first == last
			if span, got := set.Find(start, n); got != want || (want && span.Start != first) {
				t.Fatalf("Find(%d, %d) = %v, %v, want %v", start, n, span, got, want)
			}
		}
		if len(set.All()) != len(length) {
			t.Fatalf("%d spans, want %d", len(set.All()), len(length))
		}
	}
}
