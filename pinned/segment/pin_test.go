//go:build linux || darwin

package segment

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

func TestSegmentPin(t *testing.T) {
	s := mustCreate(t, 100_000, Options{Name: "frames"})
	dev, whole := newFake(), int(pagemem.RoundUp(100_000))
	if _, err := s.Mapped(dev); !errors.Is(err, device.ErrArgument) || err.Error() != `segment: mapped segment "frames": bad argument: it is not pinned for fake:0` {
		t.Errorf("mapped before it is pinned: %v", err)
	}
	if err := s.Pin(dev, 0); err != nil {
		t.Fatal(err)
	}
	if n := dev.bytes(); n != whole {
		t.Errorf("%d bytes pinned, want %d", n, whole)
	}
	if p, err := s.Mapped(dev); err != nil || p != device.Ptr(uintptr(unsafe.Pointer(&s.Bytes()[0])))+1<<60 {
		t.Errorf("mapped at %#x, %v", p, err)
	}
	err := s.Pin(dev, 0)
	if want := `segment: pin segment "frames": segment already pinned: for fake:0 since `; !errors.Is(err, ErrPinned) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("second: %v", err)
	}
	if err := s.Unpin(dev); err != nil {
		t.Error(err)
	}
	if err := s.Unpin(dev); !errors.Is(err, device.ErrArgument) || !strings.Contains(err.Error(), "not pinned for fake:0") {
		t.Errorf("second: %v", err)
	}
	for what, err := range map[string]error{
		"pin":    s.Pin(nil, 0),
		"unpin":  s.Unpin(nil),
		"mapped": second(s.Mapped(nil)),
		"flags":  s.Pin(dev, device.PinWriteCombined),
	} {
		if !errors.Is(err, device.ErrArgument) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Pin(plainDevice{dev}, 0); !errors.Is(err, device.ErrNotSupported) {
		t.Errorf("a device that cannot pin: %v", err)
	}
	dev.pinLimit = 1000
	if err := s.Pin(dev, 0); !errors.Is(err, device.ErrPinLimit) || !strings.Contains(err.Error(), "97.7 KiB for fake:0") {
		t.Errorf("over the limit: %v", err)
	}
	dev.pinLimit = 0
	if err := errors.Join(s.Pin(dev, 0), s.Close()); err != nil {
		t.Error(err)
	}
	if n := dev.bytes(); n != 0 {
		t.Errorf("%d bytes pinned after close", n)
	}
}

// Two devices of one driver, which registers memory once in a process.
func TestSegmentPinTwoDevices(t *testing.T) {
	s := mustCreate(t, mib, Options{})
	a, b, other := newFake(), newFake(), newFake()
	b.id, b.pinned = "fake:1", a.pinned
	// Somebody else has pinned the memory: no device of the segment lends it.
	if err := a.Pin(s.data(), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Pin(b, 0); !errors.Is(err, device.ErrArgument) || errors.Is(err, ErrPinned) {
		t.Errorf("pinned by others: %v", err)
	}
	if err := a.Unpin(s.data()); err != nil {
		t.Fatal(err)
	}
	for _, dev := range []*fakeDevice{other, a, b} {
		if err := s.Pin(dev, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Mapped(dev); err != nil {
			t.Error(err)
		}
	}
	if n := a.bytes(); n != mib || len(b.pinned) != 1 {
		t.Errorf("%d bytes pinned, %d times", n, len(b.pinned))
	}
	if err := s.Pin(b, 0); !errors.Is(err, ErrPinned) {
		t.Errorf("second: %v", err)
	}
	if err := s.Unpin(a); !errors.Is(err, ErrPinned) || !strings.Contains(err.Error(), "fake:1 relies on it") {
		t.Errorf("unpin of the first: %v", err)
	}
	if err := s.Unpin(b); err != nil || len(a.pinned) != 1 {
		t.Errorf("%v, pinned %d times", err, len(a.pinned))
	}
	if err := s.Pin(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil || len(a.pinned) != 0 || len(other.pinned) != 0 {
		t.Errorf("closed: %v, pinned %d and %d times", err, len(a.pinned), len(other.pinned))
	}
}

// What a device cannot unpin stays mapped; the rest is given up.
func TestSegmentUnpinFails(t *testing.T) {
	s := mustCreate(t, mib, Options{})
	o := mustOpen(t, s.File())
	dev := newFake()
	if err := s.Pin(dev, 0); err != nil {
		t.Fatal(err)
	}
	mem := s.data()
	dev.unpinErr = errors.New("no")
	if err := s.Unpin(dev); !errors.Is(err, dev.unpinErr) {
		t.Errorf("unpin: %v", err)
	}
	if err := s.Close(); !errors.Is(err, dev.unpinErr) {
		t.Errorf("close: %v", err)
	}
	if s.Bytes() != nil {
		t.Error("not closed")
	}
	if mem[0] = 1; o.Bytes()[0] != 1 {
		t.Error("not mapped any more")
	}
	if owners, err := o.Owners(); err != nil || len(owners) != 1 {
		t.Errorf("%+v, %v", owners, err)
	}
	dev.unpinErr = nil
	if err := errors.Join(dev.Unpin(mem), pagemem.Unmap(s0(mem))); err != nil {
		t.Error(err)
	}
}

// s0 is the whole mapping of which mem is the data.
func s0(mem []byte) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&mem[0]), -headerBytes)), headerBytes+len(mem))
}

// A closed device pins nothing, so the segment can go.
func TestSegmentDeviceClosed(t *testing.T) {
	s := mustCreate(t, mib, Options{})
	dev := newFake()
	if err := s.Pin(dev, 0); err != nil {
		t.Fatal(err)
	}
	dev.unpinErr = device.ErrClosed
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// What another mapping writes arrives on the device, and the other way round.
func TestSegmentDevice(t *testing.T) {
	const n = 1<<20 + 17
	dev := devicetest.Open(t)
	s := mustCreate(t, n, Options{Name: "device"})
	o := mustOpen(t, s.File())
	err := s.Pin(dev, device.PinMapped)
	if errors.Is(err, device.ErrPinLimit) || errors.Is(err, device.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	// The other mapping, as another process would, pins for itself.
	if err := o.Pin(dev, device.PinMapped); err != nil {
		t.Fatal(err)
	}
	pinner := devicetest.As[device.Pinner](t, dev)
	if !pinner.Pinned(s.Bytes()) || !pinner.Pinned(o.Bytes()) {
		t.Error("the device says it is not pinned")
	}
	if p, err := s.Mapped(dev); pinner.CanMap() && (err != nil || p == 0) {
		t.Errorf("mapped at %#x: %v", p, err)
	}
	if err := s.Pin(dev, 0); !errors.Is(err, ErrPinned) {
		t.Errorf("second: %v", err)
	}
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	p, err := dev.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("pinned by each "), n/15+1)[:n]
	copy(o.Bytes(), want)
	if err := errors.Join(stream.CopyH2D(p, s.Bytes()), stream.Synchronize()); err != nil {
		t.Fatal(err)
	}
	clear(s.Bytes())
	if err := errors.Join(stream.CopyD2H(o.Bytes(), p), stream.Synchronize()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.Bytes(), want) {
		t.Error("not what was written")
	}
	mem := s.Bytes()
	if err := s.Unpin(dev); err != nil {
		t.Error(err)
	}
	if pinner.Pinned(mem) || !pinner.Pinned(o.Bytes()) {
		t.Errorf("after unpin, pinned %t and %t", pinner.Pinned(mem), pinner.Pinned(o.Bytes()))
	}
}

// All devices of the machine at once, in turn the first to pin.
func TestSegmentManyDevices(t *testing.T) {
	first := devicetest.Open(t)
	var devices []device.Device
	for _, b := range device.Backends() {
		if b.Name != first.Info().Backend {
			continue
		}
		names, err := b.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			dev, err := device.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			devices = append(devices, dev)
		}
	}
	devices = append(devices, first) // one of them twice
	const n = 1 << 20
	s := mustCreate(t, n, Options{})
	for range len(devices) {
		for i, dev := range devices {
			if err := s.Pin(dev, device.PinMapped); errors.Is(err, device.ErrPinLimit) || errors.Is(err, device.ErrNotSupported) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			if p, err := s.Mapped(dev); devicetest.As[device.Pinner](t, dev).CanMap() && (err != nil || p == 0) {
				t.Errorf("mapped at %#x: %v", p, err)
			}
			stream, err := dev.NewStream()
			if err != nil {
				t.Fatal(err)
			}
			p, err := dev.Alloc(n)
			if err != nil {
				t.Fatal(err)
			}
			s.Bytes()[n-1] = byte(i + 1)
			b := make([]byte, n)
			if err := errors.Join(stream.CopyH2D(p, s.Bytes()), stream.CopyD2H(b, p), stream.Synchronize(), dev.Free(p), stream.Close()); err != nil {
				t.Fatal(err)
			}
			if b[n-1] != byte(i+1) {
				t.Errorf("device %d: %d", i, b[n-1])
			}
		}
		for i := len(devices) - 1; i >= 0; i-- {
			if err := s.Unpin(devices[i]); err != nil {
				t.Error(err)
			}
		}
		devices = append(devices[1:], devices[0])
	}
}
