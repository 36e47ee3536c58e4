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
	lasts    []int   // of each operation: the last one before which it may run again; -1: none
	resident int64

	seen  []int // of each operation: the last round of again that came to it
	round int
}

func newProblem(g *Graph, o Options) (*problem, error) {
	writer, err := g.check()
	if err != nil {
		return nil, err
	}
	p := &problem{Graph: g, Options: o, writer: writer, uses: make([][]int, len(g.Values)), seen: make([]int, len(g.Ops))}
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
		for _, v := range op.Reads {
			if uses := p.uses[v]; uses != nil && uses[len(uses)-1] != i {
				p.uses[v] = append(uses, i)
			}
		}
	}
	return p, nil
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
	p.lasts = make([]int, len(p.Ops))
	for i, op := range p.Ops {
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

// mayTake reports whether value v, which may be written over u, fits there.
func (p *problem) mayTake(v, u int) bool {
	return p.Values[u].Bytes == p.Values[v].Bytes && !p.Values[u].Output && p.Values[v].Bytes > 0
}

// decisions has one for each gap between two uses of a value.
type decisions [][]decision

func (p *problem) keepAll() decisions {
	d := make(decisions, len(p.uses))
	for v, uses := range p.uses {
		if len(uses) > 1 {
			d[v] = make([]decision, len(uses)-1)
		}
	}
	return d
}

func (d decisions) clone() decisions {
	c := make(decisions, len(d))
	for v := range d {
		c[v] = slices.Clone(d[v])
	}
	return c
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
	needs []int // lives that are fetched for it
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

// expander turns decisions into a schedule.
type expander struct {
	*problem
	d      decisions
	s      schedule
	open   []int  // the life of each value that is there; -1: none
	latest []int  // the life of each value that was open last
	hosted []bool // values with a copy on the host
	turn   []int  // index of each value's last use that has run

	fresh []int    // lives that began for the operation at hand
	over  [][2]int // lives that may take the memory of others
	now   int      // the operation at hand
	done  bool     // without a value that cannot be made again
}

// expand returns the schedule of decisions; false if one of them cannot be.
func (p *problem) expand(d decisions) (*schedule, bool) {
	e := expander{problem: p, d: d, open: make([]int, len(p.Values)), latest: make([]int, len(p.Values)), hosted: make([]bool, len(p.Values)), turn: make([]int, len(p.Values)), done: true}
	e.s.first = make([]int, len(p.Ops))
	e.s.runs = make([]run, 0, len(p.Ops)+len(p.Ops)/4)
	e.s.lives = make([]life, 0, len(p.Values)+len(p.Values)/4)
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
			return nil, false
		}
		at := e.emit(i, false)
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
	taken := make([]bool, len(e.s.lives))
	for _, x := range e.over {
		l, u := x[0], x[1]
		if x, y := &e.s.lives[l], &e.s.lives[u]; x.over < 0 && !taken[u] && !y.sent && y.to == x.from {
			x.over, taken[u] = u, true
		}
	}
	return &e.s, true
}

// begin begins a life.
func (e *expander) begin(v, at int) int {
	e.s.lives = append(e.s.lives, life{value: v, from: at, to: at, over: -1})
	e.open[v] = len(e.s.lives) - 1
	e.latest[v] = e.open[v]
	return e.open[v]
}

// emit runs an operation, whose values are there.
func (e *expander) emit(i int, again bool) int {
	at := len(e.s.runs)
	e.s.runs = append(e.s.runs, run{op: i, again: again})
	for _, v := range e.Ops[i].Reads {
		if l := e.open[v]; l >= 0 {
			if x := &e.s.lives[l]; x.fetched && x.need < 0 {
				x.need = at
				e.s.runs[at].needs = append(e.s.runs[at].needs, l)
			}
			e.s.lives[l].to = max(e.s.lives[l].to, at)
		}
	}
	for _, v := range e.Ops[i].Writes {
		if e.fixed[v] {
			continue
		}
		was := e.open[v]
		l := e.begin(v, at)
		if was >= 0 { // it is written a second time, for nothing
			e.open[v], e.latest[v] = was, was
		} else if again {
			e.fresh = append(e.fresh, l)
		}
		if was < 0 {
			for _, u := range e.Values[v].Over {
				if !e.fixed[u] && e.mayTake(v, u) {
					e.over = append(e.over, [2]int{l, e.open[u]})
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
	case e.writer[v] < 0 || e.lasts[e.writer[v]] < e.now:
		e.done = false
	default:
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
	switch e.d[v][turn] {
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
