package memory

import (
	"bytes"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

func testPin(f *fixture.F) {
	p := f.Pinner()
	page := pagemem.PageSize()
	n := 4 * page
	b := f.Pinned(n)
	heap := make([]byte, n)
	other := f.Pages(2 * page)

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

	f.Fails("Pin of nothing", p.Pin(nil, 0), device.ErrArgument)
	f.Fails("Pin from inside a page", p.Pin(other[1:page+1], 0), device.ErrArgument)
	f.Fails("Pin to inside a page", p.Pin(other[:page+1], 0), device.ErrArgument)
	f.Fails("the second Pin", p.Pin(b, 0), nil)
	f.Fails("Pin of a part", p.Pin(b[page:2*page], 0), nil)
	f.Fails("Unpin of pages not pinned", p.Unpin(other), nil)
	f.Fails("Unpin of the Go heap", p.Unpin(heap), nil)
	f.Fails("Unpin of a part", p.Unpin(b[page:]), nil)
	f.Fails("Unpin of nothing", p.Unpin(nil), nil)
	if !p.Pinned(b) || p.Pinned(other) {
		f.Error("a failed call changed what is pinned")
	}

	s := f.Stream()
	mem := f.Alloc(n)
	want := fixture.Unique(n, 1)
	copy(b, want)
	f.OK(s.CopyH2D(mem, b))
	f.OK(s.Synchronize())
	clear(b)
	f.OK(s.CopyD2H(b, mem))
	f.OK(s.Synchronize())
	if !bytes.Equal(b, want) {
		f.Error("copies of pinned memory brought the wrong content")
	}

	f.OK(p.Unpin(b))
	if p.Pinned(b) {
		f.Error("pinned after Unpin")
	}
	f.Fails("the second Unpin", p.Unpin(b), nil)
	f.OK(p.Pin(b, device.PinPortable)) // and left to Close
	if !p.Pinned(b) || !bytes.Equal(b, want) {
		f.Error("pinning again: not pinned, or the content changed")
	}
	f.OK(f.Dev.Close())
	if !bytes.Equal(b, want) {
		f.Error("Close of the device changed pinned memory")
	}
}

// Mapped memory has an address in the device, for copies too.
func testPinMapped(f *fixture.F) {
	p := f.Pinner()
	if !p.CanMap() {
		f.Skip("the device does not reach pinned memory")
	}
	page := pagemem.PageSize()
	n := 2 * page
	b := f.Pinned(n)
	base, err := p.Mapped(b)
	f.OK(err)
	inside, err := p.Mapped(b[page+3:])
	f.OK(err)
	if base == 0 || inside != base.Add(page+3) {
		f.Errorf("mapped at %#x, and %d bytes further at %#x", base, page+3, inside)
	}
	want := fixture.Unique(n, 1)
	copy(b, want)
	mem := f.Alloc(n)
	s := f.Stream()
	f.OK(s.CopyD2D(mem, base, n))
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(mem, n), want) {
		f.Error("a copy from mapped memory brought the wrong content")
	}
	f.OK(s.Memset(mem, 9, n))
	f.OK(s.CopyD2D(base.Add(1), mem, n-1))
	f.OK(s.Synchronize())
	if b[0] != want[0] || !bytes.Equal(b[1:], bytes.Repeat([]byte{9}, int(n-1))) {
		f.Error("a copy to mapped memory brought the wrong content")
	}
	_, err = p.Mapped(make([]byte, n))
	f.Fails("Mapped of the Go heap", err, nil)
	f.OK(p.Unpin(b))
	_, err = p.Mapped(b)
	f.Fails("Mapped after Unpin", err, nil)
}

func testAllocHost(f *fixture.F) {
	a, ok := device.As[device.HostAllocator](f.Dev)
	if !ok {
		f.Skip("the device's driver allocates no host memory")
	}
	for _, n := range []int64{0, -1} {
		_, err := a.AllocHost(n, 0)
		f.Fails("AllocHost of no bytes", err, device.ErrArgument)
	}
	const n = 1<<20 + 1
	for _, flags := range []device.PinFlags{0, device.PinMapped, device.PinPortable | device.PinWriteCombined} {
		b, err := a.AllocHost(n, flags)
		f.OK(err)
		if len(b) != n {
			f.Fatalf("%d bytes, asked for %d", len(b), n)
		}
		if p, ok := device.As[device.Pinner](f.Dev); ok && !p.Pinned(b) {
			f.Error("host memory of the driver does not count as pinned")
		}
		want := fixture.Unique(n, byte(flags))
		copy(b, want)
		mem := f.Alloc(n)
		s := f.Stream()
		f.OK(s.CopyH2D(mem, b))
		f.OK(s.Synchronize())
		if !bytes.Equal(f.Download(mem, n), want) {
			f.Errorf("flags %b: wrong content", flags)
		}
		f.Fails("FreeHost of a part", a.FreeHost(b[4096:]), nil)
		f.OK(a.FreeHost(b))
		f.Fails("the second FreeHost", a.FreeHost(b), nil)
	}
	f.Fails("FreeHost of the Go heap", a.FreeHost(make([]byte, n)), nil)
	f.Fails("FreeHost of nothing", a.FreeHost(nil), nil)
	_, err := a.AllocHost(64, 0) // left to Close
	f.OK(err)
}
