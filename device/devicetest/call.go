package devicetest

import (
	"bytes"
	"errors"
	"math"
	"strings"

	"github.com/pinion-gpu/pinion/device"
)

// Go functions run in their place among the other operations of a stream.
func testCallOrder(f *fixture) {
	c := f.caller()
	const n = 4096
	s := f.stream()
	p := f.alloc(n)
	got := make([]byte, n)
	want := bytes.Repeat([]byte{3}, n)
	f.ok(s.Memset(p, 1, n))
	f.ok(c.Call(s, func() error {
		mem, err := c.Bytes(p, n)
		add(mem, 2)
		return err
	}))
	f.ok(s.CopyD2H(got, p))
	f.ok(c.Call(s, func() error {
		if !bytes.Equal(got, want) {
			return errors.New("a function ran before the copy in front of it")
		}
		return nil
	}))
	f.within("Synchronize", s.Synchronize)
	if !bytes.Equal(got, want) {
		f.Error("a copy ran before the function in front of it")
	}
}

// Errors of functions surface once, where their stream is waited for, and
// stop neither it nor others.
func testCallErrors(f *fixture) {
	c := f.caller()
	s, other := f.stream(), f.stream()
	first, second := errors.New("first"), errors.New("second")
	fail := func(err error) func() error { return func() error { return err } }
	const n = 256
	p := f.alloc(n)

	f.ok(c.Call(s, fail(first)))
	f.ok(c.Call(s, fail(second)))
	f.ok(s.Memset(p, 7, n))
	f.ok(other.Synchronize())
	f.fails("Synchronize", s.Synchronize(), first)
	f.ok(s.Synchronize())
	if !bytes.Equal(f.download(p, n), bytes.Repeat([]byte{7}, n)) {
		f.Error("work behind a failed function did not run")
	}

	f.ok(c.Call(s, fail(first)))
	f.ok(other.Memset(p, 8, n))
	f.fails("Synchronize of the device", f.dev.Synchronize(), first)
	f.ok(f.dev.Synchronize())
	f.ok(s.Synchronize())

	e, after := f.event(0), f.event(0)
	f.ok(c.Call(s, fail(first)))
	f.ok(s.Record(e))
	f.fails("Synchronize of an event behind the failure", e.Synchronize(), first)
	_ = s.Synchronize() // reported once already, by the event
	f.ok(s.Record(after))
	f.ok(after.Synchronize())

	f.ok(c.Call(s, func() error { panic("a panic in a function") }))
	err := s.Synchronize()
	f.fails("Synchronize after a panic", err, nil)
	if err != nil && !strings.Contains(err.Error(), "a panic in a function") {
		f.Errorf("the error of a panic does not tell it: %v", err)
	}
	f.ok(s.Synchronize())

	f.fails("Call of nothing", errors.Join(c.Call(s, nil), s.Synchronize()), nil)
	f.fails("Call on no stream", c.Call(nil, fail(nil)), device.ErrArgument)
}

func testCallBytes(f *fixture) {
	c := f.caller()
	const n = 1 << 16
	p, gone := f.alloc(n), f.alloc(n)
	f.ok(f.dev.Free(gone))
	want := unique(n, 1)
	f.upload(p, want)
	for _, part := range [][2]int64{{0, n}, {0, 1}, {n - 1, n}, {13, 4097}, {n / 2, n / 2}} {
		b, err := c.Bytes(p.Add(part[0]), part[1]-part[0])
		f.ok(err)
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
		f.fails("Bytes "+bad.what, err, device.ErrPointer)
	}
	_, err := c.Bytes(p, -1)
	f.fails("Bytes of less than nothing", err, nil)
}
