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

// renew makes a new anchor. A device that was closed by another hand is forgotten.
func (d *wrapped) renew() {
	if d.Closed() {
		d.finish(closedNow)
		d.r.forget(d)
		return
	}
	d.collecting.Lock() // it is the clock's lock, too
	defer d.collecting.Unlock()
	d.mu.Lock()
	c := d.clock
	d.mu.Unlock()
	if c == nil {
		return
	}
	a, err := c.make()
	if err != nil {
		return // the old one is still good
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.anchor
	if a.worse(old) {
		c.reuse(a.event)
		return
	}
	d.r.clock(d.id, a.error)
	d.anchor = a
	if old.users == 0 {
		c.reuse(old.event)
	} else {
		d.anchors = append(d.anchors, old)
	}
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
		s.abandon()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clock == nil {
		return
	}
	for _, p := range d.pairs {
		p.close()
	}
	for _, a := range append(d.anchors, d.anchor) {
		d.clock.reuse(a.event)
	}
	_ = d.clock.close() // nobody can do anything about it
	d.clock, d.anchor, d.anchors, d.pairs = nil, nil, nil, nil
}

// closedNow is a deadline that has passed.
var closedNow = func() <-chan time.Time { c := make(chan time.Time); close(c); return c }()
