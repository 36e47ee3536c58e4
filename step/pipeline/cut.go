package pipeline

import (
	"fmt"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/step/graph"
)

// slack is how much longer than need be the slowest stage may take where less crosses
// between stages then.
const slack = 0.05

// profile is what stages are made of: what each operation of the spine costs, with all that
// goes with it, and what crosses before each.
type profile struct {
	forward, backward []float64 // seconds
	held              []int64   // bytes of state and of sums of gradients
	stash             []int64   // bytes that each micro-batch keeps for the way back
	up, down          []int64   // bytes that each micro-batch sends if the cut is before the operation
}

// profile finds the costs of each operation of the spine as if it were a stage of its own.
func (a *anatomy) profile(seconds func(*graph.Node) float64) *profile {
	n := len(a.spine)
	p := a.place(n, func(i int) int { return i })
	f := &profile{make([]float64, n), make([]float64, n), make([]int64, n), make([]int64, n), make([]int64, n+1), make([]int64, n+1)}
	for _, node := range a.step.Graph.Nodes() {
		s, placed := p.stage[node]
		switch {
		case placed && a.forward[node]:
			f.forward[s] += seconds(node)
		case placed:
			f.backward[s] += seconds(node)
		case a.first[node] != nil:
			f.forward[p.stage[a.first[node]]] += seconds(node)
		}
		for i, shape := range node.Shapes {
			if placed {
				f.count(p, node.Value(i), s, shape.Bytes())
			}
		}
	}
	for i := range n {
		f.up[i+1] += f.up[i]
		f.down[i+1] += f.down[i]
	}
	f.countState(p)
	return f
}

// count counts what a value is where it is kept and where it crosses: differences, of which
// sums are taken later.
func (f *profile) count(p *placement, v graph.Value, s int, bytes int64) {
	if last, ok := p.last[v]; ok {
		f.up[s+1] += bytes
		f.up[last+1] -= bytes
		for _, u := range p.users[v] {
			if !p.forward[u] {
				f.stash[s] += bytes
				break
			}
		}
	}
	if low, ok := p.low[v]; ok {
		f.down[low+1] += bytes
		f.down[s+1] -= bytes
	}
}

// countState counts state where its gradient is, or else where it is read first.
func (f *profile) countState(p *placement) {
	at := map[graph.Value]int{}
	for _, g := range p.step.Gradients {
		s := p.gradientStage(g)
		f.held[s] += sumShape(g).Bytes()
		for _, w := range p.of[g] {
			at[w] = s
		}
	}
	for _, st := range p.step.State {
		s, ok := at[st.Param]
		if stages := p.weights[st.Param]; !ok && len(stages) > 0 {
			s = stages[0]
		}
		f.held[s] += st.Param.Shape().Bytes()
	}
}

// limits are what cuts keep to.
type limits struct {
	stages   int
	budget   int64 // bytes of a stage; 0: no limit
	inFlight []int // micro-batches under way in each stage
	link     float64
}

// cut finds where stages begin, from the second on. It is dynamic programming over where
// the first k stages end, twice: first for the time of the slowest stage, and then, with
// little more than that allowed, for stages that are even and between which little crosses.
func (f *profile) cut(l limits) ([]int, error) {
	n := len(f.forward)
	if n < l.stages {
		return nil, bad("%d stages of a loss that is made of %d operations", l.stages, n)
	}
	t := &table{n: n, stages: l.stages, sums: make([]float64, n+1), send: make([]float64, n+1), limit: math.Inf(1)}
	held, stash, crossing, largest := make([]int64, n+1), make([]int64, n+1), make([]int64, n+1), 0.0
	for i := range n {
		one := f.forward[i] + f.backward[i]
		largest = max(largest, one)
		t.sums[i+1], held[i+1], stash[i+1] = t.sums[i]+one, held[i]+f.held[i], stash[i]+f.stash[i]
		if crossing[i] = f.up[i] + f.down[i]; l.link > 0 {
			t.send[i] = float64(crossing[i]) / l.link
		}
	}
	t.fits = func(k, i, j int) bool {
		return l.budget == 0 || held[j]-held[i]+int64(l.inFlight[k])*(stash[j]-stash[i]+f.up[i]) <= l.budget
	}
	slowest, _ := t.solve(nil)
	if math.IsInf(slowest, 1) {
		return nil, fmt.Errorf("pipeline: %w: no cut into %d stages has each within %s of state and of what micro-batches keep", errs.ErrTooLarge, l.stages, units.Bytes(l.budget))
	}
	if l.stages == 1 {
		return nil, nil
	}
	t.limit = (slowest + min(slack*slowest, largest)) * (1 + 1e-12) // sums are rounded
	sorted := slices.Clone(crossing[1:n])
	slices.Sort(sorted)
	typical := max(1, float64(sorted[len(sorted)/2]))
	_, cuts := t.solve(func(i int, seconds float64) float64 {
		uneven := seconds / t.limit
		return uneven*uneven + slack*float64(crossing[i])/typical
	})
	return cuts, nil
}

// table is what a cut is found in.
type table struct {
	n, stages int
	sums      []float64              // seconds of the operations before each
	send      []float64              // seconds of what crosses before each
	limit     float64                // the most seconds of a stage
	fits      func(k, i, j int) bool // whether stage k can be the operations from i to before j
}

// end is the best that stages up to one operation come to.
type end struct {
	slowest, score float64
	from           int // where the last of them begins
}

// solve finds the cut whose slowest stage is fastest, or, where stages have scores by where
// they begin and their seconds, the one of the least sum of scores. Without any, the time of
// the slowest is infinite.
func (t *table) solve(score func(i int, seconds float64) float64) (slowest float64, cuts []int) {
	rows := make([][]end, t.stages)
	for k := range rows {
		rows[k] = make([]end, t.n+1)
		for j := k + 1; j <= t.n-(t.stages-1-k); j++ {
			best, first := end{slowest: math.Inf(1), score: math.Inf(1)}, j-1
			if k == 0 {
				first = 0
			}
			for i := first; i >= k; i-- {
				computes := t.sums[j] - t.sums[i]
				if computes > t.limit || score == nil && computes >= best.slowest {
					break // of more operations, it is longer still
				}
				e := end{slowest: computes + t.send[i], from: i}
				if e.slowest > t.limit || !t.fits(k, i, j) {
					continue
				}
				e.score = e.slowest
				if score != nil {
					e.score = score(i, e.slowest)
				}
				if k > 0 {
					before := rows[k-1][i]
					e.slowest = max(e.slowest, before.slowest)
					if score != nil {
						e.score += before.score
					} else {
						e.score = e.slowest
					}
				}
				if e.score < best.score {
					best = e
				}
			}
			rows[k][j] = best
		}
	}
	at := t.n
	for k := t.stages - 1; k > 0; k-- {
		at = rows[k][at].from
		cuts = append(cuts, at)
	}
	slices.Reverse(cuts)
	return rows[t.stages-1][t.n].slowest, cuts
}
