package devicetest

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// A value is handed from cell to cell by copies that each depend on the one
// before, while others overwrite the cells behind it.
func testStreamOrder(f *fixture) {
	const cells, cell = 256, 64
	s := f.stream()
	p := f.alloc(cells * cell)
	at := func(i int) device.Ptr { return p.Add(int64(i % cells * cell)) }
	value := unique(cell, 1)
	got := make([]byte, cell)
	for round := range 4 {
		f.ok(s.Memset(p, byte(round), cells*cell))
		f.ok(s.CopyH2D(at(0), value))
		for i := range cells - 1 {
			f.ok(s.CopyD2D(at(i+1), at(i), cell))
			f.ok(s.Memset(at(i), 0, cell))
		}
		f.ok(s.CopyD2H(got, at(cells-1)))
		f.ok(s.Memset(at(cells-1), 0, cell))
		f.ok(s.Synchronize())
		if !bytes.Equal(got, value) {
			f.Fatal("operations of one stream did not run in order")
		}
	}
	if !bytes.Equal(f.download(p, cells*cell), make([]byte, cells*cell)) {
		f.Error("the last operations of a stream did not run")
	}
}

// A stream that stands still holds no other up.
func testStreamIndependence(f *fixture) {
	a, b := f.stream(), f.stream()
	const n = 1 << 16
	p, q := f.alloc(n), f.alloc(n)
	want := unique(n, 1)
	f.upload(p, want)
	release := f.hold(a)
	passed := f.event(0)
	f.ok(a.Memset(p, 0, n))
	f.ok(a.Record(passed))

	got := make([]byte, n)
	f.within("work beside a stream that stands still", func() error {
		return errors.Join(b.CopyD2D(q, p, n), b.CopyD2H(got, q), b.Synchronize())
	})
	if !bytes.Equal(got, want) {
		f.Error("work behind a stopped operation ran before it ended")
	}
	if done, err := passed.Done(); done || err != nil {
		f.Errorf("the mark behind a stopped operation: done %t, error %v", done, err)
	}
	release()
	f.within("the stream that stood still", a.Synchronize)
	if done, err := passed.Done(); !done || err != nil {
		f.Errorf("the mark after Synchronize: done %t, error %v", done, err)
	}
	if !bytes.Equal(f.download(p, n), make([]byte, n)) {
		f.Error("work behind a stopped operation did not run")
	}
}

// Close of a stream lets what was queued finish.
func testStreamClose(f *fixture) {
	const n = 1 << 20
	s := f.stream()
	p, q := f.alloc(n), f.alloc(n)
	want := unique(n, 1)
	f.upload(p, want)
	release, _ := f.delay(s)
	f.ok(s.CopyD2D(q, p, n))
	closed := async(s.Close)
	release()
	f.arrives("Close", closed)
	if !bytes.Equal(f.download(q, n), want) {
		f.Error("Close of a stream dropped queued work, or did not wait for it")
	}
}

// Work waits for an event in another stream, and hands on to a third.
func testWaitAcross(f *fixture) {
	const n = 1 << 20
	a, b, c := f.stream(), f.stream(), f.stream()
	p, q := f.alloc(n), f.alloc(n)
	for round := range byte(4) {
		want := unique(n, round)
		src := f.alloc(n)
		f.upload(src, want)
		first, second := f.event(device.EventNoTiming), f.event(device.EventNoTiming)
		release, held := f.delay(a)
		f.ok(a.CopyD2D(p, src, n))
		f.ok(a.Record(first))
		f.ok(b.Wait(first))
		f.ok(b.CopyD2D(q, p, n))
		f.ok(b.Record(second))
		f.ok(c.Wait(second))
		f.ok(c.CopyD2D(p, q, n)) // would tear p if it came too early
		if held {
			if done, err := second.Done(); done || err != nil {
				f.Errorf("work ran before what it waits for: done %t, error %v", done, err)
			}
		}
		release()
		f.within("Synchronize", c.Synchronize)
		if !bytes.Equal(f.download(q, n), want) || !bytes.Equal(f.download(p, n), want) {
			f.Fatal("work ran before what it waits for")
		}
		f.ok(first.Close())
		f.ok(second.Close())
		f.ok(f.dev.Free(src))
	}
}

// Wait takes the mark that is the newest when it is called.
func testWaitNewestMark(f *fixture) {
	a, b, c := f.stream(), f.stream(), f.stream()
	e := f.event(0)
	f.ok(a.Record(e))
	f.ok(b.Wait(e))
	release := f.hold(a)
	f.ok(a.Record(e))
	f.ok(c.Wait(e))

	f.within("a wait for the older mark", b.Synchronize)
	behind := f.event(0)
	f.ok(c.Record(behind))
	for what, e := range map[string]device.Event{"the newer mark": e, "work behind the newer mark": behind} {
		if done, err := e.Done(); done || err != nil {
			f.Errorf("%s: done %t, error %v", what, done, err)
		}
	}
	release()
	f.within("the newer mark", e.Synchronize)
	f.within("a wait for the newer mark", c.Synchronize)
}

// [device.Wait] gives up with its context, and only then.
func testWaitContext(f *fixture) {
	s := f.stream()
	e := f.event(device.EventBlockingSync)
	f.ok(device.Wait(context.Background(), e))
	f.ok(s.Record(e))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.within("Wait", func() error { return device.Wait(ctx, e) })

	release := f.hold(s)
	f.ok(s.Record(e))
	short, stop := context.WithTimeout(ctx, 5*time.Millisecond)
	defer stop()
	f.fails("Wait beyond a deadline", device.Wait(short, e), context.DeadlineExceeded)
	waiting := async(func() error { return device.Wait(ctx, e) })
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		f.Errorf("Wait when cancelled: %v", err)
	}
	release()
	f.within("Wait", func() error { return device.Wait(context.Background(), e) })
}
