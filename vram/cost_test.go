package vram

import (
	"iter"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// costly adds up what the calls of a Mapper would take on an H200, by the table in
// docs/vram.md.
type costly struct {
	device.Wrapper
	device.Mapper
	took  time.Duration
	rate  time.Duration // the same if each byte took what it takes in chunks of a GiB
	sizes map[device.Chunk]int64
	at    map[device.Ptr]int64
}

// costs are microseconds by size in MiB: create, map, unmap, release.
var costs = []struct{ mib, create, mapped, unmap, release float64 }{
	{2, 8, 21, 14, 9}, {32, 10, 26, 15, 16}, {128, 20, 23, 14, 42}, {256, 22, 40, 20, 75},
	{512, 24, 47, 32, 275}, {1024, 32, 76, 30, 575}, {4096, 448, 161, 53, 1454},
}

const gibCosts = 5 // the row of a GiB

func (c *costly) add(bytes int64, of func(i int) float64) {
	mib := float64(bytes) / (1 << 20)
	last := len(costs) - 1
	us := of(last) * max(mib/costs[last].mib, 1)
	for i := range last {
		if a, b := costs[i].mib, costs[i+1].mib; mib <= b {
			us = of(i) + (of(i+1)-of(i))*max(math.Log(mib/a), 0)/math.Log(b/a)
			break
		}
	}
	c.took += time.Duration(us * 1000)
	c.rate += time.Duration(of(gibCosts) * mib / costs[gibCosts].mib * 1000)
}

func (c *costly) CreateChunk(n int64) (device.Chunk, error) {
	x, err := c.Mapper.CreateChunk(n)
	if err == nil {
		c.add(n, func(i int) float64 { return costs[i].create })
		c.sizes[x] = n
	}
	return x, err
}

func (c *costly) ReleaseChunk(x device.Chunk) error {
	c.add(c.sizes[x], func(i int) float64 { return costs[i].release })
	return c.Mapper.ReleaseChunk(x)
}

func (c *costly) Map(p device.Ptr, chunks []device.Chunk, n int64) error {
	for i := range chunks {
		c.add(n, func(i int) float64 { return costs[i].mapped })
		c.at[p.Add(int64(i)*n)] = n
	}
	return c.Mapper.Map(p, chunks, n)
}

func (c *costly) Unmap(p device.Ptr, n int64) error {
	for at := int64(0); at < n; {
		bytes := c.at[p.Add(at)]
		c.add(bytes, func(i int) float64 { return costs[i].unmap })
		at += bytes
	}
	return c.Mapper.Unmap(p, n)
}

func random(count int, most int64, seed uint64) func() (iter.Seq[trace.Event], error) {
	return func() (iter.Seq[trace.Event], error) {
		return trace.Random(trace.RandomOptions{Count: count, Max: most, Live: 16 * gib, Seed: seed})
	}
}

// BenchmarkModelled replays traces and adds up what the driver's calls would take:
// what a change of the rules would gain, before a GPU has measured it.
func BenchmarkModelled(b *testing.B) {
	for _, c := range []struct {
		name  string
		tidy  bool // once more with Tidy before each event
		trace func() (iter.Seq[trace.Event], error)
	}{
		{"1000x4GiB", true, random(1000, 4*gib, 1)},
		{"10000x1GiB", true, random(10000, gib, 1)},
		{"growing", true, func() (iter.Seq[trace.Event], error) { return trace.Growing(trace.GrowingOptions{Seed: 1}) }},
		{"cycles", true, func() (iter.Seq[trace.Event], error) { return trace.Cycles(trace.CyclesOptions{Seed: 1}) }},
		{"40000x6MiB", false, random(40000, 6<<20, 1)},
		{"40000x16MiB", false, random(40000, 16<<20, 1)},
		{"40000x20MiB", false, random(40000, 20<<20, 1)},
	} {
		events := testkit.Must(c.trace())(b)
		var live, peak int64
		for e := range events {
			if e.Op == trace.Free {
				live -= e.Bytes
			} else {
				live += e.Bytes
			}
			peak = max(peak, live)
		}
		run := func(name string, budget int64, tidy bool) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				for range b.N {
					modelled(b, events, budget, tidy).report(b, 1)
				}
			})
		}
		run("plenty", 0, false)
		if c.tidy {
			run("tidy", 0, true)
		}
		run("97%", int64(float64(peak)/0.97), false)
	}
}

// BenchmarkModelledSeeds gives the means over 20 traces of 1,000 random allocations of
// up to 4 GiB: what a change gains on one of them may be chance.
func BenchmarkModelledSeeds(b *testing.B) {
	for name, tidy := range map[string]bool{"plenty": false, "tidy": true} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				const seeds = 20
				var sum costs99
				for seed := range uint64(seeds) {
					r := modelled(b, testkit.Must(random(1000, 4*gib, seed+1)())(b), 0, tidy)
					sum.took += r.took
					sum.rate += r.rate
					sum.freed += r.freed
					sum.busy += r.busy
					sum.calls += r.calls
					sum.failed += r.failed
					sum.ratio += r.ratio
				}
				sum.report(b, seeds)
			}
		})
	}
}

// costs99 are the costs of a trace, or the sums of several.
type costs99 struct {
	took, rate    time.Duration // of all but 1 % of the allocations, at most
	freed         time.Duration // of all but 1 % of the frees
	busy          float64       // share of the frees, or if that is more of the allocations, that took any
	calls, failed int64
	ratio         float64 // reserved bytes of live ones, at the peaks
}

func (r costs99) report(b *testing.B, traces float64) {
	b.ReportMetric(float64(r.took.Microseconds())/traces, "p99-us")
	b.ReportMetric(float64(r.rate.Microseconds())/traces, "p99-us-at-best-rate")
	b.ReportMetric(float64(r.freed.Microseconds())/traces, "free-p99-us")
	b.ReportMetric(r.busy/traces, "busy")
	b.ReportMetric(float64(r.calls)/traces, "calls")
	b.ReportMetric(float64(r.failed)/traces, "failed")
	b.ReportMetric(r.ratio/traces, "reserved/live")
	b.ReportMetric(0, "ns/op")
}

// modelled replays as package replay does: on a stream, whose work is done after each
// event.
func modelled(b *testing.B, events iter.Seq[trace.Event], budget int64, tidy bool) (r costs99) {
	dev := openHost(b, "host:149557477376") // as much as an H200 has free
	stream := newStream(b, dev)
	c := &costly{Wrapper: device.Wrapper{Device: dev}, Mapper: devicetest.As[device.Mapper](b, dev), sizes: map[device.Chunk]int64{}, at: map[device.Ptr]int64{}}
	p := testkit.Must(New(c, Options{Budget: budget, Caches: 1}))(b)
	blocks := map[uint64]Block{}
	var took, rate, freed []time.Duration
	var live, peak, reserved int64
	for e := range events {
		testkit.OK(b, stream.Synchronize())
		if tidy {
			testkit.Must(p.Tidy(ctx))(b)
		}
		if e.Op == trace.Free {
			if x, there := blocks[e.ID]; there {
				live -= x.Bytes()
				before := c.took
				testkit.OK(b, x.Free())
				freed = append(freed, c.took-before)
				delete(blocks, e.ID)
			}
			continue
		}
		beforeTook, beforeRate := c.took, c.rate
		x, err := p.Alloc(ctx, e.Bytes, Use{Stream: stream})
		if err != nil {
			r.failed++
			continue
		}
		blocks[e.ID] = x
		took, rate = append(took, c.took-beforeTook), append(rate, c.rate-beforeRate)
		live += e.Bytes
		peak, reserved = max(peak, live), max(reserved, p.Reserved())
	}
	slices.Sort(took)
	slices.Sort(rate)
	slices.Sort(freed)
	busy := func(list []time.Duration) float64 {
		idle, _ := slices.BinarySearch(list, 1)
		return 1 - float64(idle)/float64(len(list))
	}
	r.freed, r.busy = freed[len(freed)*99/100], max(busy(freed), busy(took))
	r.took, r.rate = took[len(took)*99/100], rate[len(rate)*99/100]
	r.calls, r.ratio = p.Stats().Calls.Total(), float64(reserved)/float64(peak)
	for _, x := range blocks {
		testkit.OK(b, x.Free())
	}
	testkit.OK(b, p.Close())
	return r
}
