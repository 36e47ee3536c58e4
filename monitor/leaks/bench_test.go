package leaks_test

import (
	"fmt"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/monitor/leaks"
	"github.com/pinion-gpu/pinion/vram"
)

// What a look takes with so many blocks, and what an allocation takes while a watch
// runs.
func BenchmarkWatch(b *testing.B) {
	dev := devicetest.Open(b)
	pool, err := vram.New(dev, vram.Options{})
	testkit.OK(b, err)
	defer pool.Close()
	alloc := func(b *testing.B) {
		for b.Loop() {
			if x, err := pool.Alloc(ctx, 4096, vram.Use{}); err != nil || x.Free() != nil {
				b.Fatal("cannot allocate or free", err)
			}
		}
	}
	b.Run("alloc/without", alloc)
	b.Run("alloc/watched", func(b *testing.B) {
		defer leaks.Start(leaks.Options{}).Stop()
		alloc(b)
	})
	for _, n := range []int{0, 10_000, 90_000} {
		for range n {
			_, err := pool.Alloc(ctx, 512, vram.Use{})
			testkit.OK(b, err)
		}
		b.Run(fmt.Sprintf("look/%d", len(pool.Live())), func(b *testing.B) {
			var w *leaks.Watch
			steps := 0
			for b.Loop() {
				if steps%31 == 0 { // later most steps take no look
					w = leaks.Start(leaks.Options{})
					w.Stop()
				}
				w.Step()
				steps++
			}
		})
	}
}
