package devicetest

import (
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// NeedsPinned skips the test where dev can pin memory, but the system does not
// allow the process n bytes of it (ulimit -l).
func NeedsPinned(t testing.TB, dev device.Device, n int64) {
	t.Helper()
	pinner, ok := device.As[device.Pinner](dev)
	if !ok {
		return
	}
	b, err := pagemem.Map(pagemem.RoundUp(n))
	if err != nil {
		t.Fatal(err)
	}
	defer pagemem.Unmap(b)
	switch err := pinner.Pin(b, 0); {
	case errors.Is(err, device.ErrPinLimit):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	if err := pinner.Unpin(b); err != nil {
		t.Fatal(err)
	}
}
