package vram

import (
	"errors"
	"flag"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/vram/internal/space"
	"github.com/pinion-gpu/pinion/vram/trace"
)

var seeds = flag.Int("seeds", 2, "how many traces of each kind fragmentation is measured on")

// replayed is what a trace did to a pool.
type replayed struct {
	calls   int64   // of the driver
	ratio   float64 // peak reserved over peak live bytes
	failed  float64 // live bytes, with those asked for, over the budget, at the earliest failure; 0: none
	reserve []int64 // reserved bytes when nothing was live
}

// replay runs a trace through a pool. Blocks have no stream, and there is one
// cache, so that it depends neither on time nor on processors what is free.
func replay(t testing.TB, name string, o Options, events iter.Seq[trace.Event]) (r replayed) {
	o.Caches = 1
	p, err := New(openHost(t, name), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	live := map[uint64]Block{}
	var bytes, peak, reserved int64
	for e := range events {
		if e.Op == trace.Alloc {
			b, err := p.Alloc(ctx, e.Bytes, Use{})
			if errors.Is(err, device.ErrOutOfMemory) && p.options.Budget > 0 {
				if f := float64(bytes+e.Bytes) / float64(p.options.Budget); r.failed == 0 || f < r.failed {
					r.failed = f
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			live[e.ID] = b
			bytes += e.Bytes
			peak, reserved = max(peak, bytes), max(reserved, p.Reserved())
		} else if b, there := live[e.ID]; there {
			bytes -= b.Bytes()
			if err := b.Free(); err != nil {
				t.Fatal(err)
			}
			if delete(live, e.ID); len(live) == 0 {
				r.reserve = append(r.reserve, p.Reserved())
			}
		}
	}
	for _, b := range live {
		b.Free()
	}
	r.ratio = float64(reserved) / float64(peak)
	r.calls = p.Stats().Calls.Total()
	return r
}

// TestFragmentation replays traces on a device of 141 GiB, of which no byte is
// touched: the pool reserves little more than what is live, with few driver calls.
func TestFragmentation(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	exact(t) // and untouched
	for _, c := range []struct {
		name  string
		most  float64
		calls int64 // of the driver, at most
		trace func(seed uint64) (iter.Seq[trace.Event], error)
	}{
		{"1,000 of up to 4 GiB", 1.16, 2000, func(s uint64) (iter.Seq[trace.Event], error) {
			return trace.Random(trace.RandomOptions{Count: 1000, Max: 4 * gib, Live: 16 * gib, Seed: s})
		}},
		{"10,000 of up to 1 GiB", 1.16, 20000, func(s uint64) (iter.Seq[trace.Event], error) {
			return trace.Random(trace.RandomOptions{Count: 10000, Max: gib, Live: 16 * gib, Seed: s})
		}},
		{"growing batch", 1.13, 1000, func(s uint64) (iter.Seq[trace.Event], error) {
			return trace.Growing(trace.GrowingOptions{Seed: s})
		}},
		{"steps", 1.2, 1000, func(s uint64) (iter.Seq[trace.Event], error) { return trace.Steps(trace.StepsOptions{Seed: s}) }},
		{"streams", 1.2, 4000, func(s uint64) (iter.Seq[trace.Event], error) { return trace.Streams(trace.StreamsOptions{Seed: s}) }},
		{"cycles", 1.15, 700, func(s uint64) (iter.Seq[trace.Event], error) { return trace.Cycles(trace.CyclesOptions{Seed: s}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			worst, calls := 0.0, int64(0)
			for seed := range *seeds {
				events, err := c.trace(uint64(seed))
				if err != nil {
					t.Fatal(err)
				}
				r := replay(t, "host:141GiB", Options{}, events)
				worst, calls = max(worst, r.ratio), max(calls, r.calls)
				if c.name == "cycles" {
					// The cycles need the same; a pool that fragments grows.
					if first, last := r.reserve[0], r.reserve[len(r.reserve)-1]; float64(last) > 1.15*float64(first) {
						t.Errorf("seed %d: %d bytes reserved after the first of %d cycles, %d after the last", seed, first, len(r.reserve), last)
					}
				}
			}
			t.Logf("reserved at most %.3f of what was live, with %d driver calls, over %d seeds", worst, calls, *seeds)
			if worst > c.most {
				t.Errorf("want %.2f at most", c.most)
			}
			if calls > c.calls {
				t.Errorf("want %d driver calls at most", c.calls)
			}
		})
	}
}

// TestFull replays traces whose live bytes come near the budget: the pool only
// fails where hardly anything is left.
func TestFull(t *testing.T) {
	exact(t) // and untouched
	for _, c := range []struct {
		name    string
		options trace.RandomOptions
	}{
		{"1,000 of up to 4 GiB", trace.RandomOptions{Count: 1000, Max: 4 * gib, Live: 17 * gib}},
		{"10,000 of up to 1 GiB", trace.RandomOptions{Count: 3000, Max: gib, Live: 17 * gib}},
	} {
		t.Run(c.name, func(t *testing.T) {
			earliest := 2.0
			for seed := range *seeds {
				c.options.Seed = uint64(seed)
				events, err := trace.Random(c.options)
				if err != nil {
					t.Fatal(err)
				}
				if r := replay(t, "host:16GiB", Options{Budget: 16 * gib}, events); r.failed > 0 {
					earliest = min(earliest, r.failed)
				}
			}
			t.Logf("the earliest failure was at %.4f of the budget, over %d seeds", earliest, *seeds)
			if earliest < 0.97 || earliest == 2 {
				t.Errorf("want at least 0.97, and one")
			}
		})
	}
}

func openHost(t testing.TB, name string) device.Device {
	t.Helper()
	dev, err := device.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	if m, ok := device.As[device.Mapper](dev); !ok || !m.CanReserve() {
		t.Skip("no virtual memory here")
	}
	return dev
}

// TestTight replays traces with so little memory that most of it is live at the
// peak: nothing fails.
func TestTight(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	exact(t) // and untouched
	for _, c := range []struct {
		name  string
		share float64 // of the budget that is live at the peak
		trace func(seed uint64) (iter.Seq[trace.Event], error)
	}{
		{"1,000 of up to 4 GiB", 0.97, func(s uint64) (iter.Seq[trace.Event], error) {
			return trace.Random(trace.RandomOptions{Count: 1000, Max: 4 * gib, Live: 16 * gib, Seed: s})
		}},
		{"10,000 of up to 1 GiB", 0.97, func(s uint64) (iter.Seq[trace.Event], error) {
			return trace.Random(trace.RandomOptions{Count: 5000, Max: gib, Live: 16 * gib, Seed: s})
		}},
		{"growing batch", 0.97, func(s uint64) (iter.Seq[trace.Event], error) {
			return trace.Growing(trace.GrowingOptions{Seed: s})
		}},
		{"cycles", 0.97, func(s uint64) (iter.Seq[trace.Event], error) { return trace.Cycles(trace.CyclesOptions{Seed: s}) }},
		{"12,000 of up to 6 MiB", 0.97, func(s uint64) (iter.Seq[trace.Event], error) {
			return trace.Random(trace.RandomOptions{Count: 12000, Max: 6 << 20, Live: 16 * gib, Seed: s})
		}},
		{"6,000 of up to 16 MiB", 0.97, func(s uint64) (iter.Seq[trace.Event], error) {
			return trace.Random(trace.RandomOptions{Count: 6000, Max: 16 << 20, Live: 16 * gib, Seed: s})
		}},
		{"6,000 of up to 20 MiB", 0.97, func(s uint64) (iter.Seq[trace.Event], error) {
			return trace.Random(trace.RandomOptions{Count: 6000, Max: 20 << 20, Live: 16 * gib, Seed: s})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range *seeds {
				events, err := c.trace(uint64(seed))
				if err != nil {
					t.Fatal(err)
				}
				var live, peak int64
				for e := range events {
					if e.Op == trace.Free {
						live -= e.Bytes
					} else {
						live += e.Bytes
					}
					peak = max(peak, live)
				}
				r := replay(t, "host:141GiB", Options{Budget: int64(float64(peak) / c.share)}, events)
				t.Logf("seed %d: reserved %.3f of what was live, with %d driver calls", seed, r.ratio, r.calls)
				if r.failed > 0 {
					t.Errorf("seed %d: the first failure was at %.3f of the budget", seed, r.failed)
				}
			}
		})
	}
}

// TestSurvivors frees batches of large blocks but for one small block after each,
// and then takes what is left in large blocks: hardly any memory is held by chunks
// that the small ones share.
func TestSurvivors(t *testing.T) {
	exact(t) // and untouched
	const budget = 16 * gib
	for _, small := range []int64{100 << 10, 1 << 20, 3 << 20} {
		p, err := New(openHost(t, "host:141GiB"), Options{Budget: budget, Caches: 1})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 1))
		var live int64
		var rest []Block
		for range 40 {
			var batch []Block
			for live < budget*6/10 {
				b := alloc(t, p, 16<<20+rng.Int64N(240<<20), Use{})
				s := alloc(t, p, small/2+rng.Int64N(small), Use{})
				batch, rest = append(batch, b), append(rest, s)
				live += b.Bytes() + s.Bytes()
			}
			for _, b := range batch {
				live -= b.Bytes()
				testkit.OK(t, b.Free())
			}
		}
		survivors := live
		for {
			b, err := p.Alloc(ctx, 64<<20, Use{})
			if err != nil {
				break
			}
			rest = append(rest, b)
			live += b.Bytes()
		}
		t.Logf("%d KiB: survivors are %.3f of the budget; the first failure is at %.3f of it", small>>10, float64(survivors)/budget, float64(live+64<<20)/budget)
		if float64(live+64<<20) < 0.97*budget {
			t.Errorf("%d KiB: want at least 0.97", small>>10)
		}
		for _, b := range rest {
			testkit.OK(t, b.Free())
		}
		testkit.OK(t, p.Close())
	}
}

// TestComb frees every second block of a full pool and takes what is left in large
// blocks. With chunks of the device's granularity, all that an allocator can get
// which copies nothing is got: the units without a live byte.
func TestComb(t *testing.T) {
	exact(t) // and untouched
	const budget = 16 * gib
	for _, c := range []struct {
		bytes int64
		least float64 // of the budget that is live, or asked for, at the first failure, with default chunks
	}{{3 << 20, 0.68}, {10 << 20, 0.85}, {64 << 20, 0.92}} {
		for _, chunk := range []int64{0, 2 << 20} {
			p, err := New(openHost(t, "host:141GiB"), Options{Budget: budget, ChunkBytes: chunk, Caches: 1})
			testkit.OK(t, err)
			rng := rand.New(rand.NewPCG(1, 1))
			var live int64
			var list, rest []Block
			for live < budget*9/10 {
				b := alloc(t, p, c.bytes/2+rng.Int64N(c.bytes), Use{})
				list = append(list, b)
				live += b.Bytes()
			}
			for i, b := range list {
				if i%2 == 0 {
					live -= b.Bytes()
					testkit.OK(t, b.Free())
				} else {
					rest = append(rest, b)
				}
			}
			could := live + budget - p.Reserved() // the least there is, whatever the chunks
			p.freeze(func() {
				p.space.Visit(func(b *space.Block, _, _ bool) {
					if from := int64(b.Ptr()); b.Free() {
						could += max((from+b.Bytes())&^(p.unit-1)-(from+p.unit-1)&^(p.unit-1), 0)
					}
				})
			})
			const large = 128 << 20
			for {
				b, err := p.Alloc(ctx, large, Use{})
				if err != nil {
					break
				}
				rest = append(rest, b)
				live += large
			}
			t.Logf("%d MiB, chunks of %d: the first failure is at %.3f of the budget; %.3f could be live", c.bytes>>20, chunk, float64(live+large)/budget, float64(could)/budget)
			if chunk > 0 && live+large < could || float64(live+large) < c.least*budget {
				t.Errorf("%d MiB, chunks of %d: too early", c.bytes>>20, chunk)
			}
			for _, b := range rest {
				testkit.OK(t, b.Free())
			}
			testkit.OK(t, p.Close())
		}
	}
}
