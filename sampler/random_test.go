package sampler

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/internal/draw"
)

func TestRandomIsAPermutation(t *testing.T) {
	sizes := []int{4095, 4096, 4097, 10_007, 65_536, 100_000}
	for n := 1; n <= 600; n++ {
		sizes = append(sizes, n)
	}
	for n := 601; n < 4000; n += 97 {
		sizes = append(sizes, n)
	}
	for _, n := range sizes {
		s := must(NewRandom(n, uint64(n)))
		for epoch := range 2 {
			seen := make([]bool, n)
			for k := range n {
				i := s.At(epoch, k)
				if i < 0 || i >= n || seen[i] {
					t.Fatalf("n %d, epoch %d: At(%d) is %d, out of range or for the second time", n, epoch, k, i)
				}
				seen[i] = true
				if p := s.Position(epoch, i); p != k {
					t.Fatalf("n %d, epoch %d: At(%d) is %d, but Position(%d) is %d", n, epoch, k, i, i, p)
				}
			}
		}
	}
}

func TestRandomOfManyHasAnInverse(t *testing.T) {
	for _, n := range []int{999_999_937, 1_000_000_000, 1 << 30, 1<<30 + 1, math.MaxInt - 1, math.MaxInt} {
		s := must(NewRandom(n, 5))
		ks := []int{0, 1, 2, n / 2, n - 2, n - 1}
		for i := range uint64(5000) {
			ks = append(ks, int(draw.Below(draw.Hash(9, i), uint64(n))))
		}
		for _, k := range ks {
			i := s.At(7, k)
			if i < 0 || i >= n {
				t.Fatalf("n %d: At(%d) is %d", n, k, i)
			}
			if p := s.Position(7, i); p != k {
				t.Fatalf("n %d: At(%d) is %d, Position of that is %d", n, k, i, p)
			}
			if p := s.At(7, s.Position(7, k)); p != k {
				t.Fatalf("n %d: At(Position(%d)) is %d", n, k, p)
			}
		}
	}
}

func TestRandomIsRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	for _, n := range []int{9, 16, 31, 64, 100, 256} {
		s := must(NewRandom(n, 1))
		seeds := make([]*Random, 2001)
		for i := range seeds {
			seeds[i] = must(NewRandom(n, uint64(i)))
		}
		bySeed := func(seed, k int) int { return seeds[seed].At(3, k) }
		for name, statistic := range map[string]func(order, int, int) float64{
			"positions": positions, "neighbours": neighbours, "inversions": inversions, "parities": parities,
			"shifts": shifts, "successors": successors,
		} {
			if z := statistic(s.At, n, 2000); math.Abs(z) > tooFar {
				t.Errorf("n %d, by epoch: %s are %.1f standard deviations off", n, name, z)
			}
			if z := statistic(bySeed, n, 2000); math.Abs(z) > tooFar {
				t.Errorf("n %d, by seed: %s are %.1f standard deviations off", n, name, z)
			}
		}
	}
}

// TestRandomGivesEveryPermutation looks at the smallest n, which a Feistel
// network finds hardest.
func TestRandomGivesEveryPermutation(t *testing.T) {
	for n, epochs := range map[int]int{2: 20_000, 3: 20_000, 4: 20_000, 5: 20_000, 6: 50_000, 7: 100_000} {
		s := must(NewRandom(n, 2))
		if z := permutations(s.At, n, epochs); math.Abs(z) > tooFar {
			t.Errorf("n %d: permutations are %.1f standard deviations off", n, z)
		}
	}
}

// TestRandomOfManyIsRandom: in 1e9, where two that follow each other lie, by
// sixteenths and by the remainder of 16.
func TestRandomOfManyIsRandom(t *testing.T) {
	const n = 1_000_000_000
	s := must(NewRandom(n, 3))
	const draws = 100_000
	for name, class := range map[string]func(int) int{
		"sixteenth": func(i int) int { return i / (n / 16) },
		"remainder": func(i int) int { return i % 16 },
	} {
		next, epochs := make([]int, 256), make([]int, 256)
		for k := range draws {
			i := class(s.At(0, k))
			next[16*i+class(s.At(0, k+1))]++
			epochs[16*i+class(s.At(1, k))]++
		}
		if z := chiSquare(next, draws/256.0, 255); math.Abs(z) > tooFar {
			t.Errorf("%s of neighbours: %.1f standard deviations off", name, z)
		}
		if z := chiSquare(epochs, draws/256.0, 255); math.Abs(z) > tooFar {
			t.Errorf("%s in two epochs: %.1f standard deviations off", name, z)
		}
	}
}

// TestEpochsAndSeedsDiffer: no epoch of a seed is an epoch of another.
func TestEpochsAndSeedsDiffer(t *testing.T) {
	seen := map[string]string{}
	for seed := range uint64(30) {
		s := must(NewRandom(50, seed))
		for epoch := -5; epoch < 30; epoch++ {
			who := fmt.Sprintf("seed %d epoch %d", seed, epoch)
			list := fmt.Sprint(epochOf(s, epoch))
			if other, ok := seen[list]; ok {
				t.Fatalf("%s is the same as %s", who, other)
			}
			seen[list] = who
		}
	}
}

// TestOrdersStay: a saved position means the same after an update of Pinion
// and on every machine.
func TestOrdersStay(t *testing.T) {
	small := must(NewRandom(10, 42))
	large := must(NewRandom(1_000_000_000, 42))
	replacement := must(NewRandomWithReplacement(100, 8, 42))
	weighted := must(NewWeighted([]float64{1, 2, 3, 4}, 8, 42))
	blocks := must(NewBlocks([]int{3, 4, 0, 2}, 2, 42))
	byLength := must(NewByLength(lengthsFor(20), ByLengthOptions{Size: 2, Bucket: 3, Seed: 42}))
	for _, c := range []struct {
		name      string
		got, want []int
	}{
		{"Random of 10", epochOf(small, 1), []int{2, 1, 6, 7, 8, 0, 4, 5, 3, 9}},
		{"Random of 1e9", []int{large.At(1, 0), large.At(1, 1), large.At(1, 999_999_999)}, []int{519116506, 585262861, 40776582}},
		{"RandomWithReplacement", epochOf(replacement, 1), []int{43, 20, 45, 11, 85, 73, 31, 93}},
		{"ByLength", byLength.AppendAt(byLength.AppendAt(nil, 1, 0), 1, 1), []int{16, 18, 12, 6}},
		{"ShuffleBuffer", shuffled(8, 4, 42, 1), []int{1, 3, 0, 6, 7, 4, 5, 2}},
		{"Blocks", epochOf(blocks, 1), []int{7, 8, 0, 1, 2, 6, 4, 3, 5}},
		{"Weighted", epochOf(weighted, 1), []int{1, 2, 2, 3, 2, 0, 2, 3}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

// must is for arguments that are right.
func must[S any](s S, err error) S {
	if err != nil {
		panic(err)
	}
	return s
}

// epochOf returns all indices of an epoch.
func epochOf(s Sampler, epoch int) []int {
	list := make([]int, s.Len())
	for k := range list {
		list[k] = s.At(epoch, k)
	}
	return list
}
