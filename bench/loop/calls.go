package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/units"
)

// goroutines is how many allocate at once in the rows for several.
const goroutines = 8

// calls measures the cost of allocating and freeing a block of a size that was
// freed before, by one goroutine and by several, and the Go heap allocations that
// this takes.
func (b *bench) calls(ctx context.Context, m *harness.Memory) error {
	m.Later(b.release)
	pool, err := b.newPool(m)
	if err != nil {
		return err
	}
	// A stream for each goroutine, or one for all.
	own := map[string][]*way{}
	shared := map[string][]*way{}
	bys := []string{byDriver, byKept, byPinion}
	for range goroutines {
		s, err := m.NewStream()
		if err != nil {
			return err
		}
		for _, w := range []*way{b.driver(s), b.async(s, true, 0), b.pinion(ctx, pool, s)} {
			own[w.by] = append(own[w.by], w)
			shared[w.by] = append(shared[w.by], own[w.by][0])
		}
	}
	for _, n := range b.blocks {
		name := "alloc and free " + units.Bytes(n)
		var samples []*sample
		for _, by := range bys {
			samples = append(samples, b.pairs(name, own[by][:1], n))
		}
		if err := b.inTurn(ctx, samples); err != nil {
			return err
		}
		for _, by := range bys[1:] {
			samples = []*sample{
				b.pairs(fmt.Sprintf("%s, %d goroutines, one stream", name, goroutines), shared[by], n),
				b.pairs(fmt.Sprintf("%s, %d goroutines, a stream each", name, goroutines), own[by], n),
				b.heap(name+": allocations", own[by][0], n),
			}
			if err := b.inTurn(ctx, samples); err != nil {
				return err
			}
		}
	}
	return nil
}

// pairs makes the row of ways that allocate and free n bytes, each in its own
// goroutine: the time of all of them divided by the number of pairs.
func (b *bench) pairs(name string, ways []*way, n int64) *sample {
	count := 0
	return &sample{Sample: measure.Sample{
		Row: measure.Row{Name: name, By: ways[0].by, Unit: "ns"},
		Check: func() (err error) {
			for _, w := range ways {
				if err := w.prepare(); err != nil {
					return err
				}
			}
			if err := distinct(ways, []int64{n, n}); err != nil {
				return err
			}
			count, err = b.enough(func(count int) error { return together(ways, n, count) })
			return err
		},
		Run: func() (float64, error) {
			start := time.Now()
			err := together(ways, n, count)
			return measure.Since(start, time.Nanosecond) / float64(count*len(ways)), err
		},
	}}
}

// enough finds how many calls take long enough to be timed.
func (b *bench) enough(calls func(count int) error) (count int, err error) {
	const most = 1 << 22
	for count = 16; ; count *= 2 {
		start := time.Now()
		if err := calls(count); err != nil {
			return 0, err
		}
		if time.Since(start) > b.callTime/2 || count >= most {
			return count, nil
		}
	}
}

// together has every way make its pairs at the same time.
func together(ways []*way, n int64, count int) error {
	if len(ways) == 1 {
		return ways[0].pairs(n, count)
	}
	errs := make([]error, len(ways))
	var all sync.WaitGroup
	for i, w := range ways {
		all.Go(func() { errs[i] = w.pairs(n, count) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// heap makes the row of allocations of the Go heap.
func (b *bench) heap(name string, w *way, n int64) *sample {
	const count = 1000
	return &sample{Sample: measure.Sample{
		Row:   measure.Row{Name: name, By: w.by, Unit: "allocs"},
		Check: w.prepare,
		Run: func() (float64, error) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := w.pairs(n, count)
			runtime.ReadMemStats(&after)
			return float64(after.Mallocs-before.Mallocs) / count, err
		},
	}}
}
