package cudnn_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
)

// Where the library is not installed, that is what is said. A process of its own finds none.
func TestMissing(t *testing.T) {
	if standIns.Missing != "" {
		t.Skip(standIns.Missing)
	}
	const inChild = "CUDNN_TEST_MISSING"
	if os.Getenv(inChild) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMissing$", "-test.v")
		cmd.Env = append(os.Environ(), inChild+"=1", "PINION_LIB_CUDNN=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dev := devicetest.Open(t)
	if _, ok := device.As[device.Launcher](dev); !ok {
		t.Skip("the device is not one that the library is for")
	}
	_, err := cudnn.Open(dev)
	testkit.WantError(t, "no library", err, device.ErrNotSupported, "cudnn: ", "no cuDNN library")
}
