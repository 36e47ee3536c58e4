package nvjpeg

import (
	"os"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// standIns take the place of the driver and of nvJPEG, unless PINION_DEVICE
// names a device.
var standIns = testkit.StandIns{Libraries: []string{"nvjpeg"},
	Sources: []string{"testdata/fakenvjpeg/fakenvjpeg.c", "../../device/cuda/testdata/fakecuda/fakecuda.c"}}

func TestMain(m *testing.M) { os.Exit(standIns.Run(m)) }

// openDevice opens the device and closes it when the test ends.
func openDevice(t testing.TB) device.Device {
	t.Helper()
	if standIns.Missing != "" {
		t.Skip(standIns.Missing)
	}
	return devicetest.Open(t)
}

// openDecoder opens a decoder on a device and closes both when the test ends.
func openDecoder(t testing.TB, options Options) (device.Device, *Decoder) {
	t.Helper()
	dev := openDevice(t)
	d, err := Open(dev, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return dev, d
}
