package memory

import (
	"bytes"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// Managed memory is the same from both sides, and counts as device memory.
func testManaged(f *fixture.F) {
	m, ok := device.As[device.Manager](f.Dev)
	if !ok || !m.CanManage() {
		f.Skip("the device has no managed memory")
	}
	for _, n := range []int64{0, -1} {
		_, _, err := m.AllocManaged(n)
		f.Fails("AllocManaged of no bytes", err, device.ErrArgument)
	}
	const n = 1<<20 + 1
	p, b, err := m.AllocManaged(n)
	f.OK(err)
	if len(b) != n || p == 0 {
		f.Fatalf("%d bytes at %#x, asked for %d", len(b), p, n)
	}
	s := f.Stream()
	mem := f.Alloc(n)
	want := fixture.Unique(n, 1)
	copy(b, want)
	f.OK(m.Prefetch(s, p, n, false))
	f.OK(s.CopyD2D(mem, p, n))
	f.OK(s.Memset(p, 5, n-1))
	f.OK(m.Prefetch(s, p, n, true))
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(mem, n), want) {
		f.Error("the device did not see what the host wrote")
	}
	if !bytes.Equal(b[:n-1], bytes.Repeat([]byte{5}, n-1)) || b[n-1] != want[n-1] {
		f.Error("the host does not see what the device wrote")
	}
	f.Fails("Prefetch of nowhere", m.Prefetch(s, 0, n, false), device.ErrPointer)
	f.Fails("Prefetch on no stream", m.Prefetch(nil, p, n, false), device.ErrArgument)
	f.Fails("Free of an interior address", f.Dev.Free(p.Add(256)), device.ErrPointer)
	f.OK(f.Dev.Free(p))
	f.Fails("the second Free", f.Dev.Free(p), device.ErrPointer)
	_, _, err = m.AllocManaged(4096) // left to Close
	f.OK(err)
}
