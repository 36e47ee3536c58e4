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
	pool    *pinned.Pool
	host    *pinned.Buffer
	mapped  device.Ptr // of host; 0: the device cannot map it
	device  device.Ptr
	streams [rowsInFlight]device.Stream
	ready   device.Event
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
		Name: "lists", Budget: pagemem.RoundUp(rowsInFlight * listBytes), SegmentBytes: rowsInFlight * listBytes,
		Flags: device.PinMapped, AllowPageable: true,
	}); err != nil {
		return l, err
	}
	if l.host, err = l.pool.Alloc(context.Background(), rowsInFlight*listBytes); err != nil {
		return l, err
	}
	l.mapped, _ = l.host.Mapped()
	if l.device, err = dev.Alloc(rowsInFlight * listBytes); err != nil {
		return l, err
	}
	for i := range l.streams {
		if l.streams[i], err = dev.NewStream(); err != nil {
			return l, err
		}
		device.Label(l.streams[i], "transfer rows")
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
	for _, s := range l.streams {
		if s != nil {
			errs = append(errs, s.Close())
		}
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

// slot is the host's side of a list.
func (l *lists) slot(i int) []byte { return l.host.Bytes()[i*listBytes:][:listBytes] }

// send queues the n bytes of a slot's list on their way to the device, by
// upload, makes s wait for them and returns where they will be.
func (l *lists) send(s, upload device.Stream, slot, n int) (device.Ptr, error) {
	at := l.device.Add(int64(slot) * listBytes)
	if err := upload.CopyH2D(at, l.slot(slot)[:n]); err != nil || s == upload {
		return at, err
	}
	if err := upload.Record(l.ready); err != nil {
		return 0, err
	}
	return at, s.Wait(l.ready)
}
