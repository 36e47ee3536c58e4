package pinned

import (
	"errors"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
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

// A slow pin keeps nobody waiting who can be served, and those who want the
// same kind of segment share it.
func TestPinDoesNotBlock(t *testing.T) {
	dev := newGated()
	p, err := NewPool(dev, Options{Budget: 64 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	dev.open.Store(true)
	warm := mustAlloc(t, p, 2*mib)
	mustFree(t, warm)
	dev.open.Store(false)

	var group sync.WaitGroup
	results := make(chan *Buffer, 8)
	for range 8 {
		group.Go(func() {
			b, err := p.Alloc(ctx, 1000)
			if err != nil {
				t.Error(err)
				return
			}
			results <- b
		})
	}
	<-dev.entered
	for range 100 { // hits, while the shared segment is being pinned
		mustFree(t, mustAlloc(t, p, 2*mib))
	}
	if s := p.Stats(); s.SegmentAllocs != 1 {
		t.Errorf("%d segments", s.SegmentAllocs)
	}
	close(dev.gate)
	group.Wait()
	close(results)
	for b := range results {
		mustFree(t, b)
	}
	if s := p.Stats(); s.SegmentAllocs != 2 || s.ReservedBytes != 3*mib {
		t.Errorf("%+v", s)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// Segments that are being made count against the budget already.
func TestBudgetCountsSegmentsBeingMade(t *testing.T) {
	dev := newGated()
	p, err := NewPool(dev, Options{Budget: 4 * mib, SegmentBytes: mib})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		b, err := p.Alloc(ctx, 3*mib)
		if err == nil {
			err = b.Free()
		}
		if err != nil {
			t.Error(err)
		}
	})
	<-dev.entered
	dev.open.Store(true)
	if _, err := p.Alloc(over, 2*mib); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
	mustFree(t, mustAlloc(t, p, mib))
	close(dev.gate)
	group.Wait()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// A request waits for room that is being made rather than fail.
func TestAllocWaitsForTrim(t *testing.T) {
	dev := newGated()
	dev.open.Store(true)
	p, err := NewPool(dev, Options{Budget: 4 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	mustFree(t, mustAlloc(t, p, 3*mib))
	dev.open.Store(false)
	var group sync.WaitGroup
	group.Go(func() {
		if freed, err := p.Trim(); freed != 3*mib || err != nil {
			t.Errorf("%d, %v", freed, err)
		}
	})
	<-dev.entered
	if s := p.Stats(); s.ReservedBytes != 0 || s.FreeBytes != 0 {
		t.Errorf("%+v", s)
	}
	dev.open.Store(true)
	group.Go(func() {
		b, err := p.Alloc(ctx, 4*mib)
		if err == nil {
			err = b.Free()
		}
		if err != nil {
			t.Error(err)
		}
	})
	time.Sleep(5 * time.Millisecond) // most likely it waits by now
	close(dev.gate)
	group.Wait()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestCloseWhilePinning(t *testing.T) {
	dev := newGated()
	p, err := NewPool(dev, Options{Budget: 64 * mib, SegmentBytes: mib})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 2)
	for _, n := range []int64{1000, 2000} { // one pins, one waits for it
		go func() {
			_, err := p.Alloc(over, n)
			failed <- err
		}()
	}
	<-dev.entered
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	for { // until Close has begun
		if _, err := p.Trim(); err != nil {
			break
		}
		runtime.Gosched()
	}
	close(dev.gate)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if n, _ := dev.state(); n != 0 {
		t.Errorf("%d bytes pinned after Close", n)
	}
	for range 2 {
		if err := <-failed; !errors.Is(err, device.ErrClosed) {
			t.Error(err)
		}
	}
}

func TestTrimAndLostSegments(t *testing.T) {
	dev := newFake()
	p, err := NewPool(dev, Options{Budget: 8 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	a, b := mustAlloc(t, p, 2*mib), mustAlloc(t, p, 10)
	mustFree(t, a)
	if freed, err := p.Trim(); freed != 2*mib || err != nil {
		t.Errorf("%d, %v", freed, err)
	}
	if freed, err := p.Trim(); freed != 0 || err != nil {
		t.Errorf("%d, %v", freed, err)
	}
	mustFree(t, b)
	dev.unpinErr = errors.New("driver says no")
	if freed, err := p.Trim(); freed != 0 || !errors.Is(err, dev.unpinErr) {
		t.Errorf("%d, %v", freed, err)
	}
	if err := p.check(); err != nil {
		t.Error(err)
	}
	s := p.Stats()
	if s.LostBytes != mib || s.ReservedBytes != mib || s.FreeBytes != 0 || !strings.Contains(s.LostReason, "driver says no") {
		t.Errorf("%+v", s)
	}
	// It still counts against the budget, as it is still pinned.
	if _, err := p.Alloc(over, 8*mib); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
	if err := p.Close(); !errors.Is(err, dev.unpinErr) || errors.Is(err, ErrInUse) {
		t.Error(err)
	}
}
