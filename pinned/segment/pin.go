package segment

import (
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
)

// pinFor is one device for which the segment is pinned.
type pinFor struct {
	dev    device.Device
	pinner device.Pinner
	since  time.Time
	// borrowed: the vendor's driver counts the memory as pinned for this device
	// too, because it is for an earlier one in the list.
	borrowed bool
}

// Pin page-locks all of the segment for a device of this process, with
// [device.PinPortable] in any case. Other processes are not affected: each
// pins for itself. Pinning for several devices is allowed; CUDA registers
// memory once in a process, for the first of them, which must stay open while
// the segment is pinned for others. For the same device again it fails with
// [ErrPinned].
//
// It fails with [device.ErrPinLimit] when the system refuses, and with
// [device.ErrNotSupported] when the device cannot pin. The memory then stays
// as it is, and copies from it are those of pageable memory.
func (s *Segment) Pin(dev device.Device, flags device.PinFlags) error {
	if dev == nil {
		return fmt.Errorf("segment: pin %s: %w: no device", s.header.label(), device.ErrArgument)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mem == nil {
		return s.closedError("pin")
	}
	s.pinning.Lock()
	defer s.pinning.Unlock()
	if i := s.pinOf(dev); i >= 0 {
		since := s.pins[i].since
		return fmt.Errorf("segment: pin %s: %w: for %s since %s, %v ago", s.header.label(), ErrPinned,
			dev.Info().ID, since.Format(time.TimeOnly), time.Since(since).Round(time.Millisecond))
	}
	pinner, ok := device.As[device.Pinner](dev)
	if !ok {
		return fmt.Errorf("segment: pin %s: %w", s.header.label(), noPinner(dev))
	}
	pin := pinFor{dev: dev, pinner: pinner}
	if err := pinner.Pin(s.data(), flags|device.PinPortable); err != nil {
		// The driver refuses a second registration, but the first one serves.
		pin.borrowed = errors.Is(err, device.ErrArgument) && s.find(dev, false) != nil && pinner.Pinned(s.data())
		if !pin.borrowed {
			return fmt.Errorf("segment: pin %s of %s for %s: %w", s.header.label(), units.Bytes(s.header.size), dev.Info().ID, err)
		}
	}
	pin.since = time.Now()
	s.pins = append(s.pins, pin)
	return nil
}

// Unpin undoes Pin. Copies that use the memory must be done. It fails with
// [device.ErrArgument] when the segment is not pinned for dev, and with
// [ErrPinned] while another device of the same driver, pinned later, relies
// on it: unpin that one first.
func (s *Segment) Unpin(dev device.Device) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mem == nil {
		return s.closedError("unpin")
	}
	s.pinning.Lock()
	defer s.pinning.Unlock()
	i := s.pinOf(dev)
	if i < 0 {
		return s.notPinnedError("unpin", dev)
	}
	if !s.pins[i].borrowed {
		if user := s.find(dev, true); user != nil {
			return fmt.Errorf("segment: unpin %s for %s: %w: %s relies on it",
				s.header.label(), dev.Info().ID, ErrPinned, user.Info().ID)
		}
	}
	if err := s.pins[i].undo(s.data()); err != nil {
		return fmt.Errorf("segment: unpin %s: %w", s.header.label(), err)
	}
	s.pins = append(s.pins[:i], s.pins[i+1:]...)
	return nil
}

// Mapped returns the address by which dev, for which the segment must be
// pinned with [device.PinMapped], reaches the first byte of Bytes. It is valid
// until Unpin. It fails with [device.ErrArgument] when the segment is not
// pinned for dev.
func (s *Segment) Mapped(dev device.Device) (device.Ptr, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mem == nil {
		return 0, s.closedError("mapped")
	}
	s.pinning.Lock()
	defer s.pinning.Unlock()
	i := s.pinOf(dev)
	if i < 0 {
		return 0, s.notPinnedError("mapped", dev)
	}
	return s.pins[i].pinner.Mapped(s.data())
}

// pinOf finds the pin of dev; below zero there is none.
func (s *Segment) pinOf(dev device.Device) int {
	for i, p := range s.pins {
		if device.Same(p.dev, dev) {
			return i
		}
	}
	return -1
}

// find returns the first device of the same vendor's driver as dev whose pin is
// its own or borrowed, or nil. Devices without such a driver share no pins.
func (s *Segment) find(dev device.Device, borrowed bool) device.Device {
	driver, ok := device.As[device.Native](dev)
	if !ok {
		return nil
	}
	for _, p := range s.pins {
		if other, ok := device.As[device.Native](p.dev); ok && p.borrowed == borrowed && other.API() == driver.API() {
			return p.dev
		}
	}
	return nil
}

func noPinner(dev device.Device) error {
	return fmt.Errorf("%w: %s cannot pin host memory", device.ErrNotSupported, dev.Info().ID)
}

// undo unpins what the pin itself has pinned. A closed device pins nothing
// any more.
func (p pinFor) undo(mem []byte) error {
	if p.borrowed {
		return nil
	}
	if err := p.pinner.Unpin(mem); err != nil && !errors.Is(err, device.ErrClosed) {
		return err
	}
	return nil
}

func (s *Segment) notPinnedError(what string, dev device.Device) error {
	id := "no device"
	if dev != nil {
		id = dev.Info().ID
	}
	return fmt.Errorf("segment: %s %s: %w: it is not pinned for %s", what, s.header.label(), device.ErrArgument, id)
}
