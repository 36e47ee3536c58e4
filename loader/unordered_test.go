package loader_test

import (
	"sync"
	"testing"
	"time"

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
		}
	}
	list, err := run(t, dev, ds, loader.Options{Batch: 2, Workers: 8, Epochs: 2, Unordered: true})
	ok(t, err)
	if len(list) != 4 {
		t.Errorf("%d batches, want 4", len(list))
	}
}
