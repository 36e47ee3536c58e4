package tierbench

import (
	"errors"

	"github.com/pinion-gpu/pinion/device"
)

// ring is three buffers on the device: while one is used, the next is filled and the
// one before is written back.
type ring struct {
	b       *bench
	in, out device.Stream
	slots   [3]slot
	next    int
}

type slot struct {
	ptr                device.Ptr
	filled, used, free device.Event
}

func newRing(b *bench) (r *ring, err error) {
	r = &ring{b: b}
	if r.in, err = b.dev.NewStream(); err == nil {
		r.out, err = b.dev.NewStream()
	}
	for i := range r.slots {
		s := &r.slots[i]
		for _, e := range []*device.Event{&s.filled, &s.used, &s.free} {
			if err == nil {
				*e, err = b.dev.NewEvent(device.EventNoTiming)
			}
		}
		if err == nil {
			s.ptr, err = b.dev.Alloc(b.ArrayBytes)
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *ring) use(host []byte, write bool) error {
	s := &r.slots[r.next]
	r.next = (r.next + 1) % len(r.slots)
	err := errors.Join(
		r.in.Wait(s.free), r.in.CopyH2D(s.ptr, host), r.in.Record(s.filled),
		r.b.stream.Wait(s.filled), r.b.touch(s.ptr, write))
	if !write {
		return errors.Join(err, r.b.stream.Record(s.free))
	}
	err = errors.Join(err, r.b.stream.Record(s.used))
	return errors.Join(err, r.out.Wait(s.used), r.out.CopyD2H(host, s.ptr), r.out.Record(s.free))
}

func (r *ring) close() error {
	err := r.b.dev.Synchronize()
	for _, s := range r.slots {
		for _, e := range []device.Event{s.filled, s.used, s.free} {
			if e != nil {
				err = errors.Join(err, e.Close())
			}
		}
		if s.ptr != 0 {
			err = errors.Join(err, r.b.dev.Free(s.ptr))
		}
	}
	for _, x := range []device.Stream{r.in, r.out} {
		if x != nil {
			err = errors.Join(err, x.Close())
		}
	}
	return err
}
