package replay_test

import (
	"runtime"
	"testing"

	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/vram"
	"github.com/pinion-gpu/pinion/vram/replay"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// A replay on the pool is the same from run to run, whatever else the process
// does.
func TestSame(t *testing.T) {
	if poisons {
		t.Skip("the trace is larger than memory may be")
	}
	events := testkit.Must(trace.Streams(trace.StreamsOptions{Count: 5000, Seed: 3}))(t)
	var first replay.Result
	for run := range 4 {
		dev := testkit.Must(host.Open(12 << 30))(t)
		pool := testkit.Must(replay.NewPool(dev, vram.Options{}))(t)
		r := testkit.Must(replay.Run(t.Context(), sequence(events), pool, replay.Options{Progress: func(int64) {
			if run%2 == 1 {
				runtime.GC()
				runtime.Gosched()
			}
		}}))(t)
		r.AllocP50, r.AllocP99, r.FreeP50, r.Elapsed = 0, 0, 0, 0
		if run == 0 {
			first = r
		} else if r != first {
			t.Errorf("run %d: %+v, the first was %+v", run, r, first)
		}
		testkit.OK(t, pool.Close())
		testkit.OK(t, dev.Close())
	}
}
