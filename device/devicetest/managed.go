package devicetest

import (
	"bytes"

	"github.com/pinion-gpu/pinion/device"
)

// Managed memory is the same from both sides, and counts as device memory.
func testManaged(f *fixture) {
	m, ok := device.As[device.Manager](f.dev)
	if !ok || !m.CanManage() {
		f.Skip("the device has no managed memory")
	}
	for _, n := range []int64{0, -1} {
		_, _, err := m.AllocManaged(n)
		f.fails("AllocManaged of no bytes", err, device.ErrArgument)
	}
	const n = 1<<20 + 1
	p, b, err := m.AllocManaged(n)
	f.ok(err)
	if len(b) != n || p == 0 {
		f.Fatalf("%d bytes at %#x, asked for %d", len(b), p, n)
	}
	s := f.stream()
	mem := f.alloc(n)
	want := unique(n, 1)
	copy(b, want)
	f.ok(m.Prefetch(s, p, n, false))
	f.ok(s.CopyD2D(mem, p, n))
	f.ok(s.Memset(p, 5, n-1))
	f.ok(m.Prefetch(s, p, n, true))
	f.ok(s.Synchronize())
	if !bytes.Equal(f.download(mem, n), want) {
		f.Error("the device did not see what the host wrote")
	}
	if !bytes.Equal(b[:n-1], bytes.Repeat([]byte{5}, n-1)) || b[n-1] != want[n-1] {
		f.Error("the host does not see what the device wrote")
	}
	f.fails("Prefetch of nowhere", m.Prefetch(s, 0, n, false), device.ErrPointer)
	f.fails("Prefetch on no stream", m.Prefetch(nil, p, n, false), device.ErrArgument)
	f.fails("Free of an interior address", f.dev.Free(p.Add(256)), device.ErrPointer)
	f.ok(f.dev.Free(p))
	f.fails("the second Free", f.dev.Free(p), device.ErrPointer)
	_, _, err = m.AllocManaged(4096) // left to Close
	f.ok(err)
}
