package loader_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// A sample that takes its time holds up no batch but its own where they come in
// any order, however quickly those before it were read.
func TestUnorderedSlowSample(t *testing.T) {
	dev := devicetest.Open(t)
	const n, batch, slow = 4000, 2, 2000
	ds := table(n, dtype.U8, 3)
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	ds.before = func(i int) {
		if i == slow {
			<-gate
		}
	}
	ld, err := loader.New(dev, ds, loader.Options{Batch: batch, Workers: 2, Unordered: true})
	testkit.OK(t, err)
	defer within(t, "Close", ld.Close)
	defer open()
	for range n/batch - 1 {
		b, err := next(t, ld)
		testkit.OK(t, err)
		if b.Indexes[0] == slow {
			t.Fatal("the batch came before it was read")
		}
		testkit.OK(t, b.Release())
	}
	open()
	b, err := next(t, ld)
	testkit.OK(t, err)
	if b.Indexes[0] != slow {
		t.Errorf("at last comes the batch of sample %d, want %d", b.Indexes[0], slow)
	}
	testkit.OK(t, b.Release())
}

// What goes wrong with samples that were quick so far is told as for all: it
// fails, panics, or does not come back in time.
func TestQuickSamplesGoWrong(t *testing.T) {
	dev := devicetest.Open(t)
	const n = 3000
	gate := make(chan struct{})
	defer close(gate)
	for _, limit := range []time.Duration{0, 50 * time.Millisecond} {
		patiently(t, limit, []int{2500}, func(limit time.Duration, l late) func() {
			ds := table(n, dtype.U8, 3)
			ds.fail, ds.panics = map[int]bool{1500: true}, map[int]bool{2001: true}
			left := 2
			if limit > 0 {
				left = 3
				ds.before = func(i int) {
					if i == 2500 {
						<-gate
					}
				}
			}
			var why []int
			skip := l.decide(loader.Skip)
			ld, err := loader.New(dev, ds, loader.Options{
				Batch: 2, Workers: 2, SampleTimeout: limit,
				Decide: func(e *loader.SampleError) loader.ErrorPolicy {
					why = append(why, e.Index)
					return skip(e)
				},
			})
			testkit.OK(t, err)
			list, err := drain(t, dev, ld)
			testkit.OK(t, err)
			within(t, "Close", ld.Close)
			return func() {
				samples := 0
				for _, g := range list {
					samples += len(g.indexes)
				}
				if samples != n-left || !slices.Equal(why, []int{1500, 2001, 2500}[:left]) {
					t.Errorf("limit %v: %d samples of %d, without %v", limit, samples, n, why)
				}
				if limit == 0 && ds.readers.Load() != 0 {
					t.Errorf("%d readers are still open", ds.readers.Load())
				}
			}
		})
	}
}
