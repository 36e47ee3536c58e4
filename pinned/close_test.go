package pinned

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

func TestClose(t *testing.T) {
	dev := newFake()
	p, err := NewPool(dev, Options{Budget: 8 * mib, SegmentBytes: mib})
	if err != nil {
		t.Fatal(err)
	}
	mustFree(t, mustAlloc(t, p, mib))
	mustFree(t, mustAlloc(t, p, 10), &fakeStream{dev: dev})
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	select {
	case err := <-closed:
		t.Fatalf("did not wait for a pending buffer: %v", err)
	case <-time.After(time.Millisecond):
	}
	dev.Synchronize()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if pinned, events := dev.state(); pinned != 0 || events != 0 {
		t.Errorf("%d bytes pinned, %d events", pinned, events)
	}
	if err := p.Close(); err != nil {
		t.Errorf("second: %v", err)
	}
	if _, err := p.Alloc(over, 10); !errors.Is(err, device.ErrClosed) {
		t.Error(err)
	}
	if _, err := p.Trim(); !errors.Is(err, device.ErrClosed) {
		t.Error(err)
	}
	if s := p.Stats(); s.ReservedBytes != 0 || s.Allocs != 2 {
		t.Errorf("%+v", s)
	}
}

func TestCloseWithLiveBuffers(t *testing.T) {
	dev := newFake()
	stream := &fakeStream{dev: dev}
	p, err := NewPool(dev, Options{Budget: 64 * mib, SegmentBytes: mib})
	if err != nil {
		t.Fatal(err)
	}
	var live []*Buffer
	for _, n := range []int64{100, 2 * mib, 3 * mib, 300, 500, 400, 200} {
		live = append(live, mustAlloc(t, p, n))
	}
	mustFree(t, mustAlloc(t, p, 8*mib))
	err = p.Close()
	want := "pinned: close: buffers still in use: 7 of 5.00 MiB in all " +
		"(3 MiB, 2 MiB, 500 B, 400 B, 300 B, …); segments of 6 MiB stay until they are freed"
	if !errors.Is(err, ErrInUse) || err.Error() != want {
		t.Errorf("%v", err)
	}
	if _, err := p.Alloc(over, 10); !errors.Is(err, device.ErrClosed) {
		t.Errorf("a closed pool served out of a segment in use: %v", err)
	}
	for i, b := range live {
		for j := range b.Bytes() {
			b.Bytes()[j] = byte(i)
		}
	}
	for _, want := range []int64{6 * mib, 4 * mib, mib, mib, mib, mib, 0} {
		b := live[0]
		live = live[1:]
		done := make(chan error)
		go func() { done <- b.Free(stream) }()
		for freed := false; !freed; { // it waits for the stream's work
			dev.Synchronize()
			select {
			case err := <-done:
				freed = true
				if err != nil {
					t.Error(err)
				}
			default:
			}
		}
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
		if pinned, _ := dev.state(); pinned != want {
			t.Errorf("%d bytes pinned, want %d", pinned, want)
		}
	}
	if _, events := dev.state(); events != 0 {
		t.Errorf("%d events", events)
	}
}

func TestShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev := newFake()
		p, err := NewPool(dev, Options{Budget: 64 * mib, SegmentBytes: mib, PrefaultWorkers: 1})
		if err != nil {
			t.Fatal(err)
		}
		reserved := func(want int64) {
			t.Helper()
			synctest.Wait()
			if s := p.Stats(); s.ReservedBytes != want {
				t.Errorf("reserved %d, want %d", s.ReservedBytes, want)
			}
			if err := p.check(); err != nil {
				t.Error(err)
			}
		}
		a, b, c := mustAlloc(t, p, mib), mustAlloc(t, p, 2*mib), mustAlloc(t, p, 10)
		time.Sleep(time.Hour) // in use, so nothing happens
		reserved(4 * mib)
		mustFree(t, a)
		time.Sleep(30 * time.Second)
		mustFree(t, b)
		time.Sleep(29 * time.Second)
		reserved(4 * mib)
		time.Sleep(time.Second)
		reserved(3 * mib) // a's, after a minute
		time.Sleep(20 * time.Second)
		b = mustAlloc(t, p, 2*mib) // b's is in use again
		time.Sleep(5 * time.Second)
		mustFree(t, b)
		time.Sleep(59 * time.Second)
		reserved(3 * mib)
		time.Sleep(time.Second)
		reserved(mib)
		a = mustAlloc(t, p, mib)
		mustFree(t, a)
		time.Sleep(40 * time.Second)
		mustFree(t, c) // the timer is set for a's already
		time.Sleep(20 * time.Second)
		reserved(mib)
		time.Sleep(40 * time.Second)
		reserved(0)
		mustFree(t, mustAlloc(t, p, 10))
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if p.timer.Stop() {
			t.Error("Close left the timer running")
		}
	})
}

func TestShrinkNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, newFake(), Options{Budget: mib, SegmentBytes: mib, ShrinkAfter: -1, PrefaultWorkers: 1})
		mustFree(t, mustAlloc(t, p, 10))
		time.Sleep(1000 * time.Hour)
		if s := p.Stats(); s.ReservedBytes != mib {
			t.Errorf("%+v", s)
		}
	})
}
