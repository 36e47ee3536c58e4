package loader_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
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
	ok(t, err)
	if len(list) != 4 {
		t.Errorf("%d batches, want 4", len(list))
	}
}

// One device whose only buffer the caller keeps does not stop the others.
func TestUnorderedOneDeviceHeld(t *testing.T) {
	a, b := open(t, "host:16MiB"), open(t, "host:16MiB")
	ld, err := loader.NewOn([]device.Device{a, b}, table(20, dtype.U8, 3),
		loader.Options{Batch: 1, Prefetch: 1, DeviceBuffers: 1, Unordered: true})
	ok(t, err)
	defer ld.Close()
	for {
		x, err := next(t, ld) // stuck after 1, 3 and 5
		if errors.Is(err, loader.ErrHeld) {
			break
		}
		ok(t, err)
		if x.Device == b {
			ok(t, x.Release())
		}
	}
}
