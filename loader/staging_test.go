package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// Slabs that are not pinned go through rings of pinned chunks, no more of them
// than asked for and none beyond the budget; the batches are the same.
func TestStaging(t *testing.T) {
	const chunk, ring = 256 << 10, 4 * 256 << 10
	ds := large()
	ref := newReference(t, ds)
	o := loader.Options{Batch: 8, Workers: 2, Epochs: 2, Prefetch: 2, DType: dtype.U8, Pin: loader.PinNever, ChunkBytes: chunk}
	want := ref.batches(o, ref.inOrder(2))
	for _, c := range []struct {
		name    string
		copiers int
		budget  int64
		limit   int64 // of the system
		staging int64
	}{
		{"one copier", 1, 0, 0, ring},
		{"three copiers", 3, 0, 0, 3 * ring},
		{"a budget for two", 3, 3*ring - 1, 0, 2 * ring},
		{"a budget for none", 3, ring - 1, 0, 0},
		{"nothing can be locked", 3, 0, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev := newDiscrete(t, 64<<20)
			leavesNothing(t, dev)
			dev.PinLimit = c.limit
			o := o
			o.Copiers, o.PinBudget = c.copiers, c.budget
			ld := start(t, dev, ds, o)
			list, err := drain(t, dev, ld)
			testkit.OK(t, err)
			compare(t, c.name, list, want)
			s := ld.Stats()
			if s.Pinned || s.StagingBytes != c.staging || dev.most() != c.staging {
				t.Errorf("%d bytes of staging, %d bytes were pinned, want %d (slabs pinned: %t)", s.StagingBytes, dev.most(), c.staging, s.Pinned)
			}
			if i := stage(s, "h2d"); i <= 0 {
				t.Errorf("copies took %v", i)
			}
		})
	}

	// Too small to gain by it, and where slabs are pinned, nothing is staged.
	for _, o := range []loader.Options{{Batch: 1, DType: dtype.U8, Pin: loader.PinNever, Epochs: 10}, {Batch: 8, DType: dtype.U8}} {
		dev := newDiscrete(t, 64<<20)
		ld := start(t, dev, ds, o)
		_, err := drain(t, dev, ld)
		testkit.OK(t, err)
		if s := ld.Stats(); s.StagingBytes != 0 {
			t.Errorf("%+v: %d bytes of staging", o, s.StagingBytes)
		}
	}
	for _, o := range []loader.Options{{Copiers: -1}, {ChunkBytes: -1}, {ChunkBytes: 4095}, {Pin: loader.PinNever, PinBudget: -1}} {
		_, err := loader.New(newDiscrete(t, 1<<20), ds, o)
		testkit.WantError(t, "a negative number", err, device.ErrArgument)
	}
}

func stage(s loader.Stats, name string) time.Duration {
	for _, g := range s.Stages {
		if g.Name == name {
			return g.Time
		}
	}
	return -1
}

// A staged copy waits for the work that was queued on the batch before it, as
// a queued one does: on its data, and on the labels behind what was copied.
func TestStagingAfter(t *testing.T) {
	for _, c := range []struct {
		what string
		ds   *fake
		of   func(b *loader.Batch) (device.Ptr, int64)
	}{
		{"data as copied", unsteady(table(12, dtype.I64, 512, 96)), func(b *loader.Batch) (device.Ptr, int64) { return b.Data, b.Bytes }},
		{"data", large(), func(b *loader.Batch) (device.Ptr, int64) { return b.Data, b.Bytes }},
		{"labels", large(), func(b *loader.Batch) (device.Ptr, int64) { return b.DeviceLabels, 4 * int64(len(b.Labels)) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			dev := newDiscrete(t, 64<<20)
			leavesNothing(t, dev)
			o := loader.Options{Batch: 6, DeviceBuffers: 1, Pin: loader.PinNever, Copiers: 2}
			ref := newReference(t, c.ds)
			want := ref.batches(o, ref.inOrder(1))
			ld := start(t, dev, c.ds, o)
			b, err := next(t, ld)
			testkit.OK(t, err)
			ptr, n := c.of(b)
			before, after := make([]byte, n), make([]byte, n)
			s := stream(t, dev)
			testkit.OK(t, s.CopyD2H(before, ptr))
			testkit.OK(t, s.Synchronize())
			open := hold(t, dev, s)
			testkit.OK(t, s.CopyD2H(after, ptr))
			testkit.OK(t, b.Release(s))
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if b, err := ld.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Next while work on the last batch is queued: %v, %v", b, err)
			}
			open()
			testkit.OK(t, s.Synchronize())
			if !bytes.Equal(before, after) {
				t.Error("the batch was overwritten before the stream was done with it")
			}
			list, err := drain(t, dev, ld)
			testkit.OK(t, err)
			compare(t, "the batches behind", list, want[1:])
			if ld.Stats().StagingBytes == 0 {
				t.Error("nothing was staged")
			}
		})
	}
}

// Chunks of more than a slab are of no use, however large they are to be.
func TestStagingLargeChunks(t *testing.T) {
	ds := large()
	o := loader.Options{Batch: 8, DType: dtype.U8, Pin: loader.PinNever, Copiers: 1}
	ref := newReference(t, ds)
	want := ref.batches(o, ref.inOrder(1))
	ring := 4 * pagemem.RoundUp(int64(copied(ds.spec, o.Batch)))
	for _, o.ChunkBytes = range []int64{3 << 30, 1 << 62, math.MaxInt64} {
		for _, o.PinBudget = range []int64{0, ring, math.MaxInt64} {
			dev := newDiscrete(t, 64<<20)
			leavesNothing(t, dev)
			ld := start(t, dev, ds, o)
			list, err := drain(t, dev, ld)
			testkit.OK(t, err)
			compare(t, "large chunks", list, want)
			if s := ld.Stats(); s.StagingBytes != ring {
				t.Errorf("chunks of %d: %d bytes of staging, want %d", o.ChunkBytes, s.StagingBytes, ring)
			}
		}
	}
}

// Whichever call of the driver fails when the first slab is staged, Next tells
// it, and nothing is left behind.
func TestStagingFailing(t *testing.T) {
	dev := newDiscrete(t, 64<<20)
	leavesNothing(t, dev)
	ds := large()
	o := loader.Options{Batch: 8, DType: dtype.U8, Pin: loader.PinNever, Copiers: 2}
	reads := make(chan struct{})
	ds.before = func(int) { <-reads }
	failed := 0
	for at := 1; ; at++ {
		reads = make(chan struct{})
		ld, err := loader.New(dev, ds, o)
		testkit.OK(t, err)
		dev.mu.Lock()
		dev.calls, dev.failAt = 0, at
		dev.mu.Unlock()
		close(reads)
		b, err := next(t, ld)
		if err == nil {
			testkit.OK(t, b.Release())
		}
		within(t, "Close", ld.Close)
		if dev.pinned() != 0 {
			t.Fatalf("call %d: %d bytes are still pinned", at, dev.pinned())
		}
		if err == nil {
			break
		}
		failed++
		testkit.WantError(t, fmt.Sprintf("call %d", at), err, errInjected)
	}
	if failed < 10 {
		t.Errorf("only %d calls could fail", failed)
	}
}

// Close stops a staged copy that is under way.
func TestCloseWhileStaging(t *testing.T) {
	dev := newDiscrete(t, 64<<20)
	leavesNothing(t, dev)
	for i := range 12 {
		ld := start(t, dev, large(), loader.Options{Batch: 8, Pin: loader.PinNever, Copiers: 2, Epochs: math.MaxInt, Prefetch: 2})
		b, err := next(t, ld)
		testkit.OK(t, err)
		if i%2 == 0 {
			testkit.OK(t, b.Release())
		}
		time.Sleep(time.Duration(i) * 300 * time.Microsecond)
		within(t, "Close", ld.Close)
		if i%2 == 1 {
			testkit.OK(t, b.Release())
		}
	}
}
