package loader_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// A device with no room for a batch is an error that says what was needed.
func TestDeviceTooSmall(t *testing.T) {
	dev := open(t, "host:1MiB")
	leavesNothing(t, dev)
	for _, ds := range []*fake{
		table(64, dtype.U8, 64<<10), // 4 MiB of data
		images(64, 64, 64, 3),       // 3 MiB of floats
		images(14, 128, 128, 3),     // U8: room for the data, not for the raw bytes beside it
	} {
		o := loader.Options{}
		if ds.n == 14 {
			o.DType = dtype.U8
		}
		_, err := loader.New(dev, ds, o)
		testkit.WantError(t, ds.spec.String(), err, device.ErrOutOfMemory)
		if want := fmt.Sprintf("one batch of %d samples", ds.n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
		if free := freeBytes(t, dev); free != 1<<20 {
			t.Fatalf("%d bytes of the device are free after a failed New", free)
		}
	}
}

// With room for one device buffer only, it works with one.
func TestRoomForOne(t *testing.T) {
	dev := open(t, "host:1MiB")
	leavesNothing(t, dev)
	for _, ds := range []*fake{table(25, dtype.U8, 64<<10), images(25, 64, 64, 3)} {
		ref := newReference(t, ds)
		o := loader.Options{Batch: 10, Epochs: 2}
		ld := start(t, dev, ds, o)
		if s := ld.Stats(); s.DeviceBuffers != 1 || s.DeviceBytes > 1<<20 {
			t.Errorf("%+v", s)
		}
		list, err := drain(t, dev, ld)
		testkit.OK(t, err)
		compare(t, ds.spec.String(), list, ref.batches(o, ref.inOrder(2)))
		within(t, "Close", ld.Close)
	}
}

// What a loader takes, it takes when it is made: fifty epochs later it is the
// same.
func TestFlat(t *testing.T) {
	dev := newDiscrete(t, 64<<20)
	leavesNothing(t, dev)
	s := stream(t, dev)
	ds := images(40, 16, 16, 3)
	ld := start(t, dev, ds, loader.Options{Batch: 7, Epochs: 50, Shuffle: true, OnError: loader.Skip})
	first, free := ld.Stats(), freeBytes(t, dev)
	if used := 64<<20 - free; used < first.DeviceBytes || first.DeviceBytes != 3*int64(copied(ds.spec, 7)+7*16*16*3*4) || first.HostBytes != 5*int64(copied(ds.spec, 7)) {
		t.Errorf("%d bytes of the device in use; %+v", used, first)
	}
	var heap [2]uint64
	var made int
	for epoch := 0; epoch < 50; {
		b, err := next(t, ld)
		testkit.OK(t, err)
		if b.Epoch != epoch {
			t.Fatalf("epoch %d, want %d", b.Epoch, epoch)
		}
		if now := ld.Stats(); now.HostBytes != first.HostBytes || now.DeviceBytes != first.DeviceBytes || freeBytes(t, dev) != free {
			t.Fatalf("epoch %d: %+v, %d bytes of the device free; at first %+v, %d", epoch, now, freeBytes(t, dev), first, free)
		}
		testkit.OK(t, b.Release(s))
		if b.Number == 5 {
			epoch++
			switch epoch {
			case 10:
				heap[0], made = liveHeap(), dev.made()
			case 50:
				heap[1] = liveHeap()
			}
		}
	}
	if now := dev.made(); now != made {
		t.Errorf("%d events, streams and allocations were made in 40 epochs", now-made)
	}
	// Forty epochs that kept anything of their batches would show.
	if heap[1] > heap[0]+64<<10 {
		t.Errorf("the heap grew from %d to %d bytes in 40 epochs", heap[0], heap[1])
	}
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Slabs go back to the system, pinned and pageable ones.
func TestSlabsAreUnmapped(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the size of the address space is read from /proc")
	}
	dev := newDiscrete(t, 64<<20)
	ds := table(32, dtype.U8, 2<<20)
	ds.noReader = errSample // nothing need be read
	var before int64
	for round := range 17 {
		for _, pin := range []loader.Pinning{loader.PinAlways, loader.PinNever} {
			ld, err := loader.New(dev, ds, loader.Options{Batch: 1, Pin: pin, Prefetch: 15, Epochs: 3, PinBudget: 33 << 20})
			testkit.OK(t, err)
			if s := ld.Stats(); s.HostBytes != 16*int64(copied(ds.spec, 1)) {
				t.Fatalf("%d bytes of slabs", s.HostBytes)
			}
			if round%2 == 0 {
				_, err := next(t, ld)
				testkit.WantError(t, "Next", err, errSample)
			}
			within(t, "Close", ld.Close)
		}
		if round == 0 {
			before = addressSpace(t)
		}
	}
	// A gigabyte came and went.
	if grown := addressSpace(t) - before; grown > 256<<20 {
		t.Errorf("the address space grew by %d MiB", grown>>20)
	}
}

// addressSpace is the size of the process's mappings in bytes.
func addressSpace(t testing.TB) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	testkit.OK(t, err)
	var pages int64
	_, err = fmt.Sscan(string(text), &pages)
	testkit.OK(t, err)
	return pages * int64(os.Getpagesize())
}
