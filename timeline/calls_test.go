package timeline

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// countedDevice counts the marks that are queued, and those whose time is read.
type countedDevice struct {
	device.Wrapper
	recorded, read atomic.Int64
}

func (d *countedDevice) NewStream() (device.Stream, error) {
	s, err := d.Device.NewStream()
	return &countedStream{device.StreamWrapper{Stream: s}, d}, err
}

func (d *countedDevice) NewEvent(flags device.EventFlags) (device.Event, error) {
	e, err := d.Device.NewEvent(flags)
	return &countedEvent{device.EventWrapper{Event: e}, d}, err
}

type countedStream struct {
	device.StreamWrapper
	d *countedDevice
}

func (s *countedStream) Record(e device.Event) error {
	s.d.recorded.Add(1)
	return s.Stream.Record(e)
}

type countedEvent struct {
	device.EventWrapper
	d *countedDevice
}

func (e *countedEvent) Since(start device.Event) (time.Duration, error) {
	e.d.read.Add(1)
	return e.Event.Since(start)
}

// wrapApart has r record d, with a clock on a stream that d does not see.
func wrapApart(t *testing.T, r *Recording, d device.Device) device.Device {
	t.Helper()
	dev := r.Wrap(d)
	own, _ := device.As[*wrapped](dev)
	own.collecting.Lock()
	defer own.collecting.Unlock()
	inner, _ := own.clock.stream.(interface{ Unwrap() device.Stream })
	own.clock.stream = inner.Unwrap()
	return dev
}

// A recording of a feed queues no marks of its own, and reads the time of each mark of
// the loader once: of those behind copies and around transforms.
func TestCalls(t *testing.T) {
	for _, large := range []bool{false, true} {
		options := loader.Options{Batch: 16, Epochs: 10}
		if large { // enough for the loader to time each batch
			options.Batch, options.Epochs = 128, 40
		}
		var recorded, read [2]int64
		batches := int64(0)
		for i, on := range []bool{false, true} {
			d := &countedDevice{Wrapper: device.Wrapper{Device: devicetest.Open(t)}}
			var dev device.Device = d
			if on {
				// Work that has not ended is not asked for.
				dev = wrapApart(t, start(t, Options{Every: time.Hour}), d)
				d.recorded.Store(0)
			}
			l, err := loader.New(dev, images(t, 256), options)
			testkit.OK(t, err)
			batches = 0
			for {
				b, err := l.Next(context.Background())
				if errors.Is(err, io.EOF) {
					break
				}
				testkit.OK(t, err)
				testkit.OK(t, b.Release())
				batches++
			}
			testkit.OK(t, l.Close())
			if on {
				Current().Stop()
			}
			recorded[i], read[i] = d.recorded.Load(), d.read.Load()
		}
		if recorded[1] != recorded[0] {
			t.Errorf("%d batches take %d marks with a recording, and %d without", batches, recorded[1], recorded[0])
		}
		// Without a recording the loader reads two times of each batch that it times.
		if more, want := read[1]-read[0], 2*batches+read[0]/2; more != want {
			t.Errorf("%d batches take %d more readings with a recording, want %d", batches, more, want)
		}
	}
}
