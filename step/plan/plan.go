package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// Options say within what a step has to be planned.
type Options struct {
	// Budget is the most bytes of device memory. 0: any number; nothing is evicted.
	Budget int64

	// Out and Back are how many bytes a second the link carries from the device to
	// the host and back, beside the computation. Both 0: nothing travels.
	Out, Back float64

	// Latency is how many seconds a copy takes besides, in either direction.
	Latency float64

	// HostBytes is the most memory on the host. 0: no limit.
	HostBytes int64

	// Align is what offsets are multiples of. Default: 256 bytes.
	Align int64
}

// Plan is how a step runs within its budget.
type Plan struct {
	Runs  []Run  // in order
	Lives []Life // stays of values on the device

	Seconds float64 // that the step takes
	Again   float64 // of these, for operations that run again
	Waited  float64 // and for copies
	Beside  float64 // and for what goes on beside operations (Op.Beside)
	Least   float64 // no plan of this kind within the budget takes less time

	Bytes    int64 // of device memory: those of resident values, and of the block that lives are placed in
	Resident int64 // of these, of resident values
	Live     int64 // the most that are in use at once, which Bytes cannot be below

	HostBytes int64 // that travel to the host
}

// Run is one operation that runs.
type Run struct {
	Op      int  // of Graph.Ops, or, behind those, of Graph.Again
	Again   bool // it ran before
	Start   float64
	Bytes   int64 // in use meanwhile, resident values included
	Fetch   []int // lives whose copies from the host begin before it
	Wait    []int // lives whose copies it has to wait for
	Release []int // lives that it or the runs behind it take the memory of, so that it has to wait for their copies to the host
}

// Life is a stay of a value on the device: from the run before which it is fetched, or
// which writes it, to the last one that reads it, or before which its copy to the
// host is waited for. An operation that runs again writes all its values: one that is
// still there has a life of that run besides, which nothing reads. A value that no
// operation writes is there from run 0 on, and has no life if nothing reads it either,
// unless it is an output.
type Life struct {
	Value    int
	From, To int   // runs, both included
	Offset   int64 // in the block; -1: it lies in the memory of the resident value Over
	Fetched  bool  // it comes from the host
	Sent     bool  // it is copied to the host as soon as it was written
	Scratch  bool  // memory that an operation needs besides values; Value is -1
	Over     int   // the value that it is written over, in the run From; -1: none
}

// ErrBudget says that a step cannot run within its budget, as an [*ImpossibleError].
var ErrBudget = errors.New("the step does not fit its budget")

// ImpossibleError tells why a step does not fit.
type ImpossibleError struct {
	Budget int64
	Found  int64  // the fewest bytes of the plans that were found
	Least  int64  // bytes that any plan needs
	Op     string // the operation that needs them: what is resident, outputs that are done, what cannot be evicted, what it reads and writes, and its scratch memory
}

// Error implements error.
func (e *ImpossibleError) Error() string {
	return fmt.Sprintf("plan: %v of %s; the least that was found is %s, and none can have less than %s, for %s",
		ErrBudget, units.Bytes(e.Budget), units.BytesUp(e.Found), units.Bytes(e.Least), e.Op)
}

// Unwrap makes it an [ErrBudget].
func (e *ImpossibleError) Unwrap() error { return ErrBudget }

// Make plans a step. The same graph and options give the same plan. It fails with
// ErrArgument if they cannot be right, and with an [*ImpossibleError] if it finds no
// plan within the budget.
func Make(g Graph, o Options) (*Plan, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	p, err := newProblem(&g, o)
	if err != nil {
		return nil, err
	}
	whole := p.try(p.keepAll(), math.MaxInt64)
	if o.Budget == 0 {
		return p.plan(whole)
	}
	least, at := p.least()
	if o.Budget < least {
		plan, err := p.plan(p.fewest(whole, least))
		if err != nil {
			return nil, err
		}
		return nil, &ImpossibleError{Budget: o.Budget, Found: plan.Bytes, Least: least, Op: at}
	}
	return p.within(whole, least, at)
}

// check fails with ErrArgument, and what cannot be right.
func (o Options) check() error {
	what := ""
	switch {
	case o.Budget < 0:
		what = fmt.Sprintf("a budget of %d bytes", o.Budget)
	case o.HostBytes < 0:
		what = fmt.Sprintf("at most %d bytes on the host", o.HostBytes)
	case o.Align < 0:
		what = fmt.Sprintf("an alignment of %d bytes", o.Align)
	case !finite(o.Latency):
		what = fmt.Sprintf("copies that take %v s besides", o.Latency)
	case !finite(o.Out) || !finite(o.Back):
		what = fmt.Sprintf("a link of %v bytes/s to the host and %v back", o.Out, o.Back)
	case (o.Out == 0) != (o.Back == 0):
		what = fmt.Sprintf("a link of %v bytes/s to the host and %v back: both are 0, or neither", o.Out, o.Back)
	default:
		return nil
	}
	return fmt.Errorf("plan: %w: %s", ErrArgument, what)
}

// mostFits is how many plans are placed until one fits its budget best.
const mostFits = 6

// within finds a plan within the budget. Places in the block leave gaps, which are known
// when it is placed: the target of the search is lower by what they take.
func (p *problem) within(whole *candidate, least int64, at string) (*Plan, error) {
	var best *Plan
	found, more, missed := int64(math.MaxInt64), 1, int64(0)
	target := p.Budget
	c := p.search(whole, target)
	for range mostFits {
		plan, err := p.plan(c)
		if err != nil {
			return nil, err
		}
		found = min(found, plan.Bytes)
		if plan.Bytes <= p.Budget && (best == nil || plan.Seconds < best.Seconds) {
			best = plan
		}
		if best != nil {
			more--
		}
		left := p.Budget - plan.Bytes
		if c.o.peak > target || more < 0 || best != nil && p.near(c, target) || left >= 0 && left < p.Budget/1000 {
			break
		}
		if left < 0 {
			// The gaps may be as large again: each time it gives up more.
			missed++
			target = min(target, c.o.peak) + missed*left
			c = p.tighten(whole, c, target)
		} else {
			target += left
			c = p.loosen(c, target)
		}
	}
	if best == nil {
		plan, err := p.plan(p.fewest(whole, least))
		if err != nil {
			return nil, err
		}
		if best = plan; plan.Bytes > p.Budget {
			return nil, &ImpossibleError{Budget: p.Budget, Found: min(found, plan.Bytes), Least: least, Op: at}
		}
	}
	best.Least = min(p.bound(whole, p.Budget), best.Seconds)
	return best, nil
}

func finite(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// carry is how long a copy takes at so many bytes a second.
func (p *problem) carry(v int, rate float64) float64 {
	return p.Latency + float64(p.Values[v].Bytes)/rate
}

// least is a bound: what is resident, outputs that were used last, which stay, what can
// neither be computed again nor travel, and what one operation reads and writes.
func (p *problem) least() (most int64, name string) {
	most, name = p.resident, "what is resident"
	staying := make([]int64, len(p.Ops)+1) // bytes that begin or cease to stay before an operation
	for v, uses := range p.uses {
		if p.Values[v].Output && uses != nil {
			staying[uses[len(uses)-1]+1] += p.Values[v].Bytes
		}
	}
	for _, g := range p.gaps {
		if w := p.writer[g.value]; p.Out == 0 && (w < 0 || p.lasts[w] < g.to && !p.otherwise(g.value)) {
			staying[g.from+1] += p.Values[g.value].Bytes
			staying[g.to] -= p.Values[g.value].Bytes
		}
	}
	there := p.resident
	for i, op := range p.Ops {
		there += staying[i]
		n := there + op.Scratch
		seen := map[int]bool{}
		for _, list := range [][]int{op.Reads, op.Writes} {
			for _, v := range list {
				if !p.fixed[v] && !seen[v] {
					n += p.Values[v].Bytes
					seen[v] = true
				}
			}
		}
		for _, v := range op.Writes {
			if !p.fixed[v] && slices.ContainsFunc(p.Values[v].Over, func(u int) bool { return !p.fixed[u] && p.mayTake(v, u) }) {
				n -= p.Values[v].Bytes
			}
		}
		if n > most {
			most, name = n, op.Name
		}
	}
	return most, name
}

// plan writes down what was found.
func (p *problem) plan(c *candidate) (*Plan, error) {
	plan := &Plan{Seconds: c.o.seconds, Least: c.o.seconds, Waited: c.o.waited, Beside: c.o.beside, Resident: p.resident, Live: c.o.peak, HostBytes: c.o.hosted}
	var buffers []Buffer
	last := len(c.s.runs) - 1
	for i, r := range c.s.runs {
		op := p.op(r.op)
		if r.again {
			plan.Again += op.Seconds
		} else if r.op >= len(p.Ops) {
			plan.Again += p.besides(r.op)
		}
		plan.Runs = append(plan.Runs, Run{Op: r.op, Again: r.again, Start: c.o.start[i], Bytes: c.o.bytes[i]})
	}
	in := make([]int, len(c.s.lives)) // the buffer of each life
	for l, x := range c.s.lives {
		if x.sent && x.to < last {
			r := &plan.Runs[x.to+1]
			r.Release = append(r.Release, l)
		}
		if x.fetched {
			r := &plan.Runs[x.from]
			r.Fetch = append(r.Fetch, l)
			r = &plan.Runs[x.need]
			r.Wait = append(r.Wait, l)
		}
		life := Life{Value: x.value, From: x.from, To: x.to, Fetched: x.fetched, Sent: x.sent, Over: -1}
		if x.over >= 0 { // a life of before, since lives are in the order in which they begin
			life.Over = c.s.lives[x.over].value
			in[l] = in[x.over]
			buffers[in[l]].To = x.to
		} else {
			in[l] = len(buffers)
			buffers = append(buffers, Buffer{p.Values[x.value].Bytes, x.from, x.to})
		}
		plan.Lives = append(plan.Lives, life)
	}
	for i, r := range c.s.runs {
		if n := p.op(r.op).Scratch; n > 0 {
			plan.Lives = append(plan.Lives, Life{Value: -1, From: i, To: i, Scratch: true, Over: -1})
			in = append(in, len(buffers))
			buffers = append(buffers, Buffer{n, i, i})
		}
	}
	align := p.Align
	if align == 0 {
		align = 256
	}
	layout, err := Place(p.held(&c.s, in, buffers), align)
	if err == nil && p.goesOn && p.Budget > 0 && p.resident+layout.Bytes > p.Budget {
		layout, err = Place(buffers, align)
	}
	if err != nil {
		return nil, err
	}
	for i := range plan.Lives {
		plan.Lives[i].Offset = layout.Offsets[in[i]]
	}
	for i, r := range c.s.runs {
		for _, v := range p.op(r.op).Writes {
			if u := p.inside[v]; u >= 0 {
				plan.Lives = append(plan.Lives, Life{Value: v, From: i, To: last, Offset: -1, Over: u})
			}
		}
	}
	plan.Bytes = p.resident + layout.Bytes
	return plan, nil
}

// held are the buffers of a schedule, each as long as an operation goes on with it that runs
// beside others: until what that writes is read, or another of its name goes on behind it.
// Whoever takes the memory before has to wait.
func (p *problem) held(s *schedule, in []int, buffers []Buffer) []Buffer {
	if !p.goesOn {
		return buffers
	}
	buffers = slices.Clone(buffers)
	of := make([][]int, len(p.Values)) // the lives of each value
	for l, x := range s.lives {
		of[x.value] = append(of[x.value], l)
	}
	scratch := len(s.lives) // its number among what has a place
	for i, r := range s.runs {
		op := p.op(r.op)
		if op.Beside > 0 {
			until := p.ended(s, i)
			for _, v := range slices.Concat(op.Reads, op.Writes) {
				for _, l := range of[v] {
					if x := s.lives[l]; x.from <= i && i <= x.to {
						buffers[in[l]].To = max(buffers[in[l]].To, until)
					}
				}
			}
			if op.Scratch > 0 {
				buffers[in[scratch]].To = until
			}
		}
		if op.Scratch > 0 {
			scratch++
		}
	}
	return buffers
}

// ended is the run by which run i, which goes on beside others, should have ended.
func (p *problem) ended(s *schedule, i int) int {
	op, last := p.op(s.runs[i].op), len(s.runs)-1
	for i < last {
		i++
		next := p.op(s.runs[i].op)
		if next.Beside > 0 && next.Name == op.Name || next.Beside == 0 && meet(next.Reads, op.Writes) {
			break
		}
	}
	return i
}

// meet reports whether two lists have a value in common.
func meet(a, b []int) bool {
	return slices.ContainsFunc(a, func(v int) bool { return slices.Contains(b, v) })
}

// String sums the plan up.
func (p *Plan) String() string {
	var b strings.Builder
	again, sent := 0, 0
	for _, r := range p.Runs {
		if r.Again {
			again++
		}
	}
	for _, l := range p.Lives {
		if l.Sent {
			sent++
		}
	}
	fmt.Fprintf(&b, "%s of device memory, %s of it resident; at most %s in use\n", units.Bytes(p.Bytes), units.Bytes(p.Resident), units.Bytes(p.Live))
	fmt.Fprintf(&b, "%s a step", units.Seconds(p.Seconds))
	var of []string
	if again > 0 || p.Again > 0 {
		of = append(of, fmt.Sprintf("%s of it to run %s again", units.Seconds(p.Again), units.Count(again, "operation")))
	}
	if p.Waited > 0 {
		of = append(of, fmt.Sprintf("%s of it to wait for copies", units.Seconds(p.Waited)))
	}
	if p.Beside > 0 {
		of = append(of, fmt.Sprintf("%s of it to wait for what goes on beside it", units.Seconds(p.Beside)))
	}
	if len(of) > 0 {
		fmt.Fprintf(&b, ", %s", strings.Join(of, " and "))
	}
	fmt.Fprintf(&b, "; no plan takes less than %s\n", units.Seconds(p.Least))
	switch sent {
	case 0:
		fmt.Fprintln(&b, "nothing travels to the host")
	case 1:
		fmt.Fprintf(&b, "a value of %s travels to the host and back\n", units.Bytes(p.HostBytes))
	default:
		fmt.Fprintf(&b, "%s of %s travel to the host and back\n", units.Count(sent, "value"), units.Bytes(p.HostBytes))
	}
	return b.String()
}
