package timeline

import (
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
)

// stream is a stream that records.
type stream struct {
	device.StreamWrapper
	d      *wrapped
	number int          // of those that have no label
	lane   atomic.Int32 // row of its work

	mu     sync.Mutex
	flying []flight // in the order of the stream; the first have perhaps ended

	until int64 // end of the newest work that has landed; wrapped.collecting guards it
}

// flight is work whose device times are not known yet.
type flight struct {
	x      record
	pair   *pair
	anchor *anchor
}

// Device implements [device.Stream].
func (s *stream) Device() device.Device { return s.d.outer }

// SetLabel is called by [device.Label]. Streams of one label share a row.
func (s *stream) SetLabel(label string) { s.lane.Store(s.d.r.row(s.d.id, label)) }

// CopyH2D implements [device.Stream].
func (s *stream) CopyH2D(dst device.Ptr, src []byte) error {
	o := s.d.begin(s.Stream)
	err := s.Stream.CopyH2D(dst, src)
	s.d.end(s, o, err, H2D, s.d.names[callH2D], int64(len(src)))
	return err
}

// CopyD2H implements [device.Stream].
func (s *stream) CopyD2H(dst []byte, src device.Ptr) error {
	o := s.d.begin(s.Stream)
	err := s.Stream.CopyD2H(dst, src)
	s.d.end(s, o, err, D2H, s.d.names[callD2H], int64(len(dst)))
	return err
}

// CopyD2D implements [device.Stream].
func (s *stream) CopyD2D(dst, src device.Ptr, n int64) error {
	o := s.d.begin(s.Stream)
	err := s.Stream.CopyD2D(dst, src, n)
	s.d.end(s, o, err, D2D, s.d.names[callD2D], n)
	return err
}

// Memset implements [device.Stream].
func (s *stream) Memset(dst device.Ptr, value byte, n int64) error {
	o := s.d.begin(s.Stream)
	err := s.Stream.Memset(dst, value, n)
	s.d.end(s, o, err, Compute, s.d.names[callMemset], n)
	return err
}

// Synchronize implements [device.Stream].
func (s *stream) Synchronize() error {
	start := s.d.start()
	err := s.Stream.Synchronize()
	s.d.host(start, s.d.names[callWait], 0)
	return err
}

// Close implements [device.Stream].
func (s *stream) Close() error {
	err := s.Stream.Close() // waits for its work
	s.d.collecting.Lock()
	s.collect()
	s.d.collecting.Unlock()
	s.d.forget(s)
	return err
}

// collect records the work that has ended, and reports whether there is more. The
// caller holds collecting.
func (s *stream) collect() (more bool) {
	for {
		s.mu.Lock()
		if len(s.flying) == 0 {
			s.flying = nil
			s.mu.Unlock()
			return false
		}
		f := s.flying[0]
		s.mu.Unlock()
		// An error beside true is that of the work, which took its time all the same.
		done, err := f.pair.end.Done()
		if !done && err == nil {
			return true
		}
		if done {
			f.x.from, f.x.to, err = f.anchor.times(f.pair.begin, f.pair.end)
		}
		s.mu.Lock()
		s.flying = s.flying[1:]
		s.mu.Unlock()
		s.landed(f, err == nil)
	}
}

// landed records work that has ended.
func (s *stream) landed(f flight, timed bool) {
	if timed {
		// Nothing begins before it is queued, or before the work ahead of it in the
		// stream has ended: where the clocks say so, they are mistaken by their error.
		f.x.from = max(f.x.from, f.x.start, s.until)
		f.x.to = max(f.x.to, f.x.from)
		s.until = f.x.to
		f.x.timed = true
	} else {
		s.d.r.untimed.Add(1)
	}
	s.d.r.put(f.x)
	s.d.giveBack(f.pair, f.anchor)
}

// abandon records work that has not ended without its times.
func (s *stream) abandon() {
	s.mu.Lock()
	flying := s.flying
	s.flying = nil
	s.mu.Unlock()
	for _, f := range flying {
		s.landed(f, false)
	}
}
