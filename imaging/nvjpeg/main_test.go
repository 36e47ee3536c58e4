package nvjpeg

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
)

// noDevice says why there is no device to test on.
var noDevice string

// onGPU: the tests run on a GPU with the real library, and not on stand-ins.
var onGPU = os.Getenv("PINION_DEVICE") != ""

// fake is the file of the stand-ins.
var fake string

// TestMain puts stand-ins in the place of the driver and of nvJPEG, unless
// PINION_DEVICE names a CUDA device.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if onGPU {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "nvjpeg")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	fake = filepath.Join(dir, "libfake.so")
	text, err := exec.Command("cc", "-shared", "-fPIC", "-pthread", "-O1", "-Wall", "-Werror", "-o", fake,
		"testdata/fakenvjpeg/fakenvjpeg.c", "../../device/cuda/testdata/fakecuda/fakecuda.c").CombinedOutput()
	if err != nil {
		noDevice = fmt.Sprintf("the stand-ins for CUDA and nvJPEG are for Linux with a C compiler: %v\n%s", err, text)
	}
	for name, value := range map[string]string{"PINION_DEVICE": "cuda:0", "PINION_LIB_CUDA": fake,
		"PINION_LIB_NVJPEG": fake, "PINION_LIB_NVML": "off"} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// openDevice opens the device and closes it when the test ends.
func openDevice(t testing.TB) device.Device {
	t.Helper()
	if noDevice != "" {
		t.Skip(noDevice)
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
