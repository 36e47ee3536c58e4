package conformance

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// A value is handed from cell to cell by copies that each depend on the one
// before, while others overwrite the cells behind it.
func testStreamOrder(f *fixture.F) {
	const cells, cell = 256, 64
	s := f.Stream()
	p := f.Alloc(cells * cell)
	at := func(i int) device.Ptr { return p.Add(int64(i % cells * cell)) }
	value := fixture.Unique(cell, 1)
	got := make([]byte, cell)
	for round := range 4 {
		f.OK(s.Memset(p, byte(round), cells*cell))
		f.OK(s.CopyH2D(at(0), value))
		for i := range cells - 1 {
			f.OK(s.CopyD2D(at(i+1), at(i), cell))
			f.OK(s.Memset(at(i), 0, cell))
		}
		f.OK(s.CopyD2H(got, at(cells-1)))
		f.OK(s.Memset(at(cells-1), 0, cell))
		f.OK(s.Synchronize())
		if !bytes.Equal(got, value) {
			f.Fatal("operations of one stream did not run in order")
		}
	}
	if !bytes.Equal(f.Download(p, cells*cell), make([]byte, cells*cell)) {
		f.Error("the last operations of a stream did not run")
	}
}

// A stream that stands still holds no other up.
func testStreamIndependence(f *fixture.F) {
	a, b := f.Stream(), f.Stream()
	const n = 1 << 16
	p, q := f.Alloc(n), f.Alloc(n)
	want := fixture.Unique(n, 1)
	f.Upload(p, want)
	release := f.Hold(a)
	passed := f.Event(0)
	f.OK(a.Memset(p, 0, n))
	f.OK(a.Record(passed))

	got := make([]byte, n)
	f.Within("work beside a stream that stands still", func() error {
		return errors.Join(b.CopyD2D(q, p, n), b.CopyD2H(got, q), b.Synchronize())
	})
	if !bytes.Equal(got, want) {
		f.Error("work behind a stopped operation ran before it ended")
	}
	if done, err := passed.Done(); done || err != nil {
		f.Errorf("the mark behind a stopped operation: done %t, error %v", done, err)
	}
	release()
	f.Within("the stream that stood still", a.Synchronize)
	if done, err := passed.Done(); !done || err != nil {
		f.Errorf("the mark after Synchronize: done %t, error %v", done, err)
	}
	if !bytes.Equal(f.Download(p, n), make([]byte, n)) {
		f.Error("work behind a stopped operation did not run")
	}
}

// Close of a stream lets what was queued finish.
func testStreamClose(f *fixture.F) {
	const n = 1 << 20
	s := f.Stream()
	p, q := f.Alloc(n), f.Alloc(n)
	want := fixture.Unique(n, 1)
	f.Upload(p, want)
	release, _ := f.Delay(s)
	f.OK(s.CopyD2D(q, p, n))
	closed := fixture.Async(s.Close)
	release()
	f.Arrives("Close", closed)
	if !bytes.Equal(f.Download(q, n), want) {
		f.Error("Close of a stream dropped queued work, or did not wait for it")
	}
}

// Work waits for an event in another stream, and hands on to a third.
func testWaitAcross(f *fixture.F) {
	const n = 1 << 20
	a, b, c := f.Stream(), f.Stream(), f.Stream()
	p, q := f.Alloc(n), f.Alloc(n)
	for round := range byte(4) {
		want := fixture.Unique(n, round)
		src := f.Alloc(n)
		f.Upload(src, want)
		first, second := f.Event(device.EventNoTiming), f.Event(device.EventNoTiming)
		release, held := f.Delay(a)
		f.OK(a.CopyD2D(p, src, n))
		f.OK(a.Record(first))
		f.OK(b.Wait(first))
		f.OK(b.CopyD2D(q, p, n))
		f.OK(b.Record(second))
		f.OK(c.Wait(second))
		f.OK(c.CopyD2D(p, q, n)) // would tear p if it came too early
		if held {
			if done, err := second.Done(); done || err != nil {
				f.Errorf("work ran before what it waits for: done %t, error %v", done, err)
			}
		}
		release()
		f.Within("Synchronize", c.Synchronize)
		if !bytes.Equal(f.Download(q, n), want) || !bytes.Equal(f.Download(p, n), want) {
			f.Fatal("work ran before what it waits for")
		}
		f.OK(first.Close())
		f.OK(second.Close())
		f.OK(f.Dev.Free(src))
	}
}

// Wait takes the mark that is the newest when it is called.
func testWaitNewestMark(f *fixture.F) {
	a, b, c := f.Stream(), f.Stream(), f.Stream()
	e := f.Event(0)
	f.OK(a.Record(e))
	f.OK(b.Wait(e))
	release := f.Hold(a)
	f.OK(a.Record(e))
	f.OK(c.Wait(e))

	f.Within("a wait for the older mark", b.Synchronize)
	behind := f.Event(0)
	f.OK(c.Record(behind))
	for what, e := range map[string]device.Event{"the newer mark": e, "work behind the newer mark": behind} {
		if done, err := e.Done(); done || err != nil {
			f.Errorf("%s: done %t, error %v", what, done, err)
		}
	}
	release()
	f.Within("the newer mark", e.Synchronize)
	f.Within("a wait for the newer mark", c.Synchronize)
}

// [device.Wait] gives up with its context, and only then.
func testWaitContext(f *fixture.F) {
	s := f.Stream()
	e := f.Event(device.EventBlockingSync)
	f.OK(device.Wait(context.Background(), e))
	f.OK(s.Record(e))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.Within("Wait", func() error { return device.Wait(ctx, e) })

	release := f.Hold(s)
	f.OK(s.Record(e))
	short, stop := context.WithTimeout(ctx, 5*time.Millisecond)
	defer stop()
	f.Fails("Wait beyond a deadline", device.Wait(short, e), context.DeadlineExceeded)
	waiting := fixture.Async(func() error { return device.Wait(ctx, e) })
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		f.Errorf("Wait when cancelled: %v", err)
	}
	release()
	f.Within("Wait", func() error { return device.Wait(context.Background(), e) })
}
