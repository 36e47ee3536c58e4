package conformance

import (
	"bytes"
	"errors"
	"math"
	"strings"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// Go functions run in their place among the other operations of a stream.
func testCallOrder(f *fixture.F) {
	c := f.Caller()
	const n = 4096
	s := f.Stream()
	p := f.Alloc(n)
	got := make([]byte, n)
	want := bytes.Repeat([]byte{3}, n)
	f.OK(s.Memset(p, 1, n))
	f.OK(c.Call(s, func() error {
		mem, err := c.Bytes(p, n)
		add(mem, 2)
		return err
	}))
	f.OK(s.CopyD2H(got, p))
	f.OK(c.Call(s, func() error {
		if !bytes.Equal(got, want) {
			return errors.New("a function ran before the copy in front of it")
		}
		return nil
	}))
	f.Within("Synchronize", s.Synchronize)
	if !bytes.Equal(got, want) {
		f.Error("a copy ran before the function in front of it")
	}
}

// Errors of functions surface once, where their stream is waited for, and
// stop neither it nor others.
func testCallErrors(f *fixture.F) {
	c := f.Caller()
	s, other := f.Stream(), f.Stream()
	first, second := errors.New("first"), errors.New("second")
	fail := func(err error) func() error { return func() error { return err } }
	const n = 256
	p := f.Alloc(n)

	f.OK(c.Call(s, fail(first)))
	f.OK(c.Call(s, fail(second)))
	f.OK(s.Memset(p, 7, n))
	f.OK(other.Synchronize())
	f.Fails("Synchronize", s.Synchronize(), first)
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(p, n), bytes.Repeat([]byte{7}, n)) {
		f.Error("work behind a failed function did not run")
	}

	f.OK(c.Call(s, fail(first)))
	f.OK(other.Memset(p, 8, n))
	f.Fails("Synchronize of the device", f.Dev.Synchronize(), first)
	f.OK(f.Dev.Synchronize())
	f.OK(s.Synchronize())

	e, after := f.Event(0), f.Event(0)
	f.OK(c.Call(s, fail(first)))
	f.OK(s.Record(e))
	f.Fails("Synchronize of an event behind the failure", e.Synchronize(), first)
	_ = s.Synchronize() // reported once already, by the event
	f.OK(s.Record(after))
	f.OK(after.Synchronize())

	f.OK(c.Call(s, func() error { panic("a panic in a function") }))
	err := s.Synchronize()
	f.Fails("Synchronize after a panic", err, nil)
	if err != nil && !strings.Contains(err.Error(), "a panic in a function") {
		f.Errorf("the error of a panic does not tell it: %v", err)
	}
	f.OK(s.Synchronize())

	f.Fails("Call of nothing", errors.Join(c.Call(s, nil), s.Synchronize()), nil)
	f.Fails("Call on no stream", c.Call(nil, fail(nil)), device.ErrArgument)
}

func testCallBytes(f *fixture.F) {
	c := f.Caller()
	const n = 1 << 16
	p, gone := f.Alloc(n), f.Alloc(n)
	f.OK(f.Dev.Free(gone))
	want := fixture.Unique(n, 1)
	f.Upload(p, want)
	for _, part := range [][2]int64{{0, n}, {0, 1}, {n - 1, n}, {13, 4097}, {n / 2, n / 2}} {
		b, err := c.Bytes(p.Add(part[0]), part[1]-part[0])
		f.OK(err)
		if !bytes.Equal(b, want[part[0]:part[1]]) {
			f.Errorf("Bytes %d to %d are different", part[0], part[1])
		}
	}
	for _, bad := range []struct {
		what string
		p    device.Ptr
		n    int64
	}{
		{"over the end", p, n + 1},
		{"of everything", p, math.MaxInt64},
		{"over the end by one", p.Add(n - 1), 2},
		{"before the start", p.Add(-1), 2},
		{"at zero", 0, 1},
		{"of freed memory", gone, n},
		{"at the last address", math.MaxUint64, 2},
	} {
		_, err := c.Bytes(bad.p, bad.n)
		f.Fails("Bytes "+bad.what, err, device.ErrPointer)
	}
	_, err := c.Bytes(p, -1)
	f.Fails("Bytes of less than nothing", err, nil)
}
