package monitor_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// What a snapshot takes where much is open: 10,000 pinned buffers, 1,000 arrays, 16
// loaders, and engines that have copied every way of theirs.
func BenchmarkTakeMany(b *testing.B) {
	dev := devicetest.OpenDiscrete(b, 1<<30)
	pool, err := pinned.NewPool(dev, pinned.Options{Budget: 1 << 30})
	testkit.OK(b, err)
	defer pool.Close()
	for range 10_000 {
		x, err := pool.Alloc(ctx, 4096)
		testkit.OK(b, err)
		defer x.Free()
	}
	store, err := tier.New(dev, tier.Options{DeviceBytes: 8 << 20, HostBytes: 8 << 20})
	testkit.OK(b, err)
	defer store.Close()
	for range 1000 {
		_, err := store.NewArray("", 4096)
		testkit.OK(b, err)
	}
	ds, err := dataset.NewMemoryOf(make([]float32, 3000), []int{3}, dataset.MemoryOptions{})
	testkit.OK(b, err)
	for range 16 {
		l, err := loader.New(dev, ds, loader.Options{Batch: 10, Workers: 2})
		testkit.OK(b, err)
		defer l.Close()
		x, err := l.Next(ctx)
		testkit.OK(b, err)
		testkit.OK(b, x.Release())
	}
	b.ReportAllocs()
	for b.Loop() {
		monitor.Take()
	}
}

// What a snapshot takes, and its metrics, with a pool of so many live blocks, between
// which as many are free.
func BenchmarkTake(b *testing.B) {
	for _, blocks := range []int{0, 1000, 100_000} {
		b.Run(fmt.Sprint(blocks), func(b *testing.B) {
			dev := devicetest.Open(b)
			pool, err := vram.New(dev, vram.Options{})
			testkit.OK(b, err)
			defer pool.Close()
			engine, err := transfer.New(dev, transfer.Options{})
			testkit.OK(b, err)
			defer engine.Close()
			testkit.OK(b, engine.H2D(ctx, 0, nil))
			list := make([]vram.Block, 2*blocks)
			for i := range list {
				list[i], err = pool.Alloc(ctx, 512, vram.Use{Purpose: vram.Weights})
				testkit.OK(b, err)
			}
			for i := 0; i < len(list); i += 2 {
				testkit.OK(b, list[i].Free())
			}
			b.Run("take", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					monitor.Take()
				}
			})
			b.Run("metrics", func(b *testing.B) {
				for b.Loop() {
					testkit.OK(b, monitor.Take().WriteMetrics(io.Discard))
				}
			})
			for i := 1; i < len(list); i += 2 {
				testkit.OK(b, list[i].Free())
			}
		})
	}
}
