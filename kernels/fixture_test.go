package kernels_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/kernels"
)

// fixture is the kernels of the device that PINION_DEVICE names, or "host".
type fixture struct {
	testing.TB
	dev    device.Device
	set    *kernels.Set
	stream device.Stream
}

func open(t testing.TB) *fixture {
	name := os.Getenv("PINION_DEVICE")
	if name == "" {
		name = "host"
	}
	return openDevice(t, name)
}

func openDevice(t testing.TB, name string) *fixture {
	dev, err := device.Open(name)
	must(t, err)
	t.Cleanup(func() { must(t, dev.Close()) })
	set, err := kernels.Load(dev)
	must(t, err)
	t.Cleanup(func() { must(t, set.Close()) })
	stream, err := dev.NewStream()
	must(t, err)
	return &fixture{t, dev, set, stream}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	guard  = 64   // bytes around a buffer that must stay as they are
	poison = 0xa5 // what they, and results, hold before
)

// buffer is device memory between guards.
type buffer struct {
	f     *fixture
	block device.Ptr
	p     device.Ptr
	n     int
}

// upload puts content at an address that is offset behind a multiple of 64.
func (f *fixture) upload(content []byte, offset int) buffer {
	f.Helper()
	total := guard + offset + len(content) + guard
	block, err := f.dev.Alloc(int64(total))
	must(f, err)
	all := bytes.Repeat([]byte{poison}, total)
	copy(all[guard+offset:], content)
	must(f, f.stream.CopyH2D(block, all))
	must(f, f.stream.Synchronize())
	return buffer{f, block, block.Add(int64(guard + offset)), len(content)}
}

// result makes n poisoned bytes for a kernel to write.
func (f *fixture) result(n, offset int) buffer {
	return f.upload(bytes.Repeat([]byte{poison}, n), offset)
}

// download waits for the stream and returns the content; the guards must be
// whole.
func (b buffer) download() []byte {
	b.f.Helper()
	before := int(b.p - b.block)
	all := make([]byte, before+b.n+guard)
	must(b.f, b.f.stream.CopyD2H(all, b.block))
	must(b.f, b.f.stream.Synchronize())
	for i, x := range all {
		if (i < before || i >= before+b.n) && x != poison {
			b.f.Fatalf("byte %d relative to a buffer of %d was overwritten with %#x", i-before, b.n, x)
		}
	}
	return all[before : before+b.n]
}

func (b buffer) free() { must(b.f, b.f.dev.Free(b.block)) }

// timeOnDevice reports the time from the beginning of the queued work to its
// end, by events.
func (f *fixture) timeOnDevice(b *testing.B, work func() error) {
	start, err := f.dev.NewEvent(0)
	must(b, err)
	end, err := f.dev.NewEvent(0)
	must(b, err)
	total, calls := 0.0, 0.0
	for b.Loop() {
		must(b, f.stream.Record(start))
		must(b, work())
		must(b, f.stream.Record(end))
		must(b, f.stream.Synchronize())
		took, err := end.Since(start)
		must(b, err)
		total += took.Seconds()
		calls++
	}
	b.ReportMetric(total/calls*1e6, "device-µs/op")
	must(b, start.Close())
	must(b, end.Close())
}
