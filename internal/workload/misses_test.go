package workload

import (
	"math/rand/v2"
	"testing"
)

// Misses are those that can be counted by hand.
func TestMisses(t *testing.T) {
	for _, c := range []struct {
		uses           []int
		slots          int
		before, rounds int
		least, lru     int
	}{
		{[]int{0, 1, 2, 3}, 4, 1, 5, 0, 0},
		{[]int{0, 1, 2, 3}, 4, 0, 5, 4, 4}, // nothing is there at first
		{[]int{0, 1, 2, 3}, 1, 1, 5, 20, 20},
		{[]int{0, 1, 2}, 2, 1, 1, 1, 3}, // every second use of the best schedule hits, from round to round
		{[]int{0, 1, 2}, 2, 2, 1, 2, 3},
		{[]int{0, 1, 2}, 2, 1, 1000, 1500, 3000},
		{[]int{0, 0, 1, 1}, 1, 1, 1, 2, 2},    // each array comes in once
		{[]int{0, 1, 0, 2}, 2, 1, 3, 6, 6},    // 0 stays
		{[]int{0, 1, 2, 0, 1}, 3, 1, 7, 0, 0}, // all stay
	} {
		if got := LeastMisses(c.uses, c.slots, c.before, c.rounds); got != c.least {
			t.Errorf("%v in %d slots: the least of %d rounds after %d is %d, want %d", c.uses, c.slots, c.rounds, c.before, got, c.least)
		}
		if got := LRUMisses(c.uses, c.slots, c.before, c.rounds); got != c.lru {
			t.Errorf("%v in %d slots: LRU has %d in %d rounds after %d, want %d", c.uses, c.slots, got, c.rounds, c.before, c.lru)
		}
	}
}

// Misses are those of schedules that look at every array that is held, one round after
// the other, however long they take to repeat themselves.
func TestMissesOfRounds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		n := 1 + r.IntN(12)
		uses := make([]int, 1+r.IntN(40))
		for i := range uses {
			uses[i] = r.IntN(n)
		}
		slots, before, rounds := 1+r.IntN(n), r.IntN(3), 1+r.IntN(12)
		for _, best := range []bool{true, false} {
			count, what := LRUMisses, "LRU"
			if best {
				count, what = LeastMisses, "the least"
			}
			want := plainMisses(uses, slots, before, rounds, best)
			if got := count(uses, slots, before, rounds); got != want {
				t.Fatalf("%v in %d slots, %d rounds after %d: %s is %d, want %d", uses, slots, rounds, before, what, got, want)
			}
		}
	}
}

func plainMisses(uses []int, slots, before, rounds int, best bool) (missed int) {
	held := map[int]int{} // array: its next use, or its last
	for i := range (before + rounds) * len(uses) {
		x := uses[i%len(uses)]
		if _, ok := held[x]; !ok {
			if i >= before*len(uses) {
				missed++
			}
			if len(held) == slots {
				worst := -1
				for y := range held {
					if worst < 0 || best && held[y] > held[worst] || !best && held[y] < held[worst] {
						worst = y
					}
				}
				delete(held, worst)
			}
		}
		held[x] = i
		for best && (held[x] == i || uses[held[x]%len(uses)] != x) {
			held[x]++
		}
	}
	return missed
}
