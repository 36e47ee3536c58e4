package host

import (
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/panicked"
)

// stream is a queue of operations. While it holds any, one goroutine works
// them off; the goroutine ends when the queue is empty.
type stream struct {
	dev *Device

	mu      sync.Mutex
	done    sync.Cond // signalled after each operation and when the runner ends
	queue   []op      // queue[head:] is still to be run
	head    int
	queued  uint64 // operations accepted so far
	ran     uint64 // operations finished so far
	running bool
	start   func() // run, as a value made once
	closed  bool
	err     error    // first error since the last synchronisation
	capture *capture // that records what is queued, or nil
}

// op is one queued operation. Its slices keep Go memory alive until it ran.
type op struct {
	kind     opKind
	dst, src []byte
	value    byte
	event    *event
	mark     uint64
	fn       func() error
	graph    *graph
}

type opKind uint8

const (
	opCopy opKind = iota
	opSet
	opRecord
	opWait
	opCall
	opGraph
)

// NewStream implements [device.Device].
func (d *Device) NewStream() (device.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return nil, errClosed
	}
	return d.newStream(), nil
}

// newStream is NewStream for callers that have the device to themselves.
func (d *Device) newStream() *stream {
	s := &stream{dev: d}
	s.done.L = &s.mu
	s.start = s.run
	d.streams[s] = struct{}{}
	return s
}

func (s *stream) Device() device.Device { return s.dev }

func (s *stream) CopyH2D(dst device.Ptr, src []byte) error {
	return s.submit(op{kind: opCopy, src: src}, dst, 0, int64(len(src)))
}

func (s *stream) CopyD2H(dst []byte, src device.Ptr) error {
	return s.submit(op{kind: opCopy, dst: dst}, 0, src, int64(len(dst)))
}

func (s *stream) CopyD2D(dst, src device.Ptr, n int64) error {
	return s.submit(op{kind: opCopy}, dst, src, n)
}

func (s *stream) Memset(dst device.Ptr, value byte, n int64) error {
	return s.submit(op{kind: opSet, value: value}, dst, 0, n)
}

// submit fills in the memory of o that is given by address, each n bytes, and
// queues it.
func (s *stream) submit(o op, dst, src device.Ptr, n int64) error {
	s.dev.mu.RLock()
	defer s.dev.mu.RUnlock()
	if s.dev.closed.Load() {
		return errClosed
	}
	var err error
	if o.dst == nil {
		if o.dst, err = s.dev.resolve(dst, n); err != nil {
			return err
		}
	}
	if o.src == nil && o.kind == opCopy {
		if o.src, err = s.dev.resolve(src, n); err != nil {
			return err
		}
	}
	return s.push(o)
}

func (s *stream) Record(e device.Event) error {
	ev, err := s.own(e)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if s.capture != nil {
		return ev.capture(s.capture.mark(s))
	}
	mark, err := ev.begin(1)
	if err != nil {
		return err
	}
	s.mark(ev, mark)
	return nil
}

// mark puts a mark behind what is queued. The caller holds mu.
func (s *stream) mark(e *event, mark uint64) {
	if !s.running && s.head == len(s.queue) {
		e.pass(mark, s.err) // nothing is before it
		return
	}
	s.append(op{kind: opRecord, event: e, mark: mark})
}

func (s *stream) Wait(e device.Event) error {
	ev, err := s.own(e)
	if err != nil {
		return err
	}
	mark, in, err := ev.newest()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case in != nil || s.capture != nil:
		return s.waitCaptured(in)
	}
	s.append(op{kind: opWait, event: ev, mark: mark})
	return nil
}

// own checks that e can be used on s.
func (s *stream) own(e device.Event) (*event, error) {
	ev, ok := eventOf(e)
	if !ok || ev.dev != s.dev {
		return nil, fmt.Errorf("host: %w: the event belongs to another device", device.ErrArgument)
	}
	return ev, s.dev.open()
}

func (d *Device) open() error {
	if d.closed.Load() {
		return errClosed
	}
	return nil
}

func (s *stream) push(o op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if s.capture != nil {
		return s.capture.add(s, o)
	}
	s.append(o)
	return nil
}

// usable fails when the stream is closed, or being captured. The caller holds mu.
func (s *stream) usable() error {
	if s.closed {
		return errClosed
	}
	if s.capture != nil {
		return errCapturing
	}
	return nil
}

func (s *stream) append(o op) {
	if s.head > len(s.queue)/2 || s.head == len(s.queue) {
		// Move up, so that a stream that is never idle does not grow.
		n := copy(s.queue, s.queue[s.head:])
		clear(s.queue[n:])
		s.queue, s.head = s.queue[:n], 0
	}
	s.queue = append(s.queue, o)
	s.queued++
	if !s.running {
		s.running = true
		go s.start()
	}
}

// run works the queue off and ends. A fault of an operation is a panic of this
// goroutine, of which the operation makes an error: memory may have been
// unmapped under it, and host memory may be the mapping of a file that has
// become shorter.
func (s *stream) run() {
	debug.SetPanicOnFault(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.head < len(s.queue) {
		o := s.queue[s.head]
		s.queue[s.head] = op{}
		s.head++
		before := s.err
		s.mu.Unlock()
		err := o.run(before)
		s.mu.Lock()
		if s.err == nil {
			s.err = err
		}
		s.ran++
		s.done.Broadcast()
	}
	s.running = false
}

// run executes the operation. A mark carries the error of the work before it.
func (o *op) run(before error) error {
	switch o.kind {
	case opCopy, opSet:
		return o.touch()
	case opRecord:
		o.event.pass(o.mark, before)
	case opWait:
		o.event.await(o.mark)
	case opCall:
		return protect(o.fn)
	case opGraph:
		return o.graph.replay(o.mark)
	}
	return nil
}

// touch does the operations that need nothing but memory.
func (o *op) touch() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault(p)
		}
		if err != nil {
			err = fmt.Errorf("host: %d bytes at %#x: %w", len(o.dst), uint64(address(o.dst)), err)
		}
	}()
	if o.kind == opCopy {
		copy(o.dst, o.src)
	} else {
		fill(o.dst, o.value)
	}
	return nil
}

// fault makes an error of the panic that a fault is. Another panic goes on.
func fault(p any) error {
	at, ok := p.(interface{ Addr() uintptr })
	if !ok {
		panic(p)
	}
	return fmt.Errorf("memory fault at %#x: unmapped, or the mapping of a file that is shorter", at.Addr())
}

func fill(b []byte, value byte) {
	if len(b) == 0 {
		return
	}
	b[0] = value
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// protect runs fn and makes an error of a panic, which a fault is too.
func protect(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("host: a queued function: %w", panicked.Error(p))
		}
	}()
	return fn()
}

// drain waits until what is queued now has run.
func (s *stream) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for upTo := s.queued; s.ran < upTo; {
		s.done.Wait()
	}
}

// takeError returns the first error since the last call.
func (s *stream) takeError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	s.err = nil
	return err
}

func (s *stream) Synchronize() error {
	if s.capturing() {
		return errCapturing
	}
	s.drain() // also when all is being closed: the caller wants its memory back
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed || s.dev.closed.Load() {
		return errClosed
	}
	return s.takeError()
}

func (s *stream) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	if s.capture != nil {
		s.mu.Unlock()
		return errCapturing
	}
	for s.ran < s.queued { // whoever finds it closed knows that its work is over
		s.done.Wait()
	}
	s.closed = true
	s.mu.Unlock()
	s.dev.mu.Lock()
	delete(s.dev.streams, s)
	s.dev.mu.Unlock()
	return s.takeError()
}
