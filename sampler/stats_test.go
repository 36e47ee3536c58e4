package sampler

import (
	"math"
	"testing"
)

// An order gives the k-th index of an epoch of n.
type order func(epoch, k int) int

// Each statistic returns how many standard deviations it is away from what
// random permutations give. Above tooFar, an order is not random; the orders
// are fixed by their seeds, so the tests give the same result every time.
const tooFar = 4.5

// chiSquare compares counts with one expected count for all.
func chiSquare(counts []int, expected, freedom float64) float64 {
	var sum float64
	for _, c := range counts {
		d := float64(c) - expected
		sum += d * d / expected
	}
	return (sum - freedom) / math.Sqrt(2*freedom)
}

// positions: every index is at every position equally often.
func positions(at order, n, epochs int) float64 {
	counts := make([]int, n*n)
	for e := range epochs {
		for k := range n {
			counts[k*n+at(e, k)]++
		}
	}
	return chiSquare(counts, float64(epochs)/float64(n), float64((n-1)*(n-1)))
}

// neighbours: every index follows every other equally often.
func neighbours(at order, n, epochs int) float64 {
	counts := make([]int, 0, n*(n-1))
	table := make([]int, n*n)
	for e := range epochs {
		for k := range n - 1 {
			table[at(e, k)*n+at(e, k+1)]++
		}
	}
	for i, c := range table {
		if i/n != i%n {
			counts = append(counts, c)
		}
	}
	return chiSquare(counts, float64(epochs)/float64(n), float64(len(counts)-1))
}

// inversions: half of all pairs are in descending order.
func inversions(at order, n, epochs int) float64 {
	count := 0
	for e := range epochs {
		count += inverted(at, n, e)
	}
	f := float64(n)
	mean, variance := f*(f-1)/4, f*(f-1)*(2*f+5)/72
	return (float64(count) - float64(epochs)*mean) / math.Sqrt(float64(epochs)*variance)
}

// parities: half of all permutations are odd.
func parities(at order, n, epochs int) float64 {
	odd := 0
	for e := range epochs {
		odd += inverted(at, n, e) % 2
	}
	return (float64(odd) - float64(epochs)/2) / math.Sqrt(float64(epochs)/4)
}

// inverted is the number of pairs of an epoch in descending order.
func inverted(at order, n, epoch int) int {
	count := 0
	list := make([]int, n)
	for k := range n {
		list[k] = at(epoch, k)
		for _, before := range list[:k] {
			if before > list[k] {
				count++
			}
		}
	}
	return count
}

// shifts: the step from an epoch's k-th index to the next epoch's, modulo n,
// is everything equally often.
func shifts(at order, n, epochs int) float64 {
	counts := make([]int, n)
	for e := range epochs {
		for k := range n {
			counts[(at(e+1, k)-at(e, k)+n)%n]++
		}
	}
	return chiSquare(counts, float64(epochs), float64(n-1))
}

// successors: of two that follow each other in an epoch, few do in the next.
// In random permutations that is n-1 pairs with a chance of 1/n each.
func successors(at order, n, epochs int) float64 {
	count := 0
	next := make([]int, n)
	for e := range epochs {
		for k := range n {
			next[at(e, k)] = at(e, (k+1)%n)
		}
		for k := range n - 1 {
			if next[at(e+1, k)] == at(e+1, k+1) {
				count++
			}
		}
	}
	mean := float64(epochs)
	return (float64(count) - mean) / math.Sqrt(mean)
}

// permutations: every permutation comes equally often.
func permutations(at order, n, epochs int) float64 {
	total := 1
	for i := range n {
		total *= i + 1
	}
	counts := make([]int, total)
	list := make([]int, n)
	for e := range epochs {
		number := 0
		for k := range n {
			list[k] = at(e, k)
			rank := list[k]
			for _, before := range list[:k] {
				if before < list[k] {
					rank--
				}
			}
			number = number*(n-k) + rank
		}
		counts[number]++
	}
	return chiSquare(counts, float64(epochs)/float64(total), float64(total-1))
}

// TestStatisticsFindFaults: each statistic rejects an order with its fault.
func TestStatisticsFindFaults(t *testing.T) {
	const n, epochs = 31, 2000
	random := must(NewRandom(n, 1))
	fewRounds := must(NewRandom(5, 1))
	fewRounds.order.rounds = 8
	even := must(NewRandom(9, 1))
	even.order.left, even.order.right = 3, 3
	for _, c := range []struct {
		name  string
		score float64
	}{
		{"positions of few starts", positions(func(e, k int) int { return (k + e%7) % n }, n, epochs)},
		{"neighbours of a linear congruence", neighbours(func(e, k int) int { return (k*(1+e%9) + e) % n }, n, epochs)},
		{"inversions of an order that starts low", inversions(func(e, k int) int {
			if k < 2 {
				return k
			}
			return 2 + random.At(e, k)%(n-2)
		}, n, epochs)},
		{"shifts of a moving start", shifts(func(e, k int) int { return random.At(0, (k+e)%n) }, n, epochs)},
		{"successors of a moving start", successors(func(e, k int) int { return random.At(0, (k+e)%n) }, n, epochs)},
		{"permutations by rotation", permutations(func(e, k int) int { return (k + random.At(e, 0)) % 4 }, 4, epochs)},
		{"permutations of a Feistel network of few rounds", permutations(fewRounds.At, 5, 20_000)},
		{"parities of a Feistel network with odd halves", parities(even.At, 9, epochs)},
	} {
		if math.Abs(c.score) < 3*tooFar {
			t.Errorf("%s: %.1f standard deviations, the fault is not seen", c.name, c.score)
		}
	}
}
