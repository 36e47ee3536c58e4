package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/step/internal/mincut"
)

// moments is at how many operations bound looks.
const moments = 4

// bound is a time that no plan within target bytes can be below, of those that keep values
// and send them only between two of their uses: the most that any of a few moments says,
// those when most is in use.
func (p *problem) bound(whole *candidate, target int64) float64 {
	seconds := whole.o.seconds
	least := seconds - whole.o.beside // operations may run again while that is waited for
	for _, moment := range crowded(whole.o.bytes, target) {
		if m, ok := p.relax(whole, moment, target); ok {
			seconds = max(seconds, least+m.extra())
		}
	}
	return seconds
}

// crowded are operations at which more than target bytes are in use without decisions:
// the one with most, and others with many that are far from each other.
func crowded(bytes []int64, target int64) (list []int) {
	order := make([]int, len(bytes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(bytes[b], bytes[a]) })
	for _, i := range order {
		if len(list) == moments || bytes[i] <= target {
			break
		}
		if !slices.ContainsFunc(list, func(j int) bool { return max(i-j, j-i) < len(bytes)/32 }) {
			list = append(list, i)
		}
	}
	return list
}

// moment is the relaxation of a plan to what is stored while one operation runs for the
// first time.
//
// Each value that was written before, and is wanted later, is stored at that moment, on
// the device or on the host, or the operation that writes it runs again; then what that
// reads is stored, too, or written again. There is room for so many bytes: those of the
// device, and those that the link took until then. It takes more only while the step
// waits. With a price for a byte that is stored, in seconds, what costs least is a minimum
// cut. That cost without the price of the room that there is bounds what the plan takes
// besides (Lagrange), and with the best price it is as good as the linear program in
// which a part of a value can be stored.
type moment struct {
	*problem
	at     int
	room   float64 // bytes
	most   float64 // the highest price of a byte: what waiting for the link costs
	wanted []int   // values
	there  []bool  // values that the operation itself works with
}

// relax looks at an operation; false if nothing is missing there.
func (p *problem) relax(whole *candidate, at int, target int64) (*moment, bool) {
	m := &moment{problem: p, at: at, most: math.Inf(1), there: slices.Clone(p.fixed)}
	left := target - p.resident - p.Ops[at].Scratch
	var used []int
	for _, list := range [][]int{p.Ops[at].Reads, p.Ops[at].Writes} {
		for _, v := range list {
			if !m.there[v] {
				m.there[v] = true
				used = append(used, v)
			}
		}
	}
	for _, v := range p.Ops[at].Writes {
		for _, u := range p.Values[v].Over {
			m.there[u] = p.fixed[u] // its memory may be that of v
		}
	}
	for _, v := range used {
		if m.there[v] {
			left -= p.Values[v].Bytes
		}
	}
	m.room = float64(left)
	if p.Out > 0 {
		travels := p.Out * whole.o.start[at] // without decisions, each operation is one run
		if p.HostBytes > 0 && travels >= float64(p.HostBytes) {
			travels = float64(p.HostBytes)
		} else {
			m.most = 1 / p.Out
		}
		m.room += travels
	}
	need := 0.0
	for v, uses := range p.uses {
		if !m.there[v] && m.crosses(uses, v) {
			m.wanted = append(m.wanted, v)
			need += float64(p.Values[v].Bytes)
		}
	}
	return m, need > m.room
}

// storable reports whether plans may have a value stored, on the host if not on the device:
// it is wanted, or was sent between two uses before. What only an operation reads that
// runs again is not kept for that.
func (m *moment) storable(v int) bool {
	uses := m.uses[v]
	if m.crosses(uses, v) {
		return true
	}
	for k := 1; m.Out > 0 && k < len(uses) && uses[k] <= m.at; k++ {
		if uses[k]-uses[k-1] > 1 {
			return true
		}
	}
	return false
}

// crosses reports whether a value with these uses was written before the operation, and
// is wanted after it.
func (m *moment) crosses(uses []int, v int) bool {
	return len(uses) > 0 && uses[0] < m.at && (uses[len(uses)-1] > m.at || m.Values[v].Output)
}

// storing is what is cheapest at a price.
type storing struct {
	price float64 // seconds for a byte
	bytes float64 // that are stored
	extra float64 // seconds that any plan takes besides, in which a byte has this price
	again []bool  // operations that run again
	other []bool  // values that are written again in other ways
}

// extra is how many seconds a plan takes at least that the step without a budget does
// not.
func (m *moment) extra() (best float64) {
	for _, s := range m.search() {
		best = max(best, s.extra)
	}
	return best
}

// search looks for the price at which as much is stored as there is room for: the higher
// it is, the less that is. The last two are next to it: one that stores too much, unless
// none does, and then one that does not, unless waiting costs no more.
func (m *moment) search() (list []storing) {
	low, high := storing{}, m.cheapest(1e-13)
	for high.bytes > m.room && high.price < m.most && len(list) < 60 {
		list = append(list, high)
		low, high = high, m.cheapest(min(2*high.price, m.most))
	}
	list = append(list, high)
	for range 10 {
		s := m.cheapest((low.price + high.price) / 2)
		list = append(list, s)
		if s.bytes > m.room {
			low = s
		} else {
			high = s
		}
	}
	return append(list, low, high)
}

// cheapest is what is stored at a price, and what runs again.
func (m *moment) cheapest(price float64) storing {
	const unit = 1e-15 // seconds that a cut counts as 1
	cost := func(seconds float64) int64 { return int64(min(seconds/unit, mincut.Always)) }
	g := mincut.New(0)
	node := make([]int, len(m.Values))   // of each value that may be wanted, and one
	runs := make([]int, len(m.Ops))      // of each operation that may run again, and one
	others := make([]int, len(m.Values)) // of each value that may be written in another way, and one
	var values []int
	var want func(v int) int
	want = func(v int) int {
		if node[v] > 0 {
			return node[v] - 1
		}
		n := g.Node()
		node[v] = n + 1
		values = append(values, v)
		store := cost(price * float64(m.Values[v].Bytes))
		if !m.storable(v) {
			store = mincut.Always
		}
		w := m.writer[v]
		if w < 0 {
			g.Add(n, mincut.Sink, store)
			return n
		}
		if runs[w] == 0 {
			r := g.Node()
			runs[w] = r + 1
			if m.lasts[w] <= m.at {
				g.Add(r, mincut.Sink, mincut.Always)
			} else {
				g.Add(r, mincut.Sink, cost(m.Ops[w].Seconds))
			}
			for _, u := range m.Ops[w].Reads {
				if !m.there[u] {
					g.Add(r, want(u), mincut.Always)
				}
			}
		}
		seconds, reads, ok := m.other(v)
		if !ok {
			g.Add(n, runs[w]-1, store)
			return n
		}
		// It takes no time if its operation runs again anyway.
		k := g.Node()
		others[v] = k + 1
		g.Add(n, k, store)
		g.Add(k, runs[w]-1, cost(seconds))
		for _, u := range reads {
			if !m.there[u] {
				g.Add(k, want(u), mincut.Always)
			}
		}
		return n
	}
	for _, v := range m.wanted {
		g.Add(mincut.Source, want(v), mincut.Always)
	}
	side := g.Cut()
	s := storing{price: price, again: make([]bool, len(m.Ops)), other: make([]bool, len(m.Values))}
	for w, r := range runs {
		if r > 0 && side[r-1] {
			s.again[w] = true
			s.extra += m.Ops[w].Seconds
		}
	}
	for _, v := range values {
		w := m.writer[v]
		switch {
		case !side[node[v]-1] || w >= 0 && s.again[w]:
		case others[v] > 0 && side[others[v]-1]:
			seconds, _, _ := m.other(v)
			s.other[v] = true
			s.extra += seconds
		default:
			s.bytes += float64(m.Values[v].Bytes)
		}
	}
	s.extra += price*(s.bytes-m.room) - float64(2*len(values)+len(runs))*unit // what the cut was rounded by
	return s
}

// other is how long it takes at least to write a value again in another way; false if there
// is none. If there is but one, and it reads what the value's operation writes or reads, it
// says what it reads; of others, nothing is asked.
func (m *moment) other(v int) (seconds float64, reads []int, ok bool) {
	seconds = math.Inf(1)
	alone := len(m.ways[v]) == 1
	for k := m.first[v]; k < m.first[v]+len(m.uses[v])-1; k++ {
		if i := m.joint[k]; i >= 0 && m.gaps[k].from < m.at && m.gaps[k].to > m.at {
			seconds, alone = min(seconds, m.besides(i)), false
		}
	}
	for _, i := range m.ways[v] {
		if m.lasts[i] > m.at {
			seconds = min(seconds, m.op(i).Seconds)
		}
	}
	if alone && !math.IsInf(seconds, 1) {
		w := &m.Ops[m.writer[v]]
		reads = m.op(m.ways[v][0]).Reads
		if slices.ContainsFunc(reads, func(u int) bool { return !slices.Contains(w.Reads, u) && !slices.Contains(w.Writes, u) }) {
			reads = nil
		}
	}
	return seconds, reads, !math.IsInf(seconds, 1)
}

// mostSeeds is how many solutions of a relaxation plans begin with.
const mostSeeds = 5

// seed is decisions that a relaxation makes, with the price of a byte, and the plan that
// they become.
type seed struct {
	d     decisions
	price float64
	c     *candidate
}

// seeds are decisions that the relaxation of the moment with most bytes in use makes at
// several prices: those that store about as much as there is room for.
func (p *problem) seeds(whole *candidate, target int64) (list []seed) {
	at := crowded(whole.o.bytes, target)
	if len(at) == 0 {
		return nil
	}
	m, ok := p.relax(whole, at[0], target)
	if !ok {
		return nil
	}
	all := m.search()
	far := func(s storing) float64 { return math.Abs(s.bytes - m.room) }
	slices.SortStableFunc(all, func(a, b storing) int { return cmp.Compare(far(a), far(b)) })
	all = slices.CompactFunc(all, func(a, b storing) bool { return a.bytes == b.bytes })
	for _, s := range all[:min(len(all), mostSeeds)] {
		if s.again == nil {
			continue
		}
		d := p.keepAll()
		for k, g := range p.gaps {
			if w := p.writer[g.value]; g.from < m.at && g.to > m.at && w >= 0 && (s.again[w] && p.lasts[w] >= g.to || s.other[g.value]) {
				d[k] = remade
			}
		}
		list = append(list, seed{d, s.price, nil})
	}
	return list
}
