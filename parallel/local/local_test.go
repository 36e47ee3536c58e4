package local_test

import (
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/conformance"
	"github.com/pinion-gpu/pinion/parallel/local"
)

func open(t testing.TB, size int) []parallel.Comm {
	testkit.NoLeaks(t)
	var devices []device.Device
	for i := range size {
		if i > 0 && i%2 == 0 {
			devices = append(devices, devices[0]) // two ranks of one device
			continue
		}
		dev, err := device.Open("host")
		testkit.OK(t, err)
		t.Cleanup(func() { testkit.OK(t, dev.Close()) })
		devices = append(devices, dev)
	}
	comms, err := local.New(devices...)
	testkit.OK(t, err)
	return comms
}

func TestConformance(t *testing.T) { conformance.Run(t, open) }

// Ranks that make other calls than the rest are told so, all of them.
func TestMismatch(t *testing.T) {
	comms := open(t, 2)
	var streams []device.Stream
	for i, c := range comms {
		s, err := c.Device().NewStream()
		testkit.OK(t, err)
		defer s.Close()
		p, err := c.Device().Alloc(64)
		testkit.OK(t, err)
		testkit.OK(t, c.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Recv: p, Send: p, N: int64(8 + i)}))
		streams = append(streams, s)
	}
	for _, s := range streams {
		if err := s.Synchronize(); !errors.Is(err, parallel.ErrMismatch) {
			t.Error(err)
		} else {
			testkit.WantError(t, "sizes", err, parallel.ErrMismatch, "rank 0 makes all-reduce of 32 B of f32, sum, rank 1 makes all-reduce of 36 B")
		}
	}
}

func TestNew(t *testing.T) {
	_, err := local.New()
	testkit.WantError(t, "no ranks", err, parallel.ErrArgument)
}
