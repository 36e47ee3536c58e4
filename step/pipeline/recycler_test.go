package pipeline

import (
	"testing"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// Memory comes back in its size, and goes to the device when that has nothing left.
func TestRecycler(t *testing.T) {
	dev := testkit.Must(device.Open("host:1MiB"))(t)
	defer dev.Close()
	r := newRecycler(dev)
	p := testkit.Must(r.Alloc(600 << 10))(t)
	testkit.OK(t, r.Free(p))
	if q := testkit.Must(r.Alloc(600 << 10))(t); q != p {
		t.Errorf("%#x instead of %#x", uint64(q), uint64(p))
	}
	testkit.OK(t, r.Free(p))
	large := testkit.Must(r.Alloc(800 << 10))(t)
	testkit.WantError(t, "freed", r.Free(p), device.ErrPointer)
	_, err := r.Alloc(700 << 10)
	testkit.WantError(t, "full", err, device.ErrOutOfMemory)
	testkit.OK(t, r.Free(large))
	testkit.OK(t, r.Close())
	if m := testkit.Must(dev.Memory())(t); m.FreeBytes != m.TotalBytes {
		t.Errorf("%d bytes are left on the device", m.TotalBytes-m.FreeBytes)
	}
}
