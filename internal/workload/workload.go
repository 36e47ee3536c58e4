package workload

import (
	"math"
	"math/rand/v2"
	"sort"
)

// InTurn uses n arrays, one after the other.
func InTurn(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// ByRank uses n arrays at random, by popularity: that power of one over their
// rank. 1 is Zipf's law, and 0 makes all alike. Ranks are random, too.
func ByRank(r *rand.Rand, n, length int, power float64) []int {
	sums, total := make([]float64, n), 0.0 // of the shares of arrays up to each
	for i := range sums {
		total += math.Pow(float64(i+1), -power)
		sums[i] = total
	}
	which, list := r.Perm(n), make([]int, length)
	for i := range list {
		list[i] = which[min(sort.SearchFloat64s(sums, r.Float64()*total), n-1)]
	}
	return list
}
