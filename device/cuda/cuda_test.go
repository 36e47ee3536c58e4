package cuda_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance"
	"github.com/pinion-gpu/pinion/device/cuda"
	"github.com/pinion-gpu/pinion/device/devicetest"
)

// TestConformance runs on a GPU when PINION_DEVICE names one. (TestFake runs
// it on a stand-in for the driver.)
func TestConformance(t *testing.T) {
	if !strings.HasPrefix(os.Getenv("PINION_DEVICE"), "cuda") {
		t.Skip("PINION_DEVICE names no CUDA device")
	}
	conformance.Run(t, devicetest.Open)
}

// TestPeers copies between the first two GPUs when PINION_DEVICE names a CUDA
// device. (TestFakePeers runs it on a stand-in for the driver.)
func TestPeers(t *testing.T) {
	if !strings.HasPrefix(os.Getenv("PINION_DEVICE"), "cuda") {
		t.Skip("PINION_DEVICE names no CUDA device")
	}
	open := func(index int) func(testing.TB) device.Device {
		return func(t testing.TB) device.Device {
			dev, err := cuda.Open(index)
			if err != nil {
				t.Fatal(err)
			}
			return dev
		}
	}
	second, err := cuda.Open(1)
	if errors.Is(err, device.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	t.Logf("access from one to the other: %t", devicetest.As[device.PeerCopier](t, devicetest.Open(t)).PeerAccess(second))
	conformance.RunPeers(t, open(0), open(1))
}
