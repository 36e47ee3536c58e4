package tierbench

import (
	"math/rand/v2"
	"sort"
)

// trace is one round of uses of n arrays.
func trace(access string, n int) []int {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	if access == turn {
		uses := make([]int, n)
		for i := range uses {
			uses[i] = i
		}
		return uses
	}
	uses := make([]int, max(4*n, 256))
	sums := make([]float64, n) // of the shares of arrays up to each
	total := 0.0
	for i := range sums {
		if access == zipf {
			total += 1 / float64(i+1)
		} else {
			total++
		}
		sums[i] = total
	}
	which := r.Perm(n)
	for i := range uses {
		uses[i] = which[min(sort.SearchFloat64s(sums, r.Float64()*total), n-1)]
	}
	return uses
}

// leastMisses is how many arrays the best schedule (Belady's) brings in for a round
// that follows others like it, with room for so many.
func leastMisses(uses []int, slots int) int {
	twice := append(append([]int{}, uses...), append(append([]int{}, uses...), uses...)...)
	next := make([]int, len(twice))
	at := map[int]int{}
	for i := len(twice) - 1; i >= 0; i-- {
		next[i] = len(twice)
		if j, ok := at[twice[i]]; ok {
			next[i] = j
		}
		at[twice[i]] = i
	}
	held, misses := map[int]int{}, 0 // array: its next use
	for i, x := range twice {
		if _, ok := held[x]; !ok {
			if i >= len(uses) && i < 2*len(uses) {
				misses++
			}
			if len(held) >= slots {
				furthest := -1
				for y := range held {
					if furthest < 0 || held[y] > held[furthest] {
						furthest = y
					}
				}
				delete(held, furthest)
			}
		}
		held[x] = next[i]
	}
	return misses
}

// lruMisses is the same for a schedule that drops what was used least recently.
func lruMisses(uses []int, slots int) int {
	held, misses := map[int]int{}, 0 // array: its last use
	for i := range 2 * len(uses) {
		x := uses[i%len(uses)]
		if _, ok := held[x]; !ok {
			if i >= len(uses) {
				misses++
			}
			if len(held) >= slots {
				oldest := -1
				for y := range held {
					if oldest < 0 || held[y] < held[oldest] {
						oldest = y
					}
				}
				delete(held, oldest)
			}
		}
		held[x] = i
	}
	return misses
}
