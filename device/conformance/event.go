package conformance

import (
	"bytes"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// An event that was never recorded is passed, and holds nothing up.
func testEventUnrecorded(f *fixture.F) {
	for _, flags := range []device.EventFlags{0, device.EventNoTiming, device.EventBlockingSync} {
		e, s := f.Event(flags), f.Stream()
		if done, err := e.Done(); !done || err != nil {
			f.Errorf("Done of an event never recorded: %t, %v", done, err)
		}
		f.Within("Synchronize of an event never recorded", e.Synchronize)
		f.OK(s.Wait(e))
		f.Within("a stream behind an event never recorded", s.Synchronize)
		f.OK(e.Close())
	}
}

// Synchronize of an event waits for the work before its mark.
func testEventSynchronize(f *fixture.F) {
	const n = 1 << 20
	s := f.Stream()
	p, q := f.Alloc(n), f.Alloc(n)
	for round, flags := range []device.EventFlags{0, device.EventNoTiming, device.EventBlockingSync} {
		want := fixture.Unique(n, byte(round))
		f.Upload(p, want)
		e := f.Event(flags)
		release, _ := f.Delay(s)
		f.OK(s.CopyD2D(q, p, n))
		f.OK(s.Record(e))
		waiting := fixture.Async(e.Synchronize)
		release()
		f.Arrives("Synchronize", waiting)
		if !bytes.Equal(f.Download(q, n), want) {
			f.Error("Synchronize returned before the work was done")
		}
	}
}

// An event recorded in two streams stands for the mark that was queued last,
// even when the older mark is passed later.
func testEventTwoStreams(f *fixture.F) {
	a, b, c := f.Stream(), f.Stream(), f.Stream()
	e, next := f.Event(0), f.Event(0)
	release := f.Hold(a)
	f.OK(a.Record(e))
	f.OK(b.Record(e))
	f.Within("the newest mark, in a stream that moves", e.Synchronize)
	if done, err := e.Done(); !done || err != nil {
		f.Errorf("the newest mark, in a stream that moves: done %t, error %v", done, err)
	}
	f.OK(c.Wait(e))
	f.Within("a stream behind the newest mark", c.Synchronize)
	f.OK(b.Record(next))
	f.OK(b.Synchronize())
	release()
	f.Within("the stream that stood still", a.Synchronize)
	if d, err := next.Since(e); err != nil || d < 0 {
		f.Errorf("a later mark is %v after an event that an older mark passed last, error %v", d, err)
	}

	release = f.Hold(a)
	f.OK(a.Record(e))
	if done, err := e.Done(); done || err != nil {
		f.Errorf("the newest mark, in a stream that stands still: done %t, error %v", done, err)
	}
	release()
	f.Within("the newest mark", e.Synchronize)
}

func testEventSince(f *fixture.F) {
	const n = 4 << 20
	s := f.Stream()
	p := f.Alloc(n)
	var marks []device.Event
	for _, flags := range []device.EventFlags{0, device.EventBlockingSync, 0, 0} {
		e := f.Event(flags)
		marks = append(marks, e)
		f.OK(s.Memset(p, 1, n))
		f.OK(s.Record(e))
	}
	f.Within("Synchronize", marks[len(marks)-1].Synchronize)

	since := func(end, start device.Event) time.Duration {
		f.Helper()
		d, err := end.Since(start)
		f.OK(err)
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

func testEventSinceErrors(f *fixture.F) {
	s := f.Stream()
	timed, blank, untimed := f.Event(0), f.Event(0), f.Event(device.EventNoTiming)
	f.OK(s.Record(timed))
	f.OK(s.Record(untimed))
	f.OK(s.Synchronize())
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
		f.Fails(c.what, err, nil)
	}
	if _, ok := device.As[device.Caller](f.Dev); ok {
		late := f.Event(0)
		release := f.Hold(s)
		f.OK(s.Record(late))
		_, err := late.Since(timed)
		f.Fails("Since of a mark that is not passed", err, nil)
		release()
		f.Within("Synchronize", late.Synchronize)
		_, err = late.Since(timed)
		f.OK(err)
	}
}

// Close of an event leaves alone what waits for it.
func testEventClosedUnderWork(f *fixture.F) {
	const n = 1 << 20
	a, b := f.Stream(), f.Stream()
	p, q := f.Alloc(n), f.Alloc(n)
	src := f.Alloc(n)
	want := fixture.Unique(n, 1)
	f.Upload(src, want)
	e := f.Event(0)
	release, _ := f.Delay(a)
	f.OK(a.CopyD2D(p, src, n))
	f.OK(a.Record(e))
	f.OK(b.Wait(e))
	f.OK(b.CopyD2D(q, p, n))
	f.Within("Close of an event that is waited for", e.Close)
	release()
	f.Within("Synchronize", f.Dev.Synchronize)
	if !bytes.Equal(f.Download(q, n), want) {
		f.Error("closing an event let work run that waits for it")
	}
}

// foreign is an event of no device.
type foreign struct{ device.Event }

func testEventArguments(f *fixture.F) {
	s, e := f.Stream(), f.Event(0)
	for what, other := range map[string]device.Event{"nil": nil, "an event of another kind": foreign{}} {
		f.Fails("Record of "+what, s.Record(other), device.ErrArgument)
		f.Fails("Wait for "+what, s.Wait(other), device.ErrArgument)
		_, err := e.Since(other)
		f.Fails("Since "+what, err, device.ErrArgument)
	}
	f.OK(s.Synchronize())
}
