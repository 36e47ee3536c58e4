package cublaslt

import (
	"errors"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/blas/blastest"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestConformance(t *testing.T) {
	dev := devicetest.Open(t)
	if n, ok := device.As[device.Native](dev); !ok || n.API() != device.CUDA {
		t.Skip("not a CUDA device")
	}
	if _, err := library(); err != nil {
		t.Skip(err)
	}
	blastest.Run(t, dev, Open)
}

// TestOpenOnOther: what is missing is said.
func TestOpenOnOther(t *testing.T) {
	dev, err := host.Open(1 << 20)
	testkit.OK(t, err)
	defer dev.Close()
	if _, err := Open(dev); !errors.Is(err, device.ErrNotSupported) || !strings.Contains(err.Error(), "is not a CUDA device") {
		t.Error(err)
	}
}

func TestError(t *testing.T) {
	for status, kind := range map[int]error{statusAllocFailed: device.ErrOutOfMemory, statusInvalidValue: device.ErrArgument,
		statusArchMismatch: device.ErrNotSupported, statusNotSupported: device.ErrNotSupported} {
		if err := check("call", uintptr(status)); !errors.Is(err, kind) || errors.Is(err, device.ErrClosed) {
			t.Errorf("%v is no %v", err, kind)
		}
	}
	if err := check("cublasLtMatmul", 15); err.Error() != "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED (15)" {
		t.Error(err)
	}
	if err := check("x", 99); err.Error() != "x: unknown status (99)" {
		t.Error(err)
	}
	if check("x", 0) != nil {
		t.Error("success is an error")
	}
}

func TestVersionText(t *testing.T) {
	if got := versionText(130002); got != "13.0.2" {
		t.Error(got)
	}
}

func TestAlignment(t *testing.T) {
	for p, want := range map[device.Ptr]uint32{4: 4, 6: 2, 512: 256, 256: 256, 384: 128} {
		if got := alignment(p); got != want {
			t.Errorf("%d: %d, want %d", p, got, want)
		}
	}
}
