package dataset

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// RandomSplit deals the samples of d out to parts of those counts, which add
// up to d's length. The same seed, length and counts give the same parts on
// every machine. Inside of a part samples keep d's order, so that a pass
// through it reads files from front to back. [SplitCounts] makes counts of
// fractions. d stays the caller's.
//
// It fails with [ErrEmpty] for no counts or one of 0, and with [ErrArgument]
// for counts that do not add up.
func RandomSplit(d Dataset, counts []int, seed uint64) ([]*Subset, error) {
	n, left := d.Len(), d.Len()
	for i, c := range counts {
		if c == 0 {
			return nil, fmt.Errorf("random split: %w: part %d of %v", ErrEmpty, i, counts)
		}
		if c < 0 || c > left {
			return nil, fmt.Errorf("random split: %w: counts %v of %d samples", ErrArgument, counts, n)
		}
		left -= c
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("random split: %w: no counts", ErrEmpty)
	}
	if left != 0 {
		return nil, fmt.Errorf("random split: %w: counts %v leave %d of %d samples over", ErrArgument, counts, left, n)
	}
	dealt := permutation(n, seed)
	parts := make([]*Subset, len(counts))
	for i, c := range counts {
		part := dealt[:c:c]
		dealt = dealt[c:]
		slices.Sort(part)
		parts[i] = newSubset(d, part)
	}
	return parts, nil
}

// permutation is Fisher and Yates's shuffle. It is written out so that a
// split cannot change with the standard library.
func permutation(n int, seed uint64) []int {
	rng := rand.NewPCG(seed, 0)
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	for i := n - 1; i > 0; i-- {
		// The upper half of the product is uniform on 0..i but for a bias of
		// at most n/2^64.
		j, _ := bits.Mul64(rng.Uint64(), uint64(i+1))
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// SplitCounts turns fractions of n samples into counts for [RandomSplit]. The
// fractions add up to 1 and so the counts to n: each is rounded down, and the
// samples that are left over go one by one to the first parts, as in
// torch.utils.data.random_split. It fails with [ErrArgument] for fractions
// that are negative or do not add up to 1.
func SplitCounts(n int, fractions []float64) ([]int, error) {
	sum := 0.0
	for _, f := range fractions {
		if !(f >= 0) {
			return nil, fmt.Errorf("random split: %w: fractions %v", ErrArgument, fractions)
		}
		sum += f
	}
	if n < 0 || !(math.Abs(sum-1) <= 1e-6) {
		return nil, fmt.Errorf("random split: %w: fractions %v of %d samples add up to %v", ErrArgument, fractions, n, sum)
	}
	counts := make([]int, len(fractions))
	left := n
	for i, f := range fractions {
		counts[i] = min(int(f*float64(n)), left)
		left -= counts[i]
	}
	for i := 0; left > 0; i++ {
		counts[i%len(counts)]++
		left--
	}
	return counts, nil
}
