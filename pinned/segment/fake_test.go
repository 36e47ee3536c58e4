package segment

import (
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

const mib = 1 << 20

// fakeDevice pins nothing and checks that pins and unpins pair up. Like those
// of a driver, several can share what they have pinned.
type fakeDevice struct {
	device.Device
	device.Native
	id       string
	pinned   map[uintptr]int // bytes, by address
	pinLimit int             // above it Pin fails; 0: none
	unpinErr error
}

func newFake() *fakeDevice { return &fakeDevice{id: "fake:0", pinned: map[uintptr]int{}} }

func (d *fakeDevice) Info() device.Info { return device.Info{ID: d.id} }
func (d *fakeDevice) API() device.API   { return "fake" }

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func (d *fakeDevice) Pin(b []byte, flags device.PinFlags) error {
	if flags&device.PinWriteCombined != 0 {
		return fmt.Errorf("fake: %w: write-combined", device.ErrArgument)
	}
	if _, ok := d.pinned[addressOf(b)]; ok {
		return fmt.Errorf("fake: %w: pinned already", device.ErrArgument)
	}
	if d.pinLimit > 0 && len(b) > d.pinLimit {
		return fmt.Errorf("fake: %w", device.ErrPinLimit)
	}
	d.pinned[addressOf(b)] = len(b)
	return nil
}

func (d *fakeDevice) Unpin(b []byte) error {
	if d.unpinErr != nil {
		return d.unpinErr
	}
	if d.pinned[addressOf(b)] != len(b) {
		return fmt.Errorf("fake: %w: not pinned as one", device.ErrArgument)
	}
	delete(d.pinned, addressOf(b))
	return nil
}

func (d *fakeDevice) Pinned([]byte) bool { return true }
func (d *fakeDevice) CanMap() bool       { return true }
func (d *fakeDevice) Mapped(b []byte) (device.Ptr, error) {
	return device.Ptr(addressOf(b)) + 1<<60, nil
}

// bytes is how many bytes are pinned.
func (d *fakeDevice) bytes() (n int) {
	for _, size := range d.pinned {
		n += size
	}
	return n
}

// plainDevice hides that a device can pin.
type plainDevice struct{ device.Device }
