package tier_test

import (
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/internal/workload"
	"github.com/pinion-gpu/pinion/tier"
)

// What the store brings in, beside the best that can be done (Belady) and least
// recently used, for a budget of 64 arrays. Prefetching takes a little of the budget.
func TestMisses(t *testing.T) {
	const slots, n = 64, 64 << 10
	for _, c := range []struct {
		name     string
		arrays   int
		popular  float64 // uses fall with this power of the rank; 0: in turn
		announce bool
		best     float64 // most misses, as a share of the best schedule's
		lru      float64 // and of least recently used's
	}{
		{"sequential 4x", 4 * slots, 0, false, 1.15, 0.85},
		{"sequential 4x, announced", 4 * slots, 0, true, 1.03, 0.8},
		{"sequential 1.5x, announced", slots * 3 / 2, 0, true, 1.15, 0.4},
		{"zipf 2x", 2 * slots, 1, false, 1.75, 0.75},
		{"zipf 2x, recorded", 2 * slots, 1, true, 1.12, 0.6},
		{"zipf 4x, recorded", 4 * slots, 1, true, 1.1, 0.6},
		{"fits", slots, 1, false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			order := workload.InTurn(c.arrays)
			if c.popular > 0 {
				order = workload.ByRank(rand.New(rand.NewPCG(1, 2)), c.arrays, 2048, c.popular)
			}
			f := open(t, tier.Options{DeviceBytes: slots * n, HostBytes: int64(c.arrays+1) * n * 2, WindowBytes: 2 * n})
			arrays := make([]*tier.Array, c.arrays)
			for i := range arrays {
				arrays[i] = f.array("", n)
				testkit.OK(t, arrays[i].WriteAt(ctx, make([]byte, n), 0))
			}
			rounds := 0
			round := func() {
				rounds++
				for _, i := range order {
					testkit.OK(t, f.use(tier.Read(arrays[i])).Release())
				}
				testkit.OK(t, f.stream.Synchronize())
			}
			if c.announce {
				tape := f.store.Record()
				round()
				f.store.Replay(tape.Stop())
			}
			const warm, counted = 7, 6 // it takes some to see that the distances are even
			for range warm - rounds {
				round()
			}
			before := f.store.Stats()
			for range counted {
				round()
			}
			s := f.store.Stats()
			got := s.Fills - before.Fills
			best, lru := workload.LeastMisses(order, slots, warm, counted), workload.LRUMisses(order, slots, warm, counted)
			t.Logf("%d of %d uses brought in, %.2f of the best, %.2f of LRU; %d strays", got, counted*len(order),
				float64(got)/float64(best), float64(got)/float64(lru), s.Strays)
			if float64(got) > c.best*float64(best) || float64(got) > c.lru*float64(lru) || s.WastedBytes > 0 {
				t.Errorf("%d brought in, best %d, LRU %d, %d wasted", got, best, lru, s.WastedBytes)
			}
		})
	}
}
