package kernels_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/internal/testkit"
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
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, dev.Close()) })
	set, err := kernels.Load(dev)
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, set.Close()) })
	stream, err := dev.NewStream()
	testkit.OK(t, err)
	return &fixture{t, dev, set, stream}
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
	testkit.OK(f, err)
	all := bytes.Repeat([]byte{poison}, total)
	copy(all[guard+offset:], content)
	testkit.OK(f, f.stream.CopyH2D(block, all))
	testkit.OK(f, f.stream.Synchronize())
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
	testkit.OK(b.f, b.f.stream.CopyD2H(all, b.block))
	testkit.OK(b.f, b.f.stream.Synchronize())
	for i, x := range all {
		if (i < before || i >= before+b.n) && x != poison {
			b.f.Fatalf("byte %d relative to a buffer of %d was overwritten with %#x", i-before, b.n, x)
		}
	}
	return all[before : before+b.n]
}

func (b buffer) free() { testkit.OK(b.f, b.f.dev.Free(b.block)) }

// timeOnDevice reports the time from the beginning of the queued work to its
// end, by events.
func (f *fixture) timeOnDevice(b *testing.B, work func() error) {
	start, err := f.dev.NewEvent(0)
	testkit.OK(b, err)
	end, err := f.dev.NewEvent(0)
	testkit.OK(b, err)
	total, calls := 0.0, 0.0
	for b.Loop() {
		testkit.OK(b, f.stream.Record(start))
		testkit.OK(b, work())
		testkit.OK(b, f.stream.Record(end))
		testkit.OK(b, f.stream.Synchronize())
		took, err := end.Since(start)
		testkit.OK(b, err)
		total += took.Seconds()
		calls++
	}
	b.ReportMetric(total/calls*1e6, "device-µs/op")
	testkit.OK(b, start.Close())
	testkit.OK(b, end.Close())
}
