// Package transfertest is what the tests of transfer and of the packages below
// it share: a device that says it lies behind a link, and an engine on it.
package transfertest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// Main runs the tests of a package. It keeps a device open, so that what the
// devices of the tests share (CUDA's primary context) is not made anew for each,
// and no test looks for a model in the user's own cache.
func Main(m *testing.M) {
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

// Small are options with which copies of a few hundred KiB have many chunks.
var Small = transfer.Options{Copiers: 3, Slots: 2, SlotBytes: 8 << 10, StageAbove: 16 << 10}

// Fixture is one test with its device.
type Fixture struct {
	testing.TB
	Dev    *Rig
	Stream device.Stream // for the test's own copies
}

// Open opens the device. At the end of the test all that engines and pools
// took from it must be given back.
func Open(t testing.TB) *Fixture {
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
	f := &Fixture{TB: t, Dev: &Rig{Device: dev, Pinner: pinner}, Stream: stream}
	testkit.NoLeaks(t)
	t.Cleanup(func() {
		if n := f.Dev.Opened.Load(); n != 0 {
			t.Errorf("%d streams and events are still open", n)
		}
		if n := f.Dev.PinnedNow.Load(); n != 0 {
			t.Errorf("%d bytes are still pinned", n)
		}
	})
	return f
}

// Engine makes an engine that is closed at the end of the test.
func (f *Fixture) Engine(o transfer.Options) *transfer.Engine {
	f.Helper()
	return f.EngineOn(f.Dev, o)
}

// EngineOn makes an engine for another device than the rig.
func (f *Fixture) EngineOn(dev device.Device, o transfer.Options) *transfer.Engine {
	f.Helper()
	e, err := transfer.New(dev, o)
	f.OK(err)
	f.Cleanup(func() {
		if err := e.Close(); err != nil {
			f.Errorf("close: %v", err)
		}
	})
	return e
}

func (f *Fixture) OK(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// Fails ends the test when err is not target.
func (f *Fixture) Fails(what string, err, target error) {
	f.Helper()
	if !errors.Is(err, target) {
		f.Fatalf("%s: %v, want %q", what, err, target)
	}
}

// Within runs fn and ends the test when it does not return.
func (f *Fixture) Within(what string, fn func() error) error {
	f.Helper()
	return f.Arrives(what, Async(fn))
}

// Async runs fn beside the test.
func Async(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

// Arrives returns what done delivers and ends the test when that is nothing.
func (f *Fixture) Arrives(what string, done <-chan error) error {
	f.Helper()
	return testkit.Receive(f.TB, what, done)
}

// Alloc allocates n bytes on the device, until the device is closed.
func (f *Fixture) Alloc(n int64) device.Ptr {
	f.Helper()
	p, err := f.Dev.Alloc(n)
	f.OK(err)
	return p
}

// Download copies without the engine.
func (f *Fixture) Download(b []byte, p device.Ptr) []byte {
	f.Helper()
	f.OK(f.Stream.CopyD2H(b, p))
	f.OK(f.Stream.Synchronize())
	return b
}

func (f *Fixture) Memset(p device.Ptr, value byte, n int64) {
	f.Helper()
	f.OK(f.Stream.Memset(p, value, n))
	f.OK(f.Stream.Synchronize())
}

// Pool makes a pool of pinned memory that is closed at the end of the test.
func (f *Fixture) Pool(o pinned.Options) *pinned.Pool {
	f.Helper()
	pool, err := pinned.NewPool(f.Dev, o)
	f.OK(err)
	f.Cleanup(func() {
		if err := pool.Close(); err != nil {
			f.Errorf("close the pool: %v", err)
		}
	})
	return pool
}

// PinnedMemory returns n pinned bytes, or skips the test where the system does
// not allow that many.
func (f *Fixture) PinnedMemory(n int64) []byte {
	f.Helper()
	buffer, err := f.Pool(pinned.Options{Budget: n + 1<<20}).Alloc(context.Background(), n)
	if errors.Is(err, device.ErrPinLimit) {
		f.Skip(err)
	}
	f.OK(err)
	f.Cleanup(func() {
		if err := buffer.Free(); err != nil {
			f.Error(err)
		}
	})
	return buffer.Bytes()
}

// NeedsPinned skips the test where the system does not allow n pinned bytes.
func (f *Fixture) NeedsPinned(n int64) {
	f.Helper()
	pool, err := pinned.NewPool(f.Dev, pinned.Options{Budget: n + 1<<20})
	f.OK(err)
	buffer, err := pool.Alloc(context.Background(), n)
	if err == nil {
		f.OK(buffer.Free())
	}
	f.OK(pool.Close())
	if errors.Is(err, device.ErrPinLimit) {
		f.Skip(err)
	}
	f.OK(err)
}

// Pages returns n pageable bytes outside the Go heap, where hundreds of MiB
// cost neither the collector nor the race detector anything.
func (f *Fixture) Pages(n int64) []byte {
	f.Helper()
	b, err := pagemem.Map(max(n, 1))
	f.OK(err)
	f.Cleanup(func() {
		if err := pagemem.Unmap(b); err != nil {
			f.Error(err)
		}
	})
	return b[:n]
}

// Works checks that e copies in both directions, straight and staged.
func (f *Fixture) Works(e *transfer.Engine) {
	f.Helper()
	for _, n := range []int64{1000, 300_001} {
		p := f.Alloc(n)
		want, got := Unique(n, 99), make([]byte, n)
		f.OK(f.Within("H2D", func() error { return e.H2D(context.Background(), p, want) }))
		f.OK(f.Within("D2H", func() error { return e.D2H(context.Background(), got, p) }))
		if !bytes.Equal(got, want) {
			f.Fatalf("%d bytes came back different", n)
		}
		f.OK(f.Dev.Free(p))
	}
}

// Unique returns n bytes of which no part resembles another.
func Unique(n int64, seed byte) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// Gate is a point that goroutines wait at until it is opened, which a test
// does at its end at the latest.
func (f *Fixture) Gate() (wait, open func()) {
	c := make(chan struct{})
	open = sync.OnceFunc(func() { close(c) })
	f.Cleanup(open)
	return func() { <-c }, open
}

// NewFile makes a file open for reading and writing.
func (f *Fixture) NewFile(dir string, data []byte) *os.File {
	f.Helper()
	file, err := os.Create(filepath.Join(dir, "data"))
	f.OK(err)
	f.Cleanup(func() { file.Close() })
	_, err = file.Write(data)
	f.OK(err)
	return file
}
