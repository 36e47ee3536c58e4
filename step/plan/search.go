package plan

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// candidate is a plan that was tried.
type candidate struct {
	d decisions
	s *schedule
	o outcome
}

// try expands and simulates; nil if it cannot be, or takes too much host memory.
func (p *problem) try(d decisions, target int64) *candidate {
	s, ok := p.expand(d)
	if !ok {
		return nil
	}
	o := p.simulate(s, target)
	if p.HostBytes > 0 && o.hosted > p.HostBytes {
		return nil
	}
	return &candidate{d, s, o}
}

// better reports whether a is better than b: it fits, or exceeds the target by less,
// or takes less time, or less memory.
func (a *candidate) better(b *candidate, target int64) bool {
	const rounding = 1e-12
	if b == nil || a == nil {
		return a != nil
	}
	if x, y := max(a.o.peak, target), max(b.o.peak, target); x != y {
		return x < y
	}
	if x, y := a.o.seconds, b.o.seconds; math.Abs(x-y) > rounding*y {
		return x < y
	}
	return a.o.peak < b.o.peak
}

// search finds decisions with which the step needs at most target bytes; if it finds
// none, those with which it needs the fewest that it found.
func (p *problem) search(whole *candidate, target int64) *candidate {
	if whole.o.peak <= target {
		return whole
	}
	if best := p.exhaust(whole, target); best != nil {
		return best
	}
	return p.heuristic(whole, target)
}

// heuristic is search for graphs with many decisions.
//
// The link carries only so much beside the computation. What that is worth depends
// on what else would have to be computed again, so evictions are chosen with several
// prices of a byte that travels, from nothing to what the dearest costs to compute.
func (p *problem) heuristic(whole *candidate, target int64) *candidate {
	var best *candidate
	for _, price := range p.prices() {
		if c := p.evict(whole, target, price); c.better(best, target) {
			best = c
		}
	}
	return p.improve(best, target)
}

// prices are what a byte on the link may be worth, in seconds.
func (p *problem) prices() []float64 {
	if p.Out == 0 {
		return []float64{0}
	}
	var list []float64
	for v, uses := range p.uses {
		if w := p.writer[v]; len(uses) > 2 && w >= 0 && p.Values[v].Bytes > 0 {
			list = append(list, p.Ops[w].Seconds/float64(p.Values[v].Bytes))
		}
	}
	if len(list) == 0 {
		return []float64{0}
	}
	slices.Sort(list)
	n := len(list) - 1
	return slices.Compact([]float64{0, list[n/4], list[n/2], list[3*n/4], list[n]})
}

// evict drops or sends one value after the other, each time the one that costs least
// for each byte that it frees where there are too many, until the step fits.
func (p *problem) evict(from *candidate, target int64, price float64) *candidate {
	now := from
	for now.o.peak > target {
		over := newExcess(now, target)
		drop, send := p.cheapest(now, over, price)
		var next *candidate
		var cost, relief float64
		if send.relief > 0 {
			if next = p.try(now.d.with(send), target); next != nil {
				cost, relief = max(next.o.seconds-now.o.seconds, send.cost, 1e-15), send.relief
			}
		}
		for len(drop) > 0 && (next == nil || drop[0].cost*relief < cost*drop[0].relief) {
			if c := p.try(now.d.with(drop[0]), target); c != nil {
				next = c
				break
			}
			drop = drop[1:]
		}
		if next == nil {
			break
		}
		now = next
	}
	return now
}

// eviction is a decision that could be made about the time between two uses.
type eviction struct {
	value, gap   int
	to           decision
	cost, relief float64 // seconds; bytes times runs, where there are too many
}

// excess is where the memory exceeds the target.
type excess struct {
	runs  []float64 // of the runs before each one, how many exceed it
	bytes []float64 // likewise by how many bytes
}

func newExcess(c *candidate, target int64) excess {
	n := len(c.o.bytes)
	x := excess{make([]float64, n+1), make([]float64, n+1)}
	for i, b := range c.o.bytes {
		x.runs[i+1], x.bytes[i+1] = x.runs[i], x.bytes[i]
		if b > target {
			x.runs[i+1]++
			x.bytes[i+1] += float64(b - target)
		}
	}
	return x
}

// relief is what it helps if there are so many bytes less from one run to another.
func (x excess) relief(bytes int64, from, to int) float64 {
	if to < from {
		return 0
	}
	return min(float64(bytes)*(x.runs[to+1]-x.runs[from]), x.bytes[to+1]-x.bytes[from])
}

// mostDrops is how many evictions are held ready if the best ones turn out to be
// impossible.
const mostDrops = 8

// cheapest returns the best evictions by computing again, the cheapest for what it
// helps first, and the best by sending.
func (p *problem) cheapest(c *candidate, over excess, price float64) (drop []eviction, send eviction) {
	for v, uses := range p.uses {
		bytes := p.Values[v].Bytes
		if bytes == 0 {
			continue
		}
		for gap := range len(uses) - 1 {
			if c.d[v][gap] != kept {
				continue
			}
			from, to := 0, c.s.first[uses[gap+1]]-1
			if uses[gap] >= 0 {
				from = c.s.first[uses[gap]] + 1
			}
			relief := over.relief(bytes, from, to)
			if relief == 0 {
				continue
			}
			if p.Out > 0 && to-from > 1 {
				// Of those that are away longest the link notices least.
				e := eviction{v, gap, away, price * float64(bytes), relief}
				if c.d.sentBefore(v, gap) {
					e.cost /= 2
				}
				if send.relief == 0 || e.relief*send.cost > send.relief*e.cost || e.relief*send.cost == send.relief*e.cost && e.relief*float64(p.Values[send.value].Bytes) > send.relief*float64(bytes) {
					send = e
				}
			}
			if cost, ok := p.again(c.d, v, uses[gap+1]); ok {
				e := eviction{v, gap, remade, cost, relief}
				at := sort.Search(len(drop), func(k int) bool { return drop[k].cost*e.relief > e.cost*drop[k].relief })
				if at < mostDrops {
					drop = slices.Insert(drop[:min(len(drop), mostDrops-1)], at, e)
				}
			}
		}
	}
	return drop, send
}

// sentBefore reports whether a value is on the host before a gap.
func (d decisions) sentBefore(v, gap int) bool { return slices.Contains(d[v][:gap], away) }

// mostAgain bounds the operations that are run again for one value.
const mostAgain = 256

// again is how long it takes to compute a value again before an operation; false if
// that is impossible, or takes too many operations.
func (p *problem) again(d decisions, v, at int) (seconds float64, ok bool) {
	count := 0
	p.round++
	var make func(v int) bool
	make = func(v int) bool {
		w := p.writer[v]
		if w < 0 || p.lasts[w] < at {
			return false
		}
		if p.seen[w] == p.round {
			return true
		}
		p.seen[w] = p.round
		if count++; count > mostAgain {
			return false
		}
		seconds += p.Ops[w].Seconds
		for _, u := range p.Ops[w].Reads {
			if there, link := p.there(d, u, at); link {
				seconds += float64(p.Values[u].Bytes) / p.Back
			} else if !there && !make(u) {
				return false
			}
		}
		return true
	}
	ok = make(v)
	return seconds, ok
}

// there reports whether a value is on the device before an operation, or on the host.
func (p *problem) there(d decisions, v, at int) (there, host bool) {
	if p.fixed[v] {
		return true, false
	}
	uses := p.uses[v]
	k := sort.SearchInts(uses, at) // the first use at or after
	switch {
	case k < len(uses) && uses[k] == at && k > 0:
		return true, false // it is brought there for the operation itself
	case k == 0:
		return false, false
	case k == len(uses):
		if p.Values[v].Output {
			return true, false
		}
		return false, slices.Contains(d[v], away)
	}
	return d[v][k-1] == kept, d.sentBefore(v, k)
}

// patience bounds the simulations of improve, in runs that are simulated.
const patience = 3_000_000

// improve takes decisions back, or replaces one by another, while that makes the plan
// better: one at a time, and then two at a time. Of a small graph all pairs are
// tried, of a large one as many as there is patience for.
func (p *problem) improve(c *candidate, target int64) *candidate {
	left := patience / (len(p.Ops) + 1)
	places := p.places()
	// The large ones last: what is taken back is then the small change.
	slices.SortStableFunc(places, func(a, b eviction) int {
		return cmp.Compare(p.Values[a.value].Bytes, p.Values[b.value].Bytes)
	})
	others := func(e eviction) []eviction {
		var list []eviction
		for _, to := range []decision{kept, remade, away} {
			if to != c.d[e.value][e.gap] && (to != away || p.Out > 0) {
				e.to = to
				list = append(list, e)
			}
		}
		return list
	}
	attempt := func(base decisions, e eviction) (*candidate, bool) {
		left--
		next := p.try(base.with(e), target)
		return next, next.better(c, target)
	}
	single := func() (found bool) {
		for _, at := range places {
			for _, e := range others(at) {
				if left <= 0 {
					return false
				}
				if next, better := attempt(c.d, e); better {
					c, found = next, true
				}
			}
		}
		return found
	}
	pair := func() bool {
		for k, a := range places {
			for _, x := range others(a) {
				first := c.d.with(x)
				for _, b := range places[k+1:] {
					for _, y := range others(b) {
						if left <= 0 {
							return false
						}
						if next, better := attempt(first, y); better {
							c = next
							return true
						}
					}
				}
			}
		}
		return false
	}
	for single() || pair() {
	}
	return c
}

// places are the decisions that there are.
func (p *problem) places() (list []eviction) {
	for v, uses := range p.uses {
		for gap := range len(uses) - 1 {
			if uses[gap+1]-uses[gap] > 1 && p.Values[v].Bytes > 0 {
				list = append(list, eviction{value: v, gap: gap})
			}
		}
	}
	return list
}

// few is how many combinations of decisions are simply all tried.
const few = 3000

// exhaust tries all combinations of decisions; nil if there are more than a few.
func (p *problem) exhaust(whole *candidate, target int64) *candidate {
	kinds := []decision{kept, remade, away}
	if p.Out == 0 {
		kinds = kinds[:2]
	}
	places := p.places()
	if math.Pow(float64(len(kinds)), float64(len(places))) > few {
		return nil
	}
	best := whole
	d := p.keepAll()
	var all func(k int)
	all = func(k int) {
		if k == len(places) {
			if c := p.try(d.clone(), target); c.better(best, target) {
				best = c
			}
			return
		}
		for _, to := range kinds {
			d[places[k].value][places[k].gap] = to
			all(k + 1)
		}
	}
	all(0)
	return best
}

// with returns a copy with one decision more.
func (d decisions) with(e eviction) decisions {
	d = slices.Clone(d)
	d[e.value] = slices.Clone(d[e.value])
	d[e.value][e.gap] = e.to
	return d
}
