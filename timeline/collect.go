package timeline

import (
	"maps"
	"slices"
	"time"
)

// stopWithin is how long Stop waits for work that has not ended.
const stopWithin = time.Second

// run looks at events and at memory, and renews anchors, until the recording is
// stopped.
func (r *Recording) run() {
	defer close(r.ended)
	look := time.NewTicker(r.every)
	defer look.Stop()
	anchors := time.NewTicker(anchorEvery)
	defer anchors.Stop()
	r.amounts.look(r)
	for {
		select {
		case <-look.C:
			for _, d := range r.devices() {
				d.collect()
			}
			r.flush()
			r.amounts.look(r)
		case <-anchors.C:
			for _, d := range r.devices() {
				d.renew()
			}
			if r.others != nil {
				r.others.renew()
			}
		case <-r.quit:
			deadline := time.After(stopWithin)
			for _, d := range r.devices() {
				d.finish(deadline)
			}
			if r.others != nil {
				_ = r.others.tracer.Stop() // what was told stays
			}
			r.amounts.look(r)
			return
		}
	}
}

func (r *Recording) devices() []*wrapped {
	r.list.Lock()
	defer r.list.Unlock()
	return slices.Clone(r.list.devices)
}

// collect records the work that has ended.
func (d *wrapped) collect() {
	d.collecting.Lock()
	defer d.collecting.Unlock()
	for _, s := range d.openStreams() {
		s.collect()
	}
}

func (d *wrapped) openStreams() []*stream {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.streams))
}

// collect records the work that has ended, and reports whether there is more. The
// caller holds collecting.
func (s *stream) collect() (more bool) {
	s.mu.Lock()
	if len(s.landing) == 0 {
		s.landing, s.flying = s.flying, s.landing[:0]
	} else {
		s.landing = append(s.landing, s.flying...)
		clear(s.flying)
		s.flying = s.flying[:0]
	}
	s.mu.Unlock()
	n := 0
	for n < len(s.landing) && s.land(&s.landing[n]) {
		n++
	}
	s.landed(n)
	return len(s.landing) > 0
}

// land reads the times of work, unless it has not ended.
func (s *stream) land(f *flight) (ended bool) {
	// Most has ended, and the times say so. Only where they do not is the event asked.
	to, err := f.end.time(f.anchor)
	if err != nil {
		done, unknown := f.end.event.Done()
		if !done && unknown == nil {
			return false
		}
		if done { // just now. An error beside it is that of the work, which took its time all the same.
			to, err = f.end.time(f.anchor)
		}
	}
	if err != nil {
		s.d.r.untimed.Add(1)
		return true
	}
	// Nothing begins before it is queued, or before the work ahead of it in the stream
	// has ended: where the clocks say so, they are mistaken by their error.
	f.x.from = max(f.x.start, s.until)
	for _, x := range f.ahead.marks {
		if x == nil {
			continue
		}
		if at, err := x.time(f.anchor); err == nil {
			f.x.from = max(f.x.from, at)
		}
	}
	f.x.to = max(to, f.x.from)
	s.until = f.x.to
	f.x.timed = true
	return true
}

// landed records the first n that are landing.
func (s *stream) landed(n int) {
	if n == 0 {
		return
	}
	records := s.d.landed[:0]
	for i := range s.landing[:n] {
		f := &s.landing[i]
		records = append(records, f.x)
		f.leave()
	}
	s.d.r.put(records...)
	s.d.landed = records
	rest := copy(s.landing, s.landing[n:])
	clear(s.landing[rest:])
	s.landing = s.landing[:rest]
}

// abandon records work that has not ended without its times.
func (s *stream) abandon() {
	s.mu.Lock()
	s.landing = append(s.landing, s.flying...)
	s.flying = nil
	s.ahead.leave()
	s.mu.Unlock()
	s.d.r.untimed.Add(int64(len(s.landing)))
	s.landed(len(s.landing))
}

// renew makes a new anchor. A device that was closed by another hand is forgotten.
func (d *wrapped) renew() {
	if d.Closed() {
		d.finish(closedNow)
		d.r.forget(d)
		return
	}
	d.collecting.Lock() // it is the clock's lock, too
	defer d.collecting.Unlock()
	if d.clock == nil {
		return
	}
	a, err := d.clock.make()
	if err != nil {
		return // the old one is still good
	}
	old := d.anchor.Load()
	if a.worse(old) {
		d.clock.reuse(a.event)
		return
	}
	d.r.clock(d.id, a.error)
	d.anchor.Store(a)
	d.anchors = append(d.anchors, old)
	d.retire()
}

// retire ends the use of anchors that are older than those of all work. The caller
// holds collecting.
func (d *wrapped) retire() {
	used := len(d.anchors)
	for _, s := range d.openStreams() {
		s.mu.Lock() // work that has the anchor of before is in flying by now
		for _, list := range [][]flight{s.landing, s.flying} {
			if len(list) == 0 {
				continue
			}
			if i := slices.Index(d.anchors, list[0].anchor); i >= 0 {
				used = min(used, i)
			}
		}
		s.mu.Unlock()
	}
	for _, a := range d.anchors[:used] {
		d.clock.reuse(a.event)
	}
	d.anchors = slices.Delete(d.anchors, 0, used)
}

// finish records all work that was queued, or what has ended by the deadline, and
// times nothing any more.
func (d *wrapped) finish(deadline <-chan time.Time) {
	d.collecting.Lock()
	defer d.collecting.Unlock()
	streams := d.openStreams()
	for _, s := range streams {
		for s.collect() {
			select {
			case <-deadline:
				deadline = closedNow
			case <-time.After(time.Millisecond):
				continue
			}
			break
		}
	}
	last := d.anchor.Swap(nil)
	for _, s := range streams {
		s.collect()
		s.abandon()
		_, _ = s.marks.close() // nobody can do anything about it
	}
	if d.clock == nil {
		return
	}
	for _, a := range append(d.anchors, last) {
		d.clock.reuse(a.event)
	}
	_ = d.clock.close()
	d.clock, d.anchors = nil, nil
}

// closedNow is a deadline that has passed.
var closedNow = func() <-chan time.Time { c := make(chan time.Time); close(c); return c }()
