package timeline

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
)

// stream is a stream that records. Work ends at a mark behind it, and begins when it is
// queued or when the work ahead of it has ended, whichever is later: one mark for each
// piece of work will do. There is another one ahead of work that had to wait for
// something whose time nobody knows, and none where the program's own events lie around
// it ([device.Timed]).
type stream struct {
	device.StreamWrapper
	d      *wrapped
	number int          // of those that have no label
	lane   atomic.Int32 // row of its work
	marks  marks

	mu     sync.Mutex
	ahead  waits    // what the next work waits for, beside the work ahead of it
	inside int      // calls of Timed
	isOpen bool     // in one of those: open is work without a mark behind it
	open   flight   //
	flying []flight // in the order of the stream; the first have perhaps ended

	// wrapped.collecting guards these.
	landing []flight // those that were in flying
	until   int64    // end of the newest work that has landed
}

// flight is work whose device times are not known yet.
type flight struct {
	x      record
	ahead  waits
	end    *mark
	anchor *anchor // that times are measured from
}

// waits are what work waits for: marks, of which it is a user.
type waits struct {
	marks   [2]*mark
	unknown bool // something else, too
}

// add adds a mark; nil: something whose time nobody knows.
func (w *waits) add(x *mark) {
	for i := range w.marks {
		if w.marks[i] == nil && x != nil {
			w.marks[i] = x
			return
		}
	}
	x.leave()
	w.unknown = true
}

// only makes x, which lies behind everything else, all that is waited for.
func (w *waits) only(x *mark) {
	w.leave()
	*w = waits{marks: [2]*mark{x}}
}

func (w *waits) take() (old waits) {
	old, *w = *w, waits{}
	return old
}

func (w *waits) leave() {
	for _, x := range w.marks {
		x.leave()
	}
	*w = waits{}
}

func (w *waits) any() bool { return w.unknown || w.marks[0] != nil }

// op is a piece of work that is being queued.
type op struct {
	on     bool
	called int64
	ahead  waits
}

// recorded reports whether what is queued now goes on the timeline.
func (s *stream) recorded() bool {
	return s.d.r.on.Load() && (s.d.captures.Load() == 0 || !s.d.capturer.Capturing(s.Stream))
}

// begin comes before the call that queues work.
func (s *stream) begin() (o op) {
	if !s.recorded() {
		return o
	}
	o.on, o.called = true, s.d.r.now()
	s.mu.Lock()
	open, isOpen := s.takeOpen()
	o.ahead = s.ahead.take()
	s.mu.Unlock()
	if isOpen {
		open.end = s.mark()
		s.fly(open)
	}
	if o.ahead.unknown {
		if x := s.mark(); x != nil {
			o.ahead.only(x)
		}
	}
	return o
}

// end comes behind the call that queued work since begin, or failed with err.
func (s *stream) end(o op, err error, e Engine, name int32, bytes int64) {
	if !o.on {
		return
	}
	if err != nil { // the next work waits in its place
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, x := range o.ahead.marks {
			if x != nil {
				s.ahead.add(x)
			}
		}
		s.ahead.unknown = s.ahead.unknown || o.ahead.unknown
		return
	}
	f := flight{ahead: o.ahead, x: record{
		kind: kindCall, engine: e, row: s.d.calls.id, lane: s.lane.Load(), name: name, start: o.called, end: s.d.r.now(), bytes: bytes,
	}}
	s.mu.Lock()
	if s.inside > 0 && !s.isOpen {
		s.open, s.isOpen = f, true
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	f.end = s.mark()
	s.fly(f)
}

// mark queues a mark of the stream's own; nil: there is none.
func (s *stream) mark() *mark {
	if s.d.anchor.Load() == nil {
		return nil
	}
	x := s.marks.take()
	if x != nil && s.Stream.Record(x.event) != nil {
		x.leave()
		return nil
	}
	return x
}

// fly keeps f until its times can be read; those without a mark behind them have none.
func (s *stream) fly(f flight) {
	s.mu.Lock()
	if f.anchor = s.d.anchor.Load(); f.anchor != nil && f.end != nil {
		s.flying = append(s.flying, f)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	f.leave()
	s.d.r.untimed.Add(1)
	s.d.r.put(f.x)
}

func (f *flight) leave() {
	f.ahead.leave()
	f.end.leave()
}

// takeOpen takes the work that has no mark behind it. The caller holds mu.
func (s *stream) takeOpen() (flight, bool) {
	if !s.isOpen {
		return flight{}, false
	}
	f := s.open
	s.open, s.isOpen = flight{}, false
	return f, true
}

// shut puts a mark behind work that has none.
func (s *stream) shut() {
	s.mu.Lock()
	f, isOpen := s.takeOpen()
	s.mu.Unlock()
	if isOpen {
		f.end = s.mark()
		s.fly(f)
	}
}

// Timed is called by [device.Timed]: the work that is queued last gets its end from the
// program's mark, and the first its beginning.
func (s *stream) Timed(begin, end device.Event, queue func() error) error {
	if begin != nil {
		if err := s.Record(begin); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.inside++
	s.mu.Unlock()
	defer s.shut() // where end is no event of ours, or there was an error
	err := queue()
	s.mu.Lock()
	s.inside--
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.Record(end)
}

// Record implements [device.Stream].
func (s *stream) Record(ev device.Event) error {
	e, ok := device.AsEvent[*event](ev)
	if !ok {
		s.shut()
		return s.Stream.Record(ev)
	}
	x, err := e.record(s.Stream)
	if err != nil {
		return err
	}
	if e.marks.d != s.d || !s.recorded() {
		x.leave()
		return nil
	}
	s.mu.Lock()
	f, isOpen := s.takeOpen()
	if s.ahead.any() {
		s.ahead.only(e.use(x))
	}
	s.mu.Unlock()
	if !isOpen {
		x.leave()
		return nil
	}
	f.end = x
	s.fly(f)
	return nil
}

// Wait implements [device.Stream].
func (s *stream) Wait(ev device.Event) error {
	s.shut()
	e, ok := device.AsEvent[*event](ev)
	if !ok {
		err := s.Stream.Wait(ev)
		s.waits(nil, err)
		return err
	}
	x := e.use(nil)
	err := s.Stream.Wait(x.event)
	if e.marks.d != s.d {
		x.leave()
		x = nil
	}
	s.waits(x, err)
	return err
}

// waits notes that the next work waits for a mark.
func (s *stream) waits(x *mark, err error) {
	if err != nil || !s.recorded() {
		x.leave()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead.add(x)
}

// Device implements [device.Stream].
func (s *stream) Device() device.Device { return s.d.outer }

// SetLabel is called by [device.Label]. Streams of one label share a row.
func (s *stream) SetLabel(label string) { s.lane.Store(s.d.r.row(s.d.id, label)) }

// CopyH2D implements [device.Stream].
func (s *stream) CopyH2D(dst device.Ptr, src []byte) error {
	o := s.begin()
	err := s.Stream.CopyH2D(dst, src)
	s.end(o, err, H2D, s.d.names[callH2D], int64(len(src)))
	return err
}

// CopyD2H implements [device.Stream].
func (s *stream) CopyD2H(dst []byte, src device.Ptr) error {
	o := s.begin()
	err := s.Stream.CopyD2H(dst, src)
	s.end(o, err, D2H, s.d.names[callD2H], int64(len(dst)))
	return err
}

// CopyD2D implements [device.Stream].
func (s *stream) CopyD2D(dst, src device.Ptr, n int64) error {
	o := s.begin()
	err := s.Stream.CopyD2D(dst, src, n)
	s.end(o, err, D2D, s.d.names[callD2D], n)
	return err
}

// Memset implements [device.Stream].
func (s *stream) Memset(dst device.Ptr, value byte, n int64) error {
	o := s.begin()
	err := s.Stream.Memset(dst, value, n)
	s.end(o, err, Compute, s.d.names[callMemset], n)
	return err
}

// Synchronize implements [device.Stream].
func (s *stream) Synchronize() error {
	s.shut()
	start := s.d.start()
	err := s.Stream.Synchronize()
	s.d.host(start, s.d.names[callWait], 0)
	return err
}

// Close implements [device.Stream].
func (s *stream) Close() error {
	s.shut()
	err := s.Stream.Close() // it waits for its work
	if errors.Is(err, device.ErrCapturing) {
		return err
	}
	s.d.collecting.Lock()
	s.collect()
	s.abandon()
	s.d.collecting.Unlock()
	s.d.forget(s)
	_, err2 := s.marks.close()
	return errors.Join(err, err2)
}
