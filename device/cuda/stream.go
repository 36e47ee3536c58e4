package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// stream is a driver stream. It never synchronises with the legacy default
// stream.
type stream struct {
	dev    *Device
	handle uintptr
	theirs bool    // of another library: see StreamOf
	mark   uintptr // event behind the newest copy from another device; made when needed
	gate   gate
}

// NewStream implements [device.Device].
func (d *Device) NewStream() (device.Stream, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	d.owned.Lock()
	defer d.owned.Unlock()
	s, err := d.newStream()
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newStream is NewStream on a thread that has entered and holds owned.
func (d *Device) newStream() (*stream, error) {
	s := &stream{dev: d}
	if err := check("cuStreamCreate",
		api.streamCreate.Call(uintptr(unsafe.Pointer(&s.handle)), streamNonBlocking)); err != nil {
		return nil, err
	}
	d.streams[s] = struct{}{}
	return s, nil
}

func (s *stream) Device() device.Device { return s.dev }

// streamOf finds the stream of this backend that s is, or wraps.
func streamOf(s device.Stream) (*stream, bool) {
	if cs, ok := s.(*stream); ok {
		return cs, true
	}
	return device.AsStream[*stream](s)
}

// enter holds the stream and its device open for a call.
func (s *stream) enter() error {
	if err := s.dev.enter(); err != nil {
		return err
	}
	if !s.gate.enter() {
		s.dev.leave()
		return errClosed
	}
	return nil
}

func (s *stream) leave() {
	s.gate.leave()
	s.dev.leave()
}

// hold is enter for [Device.call].
func (s *stream) hold() error {
	if err := s.dev.hold(); err != nil {
		return err
	}
	if !s.gate.enter() {
		s.dev.mu.RUnlock()
		return errClosed
	}
	return nil
}

func (s *stream) release() {
	s.gate.leave()
	s.dev.mu.RUnlock()
}

func (s *stream) CopyH2D(dst device.Ptr, src []byte) error {
	if err := s.recordable(src); err != nil {
		return err
	}
	return s.queue("cuMemcpyHtoDAsync", dst, int64(len(src)), func() uintptr {
		return api.memcpyHtoDAsync.Call4(uintptr(dst),
			uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)), s.handle)
	})
}

func (s *stream) CopyD2H(dst []byte, src device.Ptr) error {
	if err := s.recordable(dst); err != nil {
		return err
	}
	return s.queue("cuMemcpyDtoHAsync", src, int64(len(dst)), func() uintptr {
		return api.memcpyDtoHAsync.Call4(uintptr(unsafe.Pointer(unsafe.SliceData(dst))),
			uintptr(src), uintptr(len(dst)), s.handle)
	})
}

func (s *stream) CopyD2D(dst, src device.Ptr, n int64) error {
	return s.queue("cuMemcpyDtoDAsync", dst, n, func() uintptr {
		return api.memcpyDtoDAsync.Call4(uintptr(dst), uintptr(src), uintptr(n), s.handle)
	})
}

func (s *stream) Memset(dst device.Ptr, value byte, n int64) error {
	return s.queue("cuMemsetD8Async", dst, n, func() uintptr {
		return api.memsetD8Async.Call4(uintptr(dst), uintptr(value), uintptr(n), s.handle)
	})
}

// recordable refuses host memory that is not pinned for a copy in a capture: it could be
// gone, or elsewhere, when the graph is launched.
func (s *stream) recordable(b []byte) error {
	if captures.now.Load() == 0 || len(b) == 0 {
		return nil
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if s.isCapturing() && !s.dev.isPinned(b) {
		return fmt.Errorf("cuda: %w: a copy of %d bytes of host memory that is not pinned, in a capture", device.ErrArgument, len(b))
	}
	return nil
}

// queue calls a driver function that queues work on n bytes at p.
func (s *stream) queue(name string, p device.Ptr, n int64, call func() uintptr) error {
	if n < 0 {
		return fmt.Errorf("cuda: %w: %d bytes", device.ErrArgument, n)
	}
	if err := s.hold(); err != nil {
		return err
	}
	defer s.release()
	if n == 0 {
		return nil
	}
	if r := s.dev.call(call); r != 0 {
		return copyError(check(name, r), p, n)
	}
	return nil
}

// copyError says which memory a copy failed on.
func copyError(err error, p device.Ptr, n int64) error {
	return fmt.Errorf("cuda: %d bytes at %#x: %w", n, uint64(p), pointerError(err))
}

// pointerError tells a bad address from other failures of a copy with good
// arguments: the driver calls an address that it does not know an invalid
// value.
func pointerError(err error) error {
	if is(err, resultInvalidValue) {
		return fmt.Errorf("%w: %w", device.ErrPointer, err)
	}
	return err
}

func (s *stream) Record(ev device.Event) error {
	return s.withEvent(ev, func(e *event) error {
		e.recorded.Store(true)
		e.captured.Store(s.recording())
		r := s.dev.call(func() uintptr { return api.eventRecord.Call4(e.handle, s.handle, 0, 0) })
		if r != 0 {
			return check("cuEventRecord", r)
		}
		return nil
	})
}

func (s *stream) Wait(ev device.Event) error {
	return s.withEvent(ev, func(e *event) error {
		r := s.dev.call(func() uintptr { return api.streamWaitEvent.Call4(s.handle, e.handle, 0, 0) })
		if r != 0 {
			return check("cuStreamWaitEvent", r)
		}
		return nil
	})
}

// withEvent calls fn with the stream and the event held open.
func (s *stream) withEvent(ev device.Event, fn func(*event) error) error {
	e, ok := eventOf(ev)
	if !ok || e.dev != s.dev {
		return fmt.Errorf("cuda: %w: the event belongs to another device", device.ErrArgument)
	}
	if err := s.hold(); err != nil {
		return err
	}
	defer s.release()
	if !e.gate.enter() {
		return errClosed
	}
	defer e.gate.leave()
	return fn(e)
}

func (s *stream) Synchronize() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.refuse("Synchronize"); err != nil {
		return err
	}
	if r := api.streamSynchronize.Call4(s.handle, 0, 0, 0); r != 0 {
		return check("cuStreamSynchronize", r)
	}
	return nil
}

func (s *stream) Close() error {
	if !s.theirs {
		// Before the gate shuts: others who use the stream need not wait there.
		if err := s.Synchronize(); errors.Is(err, device.ErrCapturing) {
			return err
		}
	}
	if err := s.dev.enter(); err != nil {
		return closedWith(err)
	}
	defer s.dev.leave()
	return s.gate.close(func() error {
		s.dev.owned.Lock()
		delete(s.dev.streams, s)
		s.dev.owned.Unlock()
		return s.destroy()
	})
}

// destroy waits for the stream and gives it back, unless it is another
// library's.
func (s *stream) destroy() (errs error) {
	if !s.theirs {
		errs = errors.Join(
			check("cuStreamSynchronize", api.streamSynchronize.Call4(s.handle, 0, 0, 0)),
			check("cuStreamDestroy", api.streamDestroy.Call(s.handle)))
	}
	if s.mark != 0 {
		errs = errors.Join(errs, check("cuEventDestroy", api.eventDestroy.Call(s.mark)))
	}
	return errs
}

// closedWith is the result of closing a stream or an event whose device cannot be
// entered: no error if the device was closed, since that closed them too.
func closedWith(err error) error {
	if errors.Is(err, device.ErrClosed) {
		return nil
	}
	return err
}
