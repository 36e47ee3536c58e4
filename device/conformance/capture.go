package conformance

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// capturer returns the device as a [device.Capturer], or skips the test.
func capturer(f *fixture.F) device.Capturer {
	f.Helper()
	c, ok := device.As[device.Capturer](f.Dev)
	if !ok {
		f.Skip("the device records no work")
	}
	if !c.CanCapture() {
		_, err := c.Capture(f.Stream(), func() error { return nil })
		f.Fails("Capture of a driver without", err, device.ErrNotSupported)
		f.Skip("the driver records no work")
	}
	return c
}

// capture records fn, which must succeed.
func capture(f *fixture.F, c device.Capturer, s device.Stream, fn func()) device.Graph {
	f.Helper()
	g, err := c.Capture(s, func() error { fn(); return nil })
	f.OK(err)
	return g
}

// What is recorded runs when the graph is launched, each time anew, and in order with
// other work of the stream.
func testCapture(f *fixture.F) {
	c := capturer(f)
	const n = 1 << 18
	in, out := f.Pinned(n)[:n], f.Pinned(n)[:n]
	s, p, q := f.Stream(), f.Alloc(n), f.Alloc(n)
	f.OK(s.Memset(q, 9, n))
	g := capture(f, c, s, func() {
		if !c.Capturing(s) || c.Capturing(f.Stream()) {
			f.Error("the wrong stream is being captured")
		}
		f.OK(s.CopyH2D(p, in))
		f.OK(s.Memset(p, 7, n/4))
		f.OK(s.CopyD2D(q, p, n))
		f.OK(s.CopyD2H(out, q))
	})
	if c.Capturing(s) {
		f.Error("the stream is still being captured")
	}
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(q, n), bytes.Repeat([]byte{9}, n)) || !bytes.Equal(out, make([]byte, n)) {
		f.Fatal("work ran while it was recorded")
	}
	for round := range byte(4) {
		want := fixture.Unique(n, round)
		copy(in, want)
		copy(want, bytes.Repeat([]byte{7}, n/4))
		f.OK(g.Launch(s))
		f.OK(s.Memset(q, round, n)) // behind it
		f.Within("a stream with a graph", s.Synchronize)
		if !bytes.Equal(out, want) {
			f.Fatalf("launch %d brought the wrong bytes", round)
		}
		if !bytes.Equal(f.Download(q, n), bytes.Repeat([]byte{round}, n)) {
			f.Fatalf("work behind launch %d was overtaken", round)
		}
	}
	other := f.Stream() // and on another one
	f.OK(s.Memset(q, 1, n))
	f.OK(s.Synchronize())
	clear(out)
	f.OK(g.Launch(other))
	f.OK(other.Synchronize())
	if !bytes.Equal(out[n/4:], in[n/4:]) {
		f.Error("a launch on another stream brought the wrong bytes")
	}
	f.OK(g.Close())
	empty := capture(f, c, s, func() {})
	f.OK(empty.Launch(s))
	f.OK(s.Synchronize())
	f.OK(empty.Close())
}

// fork makes work on a stream follow what is queued on another, by an event.
func fork(f *fixture.F, from, to device.Stream, e device.Event) {
	f.Helper()
	f.OK(from.Record(e))
	f.OK(to.Wait(e))
}

// A second stream joins the capture by an event, and is joined by another.
func testCaptureTwoStreams(f *fixture.F) {
	c := capturer(f)
	const n = 1 << 20
	in, out := f.Pinned(n)[:n], f.Pinned(n)[:n]
	a, b, d := f.Stream(), f.Stream(), f.Stream()
	p, q := f.Alloc(n), f.Alloc(n)
	e, second := f.Event(device.EventNoTiming), f.Event(device.EventNoTiming)
	g := capture(f, c, a, func() {
		f.OK(a.CopyH2D(p, in))
		fork(f, a, b, e)
		f.OK(b.CopyD2D(q, p, n))
		fork(f, b, d, e) // the event stands for its newest mark
		f.OK(d.CopyD2H(out, q))
		fork(f, d, a, second) // b is before it, too
		f.OK(a.Memset(q, 0, n))
		if !c.Capturing(b) || !c.Capturing(d) {
			f.Error("a stream did not join")
		}
	})
	for round := range byte(3) {
		want := fixture.Unique(n, round)
		copy(in, want)
		f.OK(g.Launch(a))
		f.Within("a stream with a graph of several", a.Synchronize)
		if !bytes.Equal(out, want) {
			f.Fatalf("launch %d brought the wrong bytes", round)
		}
	}
	if !bytes.Equal(f.Download(q, n), make([]byte, n)) {
		f.Error("the last operation did not run last")
	}
	if c.Capturing(b) || c.Capturing(d) {
		f.Error("a stream is still being captured")
	}
	// Events work again once they are recorded outside.
	fork(f, a, b, e)
	f.Within("an event recorded anew", e.Synchronize)
	f.OK(b.Synchronize())
	f.OK(g.Close())
}

// Functions run at each launch, and their errors are those of the stream.
func testCaptureCalls(f *fixture.F) {
	c, caller := capturer(f), f.Caller()
	s := f.Stream()
	ran, bad := 0, errors.New("bad")
	var fail error
	g := capture(f, c, s, func() {
		f.OK(caller.Call(s, func() error { ran++; return fail }))
		f.OK(caller.Call(s, func() error { ran++; return nil }))
	})
	if ran != 0 {
		f.Fatal("a function ran while it was recorded")
	}
	for round := range 3 {
		f.OK(g.Launch(s))
		f.OK(s.Synchronize())
		if ran != 2*(round+1) {
			f.Fatalf("%d functions ran in %d launches", ran, round+1)
		}
	}
	fail = bad
	f.OK(g.Launch(s))
	f.Fails("a launch whose function fails", s.Synchronize(), bad)
	fail = nil
	f.OK(g.Launch(s))
	f.OK(s.Synchronize())
	f.OK(g.Close())
}

// Operations in random order on several streams, one after the other by events, do what
// they do to a model.
func testCaptureRandom(f *fixture.F) {
	c := capturer(f)
	const cells, cell, count = 16, 1 << 12, 60
	rng := rand.New(rand.NewPCG(1, 2))
	streams := []device.Stream{f.Stream(), f.Stream(), f.Stream()}
	p := f.Alloc(cells * cell)
	host := f.Pinned(cells * cell)[:cells*cell]
	at := func(i int) device.Ptr { return p.Add(int64(i) * cell) }
	e := f.Event(device.EventNoTiming)
	for range 4 {
		var model []func(dev, host []byte)
		g := capture(f, c, streams[0], func() {
			now := 0
			for i := range count {
				next := rng.IntN(len(streams))
				if i == count-1 {
					next = 0
				}
				if next != now {
					fork(f, streams[now], streams[next], e)
					now = next
				}
				s, x, y, v := streams[now], rng.IntN(cells), rng.IntN(cells), byte(rng.Uint32())
				a, b := x*cell, y*cell
				switch rng.IntN(4) {
				case 0:
					f.OK(s.Memset(at(x), v, cell))
					model = append(model, func(dev, _ []byte) { copy(dev[a:], bytes.Repeat([]byte{v}, cell)) })
				case 1:
					f.OK(s.CopyH2D(at(x), host[b:b+cell]))
					model = append(model, func(dev, host []byte) { copy(dev[a:a+cell], host[b:]) })
				case 2:
					f.OK(s.CopyD2H(host[b:b+cell], at(x)))
					model = append(model, func(dev, host []byte) { copy(host[b:b+cell], dev[a:]) })
				case 3:
					if x != y {
						f.OK(s.CopyD2D(at(x), at(y), cell))
						model = append(model, func(dev, _ []byte) { copy(dev[a:a+cell], dev[b:]) })
					}
				}
			}
		})
		fixture.Scramble(host, byte(rng.Uint32()))
		want, wantHost := fixture.Unique(cells*cell, byte(rng.Uint32())), bytes.Clone(host)
		f.Upload(p, want)
		for launch := range 3 {
			f.OK(g.Launch(streams[0]))
			f.Within("a random graph", streams[0].Synchronize)
			for _, do := range model {
				do(want, wantHost)
			}
			if !bytes.Equal(host, wantHost) || !bytes.Equal(f.Download(p, cells*cell), want) {
				f.Fatalf("launch %d did something else than the model", launch)
			}
		}
		f.OK(g.Close())
	}
}

// What cannot be done in a capture is refused, and does the capture no harm.
func testCaptureRefused(f *fixture.F) {
	c := capturer(f)
	const n = 1 << 12
	s, p := f.Stream(), f.Alloc(n)
	f.OK(s.Memset(p, 1, n))
	done := capture(f, c, s, func() {})
	g := capture(f, c, s, func() {
		f.Fails("Synchronize of a stream", s.Synchronize(), device.ErrCapturing)
		f.Fails("Close of a stream", s.Close(), device.ErrCapturing)
		_, err := c.Capture(s, func() error { return nil })
		f.Fails("Capture in a capture", err, device.ErrCapturing)
		f.Fails("Launch of a graph", done.Launch(s), device.ErrCapturing)
		if a, ok := device.As[device.StreamAllocator](f.Dev); ok && a.CanAllocAsync() {
			_, err := a.AllocAsync(s, n)
			f.Fails("AllocAsync", err, device.ErrCapturing)
			outside := f.Stream()
			q, err := a.AllocAsync(outside, n)
			f.OK(err)
			f.Fails("FreeAsync", a.FreeAsync(s, q), device.ErrCapturing)
			f.OK(a.FreeAsync(outside, q))
		}
		if r, ok := device.As[device.ContextRecorder](f.Dev); ok && r.CanRecordAll() {
			f.Fails("RecordAll", r.RecordAll(f.Event(device.EventNoTiming)), device.ErrCapturing)
		}
		f.OK(s.Memset(p, 5, n))
	})
	f.OK(g.Launch(s))
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(p, n), bytes.Repeat([]byte{5}, n)) {
		f.Error("the graph does not what was recorded")
	}
	f.OK(g.Close())
	f.OK(done.Close())
}

// A capture that fails says why, and leaves the streams as they were.
func testCaptureErrors(f *fixture.F) {
	c := capturer(f)
	const n = 1 << 12
	a, b, p := f.Stream(), f.Stream(), f.Alloc(n)
	outside, e := f.Event(device.EventNoTiming), f.Event(device.EventNoTiming)
	bad := errors.New("bad")
	for what, test := range map[string]struct {
		fn   func() error
		want error
	}{
		"a function that fails": {func() error { return errors.Join(a.Memset(p, 1, n), bad) }, bad},
		"a stream not joined again": {func() error {
			return errors.Join(a.Record(e), b.Wait(e), b.Memset(p, 1, n))
		}, device.ErrCapturing},
		"a stream joined again before its last operation": {func() error {
			return errors.Join(a.Record(e), b.Wait(e), b.Memset(p, 1, n), b.Record(e), a.Wait(e), b.Memset(p, 2, n))
		}, device.ErrCapturing},
		"waiting for an event from outside": {func() error {
			return errors.Join(b.Record(outside), a.Wait(outside))
		}, device.ErrCapturing},
	} {
		f.OK(a.Memset(p, 9, n))
		g, err := c.Capture(a, test.fn)
		f.Fails(what, err, test.want)
		if g != nil {
			f.Errorf("%s: there is a graph", what)
		}
		if c.Capturing(a) || c.Capturing(b) {
			f.Errorf("%s: a stream is still being captured", what)
		}
		for _, s := range []device.Stream{a, b} {
			f.Within(what+", a stream after it", s.Synchronize)
		}
		if !bytes.Equal(f.Download(p, n), bytes.Repeat([]byte{9}, n)) {
			f.Errorf("%s: what was recorded ran", what)
		}
		f.OK(a.Memset(p, 3, n))
		fork(f, a, b, e)
		f.OK(b.Synchronize())
		if !bytes.Equal(f.Download(p, n), bytes.Repeat([]byte{3}, n)) {
			f.Errorf("%s: the stream does not work any more", what)
		}
	}
	func() {
		defer func() {
			if recover() != bad {
				f.Error("a panic did not come out of Capture")
			}
		}()
		_, _ = c.Capture(a, func() error { panic(bad) })
	}()
	f.Within("the stream of a panic", a.Synchronize)

	g := capture(f, c, a, func() { f.OK(a.Record(e)) })
	_, err := e.Done()
	f.Fails("Done of an event in a capture", err, device.ErrCapturing)
	f.Fails("Synchronize of an event in a capture", e.Synchronize(), device.ErrCapturing)
	f.OK(g.Close())
	_, err = c.Capture(nil, func() error { return nil })
	f.Fails("Capture of no stream", err, device.ErrArgument)
	theirs, err := f.Open().NewStream()
	f.OK(err)
	_, err = c.Capture(theirs, func() error { return nil })
	f.Fails("Capture of a stream of another device", err, device.ErrArgument)
	f.OK(b.Close())
	_, err = c.Capture(b, func() error { return nil })
	f.Fails("Capture of a closed stream", err, device.ErrClosed)
}

// The device is waited for, and its memory freed, beside captures and in them.
func testCaptureBeside(f *fixture.F) {
	c := capturer(f)
	const n = 1 << 16
	busy := f.Stream()
	var work sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p, err := f.Dev.Alloc(n)
				if err != nil {
					f.Error(err)
					return
				}
				if err := errors.Join(busy.Memset(p, 1, n), f.Dev.Synchronize(), f.Dev.Free(p)); err != nil {
					f.Error(err)
					return
				}
			}
		})
	}
	s := f.Stream()
	for round := range byte(20) {
		p, q := f.Alloc(n), f.Alloc(n)
		g, err := c.Capture(s, func() error {
			return errors.Join(s.Memset(p, round, n), f.Dev.Synchronize(), f.Dev.Free(q), s.Memset(p, round, n/2))
		})
		f.OK(err)
		f.OK(g.Launch(s))
		f.OK(s.Synchronize())
		if !bytes.Equal(f.Download(p, n), bytes.Repeat([]byte{round}, n)) {
			f.Error("the graph does not what was recorded")
		}
		f.OK(g.Close())
		f.OK(f.Dev.Free(p))
	}
	close(stop)
	work.Wait()
}

// A launch runs after the one before, which another stream has.
func testCaptureTurns(f *fixture.F) {
	c := capturer(f)
	const n = 1 << 20
	a, b := f.Stream(), f.Stream()
	p, q := f.Alloc(n), f.Alloc(n)
	f.OK(a.Memset(p, 1, n))
	f.OK(a.Memset(q, 2, n))
	g := capture(f, c, a, func() { f.OK(a.CopyD2D(q, p, n)) })
	release, _ := f.Delay(a)
	f.OK(a.Memset(p, 3, n))
	f.OK(g.Launch(a))
	f.OK(g.Launch(b)) // would copy the old bytes
	f.OK(b.CopyD2D(p, q, n))
	release()
	f.Within("the second launch", b.Synchronize)
	f.OK(a.Synchronize())
	if !bytes.Equal(f.Download(p, n), bytes.Repeat([]byte{3}, n)) {
		f.Error("a launch did not wait for the one before")
	}
	f.OK(g.Close())
}

// Close leaves alone what was launched.
func testCaptureClose(f *fixture.F) {
	c := capturer(f)
	const n = 1 << 20
	s, p := f.Stream(), f.Alloc(n)
	g := capture(f, c, s, func() { f.OK(s.Memset(p, 4, n)) })
	release, _ := f.Delay(s)
	f.OK(g.Launch(s))
	f.Within("Close of a graph that runs", g.Close)
	f.OK(g.Close())
	f.Fails("Launch of a closed graph", g.Launch(s), device.ErrClosed)
	release()
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(p, n), bytes.Repeat([]byte{4}, n)) {
		f.Error("closing a graph stopped what was launched")
	}
	left := capture(f, c, s, func() { f.OK(s.Memset(p, 4, n)) })
	theirs, err := f.Open().NewStream()
	f.OK(err)
	f.Fails("Launch on a stream of another device", left.Launch(theirs), device.ErrArgument)
	f.OK(f.Dev.Close())
	f.Fails("Launch on a closed device", left.Launch(s), device.ErrClosed)
	f.OK(left.Close())
}
