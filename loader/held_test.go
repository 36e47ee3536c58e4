package loader_test

import (
	"errors"
	"io"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// Where the batches that are left of an epoch are those of a device whose buffers
// the caller holds, Next says so: what other devices have is of the next epoch.
func TestHeldBySeveralDevices(t *testing.T) {
	a, b := open(t, "host:64MiB"), open(t, "host:64MiB")
	ds := table(6, dtype.U8, 3)
	ld, err := loader.NewOn([]device.Device{a, b}, ds, loader.Options{Batch: 2, DeviceBuffers: 1, Epochs: 2, Unordered: true})
	testkit.OK(t, err)
	defer ld.Close()
	for {
		x, err := next(t, ld)
		if errors.Is(err, loader.ErrHeld) {
			break
		}
		testkit.OK(t, err)
		if x.Device == b {
			testkit.OK(t, x.Release())
		}
	}
}

// Who holds every buffer after the last batch sees the end.
func TestHeldAtTheEnd(t *testing.T) {
	dev := devicetest.Open(t)
	for range 300 {
		ld := start(t, dev, table(6, dtype.U8, 3), loader.Options{Batch: 2, DeviceBuffers: 3})
		for range 3 {
			_, err := next(t, ld)
			testkit.OK(t, err)
		}
		if _, err := next(t, ld); err != io.EOF {
			t.Fatalf("%v, want the end", err)
		}
		within(t, "Close", ld.Close)
	}
}

// one though another device may not.
func TestGrowsWhereItMay(t *testing.T) {
	a, b := open(t, "host:64MiB"), open(t, "host:64MiB")
	ld, err := loader.NewOn([]device.Device{a, b}, table(40, dtype.U8, 3),
		loader.Options{Batch: 2, DeviceBuffers: 1, MaxDeviceBuffers: 3, Unordered: true})
	testkit.OK(t, err)
	defer ld.Close()
	n := 0
	for ; ; n++ {
		_, err := next(t, ld)
		if errors.Is(err, loader.ErrHeld) {
			break
		}
		testkit.OK(t, err)
	}
	if n != 6 {
		t.Errorf("%d batches before ErrHeld, want 6", n)
	}
}
