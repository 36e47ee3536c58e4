package timeline

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// mark is an event of the device inside, as it stands in a stream. It is not recorded
// again before everything that its time is for is done with it.
type mark struct {
	event device.Event
	of    *marks

	users int  // guarded by of.mu
	lost  bool // it was recorded again all the same; guarded by of.mu

	// Of who collects: the time at which it was passed, once it was read.
	at   int64
	read bool
}

// marks are events that are used again and again, of one stream or of one event of the
// program's. Streams share none, and so do not wait for each other.
type marks struct {
	d     *wrapped
	flags device.EventFlags

	mu     sync.Mutex
	free   []*mark
	closed bool
}

// mostMarks is how many marks of a device there are at once. What is queued beyond that
// has no device times, and counts as untimed.
const mostMarks = 1 << 15

// take gives a mark to one user; nil: there is none.
func (m *marks) take() *mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.takeLocked()
}

func (m *marks) takeLocked() *mark {
	if m.closed {
		return nil
	}
	if n := len(m.free); n > 0 {
		x := m.free[n-1]
		m.free = m.free[:n-1]
		x.users, x.read, x.lost = 1, false, false
		return x
	}
	if m.d.made.Add(1) > mostMarks {
		m.d.made.Add(-1)
		return nil
	}
	e, err := m.d.Device.NewEvent(m.flags)
	if err != nil {
		m.d.made.Add(-1)
		return nil
	}
	return &mark{event: e, of: m, users: 1}
}

// leave ends the use of one user of x, or does nothing for nil.
func (x *mark) leave() {
	if x == nil {
		return
	}
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.leaveLocked()
}

func (x *mark) leaveLocked() {
	if x.users--; x.users > 0 {
		return
	}
	if x.of.closed {
		_ = x.close() // nobody can do anything about it
		return
	}
	x.of.free = append(x.of.free, x)
}

func (x *mark) close() error {
	x.of.d.made.Add(-1)
	return x.event.Close()
}

// time is when x was passed, by the host's clock. The caller holds collecting.
func (x *mark) time(a *anchor) (int64, error) {
	if x.read {
		return x.at, nil
	}
	x.of.mu.Lock()
	lost := x.lost
	x.of.mu.Unlock()
	if lost {
		return 0, errLost
	}
	after, err := x.event.Since(a.event)
	if err != nil {
		return 0, err
	}
	x.at, x.read = a.at+int64(after), true
	return x.at, nil
}

// errLost: no more events could be made.
var errLost = errors.New("timeline: the mark was used for something else before its time was read")

// close gives the events up that are free, and the others as they become so. It reports
// whether it did, which is once.
func (m *marks) close() (first bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false, nil
	}
	var errs []error
	for _, x := range m.free {
		errs = append(errs, x.close())
	}
	m.free, m.closed = nil, true
	return true, errors.Join(errs...)
}

// event is one of the program's, with timing. When it is recorded while the time of its
// newest mark is still to be read, another event of the device takes that mark's place.
type event struct {
	marks  marks
	newest atomic.Pointer[mark] // changed under marks.mu
}

// NewEvent implements [device.Device].
func (d *wrapped) NewEvent(flags device.EventFlags) (device.Event, error) {
	inner, err := d.Device.NewEvent(flags)
	if err != nil || flags&device.EventNoTiming != 0 || d.anchor.Load() == nil {
		return inner, err
	}
	e := &event{marks: marks{d: d, flags: flags}}
	d.made.Add(1)
	e.newest.Store(&mark{event: inner, of: &e.marks, users: 1})
	return e, nil
}

// Unwrap finds what backends know.
func (e *event) Unwrap() device.Event { return e.newest.Load().event }

// Done implements [device.Event].
func (e *event) Done() (bool, error) { return e.Unwrap().Done() }

// Synchronize implements [device.Event].
func (e *event) Synchronize() error { return e.Unwrap().Synchronize() }

// Since implements [device.Event].
func (e *event) Since(start device.Event) (time.Duration, error) { return e.Unwrap().Since(start) }

// Close implements [device.Event].
func (e *event) Close() error {
	x, fresh := e.next()
	if fresh { // what is still to be read is closed when it was
		e.replace(x)
	}
	first, err := e.marks.close()
	if !first {
		return nil
	}
	return errors.Join(x.close(), err)
}

// record queues a mark in s, which becomes the newest, with another user.
func (e *event) record(s device.Stream) (*mark, error) {
	x, fresh := e.next()
	if err := s.Record(x.event); err != nil {
		if fresh {
			x.leave()
		}
		return nil, err
	}
	if fresh {
		e.replace(x)
	}
	return e.use(x), nil
}

// next is a mark that nobody else uses, to be recorded: the newest one, or a fresh one.
func (e *event) next() (x *mark, fresh bool) {
	e.marks.mu.Lock()
	defer e.marks.mu.Unlock()
	x = e.newest.Load()
	if x.users > 1 {
		if next := e.marks.takeLocked(); next != nil {
			return next, true
		}
		x.lost = true
		return x, false
	}
	x.read, x.lost = false, false
	return x, false
}

// replace makes x the newest mark. Until it is recorded, the old one is.
func (e *event) replace(x *mark) {
	e.marks.mu.Lock()
	defer e.marks.mu.Unlock()
	e.newest.Swap(x).leaveLocked()
}

// use gives a mark of e to another user; nil: the newest.
func (e *event) use(x *mark) *mark {
	e.marks.mu.Lock()
	defer e.marks.mu.Unlock()
	if x == nil {
		x = e.newest.Load()
	}
	x.users++
	return x
}
