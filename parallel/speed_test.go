package parallel_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local"
)

func TestSpeed(t *testing.T) {
	s := parallel.Speed{Latency: time.Millisecond, Bus: 1e9}
	for _, c := range []struct {
		got, want time.Duration
	}{
		{s.AllReduce(1e9, 2), time.Second + time.Millisecond},
		{s.AllReduce(1e9, 4), 1500*time.Millisecond + time.Millisecond},
		{s.AllGather(1e9, 2), 500*time.Millisecond + time.Millisecond},
		{s.AllGather(1e9, 1), 0},
		{s.AllReduce(0, 8), 0},
		{parallel.Speed{}.AllReduce(1e9, 8), 0},
		{parallel.Speed{Latency: time.Second}.AllReduce(1e9, 8), time.Second},
	} {
		if c.got != c.want {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
}

// All ranks have measured the same, and give back what they took.
func TestMeasureSpeed(t *testing.T) {
	testkit.NoLeaks(t)
	for _, n := range []int{1, 3} {
		var devices []device.Device
		for range n {
			dev := testkit.Must(device.Open("host"))(t)
			defer func() { testkit.OK(t, dev.Close()) }()
			devices = append(devices, dev)
		}
		comms := testkit.Must(local.New(devices...))(t)
		speeds := make([]parallel.Speed, n)
		var all sync.WaitGroup
		for i, c := range comms {
			all.Go(func() {
				var err error
				speeds[i], err = parallel.MeasureSpeed(context.Background(), c)
				testkit.OK(t, err)
			})
		}
		all.Wait()
		for i, s := range speeds {
			if s != speeds[0] || n > 1 != (s.Latency > 0) || n > 1 != (s.Bus > 0) {
				t.Errorf("rank %d of %d: %+v, the first %+v", i, n, s, speeds[0])
			}
		}
		for _, c := range comms {
			testkit.OK(t, c.Close())
		}
	}
}
