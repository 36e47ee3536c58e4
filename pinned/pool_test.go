package pinned

import (
	"errors"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/sysmem"
)

const mib = 1 << 20

func address(b *Buffer) uintptr { return uintptr(unsafe.Pointer(&b.Bytes()[0])) }

func TestNewPoolArguments(t *testing.T) {
	dev := newFake()
	for name, c := range map[string]struct {
		dev  device.Device
		o    Options
		want error
	}{
		"no device":        {nil, Options{}, device.ErrArgument},
		"budget":           {dev, Options{Budget: -1}, device.ErrArgument},
		"segment":          {dev, Options{SegmentBytes: -1}, device.ErrArgument},
		"cannot pin":       {plainDevice{dev}, Options{}, device.ErrNotSupported},
		"defaults":         {dev, Options{}, nil},
		"pageable allowed": {plainDevice{dev}, Options{AllowPageable: true}, nil},
		"huge segments":    {dev, Options{SegmentBytes: math.MaxInt64}, nil},
	} {
		p, err := NewPool(c.dev, c.o)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if p != nil {
			if err := p.Close(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestDefaultBudget(t *testing.T) {
	p := newPool(t, newFake(), Options{})
	budget := p.Stats().BudgetBytes
	if budget <= 0 || budget > sysmem.Limit()/4 {
		t.Errorf("budget %d of %d", budget, sysmem.Limit())
	}
}

func TestAllocSizes(t *testing.T) {
	page := pagemem.PageSize()
	dev := newFake()
	p := newPool(t, dev, Options{Budget: 64 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	for _, n := range []int64{0, -1, math.MinInt64} {
		if _, err := p.Alloc(over, n); !errors.Is(err, device.ErrArgument) {
			t.Errorf("Alloc(%d): %v", n, err)
		}
	}
	for _, n := range []int64{math.MaxInt64, math.MaxInt64 - page, 65 * mib} {
		if _, err := p.Alloc(over, n); !errors.Is(err, ErrBudget) {
			t.Errorf("Alloc(%d): %v", n, err)
		}
	}
	reserved := int64(0)
	for _, c := range []struct{ n, active, grows int64 }{
		{1, page, mib},
		{page, page, 0},
		{page + 1, 2 * page, 0},
		{mib / 4, mib / 4, 0},
		{mib/4 + 1, mib/4 + page, mib/4 + page},
		{5*mib - 1, 5 * mib, 5 * mib},
		{mib / 4, mib / 4, 0},
		{mib / 4, mib / 4, 0},
		{mib / 4, mib / 4, mib},
	} {
		before := p.Stats()
		b := mustAlloc(t, p, c.n)
		after := p.Stats()
		if got := after.ReservedBytes - before.ReservedBytes; got != c.grows {
			t.Errorf("Alloc(%d): reserved grew by %d, want %d", c.n, got, c.grows)
		}
		if got := after.ActiveBytes - before.ActiveBytes; got != c.active {
			t.Errorf("Alloc(%d): active grew by %d, want %d", c.n, got, c.active)
		}
		if int64(len(b.Bytes())) != c.n || b.Len() != c.n || int64(cap(b.Bytes())) != c.active || !b.Pinned() {
			t.Errorf("Alloc(%d): len %d, Len %d, cap %d, pinned %t", c.n, len(b.Bytes()), b.Len(), cap(b.Bytes()), b.Pinned())
		}
		if address(b)%uintptr(page) != 0 {
			t.Errorf("Alloc(%d): starts at %#x", c.n, address(b))
		}
		ptr, err := b.Mapped()
		if err != nil || ptr != device.Ptr(address(b))+1<<60 {
			t.Errorf("Alloc(%d): mapped at %#x: %v", c.n, ptr, err)
		}
		reserved += c.grows
		t.Cleanup(func() { mustFree(t, b) })
	}
	if pinned, _ := dev.state(); pinned != reserved {
		t.Errorf("%d bytes pinned, want %d", pinned, reserved)
	}
}

// The smallest block that fits is taken, the lowest of equals, and neighbours
// merge.
func TestBestFit(t *testing.T) {
	page := pagemem.PageSize()
	p := newPool(t, newFake(), Options{Budget: mib, SegmentBytes: 64 * page, ShrinkAfter: -1})
	var b []*Buffer // layout in pages: 4 1 2 1 2 1 4 1 …48
	for _, pages := range []int64{4, 1, 2, 1, 2, 1, 4, 1} {
		b = append(b, mustAlloc(t, p, pages*page))
	}
	base := address(b[0])
	at := func(pages int64) *Buffer {
		t.Helper()
		x := mustAlloc(t, p, pages*page)
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
		return x
	}
	want := func(x *Buffer, offset int64) {
		t.Helper()
		if got := int64(address(x)-base) / page; got != offset {
			t.Errorf("got page %d, want %d", got, offset)
		}
	}
	for _, i := range []int{6, 4, 2, 0} {
		mustFree(t, b[i])
	}
	x2, y2 := at(2), at(2) // the two holes of two, lowest first
	want(x2, 5)
	want(y2, 8)
	x3 := at(3) // the lower hole of four
	want(x3, 0)
	x1 := at(1) // what is left of it
	want(x1, 3)
	x4 := at(4)
	want(x4, 11)
	x5 := at(5) // only the end has five
	want(x5, 16)
	// Freeing both neighbours of a hole makes one of all three.
	mustFree(t, x2)
	mustFree(t, b[1])
	mustFree(t, b[3])
	x4b := at(4) // pages 4 to 7
	want(x4b, 4)
	for _, x := range []*Buffer{y2, x3, x1, x4, x5, x4b, b[5], b[7]} {
		mustFree(t, x)
	}
	if s := p.Stats(); s.Segments != 1 || s.FreeBytes != 64*page || s.ActiveBytes != 0 || s.SegmentAllocs != 1 {
		t.Errorf("%+v", s)
	}
}

// Small and large requests do not take each other's segments while there is
// room for new ones.
func TestClassesStayApart(t *testing.T) {
	p := newPool(t, newFake(), Options{Budget: 5 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	slab := mustAlloc(t, p, 4*mib)
	slabAddress := address(slab)
	mustFree(t, slab)
	small := mustAlloc(t, p, 100)
	if address(small)-slabAddress < 4*mib {
		t.Error("a small buffer in the slab")
	}
	slab = mustAlloc(t, p, 4*mib)
	if address(slab) != slabAddress {
		t.Error("the slab was not reused")
	}
	// The budget is used up now: only borrowing is left.
	large := mustAlloc(t, p, mib/2)
	if address(large)-address(small) > mib {
		t.Error("a large buffer from elsewhere")
	}
	mustFree(t, slab)
	for range 4 {
		defer mustFree(t, mustAlloc(t, p, mib/4))
	}
	if s := p.Stats(); s.ReservedBytes != 5*mib || s.SegmentAllocs != 2 {
		t.Errorf("%+v", s)
	}
	mustFree(t, small)
	mustFree(t, large)
}

func TestBudget(t *testing.T) {
	dev := newFake()
	stream := &fakeStream{dev: dev}
	p := newPool(t, dev, Options{Budget: 8 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	a, b := mustAlloc(t, p, 3*mib), mustAlloc(t, p, 4*mib)
	mustFree(t, a, stream)

	_, err := p.Alloc(over, 2*mib)
	want := "pinned: alloc 2 MiB: pinned memory budget exceeded: budget 8 MiB, reserved 7 MiB " +
		"(active 4 MiB, pending 3 MiB, lost 0 B), largest free block 0 B"
	if !errors.Is(err, ErrBudget) || !strings.HasPrefix(err.Error(), want+"; waiting for what is pending") {
		t.Errorf("%v", err)
	}
	// A shared segment is made as small as what is left.
	small := mustAlloc(t, p, 10)
	defer mustFree(t, small)

	// Pending memory whose work is done is found before failing, and then
	// free segments make room.
	dev.Synchronize()
	c := mustAlloc(t, p, 2*mib) // out of a's
	if s := p.Stats(); s.ReservedBytes != 8*mib || s.PendingBytes != 0 {
		t.Errorf("%+v", s)
	}
	mustFree(t, c)
	mustFree(t, b)
	d := mustAlloc(t, p, 7*mib) // needs both segments back
	if s := p.Stats(); s.ReservedBytes != 8*mib || s.Segments != 2 {
		t.Errorf("%+v", s)
	}
	// What would not make room stays.
	mustFree(t, d)
	if _, err := p.Alloc(over, 7*mib+1); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
	if s := p.Stats(); s.ReservedBytes != 8*mib {
		t.Error("segments were given back in vain")
	}
	if dev.maxPinned > 8*mib {
		t.Errorf("%d bytes were pinned at once", dev.maxPinned)
	}
}

func TestBudgetSmallerThanSegment(t *testing.T) {
	page := pagemem.PageSize()
	p := newPool(t, newFake(), Options{Budget: 3*page + 1, ShrinkAfter: -1})
	var buffers []*Buffer
	for range 3 {
		buffers = append(buffers, mustAlloc(t, p, page))
	}
	if _, err := p.Alloc(over, 1); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
	for _, b := range buffers {
		mustFree(t, b)
	}
}
