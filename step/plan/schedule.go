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
	uses     [][]int // of each value that is not resident: the operations that write it and read it; -1: the start
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
	for v, value := range g.Values {
		if value.Resident {
			p.resident += value.Bytes
		} else {
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

	fresh []int // lives that began for the operation at hand
	done  bool  // without a value that cannot be made again
}

// expand returns the schedule of decisions; false if one of them cannot be.
func (p *problem) expand(d decisions) (*schedule, bool) {
	e := expander{problem: p, d: d, open: make([]int, len(p.Values)), latest: make([]int, len(p.Values)), hosted: make([]bool, len(p.Values)), turn: make([]int, len(p.Values)), done: true}
	e.s.first = make([]int, len(p.Ops))
	e.s.runs = make([]run, 0, len(p.Ops)+len(p.Ops)/4)
	e.s.lives = make([]life, 0, len(p.Values)+len(p.Values)/4)
	for v, value := range p.Values {
		e.open[v] = -1
		if !value.Resident && p.writer[v] < 0 && (value.Output || len(p.uses[v]) > 1) {
			e.begin(v, 0)
			e.leave(v, 0)
		}
	}
	for i, op := range p.Ops {
		e.fresh = e.fresh[:0]
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
	return &e.s, true
}

// begin begins a life.
func (e *expander) begin(v, at int) int {
	e.s.lives = append(e.s.lives, life{value: v, from: at, to: at})
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
		if e.Values[v].Resident {
			continue
		}
		was := e.open[v]
		l := e.begin(v, at)
		if was >= 0 { // it is written a second time, for nothing
			e.open[v], e.latest[v] = was, was
		} else if again {
			e.fresh = append(e.fresh, l)
		}
	}
	return at
}

// ensure has a value there for the operation to come.
func (e *expander) ensure(v int) {
	switch {
	case !e.done || e.Values[v].Resident || e.open[v] >= 0:
	case e.hosted[v]:
		after := e.s.lives[e.latest[v]].to + 1
		l := e.begin(v, -1)
		x := &e.s.lives[l]
		x.fetched, x.need, x.after = true, -1, after
		e.fresh = append(e.fresh, l)
	case e.writer[v] < 0 || e.Ops[e.writer[v]].Once:
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
