package loader_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// Next says so when the caller has every buffer; a batch given back, in any
// order, is enough to go on. Held batches keep their content.
func TestHeld(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := images(40, 4, 4, 3)
	ref := newReference(t, ds)
	o := loader.Options{Batch: 4, DeviceBuffers: 3}
	want := ref.batches(o, ref.inOrder(1))
	ld := start(t, dev, ds, o)
	s := stream(t, dev)

	var held []*loader.Batch
	for i := 0; ; i++ {
		for len(held) < 3 {
			b, err := next(t, ld)
			if err == io.EOF {
				break
			}
			testkit.OK(t, err)
			held = append(held, b)
		}
		if len(held) < 3 {
			break
		}
		// The last three may be all that is left, and then that is what it says.
		if _, err := next(t, ld); err != io.EOF || held[2].Number != len(want)-1 {
			testkit.WantError(t, "Next with all buffers held", err, loader.ErrHeld)
		}
		out := i % 3
		testkit.OK(t, held[out].Release())
		testkit.WantError(t, "a second Release", held[out].Release(), loader.ErrReleased)
		held = append(held[:out], held[out+1:]...)
		for _, b := range held {
			compare(t, "a held batch", []got{use(t, s, b)}, want[b.Number:b.Number+1])
		}
	}
	defer releaseAll(t, held)
	if len(held) != 2 || held[1].Number != len(want)-1 {
		t.Errorf("%d batches are held at the end, the last is number %d of %d", len(held), held[1].Number, len(want))
	}
}

// A caller with room for more batches than there are may hold all of them and
// sees the end.
func TestHoldEverything(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for _, n := range []int{4, 8, 12} {
		ld := start(t, dev, images(n, 4, 4, 3), loader.Options{Batch: 4, DeviceBuffers: 4})
		var held []*loader.Batch
		for range n / 4 {
			b, err := next(t, ld)
			testkit.OK(t, err)
			held = append(held, b)
		}
		if _, err := next(t, ld); err != io.EOF {
			t.Errorf("%d of %d batches, all held with 4 buffers: %v, want io.EOF", n/4, n/4, err)
		}
		within(t, "Close", ld.Close)
		releaseAll(t, held)
	}
}

func releaseAll(t testing.TB, held []*loader.Batch) {
	t.Helper()
	for _, b := range held {
		testkit.OK(t, b.Release())
	}
}

// hold keeps s from going on until release is called.
func hold(t testing.TB, dev device.Device, s device.Stream) (release func()) {
	t.Helper()
	caller, isCaller := device.As[device.Caller](dev)
	if !isCaller {
		t.Skip("the device runs no Go functions in its streams")
	}
	gate := make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	testkit.OK(t, caller.Call(s, func() error { <-gate; return nil }))
	return release
}

// Work that was queued before Release sees the batch, however late it runs;
// and what arrives while a context ends is there for the next call of Next.
func TestReleaseAfter(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for _, ds := range []*fake{images(12, 8, 8, 3), table(12, dtype.F32, 5), table(12, dtype.I16, 9)} {
		for _, streams := range []int{1, 3} {
			o := loader.Options{Batch: 4, DeviceBuffers: 1, DType: dtype.F32}
			ref := newReference(t, ds)
			want := ref.batches(o, ref.inOrder(1))
			ld := start(t, dev, ds, o)
			b, err := next(t, ld)
			testkit.OK(t, err)

			var after []device.Stream
			var open []func()
			var back [][]byte
			for i := range streams {
				s := stream(t, dev)
				after = append(after, s)
				open = append(open, hold(t, dev, s))
				back = append(back, make([]byte, b.Bytes))
				testkit.OK(t, s.CopyD2H(back[i], b.Data))
			}
			testkit.OK(t, b.Release(after...))
			for i := range streams {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
				if b, err := ld.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("Next while work on the last batch is queued: %v, %v", b, err)
				}
				cancel()
				open[i]()
				testkit.OK(t, after[i].Synchronize())
			}
			for i := range streams {
				if !bytes.Equal(back[i], want[0].data) {
					t.Errorf("%v: the batch was overwritten before stream %d was done with it", ds.spec, i)
				}
			}
			list, err := drain(t, dev, ld)
			testkit.OK(t, err)
			compare(t, "the batches behind", list, want[1:])
			within(t, "Close", ld.Close)
		}
	}
}

// A batch can be released after streams that are closed, whose work is over,
// or of another device, which are waited for. No stream is an error, and the
// batch stays the caller's.
func TestReleaseAfterBadStream(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	other := open(t, "host:1MiB")
	foreign := stream(t, other)
	closed := stream(t, dev)
	testkit.OK(t, closed.Close())
	ds := table(12, dtype.F32, 5)
	ref := newReference(t, ds)
	o := loader.Options{Batch: 2, DeviceBuffers: 1}
	ld := start(t, dev, ds, o)
	for _, s := range []device.Stream{closed, foreign, nil} {
		b, err := next(t, ld)
		testkit.OK(t, err)
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("Release after stream %v: panic: %v", s, p)
				}
			}()
			switch err := b.Release(s); {
			case s == nil:
				testkit.WantError(t, "no stream", err, device.ErrArgument)
				testkit.OK(t, b.Release())
			default:
				testkit.OK(t, err)
			}
		}()
	}
	if t.Failed() {
		return
	}
	list, err := drain(t, dev, ld)
	testkit.OK(t, err)
	compare(t, "the batches behind", list, ref.batches(o, ref.inOrder(1))[3:])
}

// While Release waits for another device's work, the buffer is not reused.
func TestReleaseAfterAnotherDevice(t *testing.T) {
	dev, other := open(t, "host:1MiB"), open(t, "host:1MiB")
	leavesNothing(t, dev)
	foreign := stream(t, other)
	ds := table(4, dtype.F32, 5)
	ld := start(t, dev, ds, loader.Options{Batch: 2, DeviceBuffers: 1})
	b, err := next(t, ld)
	testkit.OK(t, err)

	release := hold(t, other, foreign)
	done := make(chan struct{})
	testkit.OK(t, devicetest.As[device.Caller](t, other).Call(foreign, func() error { close(done); return nil }))
	time.AfterFunc(20*time.Millisecond, release)
	_ = b.Release(foreign)
	select {
	case <-done:
	default:
		t.Error("Release neither ordered the buffer behind the stream nor waited for it")
	}
}

// A context that ends cuts Next short; nothing is lost by it.
func TestNextCancelled(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := images(30, 4, 4, 1)
	gate := make(chan struct{})
	ds.before = func(int) { <-gate }
	ref := func() *reference { close(gate); return newReference(t, ds) }
	o := loader.Options{Batch: 3, Workers: 2}
	ld := start(t, dev, ds, o)

	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := ld.Next(ended)
	testkit.WantError(t, "Next with a context that has ended", err, context.Canceled)
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		_, err := ld.Next(ctx)
		testkit.WantError(t, "Next while nothing is read", err, context.DeadlineExceeded)
		cancel()
	}
	r := ref()
	s := stream(t, dev)
	var list []got
	for {
		// Short enough to end now and then in the middle.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Microsecond)
		b, err := ld.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			continue
		}
		if err == io.EOF {
			break
		}
		testkit.OK(t, err)
		list = append(list, use(t, s, b))
		testkit.OK(t, b.Release())
	}
	compare(t, "all batches", list, r.batches(o, r.inOrder(1)))
}

// Work on streams that the loader is not told about keeps a batch's memory, if
// it is released behind all of them.
func TestReleaseAfterAll(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := images(8, 8, 8, 3)
	ref := newReference(t, ds)
	o := loader.Options{Batch: 4, DeviceBuffers: 1}
	want := ref.batches(o, ref.inOrder(1))
	ld := start(t, dev, ds, o)
	b, err := next(t, ld)
	testkit.OK(t, err)
	foreign := stream(t, dev)
	release := hold(t, dev, foreign)
	back := make([]byte, b.Bytes)
	testkit.OK(t, foreign.CopyD2H(back, b.Data))
	time.AfterFunc(10*time.Millisecond, release)
	testkit.OK(t, b.ReleaseAfterAll())
	second, err := next(t, ld)
	testkit.OK(t, err)
	testkit.OK(t, foreign.Synchronize())
	if !bytes.Equal(back, want[0].data) {
		t.Error("the next batch came into memory that was in use")
	}
	compare(t, "the next batch", []got{use(t, foreign, second)}, want[1:])
	testkit.WantError(t, "a second release", b.ReleaseAfterAll(), loader.ErrReleased)
	testkit.OK(t, second.ReleaseAfterAll())
}
