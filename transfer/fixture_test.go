package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// TestMain keeps a device open: what the devices of the tests share (CUDA's
// primary context) is then not made anew for each. No test looks for a model
// in the user's own cache.
func TestMain(m *testing.M) {
	cache, err := os.MkdirTemp("", "pinion-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(cache)
	os.Setenv("XDG_CACHE_HOME", cache)
	if name := os.Getenv("PINION_DEVICE"); name != "" {
		if dev, err := device.Open(name); err == nil {
			defer dev.Close()
		}
	}
	m.Run()
}

var ctx = context.Background()

// small are options with which copies of a few hundred KiB have many chunks.
var small = transfer.Options{Copiers: 3, Slots: 2, SlotBytes: 8 << 10, StageAbove: 16 << 10}

// hang is how long something may take before a test calls it stuck.
const hang = 20 * time.Second

// fixture is one test with its device.
type fixture struct {
	testing.TB
	dev    *rig
	stream device.Stream // for the test's own copies
}

// open opens the device. At the end of the test all that engines and pools
// took from it must be given back.
func open(t testing.TB) *fixture {
	t.Helper()
	dev := devicetest.Open(t)
	pinner, ok := device.As[device.Pinner](dev)
	if !ok {
		t.Skip("the device pins no memory")
	}
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{TB: t, dev: &rig{Device: dev, Pinner: pinner}, stream: stream}
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		if n := f.dev.opened.Load(); n != 0 {
			t.Errorf("%d streams and events are still open", n)
		}
		if n := f.dev.pinned.Load(); n != 0 {
			t.Errorf("%d bytes are still pinned", n)
		}
		// A goroutine that is done may still be on its way out.
		for deadline := time.Now().Add(hang); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks())
				return
			}
		}
	})
	return f
}

// engine makes an engine that is closed at the end of the test.
func (f *fixture) engine(o transfer.Options) *transfer.Engine {
	f.Helper()
	e, err := transfer.New(f.dev, o)
	f.ok(err)
	f.Cleanup(func() {
		if err := e.Close(); err != nil {
			f.Errorf("close: %v", err)
		}
	})
	return e
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// fails ends the test when err is not target.
func (f *fixture) fails(what string, err, target error) {
	f.Helper()
	if !errors.Is(err, target) {
		f.Fatalf("%s: %v, want %q", what, err, target)
	}
}

// within runs fn and ends the test when it does not return.
func (f *fixture) within(what string, fn func() error) error {
	f.Helper()
	return f.arrives(what, async(fn))
}

// async runs fn beside the test.
func async(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

// arrives returns what done delivers and ends the test when that is nothing.
func (f *fixture) arrives(what string, done <-chan error) error {
	f.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(hang):
		f.Fatalf("%s: stuck\n%s", what, stacks())
		return nil
	}
}

func stacks() []byte {
	b := make([]byte, 1<<16)
	return b[:runtime.Stack(b, true)]
}

// alloc allocates n bytes on the device, until the device is closed.
func (f *fixture) alloc(n int64) device.Ptr {
	f.Helper()
	p, err := f.dev.Alloc(n)
	f.ok(err)
	return p
}

// download copies without the engine.
func (f *fixture) download(b []byte, p device.Ptr) []byte {
	f.Helper()
	f.ok(f.stream.CopyD2H(b, p))
	f.ok(f.stream.Synchronize())
	return b
}

func (f *fixture) memset(p device.Ptr, value byte, n int64) {
	f.Helper()
	f.ok(f.stream.Memset(p, value, n))
	f.ok(f.stream.Synchronize())
}

// pool makes a pool of pinned memory that is closed at the end of the test.
func (f *fixture) pool(o pinned.Options) *pinned.Pool {
	f.Helper()
	pool, err := pinned.NewPool(f.dev, o)
	f.ok(err)
	f.Cleanup(func() {
		if err := pool.Close(); err != nil {
			f.Errorf("close the pool: %v", err)
		}
	})
	return pool
}

// pinnedMemory returns n pinned bytes, or skips the test where the system does
// not allow that many.
func (f *fixture) pinnedMemory(n int64) []byte {
	f.Helper()
	buffer, err := f.pool(pinned.Options{Budget: n + 1<<20}).Alloc(n)
	if errors.Is(err, device.ErrPinLimit) {
		f.Skip(err)
	}
	f.ok(err)
	f.Cleanup(func() {
		if err := buffer.Free(); err != nil {
			f.Error(err)
		}
	})
	return buffer.Bytes()
}

// needsPinned skips the test where the system does not allow n pinned bytes.
func (f *fixture) needsPinned(n int64) {
	f.Helper()
	pool, err := pinned.NewPool(f.dev, pinned.Options{Budget: n + 1<<20})
	f.ok(err)
	buffer, err := pool.Alloc(n)
	if err == nil {
		f.ok(buffer.Free())
	}
	f.ok(pool.Close())
	if errors.Is(err, device.ErrPinLimit) {
		f.Skip(err)
	}
	f.ok(err)
}

// pages returns n pageable bytes outside the Go heap, where hundreds of MiB
// cost neither the collector nor the race detector anything.
func (f *fixture) pages(n int64) []byte {
	f.Helper()
	b, err := pagemem.Map(max(n, 1))
	f.ok(err)
	f.Cleanup(func() {
		if err := pagemem.Unmap(b); err != nil {
			f.Error(err)
		}
	})
	return b[:n]
}

// works checks that e copies in both directions, straight and staged.
func (f *fixture) works(e *transfer.Engine) {
	f.Helper()
	for _, n := range []int64{1000, 300_001} {
		p := f.alloc(n)
		want, got := unique(n, 99), make([]byte, n)
		f.ok(f.within("H2D", func() error { return e.H2D(ctx, p, want) }))
		f.ok(f.within("D2H", func() error { return e.D2H(ctx, got, p) }))
		if !bytes.Equal(got, want) {
			f.Fatalf("%d bytes came back different", n)
		}
		f.ok(f.dev.Free(p))
	}
}

// unique returns n bytes of which no part resembles another.
func unique(n int64, seed byte) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// gate is a point that goroutines wait at until it is opened, which a test
// does at its end at the latest.
func (f *fixture) gate() (wait, open func()) {
	c := make(chan struct{})
	open = sync.OnceFunc(func() { close(c) })
	f.Cleanup(open)
	return func() { <-c }, open
}
