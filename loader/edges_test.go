package loader_test

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// An alpha that is all but zero mixes by all or nothing, and takes no time.
func TestMixupOfTinyAlpha(t *testing.T) {
	dev := devicetest.Open(t)
	ld := start(t, dev, images(400, 2, 2, 3), loader.Options{Batch: 400, Mixup: 1e-300})
	b, err := next(t, ld)
	testkit.OK(t, err)
	whole := 0
	for _, m := range b.Mix {
		if m != 0 && m != 1 {
			t.Errorf("a weight of %v", m)
		}
		whole += int(m)
	}
	if whole < 120 || whole > 280 { // 8 standard deviations
		t.Errorf("%d of 400 weights are 1", whole)
	}
}

// panicky is an order that cannot be asked.
type panicky struct{}

func (panicky) Len() int        { return 5 }
func (panicky) At(_, k int) int { panic("no order today") }

// A panic in a sampler is an error of New.
func TestSamplerPanics(t *testing.T) {
	_, err := loader.New(devicetest.Open(t), images(8, 2, 2, 3), loader.Options{Batch: 4, Sampler: panicky{}})
	if err == nil || !strings.Contains(err.Error(), "no order today") {
		t.Errorf("%v", err)
	}
}

// Decide is not asked about samples that Close keeps from being read.
func TestDecideAfterClose(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(40, dtype.U8, 3)
	ds.fail = map[int]bool{}
	for i := range 40 {
		ds.fail[i] = true
	}
	made, closing, asked := make(chan *loader.Loader, 1), make(chan struct{}), 0
	ld, err := loader.New(dev, ds, loader.Options{Batch: 2, Decide: func(*loader.SampleError) loader.ErrorPolicy {
		if asked++; asked == 1 {
			stopped := loader.Stopped(<-made)
			close(closing)
			<-stopped
		}
		return loader.Replace
	}})
	testkit.OK(t, err)
	made <- ld
	<-closing
	within(t, "Close", ld.Close)
	if asked > 1 {
		t.Errorf("Decide was asked %d times after Close", asked-1)
	}
}

// Of two holders where there is one, one gets an error, and nothing else happens.
func TestReleaseTooOften(t *testing.T) {
	dev := devicetest.Open(t)
	ld := start(t, dev, table(6000, dtype.U8, 3), loader.Options{Batch: 2})
	streams := []device.Stream{stream(t, dev), stream(t, dev)}
	for range 3000 {
		b, err := next(t, ld)
		testkit.OK(t, err)
		var errs [2]error
		var both sync.WaitGroup
		for i, s := range streams {
			both.Go(func() { errs[i] = b.Release(s) })
		}
		both.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("%v and %v, want one of them to fail", errs[0], errs[1])
		}
	}
}

// Any number of batches to read ahead is as many as memory may be pinned for.
func TestPrefetchWithoutEnd(t *testing.T) {
	ld, err := loader.New(open(t, "host:16MiB"), images(30, 2, 2, 1),
		loader.Options{Prefetch: math.MaxInt, Epochs: math.MaxInt, Pin: loader.PinAlways, PinBudget: 1 << 20})
	if pinLimited(err) {
		t.Skip(err)
	}
	testkit.OK(t, err)
	if s := ld.Stats(); s.HostBytes > 1<<20 {
		t.Errorf("%d bytes are pinned", s.HostBytes)
	}
	within(t, "Close", ld.Close)
}

// By default fewer large batches are read ahead than small ones.
func TestDefaultPrefetch(t *testing.T) {
	dev := open(t, "host")
	leavesNothing(t, dev)
	for _, c := range []struct{ sampleBytes, slabs int }{{1 << 10, 5}, {10 << 20, 5}, {40 << 20, 4}, {100 << 20, 3}} {
		if room := sysmem.Available() / 2; room < int64((c.slabs+1)*c.sampleBytes) {
			t.Skipf("%d bytes of memory for %d slabs of %d", room, c.slabs, c.sampleBytes) // there would be fewer
		}
		ds := table(50, dtype.U8, c.sampleBytes)
		ds.before = func(int) { time.Sleep(time.Millisecond) } // most of them are not made
		ld := start(t, dev, ds, loader.Options{Batch: 1, DeviceBuffers: 1, Workers: 1})
		if s := ld.Stats(); s.Slabs != c.slabs {
			t.Errorf("%d slabs of %d bytes, want %d", s.Slabs, c.sampleBytes, c.slabs)
		}
		within(t, "Close", ld.Close)
	}
}
