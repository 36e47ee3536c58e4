package plan

import (
	"cmp"
	"math"
	"slices"
)

// patience bounds the simulations that look for something better, in runs that are
// simulated.
const patience = 3_000_000

// improve makes a plan better that was found: it takes decisions back for which there
// is room, exchanges one for others, and of a small graph tries all changes of one and
// of two decisions.
func (p *problem) improve(c *candidate, target int64) *candidate {
	if c.o.peak <= target {
		p.left = patience
		c = p.takeBack(c, target)
		c = p.exchange(c, target)
		if p.near(c, target) {
			return c
		}
	}
	p.left = patience
	return p.change(c, target)
}

// takeBack takes decisions back while there is room for what they evicted, those
// first that save most time for their memory.
func (p *problem) takeBack(c *candidate, target int64) *candidate {
	type saving struct {
		gap             int
		seconds, weight float64
	}
	for range 8 {
		p.left -= len(p.gaps)
		var list []saving
		for k, g := range p.gaps {
			bytes := float64(p.Values[g.value].Bytes)
			s := saving{gap: k}
			switch c.d[k] {
			case kept:
				continue
			case remade:
				s.seconds, _ = p.again(c.d, k)
			case away:
				s.seconds = bytes * (1/p.Out + 1/p.Back) * c.o.waited / c.o.seconds
			}
			if s.seconds > 0 {
				s.weight = s.seconds / bytes
				list = append(list, s)
			}
		}
		slices.SortStableFunc(list, func(a, b saving) int { return cmp.Compare(b.weight, a.weight) })
		room := resize(p.over.over, len(c.o.bytes))
		p.over.over = room
		for i, b := range c.o.bytes {
			room[i] = float64(target - b)
		}
		var fit []int
		tight := 0 // where there was no room the last time
		for _, s := range list {
			g := p.gaps[s.gap]
			bytes := float64(p.Values[g.value].Bytes)
			from, to := p.between(&c.s, g)
			if from <= tight && tight <= to && room[tight] < bytes {
				continue
			}
			if k := slices.IndexFunc(room[from:max(from, to+1)], func(x float64) bool { return x < bytes }); k >= 0 {
				tight = from + k
				continue
			}
			for i := from; i <= to; i++ {
				room[i] -= bytes
			}
			fit = append(fit, s.gap)
		}
		found := false
		for ; len(fit) > 0 && !found && p.left > 0; fit = fit[:len(fit)/2] {
			p.next = append(p.next[:0], c.d...)
			for _, k := range fit {
				p.next[k] = kept
			}
			if next := p.try(p.next, target); next.better(c, target) {
				p.discard(c)
				c, found = next, true
			} else {
				p.discard(next)
			}
		}
		if !found {
			break
		}
	}
	return c
}

// exchange takes one decision back after the other, the dearest first, and evicts
// others instead.
func (p *problem) exchange(c *candidate, target int64) *candidate {
	for found := true; found; {
		found = false
		type dear struct {
			gap     int
			seconds float64
		}
		var list []dear
		for k, g := range p.gaps {
			switch c.d[k] {
			case remade:
				seconds, _ := p.again(c.d, k)
				list = append(list, dear{k, seconds})
			case away:
				list = append(list, dear{k, float64(p.Values[g.value].Bytes) * p.price})
			}
		}
		slices.SortStableFunc(list, func(a, b dear) int { return cmp.Compare(b.seconds, a.seconds) })
		for _, x := range list {
			if c.d[x.gap] == kept {
				continue
			}
			if p.left <= 0 || p.near(c, target) {
				return c
			}
			p.next = append(p.next[:0], c.d...)
			p.next[x.gap] = kept
			next := p.try(p.next, target)
			if next == nil {
				continue
			}
			if next = p.evict(next, target, p.price, x.gap); next.o.peak <= target {
				next = p.takeBack(next, target)
			}
			if next.better(c, target) {
				p.discard(c)
				c, found = next, true
			} else {
				p.discard(next)
			}
		}
	}
	return c
}

// change replaces one decision by another, or two, while that makes the plan better.
func (p *problem) change(c *candidate, target int64) *candidate {
	places := p.places()
	// The large ones last: what is taken back is then the small change.
	slices.SortStableFunc(places, func(a, b int) int {
		return cmp.Compare(p.Values[p.gaps[a].value].Bytes, p.Values[p.gaps[b].value].Bytes)
	})
	d := make(decisions, len(c.d))
	attempt := func() bool {
		next := p.try(d, target)
		if next.better(c, target) {
			p.discard(c)
			c = next
			return true
		}
		p.discard(next)
		return false
	}
	// others calls f with each other decision for a gap, until that reports true.
	others := func(k int, f func() bool) bool {
		was := d[k]
		for _, to := range []decision{kept, remade, away} {
			if to == was || to == away && p.Out == 0 {
				continue
			}
			if p.left <= 0 {
				break
			}
			if d[k] = to; f() {
				return true
			}
		}
		d[k] = was
		return false
	}
	single := func() (found bool) {
		for _, k := range places {
			copy(d, c.d)
			for others(k, attempt) {
				found = true
			}
		}
		return found
	}
	pair := func() bool {
		copy(d, c.d)
		for i, a := range places {
			if others(a, func() bool {
				for _, b := range places[i+1:] {
					if others(b, attempt) {
						return true
					}
				}
				return false
			}) {
				return true
			}
		}
		return false
	}
	for single() || pair() {
	}
	return c
}

// places are the gaps that there is something to decide about.
func (p *problem) places() (list []int) {
	for k, g := range p.gaps {
		if g.to-g.from > 1 && p.Values[g.value].Bytes > 0 {
			list = append(list, k)
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
	best := p.try(whole.d, target)
	d := p.keepAll()
	var all func(k int)
	all = func(k int) {
		if k == len(places) {
			best = p.pick(best, p.try(d, target), target)
			return
		}
		for _, to := range kinds {
			d[places[k]] = to
			all(k + 1)
		}
	}
	all(0)
	return best
}
