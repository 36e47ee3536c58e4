package host_test

import (
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance"
	"github.com/pinion-gpu/pinion/device/host"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t testing.TB) device.Device {
		dev, err := host.Open(512 << 20)
		if err != nil {
			t.Fatal(err)
		}
		return dev
	})
}
