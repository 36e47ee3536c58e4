package harness

import (
	"errors"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/device"
)

// Memory is what a group of rows takes of a device, given back at once.
type Memory struct {
	Dev    device.Device
	Stream device.Stream // the first one, for whatever needs no other
	undo   []func() error
}

// NewMemory makes the memory of a group, with a stream.
func NewMemory(dev device.Device) (*Memory, error) {
	m := &Memory{Dev: dev}
	var err error
	if m.Stream, err = m.NewStream(); err != nil {
		return nil, err
	}
	return m, nil
}

// Close waits for the device and gives everything back, the latest first. It
// goes on after errors and returns all of them.
func (m *Memory) Close() error {
	errs := []error{m.Dev.Synchronize()}
	for _, undo := range slices.Backward(m.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

// Later has Close call undo.
func (m *Memory) Later(undo func() error) { m.undo = append(m.undo, undo) }

// NewStream makes a stream that lives until Close.
func (m *Memory) NewStream() (device.Stream, error) {
	s, err := m.Dev.NewStream()
	if err == nil {
		m.Later(s.Close)
	}
	return s, err
}

// Alloc takes n bytes of the device until Close.
func (m *Memory) Alloc(n int64) (device.Ptr, error) {
	p, err := m.Dev.Alloc(n)
	if err == nil {
		m.Later(func() error { return m.Dev.Free(p) })
	}
	return p, err
}

// Others opens the other devices of the same backend until Close.
func (m *Memory) Others() (list []device.Device, err error) {
	id := m.Dev.Info().ID
	kind, _, _ := strings.Cut(id, ":")
	for _, backend := range device.Backends() {
		if backend.Name != kind {
			continue
		}
		names, _ := backend.List() // it has one, which is open
		for _, name := range names {
			if name == id {
				continue
			}
			other, err := device.Open(name)
			if err != nil {
				return nil, err
			}
			m.Later(other.Close)
			list = append(list, other)
		}
	}
	return list, nil
}
