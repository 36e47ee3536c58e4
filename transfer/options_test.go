package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

func TestOptionsOutOfRange(t *testing.T) {
	f := open(t)
	for _, o := range []transfer.Options{{Copiers: -1}, {Slots: -1}, {SlotBytes: -1}, {StageAbove: math.MinInt64}} {
		e, err := transfer.New(f.Dev, o)
		if e != nil || !errors.Is(err, device.ErrArgument) {
			t.Errorf("%+v: %v, want %q", o, err, device.ErrArgument)
		}
	}
}

// Options that nobody would choose still copy every byte.
func TestOptions(t *testing.T) {
	for _, o := range []transfer.Options{
		{Copiers: 1, Slots: 1, SlotBytes: 1 << 16, StageAbove: 1},
		{Copiers: 1, Slots: 1, SlotBytes: 1001, StageAbove: 1},
		{Copiers: 1, Slots: 9, SlotBytes: 4097, StageAbove: 1},
		{Copiers: 7, Slots: 1, SlotBytes: 4095, StageAbove: 1},
		{Copiers: 2, Slots: 2, SlotBytes: 3, StageAbove: 1},
		{Copiers: 2, Slots: 2, SlotBytes: 1 << 20, StageAbove: 1},
		{Copiers: 3, Slots: 2, SlotBytes: 1 << 16, StageAbove: math.MaxInt64},
		{Copiers: 16, Slots: 1, SlotBytes: 1 << 16, StageAbove: 200_000},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			f := open(t)
			e := f.Engine(o)
			most := int64(300_007)
			if o.SlotBytes < 100 {
				most = 10_007
			}
			from, back := unique(most+2*guardBytes, 4), make([]byte, most+2*guardBytes)
			for _, n := range []int64{0, 1, 2, o.SlotBytes, o.SlotBytes + 1, most} {
				if n <= most {
					f.trip(e, from, back, n, 1, 3)
				}
			}
		})
	}
}

// Nothing is taken before a copy needs it, and no more than the options say.
func TestPinsWhenNeeded(t *testing.T) {
	f := open(t)
	f.NeedsPinned(1 << 18)
	e := f.Engine(transfer.Options{Copiers: 3, Slots: 2, SlotBytes: 8 << 10, StageAbove: 16 << 10})
	opened := f.Dev.Opened.Load()
	if opened != 0 {
		t.Errorf("a new engine holds %d streams and events", opened)
	}
	p, host := f.Alloc(1<<20), make([]byte, 1<<20)
	f.OK(e.H2D(ctx, p, host[:100]))
	if n := f.Dev.PinnedNow.Load(); n != 0 {
		t.Errorf("%d bytes pinned for a small copy", n)
	}
	for range 3 {
		f.OK(e.H2D(ctx, p, host))
		if n := f.Dev.PinnedNow.Load(); n <= 0 || n > 3*2*8<<10 {
			t.Errorf("%d bytes pinned, want at most %d", n, 3*2*8<<10)
		}
	}
	f.OK(e.Close())
	if n := f.Dev.PinnedNow.Load(); n != 0 {
		t.Errorf("%d bytes pinned after Close", n)
	}
}

// Copies one after another share one stream for each path.
func TestStreamsAreReused(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	p, host := f.Alloc(1000), make([]byte, 1000)
	f.OK(e.H2D(ctx, p, host))
	opened := f.Dev.Opened.Load()
	for range 10 {
		f.OK(e.H2D(ctx, p, host))
		f.OK(e.D2H(ctx, host, p))
	}
	if n := f.Dev.Opened.Load(); n != opened {
		t.Errorf("%d streams and events after the first copy, %d later", opened, n)
	}
}

// A pool with room for some of the copiers gives fewer of them; when it is
// the user's, it gets everything back.
func TestPoolWithSmallBudget(t *testing.T) {
	const slots, slotBytes = 2, 16 << 10
	for _, c := range []struct {
		name    string
		room    int64
		copiers int
	}{
		{"all", 4 * slots * slotBytes, 4},
		{"more than all", 40 * slots * slotBytes, 4},
		{"one too few", 4*slots*slotBytes - 4096, 3},
		{"two and a slot", (2*slots + 1) * slotBytes, 2},
		{"one", slots * slotBytes, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := open(t)
			f.NeedsPinned(min(c.room, 4*slots*slotBytes))
			pool := f.Pool(pinned.Options{Budget: c.room, SegmentBytes: slotBytes})
			e := f.Engine(transfer.Options{Pool: pool, Copiers: 4, Slots: slots, SlotBytes: slotBytes, StageAbove: 1000})
			f.Works(e)
			if s := pool.Stats(); s.Buffers != c.copiers*slots || s.RequestedBytes != int64(s.Buffers)*slotBytes {
				t.Errorf("%d buffers of %d bytes, want %d copiers of %d", s.Buffers, s.RequestedBytes, c.copiers, slots)
			}
			f.OK(e.Close())
			if s := pool.Stats(); s.Buffers != 0 || s.ActiveBytes != 0 || s.PendingBytes != 0 || s.LostBytes != 0 {
				t.Errorf("after Close: %s", s)
			}
		})
	}
}

// A pool without room for one copier fails the copies that need it, and only
// until it has room.
func TestPoolWithoutRoom(t *testing.T) {
	f := open(t)
	const slots, slotBytes = 3, 16 << 10
	f.NeedsPinned(slots * slotBytes)
	pool := f.Pool(pinned.Options{Budget: slots * slotBytes, SegmentBytes: 4 * slotBytes})
	taken, err := pool.Alloc(context.Background(), 1)
	f.OK(err)
	e := f.Engine(transfer.Options{Pool: pool, Copiers: 2, Slots: slots, SlotBytes: slotBytes, StageAbove: 1000})
	p, host := f.Alloc(1<<20), make([]byte, 1<<20)
	for range 2 {
		f.Fails("a staged copy without room", e.H2D(ctx, p, host), pinned.ErrBudget)
		if s := pool.Stats(); s.Buffers != 1 {
			t.Errorf("%d buffers after a copy that failed, want the test's own", s.Buffers)
		}
		f.OK(e.H2D(ctx, p, host[:1000]))
	}
	f.OK(taken.Free())
	f.Works(e)
}

// Where nothing can be pinned, the pool's pageable memory does.
func TestPageablePool(t *testing.T) {
	f := open(t)
	f.Dev.OnPin(func() error { return device.ErrPinLimit })
	pool := f.Pool(pinned.Options{Budget: 1 << 20, AllowPageable: true})
	e := f.Engine(transfer.Options{Pool: pool, Copiers: 2, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1000})
	f.Works(e)
	if s := pool.Stats(); s.Buffers == 0 || s.PageableBytes == 0 {
		t.Errorf("the pool was not used: %s", s)
	}
}

// Options whose product no machine has fail the copies that need it.
func TestOptionsBeyondMemory(t *testing.T) {
	for _, o := range []transfer.Options{
		{Copiers: 1, Slots: 1, SlotBytes: math.MaxInt64},
		{Copiers: 2, Slots: 4, SlotBytes: 1 << 62},
		{Copiers: 1, Slots: math.MaxInt, SlotBytes: 1},
		{Copiers: 1, Slots: 1 << 60, SlotBytes: 1},
		{Copiers: math.MaxInt, Slots: 1, SlotBytes: 1 << 40},
	} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("panic: %v", p)
				}
			}()
			f := open(t)
			f.Dev.OnPin(func() error { return device.ErrPinLimit })
			e, err := transfer.New(f.Dev, o)
			if err != nil {
				return
			}
			defer e.Close()
			// Whether it fails or takes the plain way, it returns.
			p := f.Alloc(2 << 20)
			e.H2D(ctx, p, make([]byte, 2<<20))
			f.OK(e.H2D(ctx, p, make([]byte, 100)))
		})
	}
}
