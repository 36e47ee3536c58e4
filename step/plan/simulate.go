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

// simulate runs a schedule: operations one after the other, copies of each direction
// one after the other beside them. It completes the lives of what is sent and what
// is fetched. Memory of what is sent is given back when it is copied, and waited for
// when there would be more than target bytes; what is fetched is fetched as late as
// it may, and later if there is no room.
func (p *problem) simulate(s *schedule, target int64) outcome {
	n := len(s.runs)
	out := outcome{start: make([]float64, n), bytes: make([]int64, n)}
	change := make([]int64, n+1)
	sent := make([][]int, n)
	var fetches []int
	for l := range s.lives {
		x := &s.lives[l]
		bytes := p.Values[x.value].Bytes
		switch {
		case x.fetched:
			fetches = append(fetches, l)
			continue
		case x.sent:
			sent[x.from] = append(sent[x.from], l)
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
	slices.SortStableFunc(fetches, func(a, b int) int { return cmp.Compare(s.lives[a].need, s.lives[b].need) })
	triggers := p.triggers(s, fetches)

	now, outFree, backFree := 0.0, 0.0, 0.0
	bytes := p.resident
	var flights []flight
	copied := make(map[int]float64) // of values
	gone := make(map[int]bool)      // that they were given back
	arrival := make(map[int]float64)
	send := func(l int) {
		x := &s.lives[l]
		outFree = max(outFree, now) + float64(p.Values[x.value].Bytes)/p.Out
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
	next := 0
	for i := range s.runs {
		op := &p.Ops[s.runs[i].op]
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
			backFree = max(backFree, now, copied[x.value]) + float64(size)/p.Back
			arrival[fetches[next]] = backFree
			x.from = i
			bytes += size
			change[x.to+1] -= size
		}
		for bytes+op.Scratch > target && wait(i) {
		}
		for _, l := range s.runs[i].needs {
			now = max(now, arrival[l])
		}
		out.waited += now - before
		out.bytes[i] = bytes + op.Scratch
		out.peak = max(out.peak, out.bytes[i])
		out.start[i] = now
		now += op.Seconds
		for _, l := range sent[i] {
			send(l)
		}
	}
	for _, f := range flights {
		s.lives[f.life].to = n - 1
	}
	out.seconds = now
	return out
}

// lead is how much earlier than needed what is fetched is planned to be back, as a
// share of the step.
const lead = 0.01

// triggers says for each fetch before which run it begins, so that it is back in time
// if nothing else makes the step longer.
func (p *problem) triggers(s *schedule, fetches []int) []int {
	if len(fetches) == 0 {
		return nil
	}
	start := make([]float64, len(s.runs)+1)
	for i, r := range s.runs {
		start[i+1] = start[i] + p.Ops[r.op].Seconds
	}
	early := lead * start[len(s.runs)]
	triggers := make([]int, len(fetches))
	begin := start[len(s.runs)]
	for k := len(fetches) - 1; k >= 0; k-- {
		x := &s.lives[fetches[k]]
		begin = min(begin, start[x.need]) - float64(p.Values[x.value].Bytes)/p.Back
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
