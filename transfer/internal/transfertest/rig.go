package transfertest

import (
	"fmt"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
)

// Rig is a device that says it lies behind a link, whatever it is, so that
// pageable memory is staged. It counts what is taken from it, and a test can
// watch its copies, hold them up and let calls fail.
type Rig struct {
	device.Device
	device.Pinner

	PinnedNow atomic.Int64         // bytes
	Opened    atomic.Int64         // streams and events
	Copied    atomic.Pointer[Hook] // called before each copy is queued
	make      atomic.Pointer[func() error]
	pin       atomic.Pointer[func() error]
}

// Hook is told of a copy. Its error is that of the copy, which then is not
// queued.
type Hook func(host []byte, p device.Ptr, toHost bool) error

func (r *Rig) OnCopy(h Hook)         { r.Copied.Store(&h) }
func (r *Rig) OnMake(f func() error) { r.make.Store(&f) } // of streams and events
func (r *Rig) OnPin(f func() error)  { r.pin.Store(&f) }

// Nowhere is where no device has memory. The rig itself refuses it: on others
// a stray address may hit a neighbour or worse.
const Nowhere = device.Ptr(1 << 60)

func (r *Rig) copy(host []byte, p device.Ptr, toHost bool) error {
	if h := r.Copied.Load(); h != nil {
		if err := (*h)(host, p, toHost); err != nil {
			return err
		}
	}
	if p >= Nowhere {
		return fmt.Errorf("rig: %w: %#x", device.ErrPointer, uint64(p))
	}
	return nil
}

func (r *Rig) Info() device.Info {
	info := r.Device.Info()
	info.Integrated = false
	return info
}

func (r *Rig) Pin(b []byte, flags device.PinFlags) error {
	if f := r.pin.Load(); f != nil {
		if err := (*f)(); err != nil {
			return err
		}
	}
	err := r.Pinner.Pin(b, flags)
	if err == nil {
		r.PinnedNow.Add(int64(len(b)))
	}
	return err
}

func (r *Rig) Unpin(b []byte) error {
	r.PinnedNow.Add(-int64(len(b)))
	return r.Pinner.Unpin(b)
}

func (r *Rig) made(err error) error {
	if f := r.make.Load(); err == nil && f != nil {
		err = (*f)()
	}
	if err == nil {
		r.Opened.Add(1)
	}
	return err
}

func (r *Rig) NewStream() (device.Stream, error) {
	s, err := r.Device.NewStream()
	if err := r.made(err); err != nil {
		return nil, err
	}
	return &stream{StreamWrapper: device.StreamWrapper{Stream: s}, rig: r}, nil
}

func (r *Rig) NewEvent(flags device.EventFlags) (device.Event, error) {
	e, err := r.Device.NewEvent(flags)
	if err := r.made(err); err != nil {
		return nil, err
	}
	return &event{EventWrapper: device.EventWrapper{Event: e}, rig: r}, nil
}

type stream struct {
	device.StreamWrapper
	rig    *Rig
	closed atomic.Bool
}

func (s *stream) CopyH2D(dst device.Ptr, src []byte) error {
	if err := s.rig.copy(src, dst, false); err != nil {
		return err
	}
	return s.Stream.CopyH2D(dst, src)
}

func (s *stream) CopyD2H(dst []byte, src device.Ptr) error {
	if err := s.rig.copy(dst, src, true); err != nil {
		return err
	}
	return s.Stream.CopyD2H(dst, src)
}

func (s *stream) Close() error {
	if s.closed.CompareAndSwap(false, true) {
		s.rig.Opened.Add(-1)
	}
	return s.Stream.Close()
}

type event struct {
	device.EventWrapper
	rig    *Rig
	closed atomic.Bool
}

func (e *event) Close() error {
	if e.closed.CompareAndSwap(false, true) {
		e.rig.Opened.Add(-1)
	}
	return e.Event.Close()
}
