package pinned

import (
	"errors"
	"slices"
	"time"
)

// Trim gives every segment that is wholly free back to the system, and
// returns how many bytes that were. Segments that the system would not take
// back stay counted in [Stats.LostBytes], with an error.
func (p *Pool) Trim() (freed int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, p.closedError()
	}
	p.poll()
	return p.giveBack(p.idleSegments())
}

// idleSegments lists the segments that are wholly free, longest idle first.
func (p *Pool) idleSegments() []*poolSegment {
	var idle []*poolSegment
	for s := range p.segments {
		if s.used == 0 {
			idle = append(idle, s)
		}
	}
	slices.SortFunc(idle, func(a, b *poolSegment) int { return a.idleSince.Compare(b.idleSince) })
	return idle
}

// makeRoom gives back idle segments until need bytes more are within the
// budget. It gives back none when all together would not do.
func (p *Pool) makeRoom(need int64) (freed int64, err error) {
	need -= p.room()
	idle := p.idleSegments()
	var sum int64
	for i, s := range idle {
		if sum += s.size(); sum >= need {
			return p.giveBack(idle[:i+1])
		}
	}
	return 0, nil
}

// giveBack gives idle segments back to the system. It unlocks the pool for the
// time of that.
func (p *Pool) giveBack(segments []*poolSegment) (freed int64, err error) {
	if len(segments) == 0 {
		return 0, nil
	}
	var size int64
	for _, s := range segments {
		p.free[s.class].remove(s.first)
		p.unlist(s)
		size += s.size()
	}
	p.transit += size
	p.busy++
	p.releasing++
	p.mu.Unlock()

	var stuck []*poolSegment
	for _, s := range segments {
		if e := p.drop(s); e != nil {
			err = errors.Join(err, e)
			stuck = append(stuck, s)
		} else {
			freed += s.size()
		}
	}

	p.mu.Lock()
	p.transit -= size
	p.releasing--
	if freed > 0 {
		p.refused = 0 // there may be room for larger ones again
	}
	p.done()
	for _, s := range stuck {
		s.first.free = false
		s.used = s.size()
		p.list(s)
		p.lose(s.first, err)
	}
	return freed, err
}

func (p *Pool) list(s *poolSegment) {
	p.segments[s] = struct{}{}
	p.reserved += s.size()
	if !s.pinned {
		p.pageable += s.size()
	}
	p.peakReserved = max(p.peakReserved, p.reserved)
}

func (p *Pool) unlist(s *poolSegment) {
	delete(p.segments, s)
	p.reserved -= s.size()
	if !s.pinned {
		p.pageable -= s.size()
	}
}

// idle notes that a segment has become wholly free.
func (p *Pool) idle(s *poolSegment) {
	if p.shrinkAfter < 0 {
		return
	}
	s.idleSince = time.Now()
	if !p.armed && !p.closed {
		p.arm(p.shrinkAfter)
	}
}

// arm sets the timer that runs shrink. One timer serves all segments: it goes
// off when the one that has been idle longest may be due.
func (p *Pool) arm(d time.Duration) {
	p.armed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(d, p.shrink)
	} else {
		p.timer.Reset(d)
	}
}

// shrink gives back the segments that have been idle for long enough.
func (p *Pool) shrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	if p.closed {
		return
	}
	now := time.Now()
	idle := p.idleSegments()
	due := 0
	for due < len(idle) && now.Sub(idle[due].idleSince) >= p.shrinkAfter {
		due++
	}
	if due < len(idle) {
		p.arm(p.shrinkAfter - now.Sub(idle[due].idleSince))
	}
	// What fails here is counted as lost, with the reason.
	_, _ = p.giveBack(idle[:due])
}
