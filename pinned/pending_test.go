package pinned

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// A buffer is served again after its own events, whatever others do.
func TestStuckEventBlocksOnlyItsBuffer(t *testing.T) {
	dev := newFake()
	stuck, works := &fakeStream{dev: dev}, &fakeStream{dev: dev}
	p := newPool(t, dev, Options{Budget: 4 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	var addresses []uintptr
	for i := range 4 {
		b := mustAlloc(t, p, mib)
		addresses = append(addresses, address(b))
		if i == 1 {
			mustFree(t, b, works, stuck)
		} else {
			mustFree(t, b, works)
		}
	}
	if s := p.Stats(); s.PendingBuffers != 4 || s.PendingBytes != 4*mib || s.FreeBytes != 0 || s.PeakPendingBytes != 4*mib {
		t.Errorf("%+v", s)
	}
	if _, err := p.Alloc(over, mib); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
	// Marks: 0, 1 (works), 2 (stuck), 3, 4. Complete them last to first.
	for _, step := range []struct{ mark, buffer int }{{4, 3}, {3, 2}, {0, 0}} {
		dev.marks[step.mark].complete()
		b := mustAlloc(t, p, mib)
		if address(b) != addresses[step.buffer] {
			t.Errorf("mark %d: got %#x, want buffer %d", step.mark, address(b), step.buffer)
		}
		defer mustFree(t, b)
	}
	// One of two streams is not enough.
	dev.marks[1].complete()
	if _, err := p.Alloc(over, mib); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
	dev.marks[2].complete()
	b := mustAlloc(t, p, mib)
	if address(b) != addresses[1] {
		t.Error("not the buffer that was stuck")
	}
	mustFree(t, b)
}

// Pending memory that would fit better than what is free is looked at first.
func TestPendingFitsBetter(t *testing.T) {
	dev := newFake()
	p := newPool(t, dev, Options{Budget: 8 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	large, exact := mustAlloc(t, p, 3*mib), mustAlloc(t, p, 2*mib)
	at := address(exact)
	mustFree(t, large)
	mustFree(t, exact, &fakeStream{dev: dev})
	dev.Synchronize()
	b := mustAlloc(t, p, 2*mib)
	if address(b) != at {
		t.Error("split a larger block")
	}
	mustFree(t, b)
}

func TestEventsAreReused(t *testing.T) {
	dev := newFake()
	stream := &fakeStream{dev: dev}
	p := newPool(t, dev, Options{Budget: 4 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	for range 100 {
		mustFree(t, mustAlloc(t, p, 1000), stream, stream)
		dev.Synchronize()
		if s := p.Stats(); s.PendingBuffers != 0 {
			t.Fatal("still pending")
		}
	}
	if _, events := dev.state(); events != 2 {
		t.Errorf("%d events", events)
	}
}

// A stream of another device gets an event of that device.
func TestFreeAfterOtherDevice(t *testing.T) {
	dev, other := newFake(), newFake()
	p := newPool(t, dev, Options{Budget: 4 * mib, SegmentBytes: mib, Flags: device.PinPortable})
	mustFree(t, mustAlloc(t, p, 1000), &fakeStream{dev: dev}, &fakeStream{dev: other})
	dev.Synchronize()
	if s := p.Stats(); s.PendingBuffers != 1 {
		t.Errorf("%+v", s)
	}
	other.Synchronize()
	if s := p.Stats(); s.PendingBuffers != 0 {
		t.Errorf("%+v", s)
	}
	if _, events := other.state(); events != 0 {
		t.Errorf("%d events left on the other device", events)
	}
}

func TestFreeArguments(t *testing.T) {
	p := newPool(t, newFake(), Options{Budget: 4 * mib, SegmentBytes: mib})
	b := mustAlloc(t, p, 1000)
	if err := b.Free(nil); !errors.Is(err, device.ErrArgument) {
		t.Error(err)
	}
	if b.Bytes() == nil {
		t.Error("freed all the same")
	}
	mustFree(t, b)
	if err := new(Buffer).Free(); !errors.Is(err, ErrFreed) {
		t.Error(err)
	}
}

// A closed stream says so when it is waited for, and has finished its work.
func TestFreeAfterClosedStream(t *testing.T) {
	dev := newFake()
	p := newPool(t, dev, Options{Budget: mib, SegmentBytes: mib, ShrinkAfter: -1})
	closed := fmt.Errorf("stream: %w", device.ErrClosed)
	b := mustAlloc(t, p, mib)
	dev.syncErr = closed
	mustFree(t, b, &fakeStream{dev: dev, recordErr: closed})
	dev.syncErr = nil
	if s := p.Stats(); s.LostBytes != 0 || s.PendingBytes != 0 {
		t.Errorf("%+v", s)
	}
	mustFree(t, mustAlloc(t, p, mib))
}

func TestRecordFails(t *testing.T) {
	broken := fmt.Errorf("stream: %w", device.ErrClosed)
	for _, c := range []struct {
		name          string
		record, event error
		sync          error
		lost, waits   int64
	}{
		{name: "stream closed", record: broken, waits: 1},
		{name: "no event", event: device.ErrOutOfMemory, waits: 2},
		{name: "device broken", record: broken, sync: errors.New("device fell off the bus"), lost: pagemem.PageSize(), waits: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev := newFake()
			good, bad := &fakeStream{dev: dev}, &fakeStream{dev: dev, recordErr: c.record}
			p, err := NewPool(dev, Options{Budget: mib, SegmentBytes: mib, ShrinkAfter: -1})
			if err != nil {
				t.Fatal(err)
			}
			dev.eventErr, dev.syncErr = c.event, c.sync
			b := mustAlloc(t, p, 10)
			at := address(b)
			err = b.Free(good, bad)
			if (err == nil) != (c.lost == 0) || c.lost > 0 && !errors.Is(err, c.sync) {
				t.Errorf("%v", err)
			}
			if err := p.check(); err != nil {
				t.Error(err)
			}
			s := p.Stats()
			if s.LostBytes != c.lost || s.Waits != c.waits || s.PendingBytes != 0 || (s.LostReason != "") != (c.lost > 0) {
				t.Errorf("%+v", s)
			}
			if err := b.Free(); !errors.Is(err, ErrFreed) {
				t.Error(err)
			}
			next := mustAlloc(t, p, 10)
			if reused := address(next) == at; reused != (c.lost == 0) {
				t.Errorf("reused: %t", reused)
			}
			mustFree(t, next)
			err = p.Close()
			pinned, events := dev.state()
			if (err == nil) != (c.lost == 0) || (pinned == 0) != (c.lost == 0) || events != 0 {
				t.Errorf("close: %v, %d bytes pinned, %d events", err, pinned, events)
			}
		})
	}
}

// An event that cannot be asked keeps its buffer pending, and the reason is
// to be seen.
func TestEventError(t *testing.T) {
	dev := newFake()
	p, err := NewPool(dev, Options{Budget: mib, SegmentBytes: mib, ShrinkAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	mustFree(t, mustAlloc(t, p, mib), &fakeStream{dev: dev})
	bad := errors.New("illegal address")
	dev.marks[0].err.Store(&bad)
	if s := p.Stats(); s.PendingBuffers != 1 || s.EventError != bad.Error() {
		t.Errorf("%+v", s)
	}
	if _, err := p.Alloc(over, mib); !errors.Is(err, ErrBudget) || !errors.Is(err, bad) {
		t.Error(err)
	}
	if err := p.Close(); !errors.Is(err, bad) || !strings.Contains(err.Error(), "1 MiB are lost") {
		t.Error(err)
	}
	if pinned, events := dev.state(); pinned != mib || events != 0 {
		t.Errorf("%d pinned, %d events", pinned, events)
	}
}

func TestDoubleFree(t *testing.T) {
	dev := newFake()
	p := newPool(t, dev, Options{Budget: mib, SegmentBytes: mib, ShrinkAfter: -1})
	a := mustAlloc(t, p, 1000)
	at := address(a)
	mustFree(t, a)
	if a.Bytes() != nil || a.Len() != 1000 {
		t.Errorf("after Free: %d bytes, Len %d", len(a.Bytes()), a.Len())
	}
	if _, err := a.Mapped(); !errors.Is(err, ErrFreed) {
		t.Error(err)
	}
	b := mustAlloc(t, p, 1000) // has a's memory
	if address(b) != at {
		t.Fatal("not reused")
	}
	for _, after := range [][]*fakeStream{nil, {{dev: dev}}} {
		if err := a.Free(streams(after)...); !errors.Is(err, ErrFreed) {
			t.Error(err)
		}
	}
	if s := p.Stats(); s.Buffers != 1 || s.ActiveBytes == 0 {
		t.Errorf("a stale Free freed another's memory: %+v", s)
	}
	// Of many that free at once, one succeeds.
	var succeeded atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			switch err := b.Free(); {
			case err == nil:
				succeeded.Add(1)
			case !errors.Is(err, ErrFreed):
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := succeeded.Load(); n != 1 {
		t.Errorf("%d succeeded", n)
	}
}

// What could not fit if all pending memory were free is not waited for.
func TestAllocBeyondPending(t *testing.T) {
	dev := newFake()
	p := newPool(t, dev, Options{Budget: 4 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	held := mustAlloc(t, p, 2*mib)
	mustFree(t, mustAlloc(t, p, 2*mib), &fakeStream{dev: dev})
	for _, n := range []int64{3 * mib, 5 * mib, 1 << 50} {
		err := testkit.Within(t, "Alloc", func() error { _, err := p.Alloc(t.Context(), n); return err })
		if !errors.Is(err, ErrBudget) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	dev.Synchronize()
	mustFree(t, held)
}
