package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// Close after any number of batches, some of them held, ends everything.
func TestCloseInTheMiddle(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for taken := range 8 {
		ds := unsteady(images(40, 4, 4, 3))
		ld, err := loader.New(dev, ds, loader.Options{Batch: 3, DeviceBuffers: 4, Workers: 3, Epochs: 1000})
		testkit.OK(t, err)
		var held []*loader.Batch
		for range taken {
			b, err := next(t, ld)
			testkit.OK(t, err)
			if held = append(held, b); len(held) == 4 {
				testkit.OK(t, held[0].Release())
				held = held[1:]
			}
		}
		within(t, "Close", ld.Close)
		within(t, "a second Close", ld.Close)
		for _, b := range held {
			testkit.OK(t, b.Release())
			testkit.WantError(t, "a second Release", b.Release(), loader.ErrReleased)
		}
		_, err = next(t, ld)
		testkit.WantError(t, "Next", err, device.ErrClosed)
		if n := ds.readers.Load(); n != 0 {
			t.Errorf("%d readers are still open", n)
		}
		if s := ld.Stats(); s.Batches != int64(taken) {
			t.Errorf("%d batches counted after Close, want %d", s.Batches, taken)
		}
	}
}

// noBatches is an order of no batches at all.
type noBatches struct{}

func (noBatches) Len() int                           { return 0 }
func (noBatches) AppendAt(dst []int, _, _ int) []int { return dst }

// Close ends a loader that has no batches to make, for ever.
func TestCloseWithoutBatches(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	bad := table(5, dtype.U8, 3)
	bad.fail = map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true}
	for _, c := range []struct {
		ds *fake
		o  loader.Options
	}{
		{table(5, dtype.U8, 3), loader.Options{Batches: noBatches{}, Epochs: math.MaxInt}},
		{bad, loader.Options{OnError: loader.Skip, Epochs: math.MaxInt}},
	} {
		ld, err := loader.New(dev, c.ds, c.o)
		testkit.OK(t, err)
		within(t, "Close", ld.Close)
	}
}

// Close waits for workers that are in the middle of a sample, since they write
// into the slabs.
func TestCloseWhileReading(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(20, dtype.U8, 100)
	gate, reading := make(chan struct{}), make(chan struct{})
	var once sync.Once
	ds.before = func(int) { once.Do(func() { close(reading) }); <-gate }
	ld, err := loader.New(dev, ds, loader.Options{Batch: 2, Workers: 3})
	testkit.OK(t, err)
	<-reading
	done := make(chan error, 1)
	go func() { done <- ld.Close() }()
	select {
	case <-done:
		t.Error("Close returned while workers read")
	case <-time.After(5 * time.Millisecond):
	}
	close(gate)
	within(t, "Close", func() error { return <-done })
	if n := ds.readers.Load(); n != 0 {
		t.Errorf("%d readers are still open", n)
	}
}

// A Next that waits is woken by Close.
func TestCloseWakesNext(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(20, dtype.U8, 100)
	gate := make(chan struct{})
	ds.before = func(int) { <-gate }
	ld, err := loader.New(dev, ds, loader.Options{Batch: 2})
	testkit.OK(t, err)
	waiting := make(chan error, 1)
	go func() {
		_, err := ld.Next(context.Background())
		waiting <- err
	}()
	time.AfterFunc(2*time.Millisecond, func() { close(gate) })
	within(t, "Close", ld.Close)
	within(t, "Next", func() error {
		if err := <-waiting; err != nil && !errors.Is(err, device.ErrClosed) {
			return fmt.Errorf("%w, want %w", err, device.ErrClosed)
		}
		return nil
	})
}

// Close, Release and Stats at once, from several goroutines.
func TestCloseConcurrently(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for range 20 {
		ld, err := loader.New(dev, unsteady(images(40, 4, 4, 3)), loader.Options{Batch: 3, Epochs: 1000})
		testkit.OK(t, err)
		b, err := next(t, ld)
		testkit.OK(t, err)
		c, err := next(t, ld)
		testkit.OK(t, err)
		var all sync.WaitGroup
		for _, fn := range []func() error{ld.Close, ld.Close, func() error { return b.Release() }, func() error { return c.Release() },
			func() error { ld.Stats(); return nil }} {
			all.Go(func() {
				if err := fn(); err != nil {
					t.Error(err)
				}
			})
		}
		within(t, "everything", func() error { all.Wait(); return nil })
	}
}

// A device that was closed first is told as an error, at most, and nothing
// hangs.
func TestCloseAfterDevice(t *testing.T) {
	for _, pin := range []loader.Pinning{loader.PinNever, loader.PinAlways} {
		dev, err := host.Open(16 << 20)
		testkit.OK(t, err)
		leavesNothing(t, dev)
		ld, err := loader.New(dev, images(40, 4, 4, 3), loader.Options{Batch: 3, Epochs: 1000, Pin: pin, PinBudget: 64 << 10})
		if pinLimited(err) {
			testkit.OK(t, dev.Close())
			continue
		}
		testkit.OK(t, err)
		b, err := next(t, ld)
		testkit.OK(t, err)
		testkit.OK(t, dev.Close())
		for {
			_, err = next(t, ld) // some may have been complete already
			if err != nil {
				break
			}
		}
		if !errors.Is(err, device.ErrClosed) && !errors.Is(err, loader.ErrHeld) {
			t.Errorf("Next: %v", err)
		}
		_ = b.Release()
		within(t, "Close", func() error {
			if err := ld.Close(); err != nil && !errors.Is(err, device.ErrClosed) {
				return err
			}
			return nil
		})
		testkit.OK(t, ld.Close())
	}
}

// Whatever of the dataset's methods panics: the process goes on, the loader
// says what happened.
func TestPanicElsewhere(t *testing.T) {
	if !inChild(t) {
		return
	}
	dev := devicetest.Open(t)
	for _, ds := range []*fake{
		{n: 6, spec: table(6, dtype.F32, 3).spec, panicOpen: true},
		{n: 6, spec: table(6, dtype.F32, 3).spec, panicLabel: true},
	} {
		ld, err := loader.New(dev, ds, loader.Options{Batch: 2})
		if err == nil {
			_, err = next(t, ld)
			within(t, "Close", ld.Close)
		}
		if err == nil || err == io.EOF {
			t.Errorf("open %t, label %t: %v", ds.panicOpen, ds.panicLabel, err)
		}
	}
}

// Batches that are held when their loader is closed keep their content. The
// last Release frees their memory, after the work that was queued on them, and
// also when the device was closed first.
func TestHeldBatchesSurviveClose(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := images(40, 4, 4, 3)
	ref := newReference(t, ds)
	o := loader.Options{Batch: 4, DeviceBuffers: 3, Epochs: 1000}
	want := ref.batches(o, ref.inOrder(1))
	ld := start(t, dev, ds, o)
	var held []*loader.Batch
	for range 3 {
		b, err := next(t, ld)
		testkit.OK(t, err)
		held = append(held, b)
	}
	testkit.OK(t, held[2].Retain())
	within(t, "Close", ld.Close)
	s := stream(t, dev)
	for i, b := range held {
		compare(t, "a held batch", []got{use(t, s, b)}, want[i:i+1])
	}
	release := hold(t, dev, s)
	back := make([]byte, held[0].Bytes)
	testkit.OK(t, s.CopyD2H(back, held[0].Data))
	time.AfterFunc(5*time.Millisecond, release)
	testkit.OK(t, held[0].Release(s))
	if !bytes.Equal(back, want[0].data) {
		t.Error("Release freed the memory before the work on it was done")
	}
	testkit.OK(t, held[1].ReleaseAfterAll())
	testkit.OK(t, held[2].Release())
	testkit.WantError(t, "one Release too many", held[1].Release(), loader.ErrReleased)
	compare(t, "a batch that is still held", []got{use(t, s, held[2])}, want[2:3])
	testkit.OK(t, held[2].Release())

	gone, err := host.Open(16 << 20)
	testkit.OK(t, err)
	ld = start(t, gone, ds, o)
	b, err := next(t, ld)
	testkit.OK(t, err)
	within(t, "Close", ld.Close)
	foreign, err := gone.NewStream()
	testkit.OK(t, err)
	testkit.OK(t, gone.Close())
	testkit.OK(t, b.Release(foreign))
}
