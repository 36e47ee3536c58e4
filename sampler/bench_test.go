package sampler

import (
	"fmt"
	"testing"

	"github.com/pinion-gpu/pinion/internal/draw"
)

func BenchmarkRandom(b *testing.B) {
	for _, n := range []int{100, 1_000_000, 1_000_000_000} {
		s := must(NewRandom(n, 1))
		b.Run(fmt.Sprintf("At/n=%d", n), func(b *testing.B) { each(b, s) })
		b.Run(fmt.Sprintf("Position/n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Position(3, i%n)
			}
		})
	}
}

func BenchmarkRandomWithReplacement(b *testing.B) {
	s := must(NewRandomWithReplacement(1_000_000_000, 1_000_000_000, 1))
	each(b, s)
}

func BenchmarkWeighted(b *testing.B) {
	for _, n := range []int{1000, 10_000_000} {
		weights := make([]float64, n)
		for i := range weights {
			weights[i] = float64(i % 17)
		}
		s := must(NewWeighted(weights, 1_000_000_000, 1))
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) { each(b, s) })
	}
}

func BenchmarkDistributed(b *testing.B) {
	whole := must(NewRandom(1_000_000_000, 1))
	s := must(NewDistributed(whole, 3, 8, false))
	each(b, s)
}

// BenchmarkByLength reports the time of a batch of 64.
func BenchmarkByLength(b *testing.B) {
	lengths := make([]int, 1_000_000)
	for i := range lengths {
		lengths[i] = int(draw.Below(draw.Hash(1, uint64(i)), 512))
	}
	s := must(NewByLength(lengths, ByLengthOptions{}))
	b.ReportAllocs()
	var batch []int
	for i := 0; b.Loop(); i++ {
		batch = s.AppendAt(batch[:0], 1, i%s.Len())
	}
}

func BenchmarkShuffleBuffer(b *testing.B) {
	s := must(NewShuffleBuffer[int](10_000, 1, 1))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Push(i)
	}
}

// each measures one index.
func each(b *testing.B, s Sampler) {
	b.ReportAllocs()
	n := s.Len()
	for i := 0; b.Loop(); i++ {
		s.At(3, i%n)
	}
}
