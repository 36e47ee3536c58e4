package sampler

import (
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/internal/draw"
)

func TestRandomWithReplacementIsEven(t *testing.T) {
	const n, draws, epochs = 50, 200, 500
	s := must(NewRandomWithReplacement(n, draws, 1))
	counts, pairs, next := make([]int, n), make([]int, n*n), make([]int, n*n)
	for e := range epochs {
		for k := range draws {
			i := s.At(e, k)
			counts[i]++
			next[i*n+s.At(e+1, k)]++
			if k > 0 {
				pairs[s.At(e, k-1)*n+i]++
			}
		}
	}
	for name, z := range map[string]float64{
		"indices":       chiSquare(counts, draws*epochs/float64(n), n-1),
		"neighbours":    chiSquare(pairs, (draws-1)*epochs/float64(n*n), n*n-1),
		"across epochs": chiSquare(next, draws*epochs/float64(n*n), n*n-1),
	} {
		if math.Abs(z) > tooFar {
			t.Errorf("%s are %.1f standard deviations off", name, z)
		}
	}
}

// TestAliasTable adds up what the table gives to each index.
func TestAliasTable(t *testing.T) {
	huge, tiny := math.MaxFloat64, math.SmallestNonzeroFloat64
	many := make([]float64, 10_001)
	for i := range many {
		many[i] = math.Pow(float64(draw.Below(draw.Hash(1, uint64(i)), 1000)), 3) // some are 0
	}
	for _, weights := range [][]float64{
		{1}, {1, 1}, {0, 1}, {1, 0}, {3, 0, 0, 0}, {1, 2, 3, 4}, {0.1, 0.1, 0.1, 0.7},
		{huge, huge, huge}, {tiny, tiny}, {tiny, 1}, {huge, 1, tiny}, {0, 1e-300, 3e-300}, many,
	} {
		s := must(NewWeighted(weights, 1, 1))
		got := make([]float64, len(weights))
		for i, c := range s.cells {
			part := float64(c.cut) / 0x1p64
			got[i] += part
			got[c.alias] += 1 - part
		}
		largest, sum := weights[0], 0.0
		for _, w := range weights {
			largest = max(largest, w)
		}
		for _, w := range weights {
			sum += w / largest
		}
		for i, w := range weights {
			want := w / largest / sum
			if p := got[i] / float64(len(weights)); math.Abs(p-want) > 1e-12 || (w == 0 && p != 0) {
				t.Errorf("%d weights from %v: index %d has chance %v, want %v", len(weights), weights[0], i, p, want)
			}
		}
	}
}

func TestWeightZeroIsNeverPicked(t *testing.T) {
	s := must(NewWeighted([]float64{0, 1, 0}, 1, 1))
	for _, random := range []uint64{0, 1, 1 << 63, math.MaxUint64 / 3, math.MaxUint64/3*2 + 1, math.MaxUint64} {
		if i := s.pick(random); i != 1 {
			t.Errorf("random number %d picks %d, whose weight is 0", random, i)
		}
	}
}

func TestWeightedDraws(t *testing.T) {
	const draws, epochs = 1000, 100
	weights := []float64{5, 0, 1, 2.5, 0.5, 0, 1}
	s := must(NewWeighted(weights, draws, 1))
	counts, agree := make([]int, len(weights)), 0
	for e := range epochs {
		for k := range draws {
			counts[s.At(e, k)]++
			if s.At(e, k) == s.At(e+1, k) {
				agree++
			}
		}
	}
	var same, expected float64
	for i, w := range weights {
		chance := w / 10
		same += chance * chance
		if w == 0 {
			if counts[i] > 0 {
				t.Errorf("index %d of weight 0 was drawn %d times", i, counts[i])
			}
			continue
		}
		expected = draws * epochs * chance
		if z := (float64(counts[i]) - expected) / math.Sqrt(expected*(1-chance)); math.Abs(z) > tooFar {
			t.Errorf("index %d of weight %v was drawn %d times, %.1f standard deviations off", i, w, counts[i], z)
		}
	}
	expected = same * draws * epochs
	if z := (float64(agree) - expected) / math.Sqrt(expected*(1-same)); math.Abs(z) > tooFar {
		t.Errorf("the next epoch agrees in %d draws, %.1f standard deviations off", agree, z)
	}
}
