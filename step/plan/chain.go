package plan

import (
	"cmp"
	"math"
	"slices"
)

// chain is a graph in which what was evicted is computed again from the value before
// it: its gaps lie within each other, as those of layers and their backward passes do.
type chain struct {
	gaps    []int     // that can be evicted, in the order in which their values are written
	bytes   []int64   // of their values; this and what follows has one element more, for the end
	seconds []float64 // to compute each again from the one before
	extra   []int64   // bytes that are in use meanwhile, its own included
	forward []int64   // the most bytes in use, without any of these values where it is evicted, until it is written
	back    []int64   // and from the operation that wants it to the one that wants the value before it
	before  []int64   // and just before the operation that wants it
}

// chain returns the graph as a chain, if it is one.
func (p *problem) chain(whole *candidate) (*chain, bool) {
	if len(p.Again) > 0 {
		return nil, false
	}
	c := &chain{}
	evicted := p.keepAll()
	last := make(map[int]bool) // operations that write values of the chain
	for _, k := range p.places() {
		if g := p.gaps[k]; p.writer[g.value] >= 0 && p.lasts[p.writer[g.value]] >= g.to {
			c.gaps = append(c.gaps, k)
			evicted[k] = remade
			last[p.writer[g.value]] = true
		}
	}
	slices.SortFunc(c.gaps, func(a, b int) int { return cmp.Compare(p.gaps[a].from, p.gaps[b].from) })
	n := len(c.gaps)
	if n == 0 || len(last) < n {
		return nil, false
	}
	free := slices.Clone(whole.o.bytes) // without decisions, each operation is one run
	for i, k := range c.gaps {
		g := p.gaps[k]
		if i > 0 {
			if b := p.gaps[c.gaps[i-1]]; g.from <= b.from || g.to >= b.to || p.writer[g.value] <= p.writer[b.value] {
				return nil, false
			}
			evicted[c.gaps[i-1]] = kept
		}
		seconds, ok := p.again(evicted, k)
		if i > 0 {
			evicted[c.gaps[i-1]] = remade
		}
		extra := int64(0)
		for w := range g.to {
			if p.seen[w] != p.round {
				continue
			}
			if last[w] && w != p.writer[g.value] {
				return nil, false
			}
			for _, v := range p.Ops[w].Writes {
				if !p.fixed[v] {
					extra += p.Values[v].Bytes
				}
			}
			extra += p.Ops[w].Scratch
		}
		if !ok {
			return nil, false
		}
		c.bytes = append(c.bytes, p.Values[g.value].Bytes)
		c.seconds = append(c.seconds, seconds)
		c.extra = append(c.extra, extra)
		for op := g.from + 1; op < g.to; op++ {
			free[op] -= p.Values[g.value].Bytes
		}
	}
	c.bytes, c.seconds, c.extra = append(c.bytes, 0), append(c.seconds, 0), append(c.extra, 0)
	// The end of the chain is the time between the last value's two uses.
	from := 0
	for i := range n + 1 {
		to, end := len(p.Ops), 0
		if i > 0 {
			to = p.gaps[c.gaps[i-1]].to
		}
		if i < n {
			end = p.gaps[c.gaps[i]].to
			c.forward = append(c.forward, slices.Max(free[from:p.gaps[c.gaps[i]].from+1]))
			from = p.gaps[c.gaps[i]].from + 1
			there := free[end] - p.Ops[end].Scratch
			for _, v := range p.Ops[end].Writes {
				if !p.fixed[v] {
					there -= p.Values[v].Bytes
				}
			}
			c.before = append(c.before, there-c.bytes[i])
			c.back = append(c.back, slices.Max(free[end:to]))
			continue
		}
		c.forward = append(c.forward, slices.Max(free[from:to]))
		c.before, c.back = append(c.before, 0), append(c.back, 0)
	}
	return c, true
}

// Of a chain's dynamic program: the most steps in memory, and what bounds its work.
const (
	mostBuckets = 8192
	mostSteps   = 200_000_000
	mostLayers  = 4000
)

// best returns which gaps are kept in the shortest plan of target bytes; false if there
// is none. It is exact unless the target has so many bytes, or the chain so many values,
// that memory has to be rounded.
//
// What is kept cuts the chain into segments, each of which is computed again as a whole.
// A segment needs its own memory and that of what is kept before it. So of the plans up
// to a kept value, the shortest for each number of bytes kept is enough: this is the
// dynamic program over memory of Beaumont et al. ("Optimal checkpointing for
// heterogeneous chains", 2019) for plans that compute nothing a third time.
func (c *chain) best(target int64) (keep []bool, ok bool) {
	n := len(c.gaps)
	if n > mostLayers || target < 0 {
		return nil, false
	}
	type state struct {
		kept     int64
		seconds  float64
		from, at int32 // the state before: behind which value, and its bucket; -1: there is no state
	}
	buckets := min(mostBuckets, max(64, mostSteps/(int64(n+2)*int64(n+2))), target+1)
	grain := target/buckets + 1
	states := make([][]state, n+2) // by bytes kept, behind what is kept: 0 the start, i+1 value i
	for k := range states {
		states[k] = make([]state, buckets)
		for i := range states[k] {
			states[k][i].from = -1
		}
	}
	states[0][0].from = 0
	for k := range n + 1 {
		// A state is of no use if another one keeps less and takes no longer.
		few, best := make([]int, 0, 64), math.Inf(1)
		least := int64(math.MaxInt64)
		for i, s := range states[k] {
			if s.from >= 0 && s.seconds < best {
				few, best = append(few, i), s.seconds
				least = min(least, s.kept)
			}
		}
		if len(few) == 0 {
			continue
		}
		// Values k…j-1 are evicted, and value j is kept, or the chain ends.
		var sum int64 // bytes of those evicted
		var seconds float64
		var forward, remake, back int64
		for j := k; j <= n; j++ {
			forward = max(forward, c.forward[j])
			need := max(forward, back, c.back[j]) // j itself is read, and those of the segment are not there yet
			if j > k {
				need = max(need, c.before[j-1]+remake)
			}
			if least+forward > target {
				break
			}
			for _, i := range few {
				s := states[k][i]
				if s.kept+need > target || s.kept+c.bytes[j] > target {
					continue
				}
				next := state{s.kept + c.bytes[j], s.seconds + seconds, int32(k), int32(i)}
				old := &states[j+1][next.kept/grain]
				if old.from < 0 || next.seconds < old.seconds || next.seconds == old.seconds && next.kept < old.kept {
					*old = next
				}
			}
			// j is evicted, too.
			seconds += c.seconds[j]
			remake = max(remake, sum+c.extra[j])
			back = max(back, c.back[j]+sum)
			sum += c.bytes[j]
		}
	}
	var s state
	for _, end := range states[n+1] {
		if end.from >= 0 && (!ok || end.seconds < s.seconds) {
			s, ok = end, true
		}
	}
	keep = make([]bool, n)
	for s.from > 0 {
		keep[s.from-1] = true
		s = states[s.from][s.at]
	}
	return keep, ok
}

// checkpoints returns the best plan of a chain without the link; nil if the graph is no
// chain or there is none.
func (p *problem) checkpoints(whole *candidate, target int64) *candidate {
	chain, ok := p.chain(whole)
	if !ok {
		return nil
	}
	return p.along(chain, target)
}

// along is the best plan of the chain c; nil if there is none.
func (p *problem) along(c *chain, target int64) *candidate {
	keep, ok := c.best(target)
	if !ok {
		return nil
	}
	d := p.keepAll()
	for i, k := range c.gaps {
		if !keep[i] {
			d[k] = remade
		}
	}
	return p.try(d, target)
}

// fewest returns the plan of the fewest bytes that is found; none has less than least. For
// a chain, these are searched by halving, to a thousandth.
func (p *problem) fewest(whole *candidate, least int64) *candidate {
	best := p.descend(whole, least)
	chain, ok := p.chain(whole)
	if !ok {
		return best
	}
	for low := least; best.o.peak-low > low/1000; {
		target := low + (best.o.peak-low)/2
		if c := p.along(chain, target); c != nil && c.o.peak <= target {
			p.discard(best)
			best = c
			continue
		}
		low = target + 1
	}
	return best
}
