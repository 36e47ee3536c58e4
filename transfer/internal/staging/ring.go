package staging

import (
	"context"
	"errors"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/pinned"
)

// ring moves chunks through a few pinned slots on its own stream, so that the
// processor's copying and the link's transfers overlap. One goroutine uses it
// at a time.
type ring struct {
	stream device.Stream
	slots  []slot
	first  int            // oldest slot in flight
	flying int            // slots in flight
	marks  []device.Event // of the transfers of a share; made when they are needed
}

// slot is a piece of pinned memory and the chunk that is passing through it.
type slot struct {
	buffer *pinned.Buffer
	event  device.Event
	task   *task
	offset int64
	staged []byte // the chunk, a part of buffer
}

func newRing(ctx context.Context, dev device.Device, pool *pinned.Pool, o Options) (*ring, error) {
	r := &ring{slots: make([]slot, o.Slots)}
	err := func() (err error) {
		if r.stream, err = dev.NewStream(); err != nil {
			return err
		}
		device.Label(r.stream, "transfer staged")
		for i := range r.slots {
			if r.slots[i].buffer, err = pool.Alloc(ctx, o.SlotBytes); err != nil {
				return err
			}
			// The wait spins: sleeping until the device's interrupt costs some
			// 50 µs a chunk, which took 5 % off a GiB and half off 4 MiB.
			if r.slots[i].event, err = dev.NewEvent(device.EventNoTiming); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// mark returns event number i for the transfers of a share.
func (r *ring) mark(dev device.Device, i int) (device.Event, error) {
	for len(r.marks) <= i {
		e, err := dev.NewEvent(device.EventNoTiming)
		if err != nil {
			return nil, err
		}
		r.marks = append(r.marks, e)
	}
	return r.marks[i], nil
}

func (r *ring) close() error {
	var errs []error
	if r.stream != nil {
		errs = append(errs, r.stream.Close())
	}
	for _, s := range r.slots {
		if s.buffer != nil {
			errs = append(errs, s.buffer.Free())
		}
		if s.event != nil {
			errs = append(errs, s.event.Close())
		}
	}
	for _, e := range r.marks {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}

// launch starts a chunk of t through the next free slot, landing the oldest
// one where there is none.
func (r *ring) launch(s *Stager, t *task, offset, n int64) {
	if r.flying == len(r.slots) {
		r.land(s)
	}
	sl := &r.slots[(r.first+r.flying)%len(r.slots)]
	var err error
	if sl.staged, err = t.payload.Load(sl.buffer.Bytes(), offset, n); err != nil {
		s.completed(t, n, err)
		return
	}
	if err = t.payload.Queue(r.stream, sl.staged, offset); err == nil {
		err = r.stream.Record(sl.event)
	}
	if err != nil {
		// The slot may still be in use by what was queued.
		s.completed(t, n, errors.Join(err, r.stream.Synchronize()))
		return
	}
	sl.task, sl.offset = t, offset
	r.flying++
}

// land finishes the oldest chunk in flight.
func (r *ring) land(s *Stager) {
	sl := &r.slots[r.first]
	r.first = (r.first + 1) % len(r.slots)
	r.flying--
	t := sl.task
	sl.task = nil
	err := sl.event.Synchronize()
	if err == nil {
		err = t.payload.Store(sl.staged, sl.offset)
	} else {
		// The stream would go on reporting this error, to other tasks too.
		_ = r.stream.Synchronize()
	}
	s.completed(t, int64(len(sl.staged)), err)
}
