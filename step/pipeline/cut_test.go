package pipeline

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// slowest is the time of the slowest stage of a cut, and whether all are within a budget.
func (f *profile) slowest(l limits, cuts []int) (most float64, fits bool) {
	ends, from := append(append([]int{}, cuts...), len(f.forward)), 0
	fits = true
	for k, to := range ends {
		seconds, bytes := 0.0, int64(l.inFlight[k])*f.up[from]
		for i := from; i < to; i++ {
			seconds += f.forward[i] + f.backward[i]
			bytes += f.held[i] + int64(l.inFlight[k])*f.stash[i]
		}
		if l.link > 0 {
			seconds += float64(f.up[from]+f.down[from]) / l.link
		}
		most, fits, from = max(most, seconds), fits && (l.budget == 0 || bytes <= l.budget), to
	}
	return most, fits
}

// every calls fn with each cut of n operations into stages.
func every(n, stages int, fn func(cuts []int)) {
	var visit func(cuts []int, from int)
	visit = func(cuts []int, from int) {
		if len(cuts) == stages-1 {
			fn(cuts)
			return
		}
		for i := from; i < n; i++ {
			visit(append(cuts, i), i+1)
		}
	}
	visit(nil, 1)
}

// A cut is as good as the best of all cuts, but for little that is allowed so that less
// crosses, and one operation at most; and it keeps to its budget if one can.
func TestCut(t *testing.T) {
	testkit.OnlyComputes(t)
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 2 + rng.IntN(9)
		f := &profile{make([]float64, n), make([]float64, n), make([]int64, n), make([]int64, n), make([]int64, n+1), make([]int64, n+1)}
		largest := 0.0
		for i := range n {
			f.forward[i], f.backward[i] = rng.Float64(), 2*rng.Float64()
			f.held[i], f.stash[i] = rng.Int64N(100), rng.Int64N(20)
			largest = max(largest, f.forward[i]+f.backward[i])
			if i > 0 {
				f.up[i], f.down[i] = 1+rng.Int64N(50), rng.Int64N(50)
			}
		}
		l := limits{stages: 1 + rng.IntN(min(n, 5))}
		for k := range l.stages {
			l.inFlight = append(l.inFlight, l.stages-k)
		}
		if seed%2 == 1 {
			l.budget = 200 + rng.Int64N(400)
		}
		if seed%3 == 1 {
			l.link = 50
		}
		best := math.Inf(1)
		every(n, l.stages, func(cuts []int) {
			if seconds, ok := f.slowest(l, cuts); ok {
				best = min(best, seconds)
			}
		})
		cuts, err := f.cut(l)
		if math.IsInf(best, 1) {
			testkit.WantError(t, "budget", err, errs.ErrTooLarge, "no cut into")
			continue
		}
		testkit.OK(t, err)
		got, ok := f.slowest(l, cuts)
		if !ok || got > best+min(slack*best, largest)+1e-9 {
			t.Errorf("seed %d: cut %v of %d takes %v, within its budget %v; the best takes %v", seed, cuts, n, got, ok, best)
		}
	}
}

// A cut goes around what is large, if stages stay nearly as even.
func TestCutBytes(t *testing.T) {
	testkit.OnlyComputes(t)
	n := 40
	f := &profile{make([]float64, n), make([]float64, n), make([]int64, n), make([]int64, n), make([]int64, n+1), make([]int64, n+1)}
	for i := range n {
		f.forward[i] = 1
		if f.up[i] = 1000; i%4 == 3 {
			f.up[i] = 10
		}
	}
	cuts, err := f.cut(limits{stages: 2, inFlight: []int{2, 1}})
	testkit.OK(t, err)
	if cuts[0] != 19 { // and not 20, in the middle
		t.Errorf("cut before %d", cuts[0])
	}
}
