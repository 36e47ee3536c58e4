package plan

import (
	"cmp"
	"slices"
	"sort"
)

// outcome is what a simulation of a schedule saw.
type outcome struct {
	seconds float64
	waited  float64 // of seconds, for copies
	beside  float64 // of seconds, for what goes on beside operations
	peak    int64
	start   []float64 // of each run
	bytes   []int64   // in use in each run
	hosted  int64     // bytes on the host
}

// flight is a copy to the host whose memory was not given back yet.
type flight struct {
	life   int
	copied float64
}

// simulation is memory of simulate that is used again.
type simulation struct {
	change   []int64   // of the bytes in use before each run
	fetches  []int     // lives, in the order in which they are fetched
	triggers []int     // the runs before which they are
	start    []float64 // of runs, if nothing is waited for
	sent     []int     // lives, in the order in which they are sent
	flights  []flight
	copied   []float64 // of values: when they were sent
	gone     []bool    // that they were given back
	arrival  []float64 // of fetches
	done     []float64 // of values that are written beside operations
}

// simulate runs a schedule: operations one after the other, copies of each direction
// one after the other beside them. It completes the lives of what is sent and what
// is fetched. Memory of what is sent is given back when it is copied, and waited for
// when there would be more than target bytes; what is fetched is fetched as late as
// it may, and later if there is no room.
func (p *problem) simulate(s *schedule, target int64, out *outcome) {
	n := len(s.runs)
	*out = outcome{start: resize(out.start, n), bytes: resize(out.bytes, n)}
	m := &p.simulating
	m.change = resize(m.change, n+2)
	change := m.change
	clear(change)
	m.sent, m.fetches, m.flights = m.sent[:0], m.fetches[:0], m.flights[:0]
	for l := range s.lives {
		x := &s.lives[l]
		bytes := p.Values[x.value].Bytes
		switch {
		case x.fetched:
			m.fetches = append(m.fetches, l)
			continue
		case x.sent:
			m.sent = append(m.sent, l)
			out.hosted += bytes
		default:
			change[x.to+1] -= bytes
		}
		if x.over >= 0 {
			change[x.from+1] += bytes // in its own run, its memory is that of what it takes
		} else {
			change[x.from] += bytes
		}
	}
	if len(m.fetches) > 0 || len(m.sent) > 0 {
		m.copied, m.gone = resize(m.copied, len(p.Values)), resize(m.gone, len(p.Values))
		clear(m.gone)
		m.arrival = resize(m.arrival, len(m.fetches))
	}
	fetches := m.fetches
	slices.SortStableFunc(fetches, func(a, b int) int { return cmp.Compare(s.lives[a].need, s.lives[b].need) })
	triggers := p.triggers(s)
	if p.goesOn {
		m.done = resize(m.done, len(p.Values))
		clear(m.done)
	}

	now, outFree, backFree, besideFree := 0.0, 0.0, 0.0, 0.0
	bytes := p.resident
	flights, copied, gone := m.flights, m.copied, m.gone
	send := func(l int) {
		x := &s.lives[l]
		outFree = max(outFree, now) + p.carry(x.value, p.Out)
		flights = append(flights, flight{l, outFree})
		copied[x.value] = outFree
	}
	release := func(k, at int) {
		x := &s.lives[flights[k].life]
		x.to = at - 1
		gone[x.value] = true
		bytes -= p.Values[x.value].Bytes
		flights = slices.Delete(flights, k, k+1)
	}
	// wait waits for the copy that is done first of those that may leave.
	wait := func(at int) bool {
		for k, f := range flights { // in the order of copies
			if s.lives[f.life].ready < at {
				now = max(now, f.copied)
				release(k, at)
				return true
			}
		}
		return false
	}
	next, sent, needed := 0, 0, 0 // of fetches that begin, of sends, and of fetches that are waited for
	for i := range s.runs {
		op := p.op(s.runs[i].op)
		bytes += change[i]
		for k := 0; k < len(flights) && flights[k].copied <= now; {
			if s.lives[flights[k].life].ready < i {
				release(k, i)
			} else {
				k++
			}
		}
		before := now
		for ; next < len(fetches) && triggers[next] <= i; next++ {
			x := &s.lives[fetches[next]]
			size := p.Values[x.value].Bytes
			if x.need > i && (x.after > i || bytes+op.Scratch+size > target || !gone[x.value]) {
				break
			}
			if !gone[x.value] { // it is wanted before its memory was needed
				k := slices.IndexFunc(flights, func(f flight) bool { return s.lives[f.life].value == x.value })
				now = max(now, flights[k].copied)
				release(k, i)
			}
			for bytes+op.Scratch+size > target && wait(i) {
			}
			backFree = max(backFree, now, copied[x.value]) + p.carry(x.value, p.Back)
			m.arrival[next] = backFree
			x.from = i
			bytes += size
			change[x.to+1] -= size
		}
		for bytes+op.Scratch > target && wait(i) {
		}
		for ; needed < len(fetches) && s.lives[fetches[needed]].need == i; needed++ {
			now = max(now, m.arrival[needed])
		}
		out.waited += now - before
		if p.goesOn {
			before = now
			for _, v := range op.Reads {
				if op.Beside == 0 {
					now = max(now, m.done[v])
				}
			}
			out.beside += now - before
		}
		out.bytes[i] = bytes + op.Scratch
		out.peak = max(out.peak, out.bytes[i])
		out.start[i] = now
		now += op.Seconds
		if op.Beside > 0 {
			besideFree = max(besideFree, now) + op.Beside
			for _, v := range op.Writes {
				m.done[v] = besideFree
			}
		}
		for ; sent < len(m.sent) && s.lives[m.sent[sent]].from == i; sent++ {
			send(m.sent[sent])
		}
	}
	for _, f := range flights {
		s.lives[f.life].to = n - 1
	}
	m.flights = flights
	out.beside += max(0, besideFree-now)
	out.seconds = max(now, besideFree)
}

// lead is how much earlier than needed what is fetched is planned to be back, as a
// share of the step.
const lead = 0.01

// triggers says for each fetch before which run it begins, so that it is back in time
// if nothing else makes the step longer.
func (p *problem) triggers(s *schedule) []int {
	m := &p.simulating
	fetches := m.fetches
	if len(fetches) == 0 {
		return nil
	}
	m.start, m.triggers = resize(m.start, len(s.runs)+1), resize(m.triggers, len(fetches))
	start, triggers := m.start, m.triggers
	start[0] = 0
	for i, r := range s.runs {
		start[i+1] = start[i] + p.op(r.op).Seconds
	}
	early := lead * start[len(s.runs)]
	begin := start[len(s.runs)]
	for k := len(fetches) - 1; k >= 0; k-- {
		x := &s.lives[fetches[k]]
		begin = min(begin, start[x.need]) - p.carry(x.value, p.Back)
		at := sort.SearchFloat64s(start, begin-early) // the first that is not before
		if at == len(start) || start[at] > begin-early {
			at--
		}
		triggers[k] = max(0, min(at, x.need))
		if k+1 < len(triggers) {
			triggers[k] = min(triggers[k], triggers[k+1])
		}
	}
	return triggers
}
