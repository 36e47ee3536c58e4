package kvcache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// What the books of a decode step take: a token more for each of 256 sequences, which are
// computed then. When the device is full, sequences end and others begin, outside of what is
// timed.
func BenchmarkDecode(b *testing.B) {
	for _, host := range []int{0, 1 << 16} {
		b.Run(fmt.Sprintf("host-blocks=%d", host), func(b *testing.B) {
			c := testkit.Must(New(Options{Blocks: 1 << 16, HostBlocks: host}))(b)
			rng := rand.New(rand.NewPCG(1, 2))
			open := func() *Sequence {
				tokens := make([]int32, 500+rng.IntN(1500))
				for i := range tokens {
					tokens[i] = int32(rng.IntN(32000))
				}
				s, err := c.Open("tenant", tokens)
				testkit.OK(b, err)
				testkit.OK(b, s.Computed(len(tokens)))
				return s
			}
			var list []*Sequence
			for range 256 {
				list = append(list, open())
			}
			var copies []Copy
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				for _, s := range list {
					if err := s.Append(int32(i)); err != nil {
						b.Fatal(err)
					}
				}
				copies = c.TakeCopies(copies[:0])
				for _, s := range list {
					if err := s.Computed(s.Len()); err != nil {
						b.Fatal(err)
					}
				}
				if i%4 == 0 {
					b.StopTimer()
					k := rng.IntN(len(list))
					list[k].Close()
					list[k] = open()
					b.StartTimer()
				}
			}
		})
	}
}

// What it takes to open a sequence of 8,192 tokens that are there, and to close it.
func BenchmarkOpenCached(b *testing.B) {
	c := testkit.Must(New(Options{Blocks: 1 << 12}))(b)
	tokens := make([]int32, 8192)
	s := testkit.Must(c.Open("tenant", tokens))(b)
	testkit.OK(b, s.Computed(len(tokens)))
	s.Close()
	b.ReportAllocs()
	for b.Loop() {
		s, err := c.Open("tenant", tokens)
		if err != nil || s.Cached() != 8192-16 {
			b.Fatal(err, s.Cached())
		}
		s.Close()
	}
}
