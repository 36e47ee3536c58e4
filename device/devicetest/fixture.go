package devicetest

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// hang is how long something may take before the suite calls it stuck. It is
// far beyond anything that works.
const hang = 20 * time.Second

// small is the most memory that a device may have to be filled by the suite.
const small = 1 << 30

// fixture is one test with its device.
type fixture struct {
	*testing.T
	dev       device.Device
	open      func() device.Device
	openOther func() device.Device // a peer
	mapped    [][]byte
}

func newFixture(t *testing.T, open func(testing.TB) device.Device) *fixture {
	f := &fixture{T: t}
	f.leavesNoGoroutines()
	t.Cleanup(f.unmap) // before open: device.Close still needs the memory
	f.open = opener(t, open)
	f.openOther = f.open
	f.dev = f.open()
	return f
}

// opener makes devices that are closed at the end of the test.
func opener(t *testing.T, open func(testing.TB) device.Device) func() device.Device {
	return func() device.Device {
		t.Helper()
		dev := open(t)
		t.Cleanup(func() {
			if err := dev.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		return dev
	}
}

// leavesNoGoroutines checks at the end of the test, when what was opened after
// this call is closed, that there are no more goroutines than now.
func (f *fixture) leavesNoGoroutines() {
	before := runtime.NumGoroutine()
	f.Cleanup(func() {
		// A goroutine that is done may still be on its way out.
		for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
			now := runtime.NumGoroutine()
			if now <= before {
				return
			}
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<16)
				stacks = stacks[:runtime.Stack(stacks, true)]
				f.Errorf("%d goroutines before the device was opened, %d after it was closed:\n%s", before, now, stacks)
				return
			}
		}
	})
}

// ok ends the test on an error.
func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// fails reports when err is not target; a nil target stands for any error.
func (f *fixture) fails(what string, err, target error) {
	f.Helper()
	switch {
	case err == nil:
		f.Errorf("%s: no error, want one", what)
	case target != nil && !errors.Is(err, target):
		f.Errorf("%s: %v, want %q", what, err, target)
	}
}

// within ends the test when fn does not return.
func (f *fixture) within(what string, fn func() error) {
	f.Helper()
	f.arrives(what, async(fn))
}

// async runs fn beside the test.
func async(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

// arrives ends the test when done delivers an error or nothing.
func (f *fixture) arrives(what string, done <-chan error) {
	f.Helper()
	select {
	case err := <-done:
		if err != nil {
			f.Fatalf("%s: %v", what, err)
		}
	case <-time.After(hang):
		stacks := make([]byte, 1<<16)
		stacks = stacks[:runtime.Stack(stacks, true)]
		f.Fatalf("%s: stuck\n%s", what, stacks)
	}
}

func (f *fixture) alloc(n int64) device.Ptr {
	f.Helper()
	p, err := f.dev.Alloc(n)
	f.ok(err)
	return p
}

func (f *fixture) stream() device.Stream {
	f.Helper()
	s, err := f.dev.NewStream()
	f.ok(err)
	return s
}

func (f *fixture) event(flags device.EventFlags) device.Event {
	f.Helper()
	e, err := f.dev.NewEvent(flags)
	f.ok(err)
	return e
}

// upload copies b to the device and waits.
func (f *fixture) upload(p device.Ptr, b []byte) {
	f.Helper()
	s := f.stream()
	f.ok(s.CopyH2D(p, b))
	f.ok(s.Synchronize())
	f.ok(s.Close())
}

// download copies n bytes from the device and waits.
func (f *fixture) download(p device.Ptr, n int64) []byte {
	f.Helper()
	b := make([]byte, n)
	s := f.stream()
	f.ok(s.CopyD2H(b, p))
	f.ok(s.Synchronize())
	f.ok(s.Close())
	return b
}

// caller returns the device as a [device.Caller], or skips the test.
func (f *fixture) caller() device.Caller {
	f.Helper()
	c, ok := device.As[device.Caller](f.dev)
	if !ok {
		f.Skip("the device runs no Go functions in its streams")
	}
	return c
}

// hold stops s until release is called. It needs a [device.Caller].
func (f *fixture) hold(s device.Stream) (release func()) {
	f.Helper()
	gate := make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	f.Cleanup(release) // a test that failed must not leave Close waiting
	f.ok(f.caller().Call(s, func() error { <-gate; return nil }))
	return release
}

// delay holds s up: until release is called where the device can do that, and
// by much work elsewhere. held tells which.
func (f *fixture) delay(s device.Stream) (release func(), held bool) {
	f.Helper()
	if _, ok := device.As[device.Caller](f.dev); ok {
		return f.hold(s), true
	}
	const n = 8 << 20
	p := f.alloc(n)
	for range 8 {
		f.ok(s.Memset(p, 1, n))
	}
	return func() {}, false
}

// pages returns whole pages outside the Go heap, at least n bytes, that stay
// until the device is closed.
func (f *fixture) pages(n int64) []byte {
	f.Helper()
	b, err := pagemem.Map(n)
	f.ok(err)
	f.mapped = append(f.mapped, b)
	return b
}

func (f *fixture) unmap() {
	for _, b := range f.mapped {
		if err := pagemem.Unmap(b); err != nil {
			f.Error(err)
		}
	}
}

// pinned returns at least n bytes of page-locked memory, or skips the test.
func (f *fixture) pinned(n int64) []byte {
	f.Helper()
	p := f.pinner()
	b := f.pages(n)
	err := p.Pin(b, device.PinMapped)
	if errors.Is(err, device.ErrPinLimit) {
		f.Skip(err)
	}
	f.ok(err)
	return b
}

// pinner returns the device as a [device.Pinner], or skips the test.
func (f *fixture) pinner() device.Pinner {
	f.Helper()
	p, ok := device.As[device.Pinner](f.dev)
	if !ok {
		f.Skip("the device pins no memory")
	}
	return p
}

// scramble fills b so that no part of it resembles another.
func scramble(b []byte, seed byte) { rand.NewChaCha8([32]byte{seed}).Read(b) }

// unique returns n scrambled bytes.
func unique(n int64, seed byte) []byte {
	b := make([]byte, n)
	scramble(b, seed)
	return b
}
