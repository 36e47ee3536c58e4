package loader_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// Batches of an epoch that were read before the last ones of the epoch before it
// are not lost, though nothing comes behind them.
func TestUnorderedNextEpochIsReadFirst(t *testing.T) {
	dev := devicetest.Open(t)
	ds := table(4, dtype.U8, 3)
	var mu sync.Mutex
	seen := map[int]int{}
	second := make(chan struct{})
	later := 0
	ds.before = func(i int) {
		mu.Lock()
		seen[i]++
		first := seen[i] == 1
		if !first {
			if later++; later == 4 {
				close(second)
			}
		}
		mu.Unlock()
		if first {
			<-second
			time.Sleep(20 * time.Millisecond)
			return
		}
		time.Sleep(time.Millisecond) // so that nobody takes two at a time: one may have to wait for the other
	}
	list, err := run(t, dev, ds, loader.Options{Batch: 2, Workers: 8, Epochs: 2, Unordered: true})
	testkit.OK(t, err)
	if len(list) != 4 {
		t.Errorf("%d batches, want 4", len(list))
	}
}

// One device whose only buffer the caller keeps does not stop the others.
func TestUnorderedOneDeviceHeld(t *testing.T) {
	a, b := open(t, "host:16MiB"), open(t, "host:16MiB")
	ld, err := loader.NewOn([]device.Device{a, b}, table(20, dtype.U8, 3),
		loader.Options{Batch: 1, Prefetch: 1, DeviceBuffers: 1, Unordered: true})
	testkit.OK(t, err)
	defer ld.Close()
	for {
		x, err := next(t, ld) // stuck after 1, 3 and 5
		if errors.Is(err, loader.ErrHeld) {
			break
		}
		testkit.OK(t, err)
		if x.Device == b {
			testkit.OK(t, x.Release())
		}
	}
}

// Of several ranks each is elsewhere in an epoch, so one's state is for no other;
// at the end of an epoch, and of one rank, it is for all.
func TestUnorderedStateOfRanks(t *testing.T) {
	dev := devicetest.Open(t)
	options := func(rank, world int, s *loader.State) loader.Options {
		return loader.Options{Batch: 4 / world, Workers: 4, Rank: rank, World: world, Epochs: 2, Unordered: true, Resume: s}
	}
	ds := table(16, dtype.U8, 3)
	after := func(rank, world, batches int) loader.State {
		ld := start(t, dev, ds, options(rank, world, nil))
		for range batches {
			b, err := next(t, ld)
			testkit.OK(t, err)
			testkit.OK(t, b.Release())
		}
		return ld.State()
	}
	middle := after(1, 2, 2)
	refuses(t, dev, ds, options(0, 2, &middle), loader.ErrState, "1 of 2 in the state, 0 of 2 now")
	refuses(t, dev, ds, options(0, 1, &middle), loader.ErrState, "1 of 2 in the state, 0 of 1 now")
	end, alone := after(1, 2, 4), after(0, 1, 2)
	for what, c := range map[string]struct {
		options loader.Options
		left    int
	}{
		"its own":              {options(1, 2, &middle), 6},
		"another's, at an end": {options(0, 2, &end), 4},
		"of two, at an end":    {options(0, 1, &end), 4},
		"of one":               {options(1, 2, &alone), 6},
	} {
		list, err := run(t, dev, ds, c.options)
		if testkit.OK(t, err); len(list) != c.left {
			t.Errorf("%s: %d batches are left, want %d", what, len(list), c.left)
		}
	}
}
