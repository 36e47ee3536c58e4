package tune

import (
	"context"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
)

// ProbePool makes a [Probe] of a step that allocates from a pool: the most of the
// pool's memory that was in use meanwhile, and what the device had in use beside
// the pool before. What a pool keeps for the next allocations does not count. The
// pool's peaks start anew with each probe.
func ProbePool(pool *vram.Pool, dev device.Device, step func(ctx context.Context, n int) error) Probe {
	return func(ctx context.Context, n int) (int64, error) {
		memory, err := dev.Memory()
		if err != nil {
			return 0, err
		}
		beside := max(memory.TotalBytes-memory.FreeBytes-pool.Stats().Reserved.Current, 0)
		pool.ResetPeaks()
		if err := step(ctx, n); err != nil {
			return 0, err
		}
		return beside + pool.Stats().Active.Peak, nil
	}
}

// ProbeDevice makes a [Probe] of any step: it looks at the device's free memory
// every millisecond while the step runs, and once when it is done. What comes
// and goes in between is not seen; a step that keeps its memory until the next
// one, as most allocators do, is seen as it is.
func ProbeDevice(dev device.Device, step func(ctx context.Context, n int) error) Probe {
	return func(ctx context.Context, n int) (int64, error) {
		stop := make(chan struct{})
		most := make(chan reading, 1)
		go func() { most <- watch(dev, stop) }()
		err := func() error {
			defer close(stop) // also where the step panics
			return step(ctx, n)
		}()
		seen := <-most
		if err != nil {
			return 0, err
		}
		return seen.bytes, seen.err
	}
}

// reading is the most memory that was in use.
type reading struct {
	bytes int64
	err   error
}

// watch looks at the device's memory until stop is closed, and then once more.
func watch(dev device.Device, stop <-chan struct{}) (r reading) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for last := false; ; {
		memory, err := dev.Memory()
		if err != nil {
			return reading{0, fmt.Errorf("the device's memory: %w", err)}
		}
		r.bytes = max(r.bytes, memory.TotalBytes-memory.FreeBytes)
		if last {
			return r
		}
		select {
		case <-stop:
			last = true
		case <-tick.C:
		}
	}
}
