package devicetest

import (
	"bytes"
	"errors"

	"github.com/pinion-gpu/pinion/device"
)

// recorder returns the device as a [device.ContextRecorder], or skips the test.
func (f *fixture) recorder() device.ContextRecorder {
	f.Helper()
	c, ok := device.As[device.ContextRecorder](f.dev)
	if !ok || !c.CanRecordAll() {
		f.Skip("the device records no events behind all streams")
	}
	return c
}

// A mark behind all streams is passed when the last of them is done, and not
// held up by what is queued later.
func testRecordAll(f *fixture) {
	c := f.recorder()
	const n = 1 << 20
	e := f.event(device.EventNoTiming)
	f.ok(c.RecordAll(e)) // nothing is queued
	f.within("an event behind nothing", e.Synchronize)

	want := unique(n, 1)
	for round := range 3 {
		var release []func()
		var got [][]byte
		var p []device.Ptr
		held := false
		for range 3 {
			s, q := f.stream(), f.alloc(n)
			b := f.pages(n)
			let, is := f.delay(s)
			f.ok(s.CopyH2D(q, want))
			f.ok(s.CopyD2H(b[:n], q))
			release, held = append(release, let), is
			got, p = append(got, b[:n]), append(p, q)
		}
		f.ok(c.RecordAll(e))
		later := f.stream()
		letLater, _ := f.delay(later)
		for i, let := range release {
			if done, err := e.Done(); held && (done || err != nil) {
				f.Fatalf("round %d: done before stream %d is: %t, %v", round, i, done, err)
			}
			let()
		}
		f.within("an event behind all streams", e.Synchronize)
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
		f.ok(later.Synchronize())
		for _, q := range p {
			f.ok(f.dev.Free(q))
		}
	}
}

// Another stream waits for such a mark, and each new one counts anew.
func testRecordAllWait(f *fixture) {
	c := f.recorder()
	const n = 1 << 20
	e := f.event(device.EventNoTiming)
	p, q := f.alloc(n), f.alloc(n)
	writer, reader := f.stream(), f.stream()
	for round := range byte(4) {
		want := unique(n, round)
		release, _ := f.delay(writer)
		f.ok(writer.CopyH2D(p, want))
		f.ok(c.RecordAll(e))
		f.ok(reader.Wait(e))
		f.ok(reader.CopyD2D(q, p, n))
		release()
		f.within("a stream behind all streams", reader.Synchronize)
		if !bytes.Equal(f.download(q, n), want) {
			f.Fatal("a stream did not wait for an event behind all streams")
		}
	}
}

func testRecordAllErrors(f *fixture) {
	c, ok := device.As[device.ContextRecorder](f.dev)
	if !ok {
		f.Skip("the device records no events behind all streams")
	}
	e := f.event(device.EventNoTiming)
	if !c.CanRecordAll() {
		f.fails("RecordAll of a driver without", c.RecordAll(e), device.ErrNotSupported)
		return
	}
	f.fails("RecordAll of no event", c.RecordAll(nil), device.ErrArgument)
	f.fails("RecordAll of an event with timing", c.RecordAll(f.event(0)), device.ErrArgument)
	theirs, err := f.open().NewEvent(device.EventNoTiming)
	f.ok(err)
	f.fails("RecordAll of an event of another device", c.RecordAll(theirs), device.ErrArgument)
	if caller, ok := device.As[device.Caller](f.dev); ok {
		bad := errors.New("bad")
		s, idle := f.stream(), f.stream()
		release := f.hold(s)
		f.ok(caller.Call(s, func() error { return bad }))
		f.ok(c.RecordAll(e))
		f.ok(idle.Synchronize())
		release()
		f.fails("an event behind work that failed", e.Synchronize(), bad)
		f.fails("the stream of it", s.Synchronize(), bad)
		f.ok(c.RecordAll(e))
		f.ok(e.Synchronize())
	}
	f.ok(e.Close())
	f.fails("RecordAll of a closed event", c.RecordAll(e), device.ErrClosed)
	last := f.event(device.EventNoTiming)
	f.ok(f.dev.Close())
	f.fails("RecordAll of a closed device", c.RecordAll(last), device.ErrClosed)
}

// A stream of another maker works as one of the device does, is among all
// streams, and outlives what was made of it.
func testStreamOf(f *fixture) {
	native, ok := device.As[device.Native](f.dev)
	if !ok {
		f.Skip("the device has no vendor's streams")
	}
	const n = 1 << 20
	maker := f.open()
	theirs, err := maker.NewStream()
	f.ok(err)
	var handle uintptr
	f.ok(As[device.Native](f, maker).WithStream(theirs, func(h uintptr) error { handle = h; return nil }))

	s, err := native.StreamOf(handle)
	f.ok(err)
	if !device.Same(s.Device(), f.dev) {
		f.Error("the stream is of another device")
	}
	p, want := f.alloc(n), unique(n, 1)
	got := make([]byte, n)
	e := f.event(device.EventNoTiming)
	f.ok(theirs.Memset(p, 0, n)) // before it, because it is the same stream
	f.ok(s.CopyH2D(p, want))
	f.ok(s.CopyD2H(got, p))
	f.ok(s.Record(e))
	f.within("an event of another's stream", e.Synchronize)
	if !bytes.Equal(got, want) {
		f.Error("another's stream brought the wrong bytes")
	}
	if c, ok := device.As[device.ContextRecorder](f.dev); ok && c.CanRecordAll() {
		b := f.pages(n)[:n]
		for range 8 {
			f.ok(theirs.Memset(p, 7, n))
		}
		f.ok(theirs.CopyD2H(b, p))
		f.ok(c.RecordAll(e))
		f.within("an event behind all streams", e.Synchronize)
		if !bytes.Equal(b, bytes.Repeat([]byte{7}, n)) {
			f.Error("an event behind all streams did not wait for one of another maker")
		}
	}
	f.ok(s.Synchronize())
	f.ok(s.Close())
	f.ok(s.Close())
	f.fails("Memset of a closed stream", s.Memset(p, 1, n), device.ErrClosed)
	_, err = native.StreamOf(handle) // left to the device
	f.ok(err)
	f.ok(f.dev.Close())
	_, err = native.StreamOf(handle)
	f.fails("StreamOf of a closed device", err, device.ErrClosed)
	q, err := maker.Alloc(n)
	f.ok(err)
	f.ok(theirs.Memset(q, 1, n))
	f.ok(theirs.Synchronize())
}
