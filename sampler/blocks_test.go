package sampler

import (
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/internal/draw"
)

// blockSizes is n sizes from 0 to 9, not all of them 0.
func blockSizes(n, seed int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = int(draw.Below(draw.Hash(uint64(seed), uint64(i)), 10))
	}
	sizes[n-1]++
	return sizes
}

// blockOf returns the block that each sample is in.
func blockOf(sizes []int) (list []int) {
	for b, size := range sizes {
		for range size {
			list = append(list, b)
		}
	}
	return list
}

// TestBlocksStayTogether: every sample comes once, and those of a group of
// blocks, which are as many as blocks in a group, before those of the next.
func TestBlocksStayTogether(t *testing.T) {
	for n := 1; n <= 40; n++ {
		sizes := blockSizes(n, n)
		owner := blockOf(sizes)
		for _, group := range []int{1, 2, 3, 7, n, n + 5} {
			s := must(NewBlocks(sizes, group, uint64(n)))
			for epoch := range 4 {
				seen := make([]bool, len(owner))
				left := append([]int(nil), sizes...) // of each block
				var open int                         // blocks begun and not ended
				for k, i := range epochOf(s, epoch) {
					if i < 0 || i >= len(owner) || seen[i] {
						t.Fatalf("sizes %v, group %d: At(%d, %d) is %d, out of range or for the second time", sizes, group, epoch, k, i)
					}
					seen[i] = true
					b := owner[i]
					if left[b] == sizes[b] {
						open++
					}
					if left[b]--; left[b] == 0 {
						open--
					}
					if open > group {
						t.Fatalf("sizes %v, group %d: %d blocks are open at position %d of epoch %d", sizes, group, open, k, epoch)
					}
				}
				if s.Len() != len(owner) {
					t.Fatalf("sizes %v: %d samples", sizes, s.Len())
				}
			}
		}
	}
}

// TestBlocksAreRandom: the order of the blocks, that within a block, and that
// of a group of all blocks.
func TestBlocksAreRandom(t *testing.T) {
	const n, epochs = 12, 3000
	ones, equal := make([]int, n), make([]int, 4)
	for i := range ones {
		ones[i] = 1
	}
	for i := range equal {
		equal[i] = n
	}
	blocks := must(NewBlocks(ones, 1, 3))
	inside := must(NewBlocks(equal, 1, 3))
	mixed := must(NewBlocks([]int{1, 0, 4, 2, 5}, 5, 3))
	for name, at := range map[string]order{
		"blocks":        blocks.At,
		"within blocks": func(epoch, k int) int { return inside.At(epoch, k) % n },
		"all":           mixed.At,
	} {
		for name2, statistic := range map[string]func(order, int, int) float64{
			"positions": positions, "neighbours": neighbours, "inversions": inversions, "parities": parities, "shifts": shifts, "successors": successors,
		} {
			if z := statistic(at, n, epochs); math.Abs(z) > tooFar {
				t.Errorf("%s: %s are %.1f standard deviations off", name, name2, z)
			}
		}
	}
	// The orders of two blocks of one epoch have nothing to do with each
	// other: as many positions agree as by chance.
	same := 0
	for e := range epochs {
		for k := range n {
			if inside.At(e, k)%n == inside.At(e, n+k)%n {
				same++
			}
		}
	}
	if z := (float64(same) - epochs) / math.Sqrt(epochs); math.Abs(z) > tooFar {
		t.Errorf("in two blocks, %d positions agree, want about %d", same, epochs)
	}
}

// TestBlocksOfTwoEpochs: epochs asked for in turn are those asked for alone.
func TestBlocksOfTwoEpochs(t *testing.T) {
	sizes := blockSizes(50, 1)
	turns := must(NewBlocks(sizes, 4, 9))
	want := [5][]int{}
	for e := range want {
		want[e] = epochOf(must(NewBlocks(sizes, 4, 9)), e-1)
	}
	for k := range turns.Len() {
		for e := range want {
			if i := turns.At(e-1, k); i != want[e][k] {
				t.Fatalf("At(%d, %d) is %d, want %d", e-1, k, i, want[e][k])
			}
		}
	}
}

func BenchmarkBlocks(b *testing.B) {
	sizes := make([]int, 10_000)
	for i := range sizes {
		sizes[i] = 1000
	}
	each(b, must(NewBlocks(sizes, 8, 1)))
}
