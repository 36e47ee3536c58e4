package plan

import (
	"math"
	"slices"
	"sort"
)

// candidate is a plan that was tried.
type candidate struct {
	d decisions
	s schedule
	o outcome
}

// try expands and simulates; nil if it cannot be, or takes too much host memory. The
// candidate has its own copy of the decisions.
func (p *problem) try(d decisions, target int64) *candidate {
	c := &candidate{}
	if n := len(p.spare); n > 0 {
		c, p.spare = p.spare[n-1], p.spare[:n-1]
	}
	c.d = append(c.d[:0], d...)
	p.left -= len(p.Ops) + 1
	if p.expand(c.d, &c.s) {
		p.left -= len(c.s.runs) - len(p.Ops)
		p.simulate(&c.s, target, &c.o)
		if p.HostBytes == 0 || c.o.hosted <= p.HostBytes {
			return c
		}
	}
	p.discard(c)
	return nil
}

// discard gives back the memory of a candidate that nobody wants.
func (p *problem) discard(c *candidate) {
	if c != nil {
		p.spare = append(p.spare, c)
	}
}

// pick returns the better one of two candidates, and discards the other.
func (p *problem) pick(a, b *candidate, target int64) *candidate {
	if a != b && b.better(a, target) {
		a, b = b, a
	}
	if a != b {
		p.discard(b)
	}
	return a
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
	p.floor = p.bound(whole, target)
	if best := p.exhaust(whole, target); best != nil {
		return best
	}
	return p.heuristic(whole, target)
}

// fewOps is how many operations a graph may have in which plans always begin in all ways.
const fewOps = 300

// heuristic is search for graphs with many decisions. Plans begin with what a relaxation
// stores. In small graphs, and where none of these fits, one more begins with nothing, and
// evicts one value after the other.
func (p *problem) heuristic(whole *candidate, target int64) *candidate {
	best := p.checkpoints(whole, target)
	if best != nil && best.o.peak <= target && p.Out == 0 {
		return best // no other is better
	}
	starts := p.seeded(whole, target)
	if len(p.Ops) < fewOps || !slices.ContainsFunc(starts, func(s seed) bool { return s.c.o.peak <= target }) {
		starts = append(starts, p.unseeded(whole, target))
	}
	price := p.price
	for i, s := range starts {
		if p.near(best, target) {
			break
		}
		c := s.c
		if p.price = s.price; c.o.peak <= target || i == len(starts)-1 {
			c = p.improve(c, target)
		}
		if c.better(best, target) {
			price = s.price
		}
		best = p.pick(best, c, target)
	}
	p.price = price
	return best
}

// unseeded is the best plan that begins with nothing that is evicted.
//
// The link carries only so much beside the computation. What that is worth depends
// on what else would have to be computed again, so evictions are chosen with several
// prices of a byte that travels, from nothing to what the dearest costs to compute.
func (p *problem) unseeded(whole *candidate, target int64) seed {
	var best seed
	try := func(price float64) {
		if p.near(best.c, target) {
			return
		}
		c := p.evict(p.try(whole.d, target), target, price, -1)
		if c.better(best.c, target) {
			best.price = price
		}
		best.c = p.pick(best.c, c, target)
	}
	prices := p.prices()
	for _, price := range prices {
		try(price)
	}
	if k := slices.Index(prices, best.price); len(prices) > 1 { // and between the best one and those beside it
		try((prices[k] + prices[max(k-1, 0)]) / 2)
		try((prices[k] + prices[min(k+1, len(prices)-1)]) / 2)
	}
	if !p.near(best.c, target) {
		p.price = best.price
		best.c = p.pick(best.c, p.descend(whole, target), target)
	}
	return best
}

// mostImproved is how many plans are improved that begin with what a relaxation stores.
const mostImproved = 2

// seeded are the best plans that begin with what a relaxation stores, the best one first.
func (p *problem) seeded(whole *candidate, target int64) []seed {
	list := p.seeds(whole, target)
	for i := range list {
		s := &list[i]
		if s.c = p.try(s.d, target); s.c != nil {
			s.c = p.evict(s.c, target, s.price, -1)
		}
	}
	list = slices.DeleteFunc(list, func(s seed) bool { return s.c == nil })
	slices.SortStableFunc(list, func(a, b seed) int {
		switch {
		case a.c.better(b.c, target):
			return -1
		case b.c.better(a.c, target):
			return 1
		}
		return 0
	})
	for len(list) > mostImproved {
		p.discard(list[len(list)-1].c)
		list = list[:len(list)-1]
	}
	return list
}

// descend evicts for one target after the other, each lower than the one before, as far
// down as it can. What is evicted for a target that is far too low is seldom what helps
// where there is most, so this comes further than evict at once, at the cost of time.
// Steps are shares of what is not resident, which may be little.
func (p *problem) descend(whole *candidate, target int64) *candidate {
	best := p.try(whole.d, target)
	for best.o.peak > target {
		to := max(target, best.o.peak-(best.o.peak-p.resident+7)/8)
		next := p.evict(p.try(best.d, to), to, p.price, -1)
		if next.o.peak >= best.o.peak {
			p.discard(next)
			break
		}
		p.discard(best)
		best = next
	}
	return best
}

// tighten makes a plan fit into fewer bytes.
func (p *problem) tighten(whole, c *candidate, target int64) *candidate {
	c = p.evict(p.try(c.d, target), target, p.price, -1)
	for _, s := range p.seeded(whole, target) {
		c = p.pick(c, s.c, target)
	}
	chain := p.checkpoints(whole, target)
	if c = p.pick(c, chain, target); chain != nil || c.o.peak > target {
		c = p.pick(c, p.evict(p.try(whole.d, target), target, p.price, -1), target)
	}
	if c.o.peak > target {
		return p.heuristic(whole, target)
	}
	return p.loosen(c, target)
}

// loosen makes use of what is left to the target.
func (p *problem) loosen(c *candidate, target int64) *candidate {
	p.left = patience / 3
	return p.exchange(p.takeBack(c, target), target)
}

// enough is how near to the bound a plan is not improved any more, as a share.
const enough = 0.0005

// near reports whether a candidate fits and takes hardly more time than any has to.
func (p *problem) near(c *candidate, target int64) bool {
	return c != nil && c.o.peak <= target && c.o.seconds <= p.floor*(1+enough)
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

// eviction is a decision that could be made about the time between two uses.
type eviction struct {
	gap          int
	to           decision
	cost, relief float64 // seconds; bytes times runs, where there are too many
}

// ratio is what an eviction costs for what it helps.
func (e eviction) ratio() float64 { return e.cost / e.relief }

// excess is where the memory exceeds the target. Sums over all runs before each one
// answer fast until something is freed; after that, sums over blocks of runs do.
type excess struct {
	over       []float64 // bytes too many, of each run
	runs       []float64 // of the runs before each one, how many exceed it
	bytes      []float64 // and by how much in all
	freed      bool
	blockRuns  []float64 // of the runs of a block, how many exceed it
	blockBytes []float64
	total      float64 // bytes, of all runs
}

const blockBits = 7 // log2 of the runs of a block

// measure takes the excess of an outcome.
func (x *excess) measure(o *outcome, target int64) {
	n := len(o.bytes)
	blocks := n>>blockBits + 1
	x.over, x.runs, x.bytes = resize(x.over, n), resize(x.runs, n+1), resize(x.bytes, n+1)
	x.blockRuns, x.blockBytes = resize(x.blockRuns, blocks), resize(x.blockBytes, blocks)
	clear(x.blockRuns)
	clear(x.blockBytes)
	x.runs[0], x.bytes[0], x.freed = 0, 0, false
	for i, b := range o.bytes {
		over := float64(max(b-target, 0))
		x.over[i] = over
		x.runs[i+1], x.bytes[i+1] = x.runs[i], x.bytes[i]+over
		if over > 0 {
			x.runs[i+1]++
			x.blockRuns[i>>blockBits]++
			x.blockBytes[i>>blockBits] += over
		}
	}
	x.total = x.bytes[n]
}

// free notes that there are so many bytes less from one run to another.
func (x *excess) free(bytes int64, from, to int) {
	x.freed = true
	for i := from; i <= to; i++ {
		over := x.over[i]
		if over == 0 {
			continue
		}
		less := float64(bytes)
		if less >= over {
			less = over
			x.blockRuns[i>>blockBits]--
		}
		x.over[i] -= less
		x.blockBytes[i>>blockBits] -= less
		x.total -= less
	}
}

// relief is what it helps if there are so many bytes less from one run to another.
func (x *excess) relief(bytes int64, from, to int) float64 {
	if to < from {
		return 0
	}
	if !x.freed {
		return min(float64(bytes)*(x.runs[to+1]-x.runs[from]), x.bytes[to+1]-x.bytes[from])
	}
	runs, over := 0.0, 0.0
	for i := from; i <= to; {
		if i&(1<<blockBits-1) == 0 && i+(1<<blockBits)-1 <= to {
			runs += x.blockRuns[i>>blockBits]
			over += x.blockBytes[i>>blockBits]
			i += 1 << blockBits
			continue
		}
		if x.over[i] > 0 {
			runs++
			over += x.over[i]
		}
		i++
	}
	return min(float64(bytes)*runs, over)
}

// between returns the first and the last run between the two uses of a gap.
func (p *problem) between(s *schedule, g gap) (from, to int) {
	if g.from >= 0 {
		from = s.first[g.from] + 1
	}
	return from, s.first[g.to] - 1
}

// rate sets what an eviction costs and how it helps; false if it cannot be or does not
// help.
func (p *problem) rate(e *eviction, c *candidate, d decisions, price float64) bool {
	g := p.gaps[e.gap]
	bytes := p.Values[g.value].Bytes
	from, to := p.between(&c.s, g)
	if e.relief = p.over.relief(bytes, from, to); e.relief == 0 {
		return false
	}
	if e.to == away {
		// Of those that are equal, the link notices those least that are away longest.
		if e.cost = max(price, 1e-18) * (float64(bytes) + p.Latency*p.Out); d.sentBefore(p.first[g.value], e.gap) {
			e.cost /= 2
		} else if p.HostBytes > 0 && p.hosting+bytes > p.HostBytes {
			return false
		}
		return p.Out > 0 && to-from > 1
	}
	var ok bool
	e.cost, ok = p.again(d, e.gap)
	return ok
}

const (
	// most is how much of the excess is relieved between two simulations, as a share, if a
	// step has mostOps operations; less if it has fewer, down to one eviction.
	most    = 0.25
	mostOps = 12_000

	// tolerance is how much worse than the next one an eviction may be, as a share, that
	// was the best before its turn came; of few operations it may not.
	tolerance = 0.1
)

// evict drops or sends values until the step fits, those first that cost least for
// what they help where there is too much. It never evicts gap never. The candidate
// that it begins with is its own from then on.
func (p *problem) evict(now *candidate, target int64, price float64, never int) *candidate {
	sends := len(p.gaps)
	for now.o.peak > target {
		p.left -= len(p.gaps)
		p.all = p.all[:0]
		p.over.measure(&now.o, target)
		p.hosting = now.o.hosted
		for k := range p.gaps {
			if now.d[k] != kept || k == never {
				continue
			}
			for _, to := range []decision{away, remade} {
				if e := (eviction{gap: k, to: to}); p.rate(&e, now, now.d, price) {
					p.all = append(p.all, e)
				}
			}
		}
		next := p.relieve(now, target, price, &sends)
		if next == nil {
			break
		}
		p.discard(now)
		now = next
	}
	return now
}

// mostMisses is how many batches of evictions may be impossible.
const mostMisses = 16

// relieve makes a batch of the evictions in all; nil if there is none that can be.
//
// What sends cost is seen when they are simulated. If the best drop that is left costs
// less, there were too many: half of them are tried then, and in the end none.
func (p *problem) relieve(now *candidate, target int64, price float64, sends *int) *candidate {
	limit, rejected := math.MaxInt, false
	for misses := 0; misses < mostMisses; {
		b := p.batch(now, target, price, *sends, limit)
		if len(b.made) == 0 {
			return nil
		}
		next := p.try(p.next, target)
		if next == nil {
			if misses++; len(b.made) > 1 {
				limit = len(b.made) / 2
			} else {
				bad := b.made[0]
				p.all = slices.DeleteFunc(p.all, func(e eviction) bool { return e.gap == bad.gap && e.to == bad.to })
			}
			continue
		}
		if b.sent > 0 {
			cost := max(next.o.seconds-now.o.seconds-b.cost, price*b.sentBytes, 1e-15)
			if cost/b.relief > b.other {
				p.discard(next)
				*sends, rejected = b.sent/2, true
				continue
			}
		}
		if !rejected {
			*sends = max(1, min(2**sends, len(p.gaps)))
		}
		return next
	}
	return nil
}

// batch is evictions that were decided together.
type batch struct {
	made      []eviction
	cost      float64 // seconds that the drops take
	sent      int
	sentBytes float64
	relief    float64 // of what is sent
	other     float64 // what the best drop costs that was not made, for what it helps
}

// batch decides for the best evictions until a share of the excess is relieved, in
// p.next. What an eviction costs and helps depends on those before it, so the queue of
// them is lazy: the first is rated again when its turn comes, and goes back if it is
// not the first any more (Minoux, 1978).
func (p *problem) batch(now *candidate, target int64, price float64, sends, limit int) batch {
	x := &p.over
	x.measure(&now.o, target)
	p.hosting = now.o.hosted
	goal := x.total * (1 - p.share)
	factor := 1 + tolerance*min(1, p.share/most)
	d := append(p.next[:0], now.d...)
	p.next = d
	q := append(p.queue[:0], p.all...)
	p.queue = q
	heapify(q)
	b := batch{made: p.made[:0], other: math.Inf(1)}
	for len(q) > 0 {
		e := q[0]
		if e.to == away && b.sent >= sends || d[e.gap] != kept || !p.rate(&e, now, d, price) {
			q = popHeap(q)
			continue
		}
		was := q[0]
		q[0] = e
		if e != was {
			if behind := second(q); behind >= 0 && q[behind].ratio()*factor < e.ratio() {
				sink(q, 0)
				continue
			}
		}
		if len(b.made) > 0 && x.total <= goal || len(b.made) >= limit {
			if e.to == remade {
				b.other = e.ratio()
				break
			}
			q = popHeap(q)
			continue
		}
		q = popHeap(q)
		d[e.gap] = e.to
		g := p.gaps[e.gap]
		bytes := p.Values[g.value].Bytes
		b.made = append(b.made, e)
		if e.to == away {
			b.sent++
			b.sentBytes += e.cost
			b.relief += e.relief
			p.hosting += bytes
		} else {
			b.cost += e.cost
		}
		from, to := p.between(&now.s, g)
		x.free(bytes, from, to)
	}
	p.made = b.made
	return b
}

// before is the order of evictions.
func (e eviction) before(f eviction) bool {
	if x, y := e.cost*f.relief, f.cost*e.relief; x != y {
		return x < y
	}
	return e.gap < f.gap || e.gap == f.gap && e.to < f.to
}

func heapify(q []eviction) {
	for i := len(q)/2 - 1; i >= 0; i-- {
		sink(q, i)
	}
}

// second is the place of the eviction that is next to the first; -1: none.
func second(q []eviction) int {
	switch {
	case len(q) < 2:
		return -1
	case len(q) > 2 && q[2].before(q[1]):
		return 2
	}
	return 1
}

func popHeap(q []eviction) []eviction {
	n := len(q) - 1
	q[0] = q[n]
	sink(q[:n], 0)
	return q[:n]
}

func sink(q []eviction, i int) {
	for {
		k := 2*i + 1
		if k >= len(q) {
			return
		}
		if k+1 < len(q) && q[k+1].before(q[k]) {
			k++
		}
		if !q[k].before(q[i]) {
			return
		}
		q[i], q[k] = q[k], q[i]
		i = k
	}
}

// sentBefore reports whether a value, of which first is the first gap, is on the host
// before another gap.
func (d decisions) sentBefore(first, k int) bool { return slices.Contains(d[first:k], away) }

// mostAgain bounds the operations that are run again for one value.
const mostAgain = 256

// again is how long it takes to compute a value again before the operation at the end of
// a gap; false if that is impossible, or takes too many operations.
func (p *problem) again(d decisions, k int) (seconds float64, ok bool) {
	g := p.gaps[k]
	if i := p.joint[k]; i >= 0 {
		return p.besides(i), true
	}
	p.round++
	a := remaking{d: d, at: g.to}
	ok = p.remake(&a, g.value)
	return a.seconds, ok
}

// remaking is what again has seen.
type remaking struct {
	d       decisions
	at      int
	count   int
	seconds float64
}

func (p *problem) remake(a *remaking, v int) bool {
	for _, k := range p.ways[v] {
		if p.seen[k] == p.round {
			return true
		}
		if p.lasts[k] >= a.at && p.readable(a, k) {
			p.seen[k] = p.round
			a.count++
			a.seconds += p.op(k).Seconds
			return true
		}
	}
	w := p.writer[v]
	if w < 0 || p.lasts[w] < a.at {
		return false
	}
	if p.seen[w] == p.round {
		return true
	}
	p.seen[w] = p.round
	if a.count++; a.count > mostAgain {
		return false
	}
	a.seconds += p.Ops[w].Seconds
	for _, u := range p.Ops[w].Reads {
		if there, link := p.there(a.d, u, a.at); link {
			a.seconds += p.carry(u, p.Back)
		} else if !there && !p.remake(a, u) {
			return false
		}
	}
	return true
}

// readable reports whether all that an operation reads is there, or was just made.
func (p *problem) readable(a *remaking, k int) bool {
	return !slices.ContainsFunc(p.op(k).Reads, func(u int) bool {
		there, _ := p.there(a.d, u, a.at)
		return p.fixed[u] && p.writer[u] >= a.at || !there && (p.writer[u] < 0 || p.seen[p.writer[u]] != p.round)
	})
}

// there reports whether a value is on the device before an operation, or on the host.
func (p *problem) there(d decisions, v, at int) (there, host bool) {
	if p.fixed[v] {
		return true, false
	}
	uses, first := p.uses[v], p.first[v]
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
		return false, d.sentBefore(first, first+k-1)
	}
	return d[first+k-1] == kept, d.sentBefore(first, first+k)
}
