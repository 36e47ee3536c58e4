package pinned

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// Where there is room only in pending memory, Alloc waits for the work, and no
// longer than its context lasts.
func TestAllocWaitsForPending(t *testing.T) {
	dev := newFake()
	p := newPool(t, dev, Options{Budget: mib, SegmentBytes: mib, ShrinkAfter: -1})
	b := mustAlloc(t, p, mib)
	where := address(b)
	if _, err := p.Alloc(ctx, mib); !errors.Is(err, ErrBudget) { // nothing is pending
		t.Fatal(err)
	}
	mustFree(t, b, &fakeStream{dev: dev})

	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	if _, err := p.Alloc(short, mib); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrBudget) {
		t.Errorf("the work goes on: %v", err)
	}
	got := make(chan *Buffer)
	go func() { got <- mustAlloc(t, p, mib) }()
	select {
	case <-got:
		t.Fatal("served while it is still in use")
	case <-time.After(5 * time.Millisecond):
	}
	dev.marks[0].complete()
	b = <-got
	if address(b) != where {
		t.Error("other memory than what was pending")
	}
	mustFree(t, b)
}

// A buffer that is freed while Alloc waits for another serves it, and Close
// ends the wait.
func TestAllocWaitEnds(t *testing.T) {
	dev := newFake()
	p, err := NewPool(dev, Options{Budget: 2 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	stuck, busy := mustAlloc(t, p, mib), mustAlloc(t, p, mib)
	mustFree(t, stuck, &fakeStream{dev: dev})
	type result struct {
		b   *Buffer
		err error
	}
	alloc := func() chan result {
		c := make(chan result, 1)
		go func() {
			b, err := p.Alloc(ctx, mib)
			c <- result{b, err}
		}()
		time.Sleep(2 * time.Millisecond) // most likely it waits by now
		return c
	}
	first := alloc()
	mustFree(t, busy)
	r := <-first
	if r.err != nil {
		t.Fatal(r.err)
	}
	second := alloc()
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	if r := <-second; !errors.Is(r.err, device.ErrClosed) {
		t.Error(r.err)
	}
	dev.marks[0].complete()
	if err := <-closed; !errors.Is(err, ErrInUse) {
		t.Error(err)
	}
	mustFree(t, r.b)
}

// A limit on locked memory that is smaller than a segment makes segments
// smaller, so that what fits is served, and pinned.
func TestLowPinLimit(t *testing.T) {
	for _, pageable := range []bool{false, true} {
		dev := newFake()
		dev.pinLimit = 2 * mib
		p := newPool(t, dev, Options{Budget: 64 * mib, ShrinkAfter: -1, AllowPageable: pageable})
		var live []*Buffer
		for range 100 {
			b := mustAlloc(t, p, 4096)
			if !b.Pinned() {
				t.Fatal("pageable, though the limit leaves room")
			}
			live = append(live, b)
		}
		if s := p.Stats(); s.ReservedBytes > dev.pinLimit || s.Segments > 2 {
			t.Errorf("%d bytes reserved in %d segments", s.ReservedBytes, s.Segments)
		}
		for _, b := range live {
			mustFree(t, b)
		}
		// With the limit gone, segments have their size again.
		if _, err := p.Trim(); err != nil {
			t.Fatal(err)
		}
		dev.pinLimit = 0
		mustFree(t, mustAlloc(t, p, 4096))
		if s := p.Stats(); s.ReservedBytes != defaultSegment {
			t.Errorf("%d bytes reserved", s.ReservedBytes)
		}
	}
}

// unregistering is a driver that cannot pin memory that is there.
type unregistering struct {
	*writeCombining
	tried int
}

func (d *unregistering) Pin([]byte, device.PinFlags) error {
	d.tried++
	return fmt.Errorf("cuMemHostRegister: %w", device.ErrNotSupported)
}

// Without host registration the driver allocates the memory; without that too,
// the error says so, or the memory is pageable.
func TestNoHostRegistration(t *testing.T) {
	dev := &unregistering{writeCombining: &writeCombining{fakeDevice: newFake(), made: map[*byte]int64{}}}
	p, err := NewPool(dev, Options{Budget: 4 * mib, SegmentBytes: mib})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if b := mustAlloc(t, p, mib); !b.Pinned() {
			t.Error("not pinned")
		} else {
			defer mustFree(t, b)
		}
	}
	if dev.tried != 1 || len(dev.made) != 3 || dev.flags&device.PinWriteCombined != 0 {
		t.Errorf("Pin was tried %d times, the driver made %d allocations with flags %d", dev.tried, len(dev.made), dev.flags)
	}

	dev.allocErr = device.ErrNotSupported
	q, err := NewPool(dev, Options{Budget: 4 * mib, SegmentBytes: mib})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Alloc(ctx, mib); !errors.Is(err, device.ErrNotSupported) || !strings.Contains(err.Error(), "cuMemHostRegister") {
		t.Errorf("%v", err)
	}
	r, err := NewPool(dev, Options{Budget: 4 * mib, SegmentBytes: mib, AllowPageable: true})
	if err != nil {
		t.Fatal(err)
	}
	if b := mustAlloc(t, r, mib); b.Pinned() || !strings.Contains(r.Stats().PageableReason, "not supported") {
		t.Errorf("pinned %t, %+v", b.Pinned(), r.Stats())
	} else {
		mustFree(t, b)
	}
}

// Memory of a closed device is pinned no more, so it is not handed out.
func TestAllocAfterDeviceClose(t *testing.T) {
	dev := newFake()
	p := newPool(t, dev, Options{Budget: 4 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	b := mustAlloc(t, p, 4096)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{4096, pagemem.PageSize(), 2 * mib} {
		if _, err := p.Alloc(ctx, n); !errors.Is(err, device.ErrClosed) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	mustFree(t, b)
}
