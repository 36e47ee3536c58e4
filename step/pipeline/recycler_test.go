package pipeline

import (
	"slices"
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

// What another keeps goes to the device first, when nothing uses it any more, whichever of
// the two has need of it.
func TestRecyclerOther(t *testing.T) {
	dev := testkit.Must(device.Open("host:1MiB"))(t)
	defer dev.Close()
	a, b := newRecycler(dev), newRecycler(dev)
	a.other, b.other = b, a
	waited := 0
	a.idle = func() error {
		waited++
		return a.Free(testkit.Must(a.Alloc(1 << 10))(t)) // as work that goes on meanwhile
	}
	for i, r := range []*recycler{b, a, b} {
		p := testkit.Must(r.Alloc(int64(600+i) << 10))(t)
		testkit.OK(t, r.Free(p))
	}
	if waited != 1 {
		t.Errorf("work was waited for %d times", waited)
	}
	testkit.OK(t, a.Free(testkit.Must(a.Alloc(1<<10))(t)))
	a.idle = nil
	testkit.OK(t, a.Close())
	testkit.OK(t, b.Close())
	if m := testkit.Must(dev.Memory())(t); m.FreeBytes != m.TotalBytes {
		t.Errorf("%d bytes are left on the device", m.TotalBytes-m.FreeBytes)
	}
}

// What is free is given in order, each drawer's for itself.
func TestRecyclerDrawers(t *testing.T) {
	dev := testkit.Must(device.Open("host:1MiB"))(t)
	defer dev.Close()
	r := newRecycler(dev)
	alloc := func() device.Ptr { return testkit.Must(r.Alloc(4096))(t) }
	r.use(drawer{1, 1})
	own := []device.Ptr{alloc(), alloc(), alloc()}
	r.use(drawer{1, 2})
	other := alloc()
	for _, i := range []int{1, 2, 0} {
		testkit.OK(t, r.Free(own[i]))
	}
	if p := alloc(); slices.Contains(own, p) {
		t.Errorf("another drawer gave %#x", uint64(p))
	}
	testkit.OK(t, r.Free(other))
	r.use(drawer{1, 1})
	got := []device.Ptr{alloc(), alloc(), alloc()}
	slices.Sort(own)
	if !slices.Equal(got, own) {
		t.Errorf("%#x, and %#x are free", got, own)
	}
	testkit.OK(t, r.Close())
}
