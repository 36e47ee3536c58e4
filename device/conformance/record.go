package conformance

import (
	"bytes"
	"errors"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
	"github.com/pinion-gpu/pinion/device/devicetest"
)

// recorder returns the device as a [device.ContextRecorder], or skips the test.
func recorder(f *fixture.F) device.ContextRecorder {
	f.Helper()
	c, ok := device.As[device.ContextRecorder](f.Dev)
	if !ok || !c.CanRecordAll() {
		f.Skip("the device records no events behind all streams")
	}
	return c
}

// A mark behind all streams is passed when the last of them is done, and not
// held up by what is queued later.
func testRecordAll(f *fixture.F) {
	c := recorder(f)
	const n = 1 << 20
	e := f.Event(device.EventNoTiming)
	f.OK(c.RecordAll(e)) // nothing is queued
	f.Within("an event behind nothing", e.Synchronize)

	want := fixture.Unique(n, 1)
	for round := range 3 {
		var release []func()
		var got [][]byte
		var p []device.Ptr
		held := false
		for range 3 {
			s, q := f.Stream(), f.Alloc(n)
			b := f.Pages(n)
			let, is := f.Delay(s)
			f.OK(s.CopyH2D(q, want))
			f.OK(s.CopyD2H(b[:n], q))
			release, held = append(release, let), is
			got, p = append(got, b[:n]), append(p, q)
		}
		f.OK(c.RecordAll(e))
		later := f.Stream()
		letLater, _ := f.Delay(later)
		for i, let := range release {
			if done, err := e.Done(); held && (done || err != nil) {
				f.Fatalf("round %d: done before stream %d is: %t, %v", round, i, done, err)
			}
			let()
		}
		f.Within("an event behind all streams", e.Synchronize)
		for i := range got {
			if !bytes.Equal(got[i], want) {
				f.Fatalf("round %d: the event was passed before the work of stream %d was done", round, i)
			}
			clear(got[i])
		}
		if done, err := e.Done(); !done || err != nil {
			f.Errorf("round %d: passed, then %t, %v", round, done, err)
		}
		letLater()
		f.OK(later.Synchronize())
		for _, q := range p {
			f.OK(f.Dev.Free(q))
		}
	}
}

// Another stream waits for such a mark, and each new one counts anew.
func testRecordAllWait(f *fixture.F) {
	c := recorder(f)
	const n = 1 << 20
	e := f.Event(device.EventNoTiming)
	p, q := f.Alloc(n), f.Alloc(n)
	writer, reader := f.Stream(), f.Stream()
	for round := range byte(4) {
		want := fixture.Unique(n, round)
		release, _ := f.Delay(writer)
		f.OK(writer.CopyH2D(p, want))
		f.OK(c.RecordAll(e))
		f.OK(reader.Wait(e))
		f.OK(reader.CopyD2D(q, p, n))
		release()
		f.Within("a stream behind all streams", reader.Synchronize)
		if !bytes.Equal(f.Download(q, n), want) {
			f.Fatal("a stream did not wait for an event behind all streams")
		}
	}
}

func testRecordAllErrors(f *fixture.F) {
	c, ok := device.As[device.ContextRecorder](f.Dev)
	if !ok {
		f.Skip("the device records no events behind all streams")
	}
	e := f.Event(device.EventNoTiming)
	if !c.CanRecordAll() {
		f.Fails("RecordAll of a driver without", c.RecordAll(e), device.ErrNotSupported)
		return
	}
	f.Fails("RecordAll of no event", c.RecordAll(nil), device.ErrArgument)
	f.Fails("RecordAll of an event with timing", c.RecordAll(f.Event(0)), device.ErrArgument)
	theirs, err := f.Open().NewEvent(device.EventNoTiming)
	f.OK(err)
	f.Fails("RecordAll of an event of another device", c.RecordAll(theirs), device.ErrArgument)
	if caller, ok := device.As[device.Caller](f.Dev); ok {
		bad := errors.New("bad")
		s, idle := f.Stream(), f.Stream()
		release := f.Hold(s)
		f.OK(caller.Call(s, func() error { return bad }))
		f.OK(c.RecordAll(e))
		f.OK(idle.Synchronize())
		release()
		f.Fails("an event behind work that failed", e.Synchronize(), bad)
		f.Fails("the stream of it", s.Synchronize(), bad)
		f.OK(c.RecordAll(e))
		f.OK(e.Synchronize())
	}
	f.OK(e.Close())
	f.Fails("RecordAll of a closed event", c.RecordAll(e), device.ErrClosed)
	last := f.Event(device.EventNoTiming)
	f.OK(f.Dev.Close())
	f.Fails("RecordAll of a closed device", c.RecordAll(last), device.ErrClosed)
}

// A stream of another maker works as one of the device does, is among all
// streams, and outlives what was made of it.
func testStreamOf(f *fixture.F) {
	native, ok := device.As[device.Native](f.Dev)
	if !ok {
		f.Skip("the device has no vendor's streams")
	}
	const n = 1 << 20
	maker := f.Open()
	theirs, err := maker.NewStream()
	f.OK(err)
	var handle uintptr
	f.OK(devicetest.As[device.Native](f, maker).WithStream(theirs, func(h uintptr) error { handle = h; return nil }))

	s, err := native.StreamOf(handle)
	f.OK(err)
	if !device.Same(s.Device(), f.Dev) {
		f.Error("the stream is of another device")
	}
	p, want := f.Alloc(n), fixture.Unique(n, 1)
	got := make([]byte, n)
	e := f.Event(device.EventNoTiming)
	f.OK(theirs.Memset(p, 0, n)) // before it, because it is the same stream
	f.OK(s.CopyH2D(p, want))
	f.OK(s.CopyD2H(got, p))
	f.OK(s.Record(e))
	f.Within("an event of another's stream", e.Synchronize)
	if !bytes.Equal(got, want) {
		f.Error("another's stream brought the wrong bytes")
	}
	if c, ok := device.As[device.ContextRecorder](f.Dev); ok && c.CanRecordAll() {
		b := f.Pages(n)[:n]
		for range 8 {
			f.OK(theirs.Memset(p, 7, n))
		}
		f.OK(theirs.CopyD2H(b, p))
		f.OK(c.RecordAll(e))
		f.Within("an event behind all streams", e.Synchronize)
		if !bytes.Equal(b, bytes.Repeat([]byte{7}, n)) {
			f.Error("an event behind all streams did not wait for one of another maker")
		}
	}
	f.OK(s.Synchronize())
	f.OK(s.Close())
	f.OK(s.Close())
	f.Fails("Memset of a closed stream", s.Memset(p, 1, n), device.ErrClosed)
	_, err = native.StreamOf(handle) // left to the device
	f.OK(err)
	f.OK(f.Dev.Close())
	_, err = native.StreamOf(handle)
	f.Fails("StreamOf of a closed device", err, device.ErrClosed)
	q, err := maker.Alloc(n)
	f.OK(err)
	f.OK(theirs.Memset(q, 1, n))
	f.OK(theirs.Synchronize())
}
