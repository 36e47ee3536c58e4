package workload

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
)

// LeastMisses is how many arrays the best schedule (Belady's) brings in during some
// rounds that follow others of the same uses, with room for so many arrays and none of
// them there at first. Rounds differ: what one of them leaves decides what the next one
// misses, and the fewest misses of one round leave more than that to those around it.
func LeastMisses(uses []int, slots, before, rounds int) int {
	next := make([]int, len(uses)) // distance to the next use of the same array
	at := map[int]int{}
	for i := 2*len(uses) - 1; i >= 0; i-- {
		x := uses[i%len(uses)]
		if i < len(uses) {
			next[i] = at[x] - i
		}
		at[x] = i
	}
	return misses(uses, slots, before, rounds, func(i int) int { return -i - next[i%len(uses)] })
}

// LRUMisses is the same for a schedule that drops what was used least recently.
func LRUMisses(uses []int, slots, before, rounds int) int {
	return misses(uses, slots, before, rounds, func(i int) int { return i })
}

// misses counts what a schedule brings in that drops the array whose newest use ranks
// lowest. Ranks differ, and depend on the place in a round alone, but for a constant.
func misses(uses []int, slots, before, rounds int, rank func(use int) int) int {
	held := map[int]int{} // array: rank of its newest use
	var queue ranks       // of these, and of uses that are no longer the newest
	var sums []int        // misses up to each round
	seen := map[string]int{}
	missed := 0
	for i := 0; ; i++ {
		if i%len(uses) == 0 {
			n := len(sums)
			sums = append(sums, missed)
			if n == before+rounds {
				return missed - sums[before]
			}
			// The same arrays at the end of a round make the same rounds follow.
			state := fmt.Sprint(slices.Sorted(maps.Keys(held)))
			if first, again := seen[state]; again {
				upTo := func(round int) int {
					if round <= n {
						return sums[round]
					}
					laps, rest := (round-first)/(n-first), (round-first)%(n-first)
					return sums[first+rest] + laps*(missed-sums[first])
				}
				return upTo(before+rounds) - upTo(before)
			}
			seen[state] = n
		}
		x := uses[i%len(uses)]
		if _, ok := held[x]; !ok {
			missed++
			for len(held) >= slots {
				y := heap.Pop(&queue).(ranked)
				if newest, ok := held[y.array]; ok && newest == y.rank {
					delete(held, y.array)
				}
			}
		}
		held[x] = rank(i)
		heap.Push(&queue, ranked{x, held[x]})
	}
}

// ranked is a use of an array, and ranks are a heap of them.
type ranked struct{ array, rank int }

type ranks []ranked

func (r ranks) Len() int           { return len(r) }
func (r ranks) Less(i, j int) bool { return r[i].rank < r[j].rank }
func (r ranks) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *ranks) Push(x any)        { *r = append(*r, x.(ranked)) }
func (r *ranks) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}
