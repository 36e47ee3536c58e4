package host_test

import (
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance"
	"github.com/pinion-gpu/pinion/device/host"
)

// wrapped wraps a device, its streams and its events in types of its own.
type wrapped struct{ device.Wrapper }

type wrappedStream struct{ device.StreamWrapper }

type wrappedEvent struct{ device.EventWrapper }

func (w *wrapped) NewStream() (device.Stream, error) {
	s, err := w.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return &wrappedStream{device.StreamWrapper{Stream: s}}, nil
}

func (w *wrapped) NewEvent(flags device.EventFlags) (device.Event, error) {
	e, err := w.Device.NewEvent(flags)
	if err != nil {
		return nil, err
	}
	return &wrappedEvent{device.EventWrapper{Event: e}}, nil
}

// A device in a wrapper keeps every promise of the device inside, also where
// streams and events are wrapped too.
func TestConformanceWrapped(t *testing.T) {
	conformance.Run(t, func(t testing.TB) device.Device {
		dev, err := host.Open(512 << 20)
		if err != nil {
			t.Fatal(err)
		}
		return &wrapped{device.Wrapper{Device: dev}}
	})
}
