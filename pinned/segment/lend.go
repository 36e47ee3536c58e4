package segment

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Lender lends parts of a segment to code that does not say when the copies
// that it queues from them are done, or on which streams they are: tensors of
// another library, say. A part that comes back is free behind everything that
// was queued on its devices by then.
//
// It pins the parts that it lends, each once, so that a sparse segment has no
// more pinned than is used. All methods are safe for concurrent use.
type Lender struct {
	segment *Segment
	done    chan struct{} // closed when everything is given back

	mu      sync.Mutex
	closed  bool
	devices []user
	pinner  device.Pinner // of the first device that has one; nil: none yet
	pinErr  error         // why the system pins no more
	pins    []part        // in order; they do not overlap
	lent    int           // loans that are not returned
	back    []*Loan       // returned, with no mark behind them yet
	marks   []lendMark    // the oldest first
	err     error         // of the last event that could not be asked or recorded
}

// user is a device whose streams may read what is lent.
type user struct {
	device.Device
	recorder device.ContextRecorder // nil: the device has none
}

// part is some whole pages of a segment, by their offset in its bytes.
type part struct{ start, end int64 }

// lendMark is what is passed when the loans are free.
type lendMark struct {
	events []device.Event
	loans  []*Loan
}

// Loan is a part of a segment that somebody uses.
type Loan struct {
	lender *Lender
	free   func()
	pinErr error
}

// LenderStats says what a [Lender] has.
type LenderStats struct {
	Lent        int   // loans that are not returned
	Pending     int   // those returned, behind which work may be queued still
	PinnedBytes int64 // of the parts that are pinned
	PinError    error // why the system refused to pin more
	Err         error // of the last event that could not be asked or recorded
}

// NewLender makes a lender of a segment, which it closes in the end.
func NewLender(s *Segment) *Lender { return &Lender{segment: s, done: make(chan struct{})} }

// Use tells that work on a device may read what is lent from now on. The first
// that can pin pins the parts, for all. The device becomes the lender's, which
// closes it in the end.
func (l *Lender) Use(dev device.Device) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.segment.closedError("use")
	}
	u := user{Device: dev}
	if r, ok := device.As[device.ContextRecorder](dev); ok && r.CanRecordAll() {
		u.recorder = r
	}
	if l.pinner == nil {
		l.pinner, _ = device.As[device.Pinner](dev)
	}
	l.devices = append(l.devices, u)
	return nil
}

// Lend lends n bytes from start, both whole pages. Nobody else may have any of
// them: their last loan is free. The lender calls free, from any goroutine and
// with its lock held, when this one is. Where the system does not pin them the
// loan is made all the same ([Loan.PinError]).
func (l *Lender) Lend(start, n int64, free func()) (*Loan, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mem := l.segment.Bytes()
	switch page := pagemem.PageSize(); {
	case l.closed || mem == nil:
		return nil, l.segment.closedError("lend")
	case start < 0 || n <= 0 || start > int64(len(mem))-n || start%page != 0 || n%page != 0:
		return nil, fmt.Errorf("segment: lend %d bytes from %d of %s: %w: not whole pages of its %d bytes",
			n, start, l.segment.header.label(), device.ErrArgument, len(mem))
	}
	loan := &Loan{lender: l, free: free, pinErr: l.pin(part{start, start + n})}
	l.lent++
	return loan, nil
}

// pin pins a part. Pins of other sizes that are in its way are of loans that
// are over.
func (l *Lender) pin(p part) error {
	if l.pinner == nil || slices.Contains(l.pins, p) {
		return nil
	}
	var err error
	l.pins = slices.DeleteFunc(l.pins, func(old part) bool {
		if old.end <= p.start || p.end <= old.start {
			return false
		}
		e := l.pinner.Unpin(l.memory(old))
		err = errors.Join(err, e)
		return e == nil
	})
	if err == nil && l.pinErr == nil {
		if err = l.pinner.Pin(l.memory(p), device.PinPortable); err == nil {
			l.pins = append(l.pins, p)
			return nil
		}
	}
	if err != nil {
		l.pinErr = fmt.Errorf("segment: pin %s of %s, %s pinned: %w",
			units.Bytes(p.end-p.start), l.segment.header.label(), units.Bytes(l.pinnedBytes()), err)
	}
	return l.pinErr
}

func (l *Lender) memory(p part) []byte { return l.segment.data()[p.start:p.end:p.end] }

func (l *Lender) pinnedBytes() (n int64) {
	for _, p := range l.pins {
		n += p.end - p.start
	}
	return n
}

// PinError says why the loan is not pinned; nil: it is, or no device pins.
func (o *Loan) PinError() error { return o.pinErr }

// Return ends the loan: nothing more is queued that uses it. It costs nothing;
// [Lender.Settle] finds out when what was queued is done. It is called once.
func (o *Loan) Return() {
	l := o.lender
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent--
	l.back = append(l.back, o)
	if l.closed && l.lent == 0 {
		go l.finish()
	}
}

// Settle marks the end of what is queued by now on the devices, for the loans
// that were returned since the last call, and frees those whose mark is passed.
// It waits for nothing, except on a device that has no
// [device.ContextRecorder]: there it waits for everything.
//
// Do not call it while a CUDA graph is captured: the capture would fail.
func (l *Lender) Settle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
}

func (l *Lender) settle() {
	if len(l.back) > 0 {
		if events, err := l.mark(); err != nil {
			l.err = err // they stay for the next call
		} else {
			l.marks = append(l.marks, lendMark{events, l.back})
			l.back = nil
		}
	}
	for len(l.marks) > 0 && l.passed(&l.marks[0]) {
		for _, o := range l.marks[0].loans {
			o.free()
		}
		l.marks = slices.Delete(l.marks, 0, 1)
	}
}

// mark records an event behind everything that is queued on each device.
func (l *Lender) mark() (events []device.Event, err error) {
	defer func() {
		if err != nil {
			for _, e := range events {
				e.Close()
			}
		}
	}()
	for _, u := range l.devices {
		if u.recorder == nil {
			if err := u.Synchronize(); err != nil && !errors.Is(err, device.ErrClosed) {
				return events, err
			}
			continue
		}
		e, err := u.NewEvent(device.EventNoTiming)
		if err != nil {
			return events, err
		}
		events = append(events, e)
		if err := u.recorder.RecordAll(e); err != nil {
			return events, err
		}
	}
	return events, nil
}

// passed drops the events that are passed and reports whether all are.
func (l *Lender) passed(m *lendMark) bool {
	m.events = slices.DeleteFunc(m.events, func(e device.Event) bool {
		done, err := e.Done() // work that failed is over too
		if err != nil {
			l.err = err
		}
		if done {
			e.Close()
		}
		return done
	})
	return len(m.events) == 0
}

// Stats says what the lender has now.
func (l *Lender) Stats() LenderStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := LenderStats{Lent: l.lent, Pending: len(l.back), PinnedBytes: l.pinnedBytes(), PinError: l.pinErr, Err: l.err}
	for _, m := range l.marks {
		s.Pending += len(m.loans)
	}
	return s
}

// Close ends lending. The segment is unpinned and closed, and the devices are,
// when the last loan is returned and the work behind it is done; Done tells.
// A second Close does nothing.
func (l *Lender) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		if l.lent == 0 {
			go l.finish()
		}
	}
}

// Done is closed when everything is given back after [Lender.Close].
func (l *Lender) Done() <-chan struct{} { return l.done }

// finish gives everything back. It runs once, after the last loan is returned.
func (l *Lender) finish() {
	defer close(l.done)
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, u := range l.devices {
		if err := u.Synchronize(); err != nil && !errors.Is(err, device.ErrClosed) {
			errs = append(errs, err) // work that failed is over too
		}
	}
	for _, m := range append(l.marks, lendMark{loans: l.back}) {
		for _, e := range m.events {
			e.Close()
		}
		for _, o := range m.loans {
			o.free()
		}
	}
	l.marks, l.back = nil, nil
	stuck := false
	for _, p := range l.pins {
		if err := l.pinner.Unpin(l.memory(p)); err != nil && !errors.Is(err, device.ErrClosed) {
			stuck = true
			errs = append(errs, err)
		}
	}
	l.pins = nil
	if !stuck { // else the pages stay mapped, for the driver may use them
		errs = append(errs, l.segment.Close())
	}
	for _, u := range l.devices {
		errs = append(errs, u.Close())
	}
	l.err = errors.Join(errs...)
}
