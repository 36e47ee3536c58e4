package parquet

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestCache: readers of random groups get the right block, loads run once at a
// time for a group, and the room is kept to.
func TestCache(t *testing.T) {
	const groups, room = 10, 1000
	c := newCache(room)
	var all [groups]*group
	var loading [groups]atomic.Int32
	for i := range all {
		all[i] = &group{index: i}
	}
	var inUse atomic.Int64
	var work sync.WaitGroup
	for seed := range uint64(8) {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			for range 500 {
				g := all[rng.IntN(groups)]
				size := 100 + 50*g.index
				bad := errors.New("bad")
				fails := rng.IntN(5) == 0
				b, err := c.get(context.Background(), g, int64(size), func() (*block, error) {
					if loading[g.index].Add(1) > 1 {
						t.Error("loaded twice at a time")
					}
					defer loading[g.index].Add(-1)
					if inUse.Add(int64(size)) > room {
						t.Error("more is loaded than there is room for")
					}
					defer inUse.Add(-int64(size))
					if fails {
						return nil, bad
					}
					return &block{data: make([]byte, size), size: g.index}, nil
				})
				if err == nil && b.size != g.index || err != nil && err.Error() != "bad" {
					t.Errorf("block %v of group %d, %v", b, g.index, err)
				}
			}
		})
	}
	work.Wait()
	var used int64
	for _, e := range c.entries {
		used += e.need
	}
	if used != c.used || used > room || used == 0 {
		t.Errorf("%d bytes used, %d counted, of %d", used, c.used, room)
	}
}

// TestCacheKeepsUsed: what was used last stays.
func TestCacheKeepsUsed(t *testing.T) {
	c := newCache(30)
	a, b, d := &group{}, &group{}, &group{}
	loads := map[*group]int{}
	for _, g := range []*group{a, b, a, d, a} {
		_, err := c.get(context.Background(), g, 12, func() (*block, error) {
			loads[g]++
			return &block{data: make([]byte, 12)}, nil
		})
		testkit.OK(t, err)
	}
	if loads[a] != 1 || loads[b] != 1 || loads[d] != 1 || c.entries[b] != nil {
		t.Error(loads[a], loads[b], loads[d])
	}
}

// TestCacheCancel: a waiter whose loader is cancelled loads it itself, and one
// that is cancelled leaves.
func TestCacheCancel(t *testing.T) {
	c := newCache(10)
	g := &group{}
	ctx, cancel := context.WithCancel(context.Background())
	began, finish := make(chan struct{}), make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		_, err := c.get(ctx, g, 10, func() (*block, error) {
			close(began)
			<-finish
			return nil, ctx.Err()
		})
		testkit.WantError(t, "loader", err, context.Canceled)
	})
	<-began
	gone, leave := context.WithCancel(context.Background())
	leave()
	for _, other := range []*group{g, {}} { // one waits for the block, one for room
		_, err := c.get(gone, other, 10, func() (*block, error) { return nil, errors.New("must not be loaded") })
		testkit.WantError(t, "waiter", err, context.Canceled)
	}
	work.Go(func() {
		b, err := c.get(context.Background(), g, 10, func() (*block, error) { return &block{}, nil })
		if b == nil || err != nil {
			t.Error(b, err)
		}
	})
	cancel()
	close(finish)
	work.Wait()
}
