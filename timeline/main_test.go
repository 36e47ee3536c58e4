package timeline

import (
	"os"
	"testing"

	"github.com/pinion-gpu/pinion/device"
)

// The tests keep a device open, so that what devices share (CUDA's primary context) is
// not made anew for each.
func TestMain(m *testing.M) {
	if name := os.Getenv("PINION_DEVICE"); name != "" {
		if dev, err := device.Open(name); err == nil {
			defer dev.Close()
		}
	}
	m.Run()
}
