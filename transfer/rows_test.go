package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// scattered is a batch of pageable rows that takes a list and kernels.
func (f *fixture) scattered(p device.Ptr, n int64, toHost bool) (b transfer.Batch, want func() error) {
	f.Helper()
	host := unique(n, 5)
	on := unique(n, 6)
	f.OK(errors.Join(f.Stream.CopyH2D(p, on), f.Stream.Synchronize()))
	b = transfer.Batch{Dst: transfer.Device(p, n), Src: transfer.Host(host)}
	src, dst := bytes.Clone(host), bytes.Clone(on)
	if toHost {
		b.Dst, b.Src = b.Src, b.Dst
		src, dst = dst, src
	}
	for at := int64(0); at+256 <= n; at += 512 {
		b.Blocks = append(b.Blocks, transfer.Block{Dst: at, Src: n - 256 - at, Bytes: 256})
		copy(dst[at:at+256], src[n-256-at:])
	}
	return b, func() error {
		got := host
		if !toHost {
			got = f.Download(make([]byte, n), p)
		}
		if !bytes.Equal(got, dst) {
			return errors.New("wrong content")
		}
		return nil
	}
}

var rowsOptions = transfer.Options{Copiers: 2, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1}

// Rows of pageable memory arrive whatever the device lacks: kernels, the
// mapping of pinned memory, or pinned memory altogether.
func TestRowsFallBack(t *testing.T) {
	const n = 256 << 10
	for _, c := range []struct {
		name  string
		open  func(f *fixture) (device.Device, transfer.Options)
		calls bool // kernels move them
	}{
		{"nothing lacks", func(f *fixture) (device.Device, transfer.Options) { return f.Full(), rowsOptions }, true},
		{"no kernels", func(f *fixture) (device.Device, transfer.Options) { f.Full(); return f.Dev, rowsOptions }, false},
		{"a pool that is not mapped", func(f *fixture) (device.Device, transfer.Options) {
			dev := f.Full()
			dev.Unmapped.Store(true)
			o := rowsOptions
			o.Pool = f.Pool(pinned.Options{Budget: 1 << 20})
			return dev, o
		}, false},
		{"a pageable pool", func(f *fixture) (device.Device, transfer.Options) {
			f.Dev.OnPin(func() error { return device.ErrPinLimit })
			o := rowsOptions
			o.Pool = f.Pool(pinned.Options{Budget: 1 << 20, AllowPageable: true})
			return f.Full(), o
		}, false},
		{"no pinned memory", func(f *fixture) (device.Device, transfer.Options) {
			f.Dev.OnPin(func() error { return device.ErrPinLimit })
			return f.Full(), rowsOptions
		}, false},
	} {
		for _, toHost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, to host %t", c.name, toHost), func(t *testing.T) {
				f := open(t)
				f.NeedsPinned(1 << 18)
				dev, o := c.open(f)
				var calls atomic.Int64
				if d, ok := dev.(*full); ok {
					d.OnCall(func() error { calls.Add(1); return nil })
				}
				e := f.EngineOn(dev, o)
				b, check := f.scattered(f.Alloc(n), n, toHost)
				for range 2 {
					f.OK(f.Within("Batch", func() error { return e.Batch(ctx, b) }))
					f.OK(check())
				}
				if (calls.Load() > 0) != c.calls {
					t.Errorf("%d calls of kernels", calls.Load())
				}
			})
		}
	}
}

// A batch that fails in its midst, by whatever call, is over when it returns,
// and the next one works: nothing of it stays in the rings.
func TestRowsFail(t *testing.T) {
	const n = 256 << 10
	broken := errors.New("broken on purpose")
	for _, c := range []struct {
		name string
		set  func(d *full, b *transfer.Batch, toHost bool)
		want error
	}{
		{"kernels", func(d *full, _ *transfer.Batch, _ bool) {
			var calls atomic.Int64
			d.OnCall(func() error {
				if calls.Add(1) == 3 {
					return broken
				}
				return nil
			})
		}, broken},
		{"copies", func(d *full, b *transfer.Batch, _ bool) {
			for i := range b.Blocks { // three rows in a chunk: no kernels
				b.Blocks[i].Bytes = 1
			}
			b.Blocks = b.Blocks[:3]
			var copies atomic.Int64
			d.OnCopy(func([]byte, device.Ptr, bool) error {
				if copies.Add(1) == 2 {
					return broken
				}
				return nil
			})
		}, broken},
		{"nowhere", func(_ *full, b *transfer.Batch, toHost bool) {
			if toHost {
				b.Src = transfer.Device(nowhere, n)
			} else {
				b.Dst = transfer.Device(nowhere, n)
			}
		}, device.ErrPointer},
	} {
		for _, toHost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, to host %t", c.name, toHost), func(t *testing.T) {
				f := open(t)
				f.NeedsPinned(1 << 18)
				dev := f.Full()
				e := f.EngineOn(dev, rowsOptions)
				good, check := f.scattered(f.Alloc(n), n, toHost)
				for range 3 {
					bad, _ := f.scattered(f.Alloc(n), n, toHost)
					bad.Progress = func(done, total int64) {
						if done == total {
							t.Error("a batch that fails was reported as done")
						}
					}
					c.set(dev, &bad, toHost)
					err := f.Within("Batch", func() error { return e.Batch(ctx, bad) })
					f.Fails("Batch", err, c.want)
					dev.OnCall(func() error { return nil })
					dev.OnCopy(func([]byte, device.Ptr, bool) error { return nil })
					for range 2 {
						f.OK(f.Within("the next", func() error { return e.Batch(ctx, good) }))
						f.OK(check())
						f.Works(e)
					}
				}
			})
		}
	}
}

// Close waits for a batch under way, which ends well.
func TestCloseDuringBatch(t *testing.T) {
	const n = 256 << 10
	for _, toHost := range []bool{false, true} {
		f := open(t)
		f.NeedsPinned(1 << 18)
		dev := f.Full()
		e := f.EngineOn(dev, rowsOptions)
		b, check := f.scattered(f.Alloc(n), n, toHost)
		wait, release := f.Gate()
		began := make(chan struct{}, 10_000)
		dev.OnCall(func() error {
			began <- struct{}{}
			wait()
			return nil
		})
		done := async(func() error { return e.Batch(ctx, b) })
		select {
		case <-began:
		case err := <-done:
			t.Fatalf("no kernel was called (%v)", err)
		}
		closed := async(e.Close)
		select {
		case err := <-closed:
			t.Fatalf("Close returned (%v) with a batch under way", err)
		case <-time.After(20 * time.Millisecond):
		}
		release()
		f.OK(f.Arrives("the batch", done))
		f.OK(f.Arrives("Close", closed))
		f.OK(check())
		f.Fails("a batch after Close", e.Batch(ctx, b), device.ErrClosed)
	}
}
