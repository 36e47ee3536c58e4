package vram

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
)

// BenchmarkPair is an allocation and its free, of a size that was just freed.
func BenchmarkPair(b *testing.B) {
	for _, n := range []int64{4 << 10, 1 << 20, 64 << 20} {
		for _, workers := range []int{1, 8} {
			b.Run(fmt.Sprintf("%dKiB/%d", n>>10, workers), func(b *testing.B) {
				dev := devicetest.Open(b)
				p := newPool(b, dev, Options{})
				s, err := dev.NewStream()
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { s.Close() })
				use := Use{Stream: s, Purpose: Activations}
				b.ReportAllocs()
				b.ResetTimer()
				var wg sync.WaitGroup
				for range workers {
					wg.Go(func() {
						for range b.N / workers {
							x, err := p.Alloc(ctx, n, use)
							if err != nil {
								b.Error(err)
								return
							}
							if err := x.Free(); err != nil {
								b.Error(err)
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// BenchmarkHoles is an allocation and its free of 1 to 2 KiB in a pool with
// 65,536 holes of 512 bytes, of sizes that no shard keeps.
func BenchmarkHoles(b *testing.B) {
	p := newPool(b, devicetest.Open(b), Options{})
	var list []Block
	for range 131072 {
		x, err := p.Alloc(ctx, 1+rand.Int64N(unit), Use{})
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, x)
	}
	for i := 0; i < len(list); i += 2 {
		list[i].Free()
	}
	p.Stats()
	b.ResetTimer()
	for i := range b.N {
		x, err := p.Alloc(ctx, 1024+int64(i%3)*unit, Use{})
		if err != nil {
			b.Fatal(err)
		}
		x.Free()
	}
	b.StopTimer()
	for i := 1; i < len(list); i += 2 {
		list[i].Free()
	}
}

// BenchmarkStats is what statistics take with 100,000 free blocks.
func BenchmarkStats(b *testing.B) {
	p := newPool(b, devicetest.Open(b), Options{})
	var list []Block
	for range 200_000 {
		x, err := p.Alloc(ctx, 1+rand.Int64N(unit), Use{})
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, x)
	}
	for i := 0; i < len(list); i += 2 {
		list[i].Free()
	}
	for b.Loop() {
		p.Stats()
	}
	for i := 1; i < len(list); i += 2 {
		list[i].Free()
	}
}

// BenchmarkUncached is an allocation above 1 MiB on a stream and its free, of a size
// that was not freed before, while a hundred are held.
func BenchmarkUncached(b *testing.B) {
	dev := devicetest.Open(b)
	p := newPool(b, dev, Options{})
	s, err := dev.NewStream()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	var held [100]Block
	for i := range b.N + len(held) {
		at := i % len(held)
		if x := held[at]; x != (Block{}) {
			x.Free()
		}
		if held[at], err = p.Alloc(ctx, 2<<20+int64(i%1009)*unit, Use{Stream: s}); err != nil {
			b.Fatal(err)
		}
	}
	for _, x := range held {
		x.Free()
	}
}
