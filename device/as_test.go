package device_test

import (
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
)

// unpinning is a wrapper that refuses to pin.
type unpinning struct {
	device.Wrapper
	device.Pinner
}

var errRefused = errors.New("refused")

func (unpinning) Pin([]byte, device.PinFlags) error { return errRefused }

// hiding is a device that shows nothing of what it wraps.
type hiding struct{ device.Device }

func TestAs(t *testing.T) {
	dev, err := host.Open(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	other, err := host.Open(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()

	u := &unpinning{Wrapper: device.Wrapper{Device: dev}}
	u.Pinner, _ = device.As[device.Pinner](dev)
	for name, wrapped := range map[string]device.Device{"once": u, "twice": device.Wrapper{Device: u}} {
		if p, ok := device.As[device.Pinner](wrapped); !ok || !errors.Is(p.Pin(nil, 0), errRefused) {
			t.Errorf("%s: the wrapper's own ability was not found first", name)
		}
		if c, ok := device.As[device.Caller](wrapped); !ok || c != device.Caller(dev) {
			t.Errorf("%s: an ability of the device inside was not found", name)
		}
		if h, ok := device.As[*host.Device](wrapped); !ok || h != dev {
			t.Errorf("%s: the device inside was not found by its type", name)
		}
		if _, ok := device.As[device.Native](wrapped); ok {
			t.Errorf("%s: an ability was found that nobody has", name)
		}
		if !device.Same(wrapped, dev) || !device.Same(dev, wrapped) || device.Same(wrapped, other) {
			t.Errorf("%s: it is not the same device as the one inside, or the same as another", name)
		}
	}
	if _, ok := device.As[device.Pinner](hiding{dev}); ok || device.Unwrap(hiding{dev}) != nil {
		t.Error("a device that wraps nothing shows the abilities of the device inside")
	}
	for _, none := range []device.Device{nil, device.Wrapper{}} {
		if _, ok := device.As[device.Pinner](none); ok || device.Unwrap(none) != nil || device.Same(none, dev) {
			t.Errorf("%v has abilities", none)
		}
	}
	if !device.Same(nil, nil) || device.Unwrap(device.Wrapper{Device: u}) != device.Device(u) {
		t.Error("Same or Unwrap went too far")
	}
}

// labelled is a wrapper that is held by value and cannot be compared.
type labelled struct {
	device.Wrapper
	labels []string
}

// The identity of a device is that of the device inside, of whatever type its
// wrappers are.
func TestSameOfWrappersWithoutEquality(t *testing.T) {
	dev, err := host.Open(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	other, err := host.Open(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	a, b := labelled{device.Wrapper{Device: dev}, []string{"a"}}, labelled{device.Wrapper{Device: dev}, nil}
	if !device.Same(a, a) || !device.Same(a, b) || !device.Same(a, dev) {
		t.Error("not the same as the device inside")
	}
	if device.Same(a, labelled{device.Wrapper{Device: other}, a.labels}) || device.Same(a, nil) {
		t.Error("the same as another")
	}
	type hidden struct {
		device.Device
		_ []string
	}
	if device.Same(hidden{Device: dev}, hidden{Device: dev}) {
		t.Error("devices that cannot be compared are the same")
	}
}

// Asking a device costs no memory, and hardly any time, wrapped or not.
func TestAsAllocatesNothing(t *testing.T) {
	dev, err := host.Open(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	wrapped := device.Device(&device.Wrapper{Device: &device.Wrapper{Device: dev}})
	if n := testing.AllocsPerRun(100, func() {
		device.As[device.Caller](wrapped)
		device.As[device.Native](wrapped)
		device.Same(wrapped, dev)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
