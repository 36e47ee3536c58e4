package pinned

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

func TestPinLimit(t *testing.T) {
	dev := newFake()
	dev.pinLimit = 4 * mib
	p := newPool(t, dev, Options{Budget: 100 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	a := mustAlloc(t, p, 3*mib)
	_, err := p.Alloc(over, 2*mib)
	if !errors.Is(err, device.ErrPinLimit) {
		t.Fatal(err)
	}
	for _, part := range []string{"pin 2 MiB", "fake limit", "pinned by this pool 3 MiB", "budget 100 MiB"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	if err := p.check(); err != nil {
		t.Error(err)
	}
	// Below the system's limit, free segments make room as well.
	mustFree(t, a)
	b := mustAlloc(t, p, 4*mib)
	mustFree(t, b)
	c := mustAlloc(t, p, 10) // borrowed: a shared segment could not be pinned
	if s := p.Stats(); s.ReservedBytes != 4*mib || s.PageableBytes != 0 {
		t.Errorf("%+v", s)
	}
	mustFree(t, c)
}

// A segment that cannot be pinned is unmapped.
func TestPinFailureLeaksNothing(t *testing.T) {
	addressSpace := func() int64 {
		statm, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Skip(err)
		}
		pages, err := strconv.ParseInt(strings.Fields(string(statm))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return pages * pagemem.PageSize()
	}
	dev := newFake()
	dev.pinLimit = 1
	p := newPool(t, dev, Options{Budget: 100 * mib})
	before := addressSpace()
	for range 64 {
		if _, err := p.Alloc(over, 4*mib); !errors.Is(err, device.ErrPinLimit) {
			t.Fatal(err)
		}
	}
	if grown := addressSpace() - before; grown > 160*mib {
		t.Errorf("%d bytes left behind", grown)
	}
}

func TestAllowPageable(t *testing.T) {
	dev := newFake()
	dev.pinLimit = mib
	p := newPool(t, dev, Options{Budget: 100 * mib, SegmentBytes: mib, AllowPageable: true, ShrinkAfter: -1})
	a, b := mustAlloc(t, p, 10), mustAlloc(t, p, 2*mib)
	if !a.Pinned() || b.Pinned() {
		t.Errorf("pinned %t, %t", a.Pinned(), b.Pinned())
	}
	b.Bytes()[0] = 1
	if _, err := b.Mapped(); !errors.Is(err, device.ErrNotSupported) {
		t.Error(err)
	}
	s := p.Stats()
	if s.PageableBytes != 2*mib || s.ReservedBytes != 3*mib || !strings.Contains(s.PageableReason, "fake limit") {
		t.Errorf("%+v", s)
	}
	mustFree(t, a)
	mustFree(t, b)
	if freed, err := p.Trim(); freed != 3*mib || err != nil {
		t.Errorf("%d, %v", freed, err)
	}
	if s := p.Stats(); s.PageableBytes != 0 || s.ReservedBytes != 0 || s.PeakReservedBytes != 3*mib {
		t.Errorf("%+v", s)
	}
}

func TestPageableDevice(t *testing.T) {
	p, err := NewPool(plainDevice{newFake()}, Options{Budget: mib, SegmentBytes: mib, AllowPageable: true})
	if err != nil {
		t.Fatal(err)
	}
	b := mustAlloc(t, p, 10)
	if b.Pinned() || !strings.Contains(p.Stats().PageableReason, "fake:0 cannot pin") {
		t.Errorf("%t %+v", b.Pinned(), p.Stats())
	}
	mustFree(t, b)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestWriteCombined(t *testing.T) {
	dev := &writeCombining{fakeDevice: newFake(), made: map[*byte]int64{}}
	p, err := NewPool(dev, Options{Budget: 4 * mib, SegmentBytes: mib, Flags: device.PinWriteCombined | device.PinMapped, AllowPageable: true})
	if err != nil {
		t.Fatal(err)
	}
	a := mustAlloc(t, p, 10)
	if len(dev.made) != 1 || dev.flags != device.PinWriteCombined|device.PinMapped || !a.Pinned() {
		t.Errorf("%d made with %b", len(dev.made), dev.flags)
	}
	if _, err := a.Mapped(); err != nil {
		t.Error(err)
	}
	dev.allocErr = device.ErrPinLimit
	b := mustAlloc(t, p, 2*mib)
	if b.Pinned() {
		t.Error("pinned without the driver")
	}
	mustFree(t, a)
	mustFree(t, b)
	if err := p.Close(); err != nil || len(dev.made) != 0 {
		t.Errorf("%v, %d left", err, len(dev.made))
	}

	// Without a HostAllocator it is a hint, which Pin never sees.
	q := newPool(t, newFake(), Options{Budget: mib, SegmentBytes: mib, Flags: device.PinWriteCombined})
	mustFree(t, mustAlloc(t, q, 10))
}
