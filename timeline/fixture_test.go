package timeline

import (
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// start begins a recording, which ends with the test at the latest.
func start(t testing.TB, o Options) *Recording {
	t.Helper()
	r, err := Start(o)
	testkit.OK(t, err)
	t.Cleanup(r.Stop)
	return r
}

// open opens a device that r records.
func open(t testing.TB, r *Recording) device.Device {
	t.Helper()
	return r.Wrap(devicetest.Open(t))
}
