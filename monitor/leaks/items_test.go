package leaks

import (
	"context"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/vram"
)

// Pools are opened and closed while a watch looks: it holds up none of them.
func TestLookHoldsNothing(t *testing.T) {
	dev := devicetest.Open(t)
	pool, err := vram.New(dev, vram.Options{})
	testkit.OK(t, err)
	b, err := pool.Alloc(context.Background(), 1000, vram.Use{})
	testkit.OK(t, err)
	found := false
	new(Watch).listAll(func(x *seen) {
		if found || x.kind != VRAM {
			return
		}
		found = true
		other, err := vram.New(dev, vram.Options{})
		testkit.OK(t, err)
		testkit.OK(t, other.Close())
		testkit.OK(t, b.Free())
		testkit.OK(t, pool.Close())
	})
	if !found {
		t.Error("no block was listed")
	}
}

// A pool that was closed a moment ago has nothing, whatever its source.
func TestLookAtClosedPools(t *testing.T) {
	dev := devicetest.Open(t)
	for _, source := range []vram.Source{vram.SourceChunks, vram.SourceSegments, vram.SourceDriver} {
		pool, err := vram.New(dev, vram.Options{Source: source})
		testkit.OK(t, err)
		for range 100 { // of which the pool keeps some in its caches
			b, err := pool.Alloc(context.Background(), 1000, vram.Use{})
			testkit.OK(t, err)
			testkit.OK(t, b.Free())
		}
		testkit.OK(t, pool.Close())
		if list := new(Watch).blocksOf(pool); len(list) != 0 {
			t.Errorf("%+v", list)
		}
	}
}
