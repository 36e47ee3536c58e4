package vram_test

import (
	"context"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/vram"
)

// TestAskedWhenClosed: a pool that was closed has nothing, whoever asks.
func TestAskedWhenClosed(t *testing.T) {
	dev := devicetest.Open(t)
	for _, source := range []vram.Source{vram.SourceChunks, vram.SourceSegments} {
		pool, err := vram.New(dev, vram.Options{Source: source, History: 100})
		testkit.OK(t, err)
		b, err := pool.Alloc(context.Background(), 5<<20, vram.Use{})
		testkit.OK(t, err)
		c, err := pool.Alloc(context.Background(), 70<<20, vram.Use{})
		testkit.OK(t, err)
		testkit.OK(t, b.Free())
		testkit.OK(t, c.Free())
		testkit.OK(t, pool.Close())
		s := pool.Stats()
		if s.Reserved.Current != 0 || s.Free != 0 || s.LargestFree != 0 || s.Fragmented != 0 {
			t.Errorf("%v: %+v", source, s)
		}
		_ = pool.Snapshot()
		pool.Visit(func(vram.BlockInfo, bool) {})
		_ = pool.Live()
	}
}
