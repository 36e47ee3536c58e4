package transfer

import (
	"context"
	"errors"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
)

// lists is what describes rows to kernels: a list for each part in flight.
type lists struct {
	pool   *pinned.Pool
	host   *pinned.Buffer
	device device.Ptr
	stream device.Stream
	ready  device.Event
}

const listBytes = partRows * entryBytes

func newLists(dev device.Device) (l *lists, err error) {
	l = &lists{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close(dev))
			l = nil
		}
	}()
	if l.pool, err = pinned.NewPool(dev, pinned.Options{
		Name: "lists", Budget: pagemem.RoundUp(rowsInFlight * listBytes), SegmentBytes: rowsInFlight * listBytes, AllowPageable: true,
	}); err != nil {
		return l, err
	}
	if l.host, err = l.pool.Alloc(context.Background(), rowsInFlight*listBytes); err != nil {
		return l, err
	}
	if l.device, err = dev.Alloc(rowsInFlight * listBytes); err != nil {
		return l, err
	}
	if l.stream, err = dev.NewStream(); err != nil {
		return l, err
	}
	l.ready, err = dev.NewEvent(device.EventNoTiming)
	return l, err
}

// close gives back what there is.
func (l *lists) close(dev device.Device) error {
	if l == nil {
		return nil
	}
	var errs []error
	if l.stream != nil {
		errs = append(errs, l.stream.Close())
	}
	if l.ready != nil {
		errs = append(errs, l.ready.Close())
	}
	if l.host != nil {
		errs = append(errs, l.host.Free())
	}
	if l.pool != nil {
		errs = append(errs, l.pool.Close())
	}
	if l.device != 0 {
		// A closed device has freed it already.
		if err := dev.Free(l.device); !errors.Is(err, device.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// send queues the n bytes of a part's list on their way to the device, makes s
// wait for them and returns where they will be.
func (l *lists) send(s device.Stream, part, n int) (device.Ptr, error) {
	at := l.device.Add(int64(part%rowsInFlight) * listBytes)
	list := l.host.Bytes()[part%rowsInFlight*listBytes:][:n]
	if part == 0 { // nothing goes on beside which it could be copied
		return at, s.CopyH2D(at, list)
	}
	// On a stream of its own, beside the kernel of the part before.
	if err := l.stream.CopyH2D(at, list); err != nil {
		return 0, err
	}
	if err := l.stream.Record(l.ready); err != nil {
		return 0, err
	}
	return at, s.Wait(l.ready)
}
