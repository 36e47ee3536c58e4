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
	sizes map[device.Chunk]int64
	at    map[device.Ptr]int64
}

// costs are microseconds by size in MiB: create, map, unmap, release.
var costs = []struct{ mib, create, mapped, unmap, release float64 }{
	{2, 8, 21, 14, 9}, {32, 10, 26, 15, 16}, {128, 20, 23, 14, 42}, {256, 22, 40, 20, 75},
	{512, 24, 47, 32, 275}, {1024, 32, 76, 30, 575}, {4096, 448, 161, 53, 1454},
}

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

// BenchmarkModelled replays traces and adds up what the driver's calls would take:
// what a change of the rules would gain, before a GPU has measured it.
func BenchmarkModelled(b *testing.B) {
	random := func(count int, most int64) func() (iter.Seq[trace.Event], error) {
		return func() (iter.Seq[trace.Event], error) {
			return trace.Random(trace.RandomOptions{Count: count, Max: most, Live: 16 * gib, Seed: 1})
		}
	}
	for _, c := range []struct {
		name  string
		trace func() (iter.Seq[trace.Event], error)
	}{
		{"1000x4GiB", random(1000, 4*gib)},
		{"10000x1GiB", random(10000, gib)},
		{"growing", func() (iter.Seq[trace.Event], error) { return trace.Growing(trace.GrowingOptions{Seed: 1}) }},
		{"cycles", func() (iter.Seq[trace.Event], error) { return trace.Cycles(trace.CyclesOptions{Seed: 1}) }},
		{"40000x6MiB", random(40000, 6<<20)},
		{"40000x16MiB", random(40000, 16<<20)},
		{"40000x20MiB", random(40000, 20<<20)},
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
		for name, budget := range map[string]int64{"plenty": 0, "97%": int64(float64(peak) / 0.97)} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				for range b.N {
					modelled(b, events, budget)
				}
			})
		}
	}
}

func modelled(b *testing.B, events iter.Seq[trace.Event], budget int64) {
	dev := openHost(b, "host:141GiB")
	c := &costly{Wrapper: device.Wrapper{Device: dev}, Mapper: devicetest.As[device.Mapper](b, dev), sizes: map[device.Chunk]int64{}, at: map[device.Ptr]int64{}}
	p := testkit.Must(New(c, Options{Budget: budget}))(b)
	blocks := map[uint64]Block{}
	var times []time.Duration
	failed := 0
	for e := range events {
		if e.Op == trace.Free {
			if x, there := blocks[e.ID]; there {
				testkit.OK(b, x.Free())
				delete(blocks, e.ID)
			}
			continue
		}
		before := c.took
		x, err := p.Alloc(ctx, e.Bytes, Use{})
		if err != nil {
			failed++
			continue
		}
		blocks[e.ID] = x
		times = append(times, c.took-before)
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(p.Stats().Calls.Total()), "calls")
	b.ReportMetric(float64(failed), "failed")
	b.ReportMetric(0, "ns/op")
	for _, x := range blocks {
		testkit.OK(b, x.Free())
	}
	testkit.OK(b, p.Close())
}
