package devicetest

import (
	"bytes"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

func testPin(f *fixture) {
	p := f.pinner()
	page := pagemem.PageSize()
	n := 4 * page
	b := f.pinned(n)
	heap := make([]byte, n)
	other := f.pages(2 * page)

	for _, c := range []struct {
		what string
		b    []byte
		want bool
	}{
		{"all", b, true},
		{"a part", b[1 : n-1], true},
		{"the last byte", b[n-1:], true},
		{"the Go heap", heap, false},
		{"other pages", other, false},
	} {
		if got := p.Pinned(c.b); got != c.want {
			f.Errorf("Pinned(%s) = %t", c.what, got)
		}
	}

	f.fails("Pin of nothing", p.Pin(nil, 0), device.ErrArgument)
	f.fails("Pin from inside a page", p.Pin(other[1:page+1], 0), device.ErrArgument)
	f.fails("Pin to inside a page", p.Pin(other[:page+1], 0), device.ErrArgument)
	f.fails("the second Pin", p.Pin(b, 0), nil)
	f.fails("Pin of a part", p.Pin(b[page:2*page], 0), nil)
	f.fails("Unpin of pages not pinned", p.Unpin(other), nil)
	f.fails("Unpin of the Go heap", p.Unpin(heap), nil)
	f.fails("Unpin of a part", p.Unpin(b[page:]), nil)
	f.fails("Unpin of nothing", p.Unpin(nil), nil)
	if !p.Pinned(b) || p.Pinned(other) {
		f.Error("a failed call changed what is pinned")
	}

	s := f.stream()
	mem := f.alloc(n)
	want := unique(n, 1)
	copy(b, want)
	f.ok(s.CopyH2D(mem, b))
	f.ok(s.Synchronize())
	clear(b)
	f.ok(s.CopyD2H(b, mem))
	f.ok(s.Synchronize())
	if !bytes.Equal(b, want) {
		f.Error("copies of pinned memory brought the wrong content")
	}

	f.ok(p.Unpin(b))
	if p.Pinned(b) {
		f.Error("pinned after Unpin")
	}
	f.fails("the second Unpin", p.Unpin(b), nil)
	f.ok(p.Pin(b, device.PinPortable)) // and left to Close
	if !p.Pinned(b) || !bytes.Equal(b, want) {
		f.Error("pinning again: not pinned, or the content changed")
	}
	f.ok(f.dev.Close())
	if !bytes.Equal(b, want) {
		f.Error("Close of the device changed pinned memory")
	}
}

// Mapped memory has an address in the device, for copies too.
func testPinMapped(f *fixture) {
	p := f.pinner()
	if !p.CanMap() {
		f.Skip("the device does not reach pinned memory")
	}
	page := pagemem.PageSize()
	n := 2 * page
	b := f.pinned(n)
	base, err := p.Mapped(b)
	f.ok(err)
	inside, err := p.Mapped(b[page+3:])
	f.ok(err)
	if base == 0 || inside != base.Add(page+3) {
		f.Errorf("mapped at %#x, and %d bytes further at %#x", base, page+3, inside)
	}
	want := unique(n, 1)
	copy(b, want)
	mem := f.alloc(n)
	s := f.stream()
	f.ok(s.CopyD2D(mem, base, n))
	f.ok(s.Synchronize())
	if !bytes.Equal(f.download(mem, n), want) {
		f.Error("a copy from mapped memory brought the wrong content")
	}
	f.ok(s.Memset(mem, 9, n))
	f.ok(s.CopyD2D(base.Add(1), mem, n-1))
	f.ok(s.Synchronize())
	if b[0] != want[0] || !bytes.Equal(b[1:], bytes.Repeat([]byte{9}, int(n-1))) {
		f.Error("a copy to mapped memory brought the wrong content")
	}
	_, err = p.Mapped(make([]byte, n))
	f.fails("Mapped of the Go heap", err, nil)
	f.ok(p.Unpin(b))
	_, err = p.Mapped(b)
	f.fails("Mapped after Unpin", err, nil)
}

func testAllocHost(f *fixture) {
	a, ok := device.As[device.HostAllocator](f.dev)
	if !ok {
		f.Skip("the device's driver allocates no host memory")
	}
	for _, n := range []int64{0, -1} {
		_, err := a.AllocHost(n, 0)
		f.fails("AllocHost of no bytes", err, device.ErrArgument)
	}
	const n = 1<<20 + 1
	for _, flags := range []device.PinFlags{0, device.PinMapped, device.PinPortable | device.PinWriteCombined} {
		b, err := a.AllocHost(n, flags)
		f.ok(err)
		if len(b) != n {
			f.Fatalf("%d bytes, asked for %d", len(b), n)
		}
		if p, ok := device.As[device.Pinner](f.dev); ok && !p.Pinned(b) {
			f.Error("host memory of the driver does not count as pinned")
		}
		want := unique(n, byte(flags))
		copy(b, want)
		mem := f.alloc(n)
		s := f.stream()
		f.ok(s.CopyH2D(mem, b))
		f.ok(s.Synchronize())
		if !bytes.Equal(f.download(mem, n), want) {
			f.Errorf("flags %b: wrong content", flags)
		}
		f.fails("FreeHost of a part", a.FreeHost(b[4096:]), nil)
		f.ok(a.FreeHost(b))
		f.fails("the second FreeHost", a.FreeHost(b), nil)
	}
	f.fails("FreeHost of the Go heap", a.FreeHost(make([]byte, n)), nil)
	f.fails("FreeHost of nothing", a.FreeHost(nil), nil)
	_, err := a.AllocHost(64, 0) // left to Close
	f.ok(err)
}
