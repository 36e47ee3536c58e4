package cuda_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
)

// TestConformance runs on a GPU when PINION_DEVICE names one. (TestFake runs
// it on a stand-in for the driver.)
func TestConformance(t *testing.T) {
	if !strings.HasPrefix(os.Getenv("PINION_DEVICE"), "cuda") {
		t.Skip("PINION_DEVICE names no CUDA device")
	}
	devicetest.Run(t, devicetest.Open)
}
