package devicetest

import (
	"bytes"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// An event that was never recorded is passed, and holds nothing up.
func testEventUnrecorded(f *fixture) {
	for _, flags := range []device.EventFlags{0, device.EventNoTiming, device.EventBlockingSync} {
		e, s := f.event(flags), f.stream()
		if done, err := e.Done(); !done || err != nil {
			f.Errorf("Done of an event never recorded: %t, %v", done, err)
		}
		f.within("Synchronize of an event never recorded", e.Synchronize)
		f.ok(s.Wait(e))
		f.within("a stream behind an event never recorded", s.Synchronize)
		f.ok(e.Close())
	}
}

// Synchronize of an event waits for the work before its mark.
func testEventSynchronize(f *fixture) {
	const n = 1 << 20
	s := f.stream()
	p, q := f.alloc(n), f.alloc(n)
	for round, flags := range []device.EventFlags{0, device.EventNoTiming, device.EventBlockingSync} {
		want := unique(n, byte(round))
		f.upload(p, want)
		e := f.event(flags)
		release, _ := f.delay(s)
		f.ok(s.CopyD2D(q, p, n))
		f.ok(s.Record(e))
		waiting := async(e.Synchronize)
		release()
		f.arrives("Synchronize", waiting)
		if !bytes.Equal(f.download(q, n), want) {
			f.Error("Synchronize returned before the work was done")
		}
	}
}

// An event recorded in two streams stands for the mark that was queued last,
// even when the older mark is passed later.
func testEventTwoStreams(f *fixture) {
	a, b, c := f.stream(), f.stream(), f.stream()
	e, next := f.event(0), f.event(0)
	release := f.hold(a)
	f.ok(a.Record(e))
	f.ok(b.Record(e))
	f.within("the newest mark, in a stream that moves", e.Synchronize)
	if done, err := e.Done(); !done || err != nil {
		f.Errorf("the newest mark, in a stream that moves: done %t, error %v", done, err)
	}
	f.ok(c.Wait(e))
	f.within("a stream behind the newest mark", c.Synchronize)
	f.ok(b.Record(next))
	f.ok(b.Synchronize())
	release()
	f.within("the stream that stood still", a.Synchronize)
	if d, err := next.Since(e); err != nil || d < 0 {
		f.Errorf("a later mark is %v after an event that an older mark passed last, error %v", d, err)
	}

	release = f.hold(a)
	f.ok(a.Record(e))
	if done, err := e.Done(); done || err != nil {
		f.Errorf("the newest mark, in a stream that stands still: done %t, error %v", done, err)
	}
	release()
	f.within("the newest mark", e.Synchronize)
}

func testEventSince(f *fixture) {
	const n = 4 << 20
	s := f.stream()
	p := f.alloc(n)
	var marks []device.Event
	for _, flags := range []device.EventFlags{0, device.EventBlockingSync, 0, 0} {
		e := f.event(flags)
		marks = append(marks, e)
		f.ok(s.Memset(p, 1, n))
		f.ok(s.Record(e))
	}
	f.within("Synchronize", marks[len(marks)-1].Synchronize)

	since := func(end, start device.Event) time.Duration {
		f.Helper()
		d, err := end.Since(start)
		f.ok(err)
		return d
	}
	var sum time.Duration
	for i, e := range marks {
		if d := since(e, e); d != 0 {
			f.Errorf("an event is %v after itself", d)
		}
		if i == 0 {
			continue
		}
		step := since(e, marks[i-1])
		if step < 0 {
			f.Errorf("mark %d is %v after the one before", i, step)
		}
		sum += step
	}
	// The device's clock has a resolution of half a microsecond.
	all := since(marks[len(marks)-1], marks[0])
	if off := (all - sum).Abs(); off > 5*time.Microsecond {
		f.Errorf("steps add up to %v, the whole is %v", sum, all)
	}
	if d := since(marks[0], marks[len(marks)-1]); d > 0 {
		f.Errorf("backwards it is %v", d)
	}
}

func testEventSinceErrors(f *fixture) {
	s := f.stream()
	timed, blank, untimed := f.event(0), f.event(0), f.event(device.EventNoTiming)
	f.ok(s.Record(timed))
	f.ok(s.Record(untimed))
	f.ok(s.Synchronize())
	for _, c := range []struct {
		what       string
		end, start device.Event
	}{
		{"Since of an event without timing", untimed, timed},
		{"Since an event without timing", timed, untimed},
		{"Since of an event never recorded", blank, timed},
		{"Since an event never recorded", timed, blank},
	} {
		_, err := c.end.Since(c.start)
		f.fails(c.what, err, nil)
	}
	if _, ok := device.As[device.Caller](f.dev); ok {
		late := f.event(0)
		release := f.hold(s)
		f.ok(s.Record(late))
		_, err := late.Since(timed)
		f.fails("Since of a mark that is not passed", err, nil)
		release()
		f.within("Synchronize", late.Synchronize)
		_, err = late.Since(timed)
		f.ok(err)
	}
}

// Close of an event leaves alone what waits for it.
func testEventClosedUnderWork(f *fixture) {
	const n = 1 << 20
	a, b := f.stream(), f.stream()
	p, q := f.alloc(n), f.alloc(n)
	src := f.alloc(n)
	want := unique(n, 1)
	f.upload(src, want)
	e := f.event(0)
	release, _ := f.delay(a)
	f.ok(a.CopyD2D(p, src, n))
	f.ok(a.Record(e))
	f.ok(b.Wait(e))
	f.ok(b.CopyD2D(q, p, n))
	f.within("Close of an event that is waited for", e.Close)
	release()
	f.within("Synchronize", f.dev.Synchronize)
	if !bytes.Equal(f.download(q, n), want) {
		f.Error("closing an event let work run that waits for it")
	}
}

// foreign is an event of no device.
type foreign struct{ device.Event }

func testEventArguments(f *fixture) {
	s, e := f.stream(), f.event(0)
	for what, other := range map[string]device.Event{"nil": nil, "an event of another kind": foreign{}} {
		f.fails("Record of "+what, s.Record(other), device.ErrArgument)
		f.fails("Wait for "+what, s.Wait(other), device.ErrArgument)
		_, err := e.Since(other)
		f.fails("Since "+what, err, device.ErrArgument)
	}
	f.ok(s.Synchronize())
}
