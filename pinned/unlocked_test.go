package pinned

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

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
