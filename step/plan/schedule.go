package plan

import "slices"

// decision is what becomes of a value between two of its uses.
type decision uint8

const (
	kept   decision = iota
	remade          // dropped, and computed again before the next use
	away            // copied to the host, and fetched back
)

// problem is a graph made ready for planning.
type problem struct {
	*Graph
	Options
	writer   []int   // of each value; -1: there from the start
	uses     [][]int // of each value that is not fixed: the operations that write it and read it; -1: the start
	inside   []int   // of each value that is written over a resident one: which; -1: none
	fixed    []bool  // values in memory of resident ones, for which nothing is planned
	lasts    []int   // of each operation, and of the other ways behind them: the last one before which it may run again; -1: none
	ways     [][]int // of each value: other ways to write it, by themselves
	beside   [][]int // of each operation: what may run in its place
	resident int64
	goesOn   bool // some operation does, beside others

	gaps  []gap // between two uses of each value, those of one value together
	first []int // of each value: its first gap
	joint []int // of each gap: what writes the value again in place of an operation; -1: nothing

	// What follows is memory that is used again and again.
	seen       []int // of each operation: the last round of again that came to it
	round      int
	spare      []*candidate
	left       int     // runs that improve may still simulate
	floor      float64 // seconds that no plan is below
	price      float64 // of a byte on the link, with which the best plan was found
	share      float64 // of the excess that is relieved between two simulations
	over       excess
	hosting    int64 // bytes on the host
	all        []eviction
	queue      []eviction
	made       []eviction
	next       decisions
	expanding  expander
	simulating simulation
}

// gap is the time between two operations that use a value, and none between them
// does; from is -1 for the start.
type gap struct{ value, from, to int }

func newProblem(g *Graph, o Options) (*problem, error) {
	writer, err := g.check()
	if err != nil {
		return nil, err
	}
	p := &problem{Graph: g, Options: o, writer: writer, uses: make([][]int, len(g.Values)), seen: make([]int, g.ops())}
	p.share = min(most, float64(len(g.Ops))/mostOps*most)
	p.fix()
	for v, value := range g.Values {
		if value.Resident {
			p.resident += value.Bytes
		}
		if !p.fixed[v] {
			p.uses[v] = append(p.uses[v], writer[v])
		}
	}
	for i, op := range g.Ops {
		p.goesOn = p.goesOn || op.Beside > 0
		for _, v := range op.Reads {
			if uses := p.uses[v]; uses != nil && uses[len(uses)-1] != i {
				p.uses[v] = append(uses, i)
			}
		}
	}
	p.first = make([]int, len(p.Values))
	for v, uses := range p.uses {
		p.first[v] = len(p.gaps)
		for k := range len(uses) - 1 {
			p.gaps = append(p.gaps, gap{v, uses[k], uses[k+1]})
		}
	}
	p.others()
	return p, nil
}

// others finds what the other ways to write values are good for.
func (p *problem) others() {
	p.ways, p.beside = make([][]int, len(p.Values)), make([][]int, len(p.Ops))
	p.joint = make([]int, len(p.gaps))
	for k := range p.joint {
		p.joint[k] = -1
	}
	for i, a := range p.Again {
		i += len(p.Ops)
		if slices.ContainsFunc(a.Writes, func(v int) bool { return p.fixed[v] }) {
			continue
		}
		if a.For >= 0 {
			p.beside[a.For] = append(p.beside[a.For], i)
		}
		for _, v := range a.Writes {
			w := p.writer[v]
			switch {
			case a.For < 0:
				p.ways[v] = append(p.ways[v], i)
			case w != a.For:
				for k := p.first[v]; k < len(p.gaps) && p.gaps[k].value == v; k++ {
					if g := p.gaps[k]; g.from < a.For && a.For < g.to && p.joint[k] < 0 {
						p.joint[k] = i
					}
				}
			}
		}
	}
}

// fix finds the values that are written over resident ones, and what must not run
// again after that.
func (p *problem) fix() {
	never := len(p.Ops)
	read := make([]int, len(p.Values)) // the last operation that reads it
	for i, op := range p.Ops {
		for _, v := range op.Reads {
			read[v] = i
		}
	}
	p.inside = make([]int, len(p.Values))
	p.fixed = make([]bool, len(p.Values))
	gone := make([]int, len(p.Values)) // the operation that writes over it
	for v, value := range p.Values {
		p.inside[v], p.fixed[v], gone[v] = -1, value.Resident, never
	}
	for i, op := range p.Ops {
		for _, v := range op.Writes {
			if p.fixed[v] {
				continue
			}
			for _, u := range p.Values[v].Over {
				if p.fixed[u] && p.mayTake(v, u) && gone[u] == never && read[u] == i {
					p.fixed[v], gone[u] = true, i
					if p.inside[v] = u; p.inside[u] >= 0 {
						p.inside[v] = p.inside[u]
					}
					break
				}
			}
		}
	}
	p.lasts = make([]int, p.ops())
	for i := range p.lasts {
		op := p.op(i)
		p.lasts[i] = never
		if op.Once {
			p.lasts[i] = -1
		}
		for _, list := range [][]int{op.Reads, op.Writes} {
			for _, v := range list {
				p.lasts[i] = min(p.lasts[i], gone[v])
			}
		}
	}
}

// besides is how much longer what runs in place of an operation takes than that.
func (p *problem) besides(i int) float64 {
	a := p.Again[i-len(p.Ops)]
	return max(0, a.Seconds-p.Ops[a.For].Seconds)
}

// otherwise reports whether there are other ways to write a value again.
func (p *problem) otherwise(v int) bool {
	return len(p.ways[v]) > 0 || slices.ContainsFunc(p.joint[p.first[v]:p.first[v]+max(0, len(p.uses[v])-1)], func(i int) bool { return i >= 0 })
}

// mayTake reports whether value v, which may be written over u, fits there.
func (p *problem) mayTake(v, u int) bool {
	return p.Values[u].Bytes == p.Values[v].Bytes && !p.Values[u].Output && p.Values[v].Bytes > 0
}

// decisions has one for each gap.
type decisions []decision

func (p *problem) keepAll() decisions { return make(decisions, len(p.gaps)) }

// resize returns a slice of so many elements, in the same memory if that does. What
// it holds is anything.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

// schedule is what runs, after all decisions.
type schedule struct {
	runs  []run
	lives []life
	first []int // run of each operation for the first time
}

type run struct {
	op    int
	again bool
}

// life is a stay of a value on the device.
type life struct {
	value    int
	from, to int // runs, both included; from of what is fetched and to of what is sent are for the simulation to say
	fetched  bool
	sent     bool
	need     int // of what is fetched: the first run that reads it
	after    int // likewise: the first run behind the value's stay before this one
	ready    int // of what is sent: the last run that uses it
	over     int // the life whose memory it takes; -1: none
}

// expander turns decisions into a schedule. It is memory that is used again.
type expander struct {
	*problem
	d      decisions
	s      *schedule
	open   []int  // the life of each value that is there; -1: none
	latest []int  // the life of each value that was open last
	hosted []bool // values with a copy on the host
	turn   []int  // index of each value's last use that has run

	fresh []int    // lives that began for the operation at hand
	pairs [][2]int // lives that may take the memory of others
	taken []bool   // lives whose memory another takes
	now   int      // the operation at hand
	done  bool     // without a value that cannot be made again
}

// expand writes the schedule of decisions; false if one of them cannot be.
func (p *problem) expand(d decisions, s *schedule) bool {
	e := &p.expanding
	e.problem = p
	n := len(p.Values)
	e.d, e.s, e.done = d, s, true
	e.open, e.latest, e.hosted, e.turn = resize(e.open, n), resize(e.latest, n), resize(e.hosted, n), resize(e.turn, n)
	clear(e.hosted)
	clear(e.turn)
	e.pairs = e.pairs[:0]
	s.first = resize(s.first, len(p.Ops))
	s.runs, s.lives = s.runs[:0], s.lives[:0]
	for v, value := range p.Values {
		e.open[v] = -1
		if !p.fixed[v] && p.writer[v] < 0 && (value.Output || len(p.uses[v]) > 1) {
			e.begin(v, 0)
			e.leave(v, 0)
		}
	}
	for i, op := range p.Ops {
		e.fresh, e.now = e.fresh[:0], i
		for _, v := range op.Reads {
			e.ensure(v)
		}
		if !e.done {
			return false
		}
		at := e.emit(e.instead(i), false)
		e.s.first[i] = at
		for _, l := range e.fresh {
			e.settle(l, i)
		}
		for _, v := range op.Reads {
			e.use(v, i, at)
		}
		for _, v := range op.Writes {
			e.use(v, i, at)
		}
	}
	end := len(e.s.runs) - 1
	for v := range p.Values {
		if l := e.open[v]; l >= 0 {
			e.s.lives[l].to = end
		}
	}
	e.taken = resize(e.taken, len(e.s.lives))
	clear(e.taken)
	for _, x := range e.pairs {
		l, u := x[0], x[1]
		if x, y := &e.s.lives[l], &e.s.lives[u]; x.over < 0 && !e.taken[u] && !y.sent && y.to == x.from {
			x.over, e.taken[u] = u, true
		}
	}
	return true
}

// begin begins a life.
func (e *expander) begin(v, at int) int {
	e.s.lives = append(e.s.lives, life{value: v, from: at, to: at, over: -1})
	e.open[v] = len(e.s.lives) - 1
	e.latest[v] = e.open[v]
	return e.open[v]
}

// readable reports whether all that an operation reads is there.
func (e *expander) readable(i int) bool {
	return !slices.ContainsFunc(e.op(i).Reads, func(v int) bool { return e.fixed[v] && e.writer[v] >= e.now || !e.fixed[v] && e.open[v] < 0 })
}

// instead is what runs in place of an operation, whose values are there: what writes
// others besides that are to be written again, or the operation itself.
func (e *expander) instead(i int) int {
	for _, k := range e.beside[i] {
		wanted := func(v int) bool {
			turn := e.turn[v]
			return e.writer[v] == i || e.open[v] < 0 && !e.hosted[v] && turn+1 < len(e.uses[v]) && e.d[e.first[v]+turn] == remade
		}
		if !slices.ContainsFunc(e.op(k).Writes, func(v int) bool { return !wanted(v) }) && e.lasts[k] >= i && e.readable(k) {
			return k
		}
	}
	return i
}

// emit runs an operation, whose values are there.
func (e *expander) emit(i int, again bool) int {
	at := len(e.s.runs)
	e.s.runs = append(e.s.runs, run{op: i, again: again})
	op := e.op(i)
	for _, v := range op.Reads {
		if l := e.open[v]; l >= 0 {
			if x := &e.s.lives[l]; x.fetched && x.need < 0 {
				x.need = at
			}
			e.s.lives[l].to = max(e.s.lives[l].to, at)
		}
	}
	for _, v := range op.Writes {
		if e.fixed[v] {
			continue
		}
		was := e.open[v]
		l := e.begin(v, at)
		if was >= 0 { // it is written a second time, for nothing
			e.open[v], e.latest[v] = was, was
		} else if again || e.writer[v] != e.now {
			e.fresh = append(e.fresh, l)
		}
		if was < 0 {
			for _, u := range e.Values[v].Over {
				if !e.fixed[u] && e.mayTake(v, u) && (e.writer[v] == i || slices.Contains(op.Reads, u)) {
					e.pairs = append(e.pairs, [2]int{l, e.open[u]})
				}
			}
		}
	}
	return at
}

// ensure has a value there for the operation to come.
func (e *expander) ensure(v int) {
	switch {
	case !e.done || e.fixed[v] || e.open[v] >= 0:
	case e.hosted[v]:
		after := e.s.lives[e.latest[v]].to + 1
		l := e.begin(v, -1)
		x := &e.s.lives[l]
		x.fetched, x.need, x.after = true, -1, after
		e.fresh = append(e.fresh, l)
	default:
		for _, k := range e.ways[v] {
			if e.lasts[k] >= e.now && e.readable(k) {
				e.emit(k, true)
				return
			}
		}
		if e.writer[v] < 0 || e.lasts[e.writer[v]] < e.now {
			e.done = false
			return
		}
		for _, u := range e.Ops[e.writer[v]].Reads {
			e.ensure(u)
		}
		if e.done {
			e.emit(e.writer[v], true)
		}
	}
}

// settle says what becomes of a life that began for operation i: what i does not
// read stays if it is wanted again later, and else ends with the last that read it.
func (e *expander) settle(l, i int) {
	v := e.s.lives[l].value
	if uses := e.uses[v]; e.turn[v]+1 < len(uses) {
		return // i uses it, or a later operation
	}
	e.open[v] = -1
}

// use notes that operation i, in run at, uses a value, and does what was decided for
// the time to its next use.
func (e *expander) use(v, i, at int) {
	uses := e.uses[v]
	if uses == nil {
		return
	}
	if e.turn[v]+1 < len(uses) && uses[e.turn[v]+1] == i {
		e.turn[v]++
	}
	e.leave(v, at)
}

// leave ends the life of a value after a use, if that was the last one or was so
// decided.
func (e *expander) leave(v, at int) {
	l, turn := e.open[v], e.turn[v]
	if l < 0 {
		return
	}
	x := &e.s.lives[l]
	if turn+1 == len(e.uses[v]) {
		if !e.Values[v].Output {
			x.to = max(x.to, at)
			e.open[v] = -1
		}
		return
	}
	switch e.d[e.first[v]+turn] {
	case remade:
		x.to = max(x.to, at)
		e.open[v] = -1
	case away:
		if !e.hosted[v] {
			e.hosted[v], x.sent = true, true
		}
		x.to = max(x.to, at)
		x.ready = x.to
		e.open[v] = -1
	}
}
