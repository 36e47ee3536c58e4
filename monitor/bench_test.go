package monitor_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

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
