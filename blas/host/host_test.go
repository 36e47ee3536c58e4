package host

import (
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/blastest"
	"github.com/pinion-gpu/pinion/device"
	devhost "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func open(t *testing.T) device.Device {
	t.Helper()
	dev, err := devhost.Open(1 << 30)
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, dev.Close()) })
	return dev
}

func TestGo(t *testing.T) {
	blastest.Run(t, open(t), func(dev device.Device) (blas.BLAS, error) {
		b, err := Open(dev)
		if err == nil {
			b.(*multiplier).openBLAS = false
		}
		return b, err
	})
}

// TestOpenBLAS runs on the library that is installed, or on a stand-in with its
// interface.
func TestOpenBLAS(t *testing.T) {
	if _, err := library(); err != nil {
		standIn(t)
	}
	blastest.Run(t, open(t), func(dev device.Device) (blas.BLAS, error) {
		b, err := Open(dev)
		if err == nil {
			b.(*multiplier).openBLAS = true
		}
		return b, err
	})
}

func standIn(t *testing.T) {
	file := testkit.Library(t, "libopenblas.so", "testdata/sgemm.c")
	t.Setenv("PINION_LIB_OPENBLAS", file)
	if _, err := dl.Open(dl.Library{Name: "openblas", Files: []string{file},
		Symbols: []dl.Symbol{{Name: "sgemm_", Func: &sgemm}}}); err != nil {
		t.Fatal(err)
	}
}

func TestOpenOnOther(t *testing.T) {
	_, err := Open(struct{ device.Device }{open(t)}) // hides every ability
	if !errors.Is(err, device.ErrNotSupported) {
		t.Error(err)
	}
}
