package main

import (
	"errors"
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// memory is what a group of rows takes of the device, given back at once.
type memory struct {
	dev    device.Device
	stream device.Stream
	undo   []func() error
}

func newMemory(dev device.Device) (*memory, error) {
	m := &memory{dev: dev}
	var err error
	m.stream, err = m.newStream()
	return m, err
}

func (m *memory) close() error {
	errs := []error{m.dev.Synchronize()}
	for _, undo := range slices.Backward(m.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

func (m *memory) later(undo func() error) { m.undo = append(m.undo, undo) }

func (m *memory) newStream() (device.Stream, error) {
	s, err := m.dev.NewStream()
	if err == nil {
		m.later(s.Close)
	}
	return s, err
}

// device takes n bytes of the device.
func (m *memory) device(n int64) (device.Ptr, error) {
	p, err := m.dev.Alloc(n)
	if err == nil {
		m.later(func() error { return m.dev.Free(p) })
	}
	return p, err
}
