package plan

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// execute runs a plan on real memory: what an operation writes is a function of what
// it reads, so that a value that is not there, or was overwritten, is found out.
func execute(t *testing.T, g Graph, p *Plan, o Options) {
	t.Helper()
	content := func(v int, seed uint64) []byte {
		b := make([]byte, g.Values[v].Bytes)
		rng := rand.New(rand.NewPCG(seed, uint64(v)))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	// What each value has to be.
	want := make([][]byte, len(g.Values))
	writer := make([]int, len(g.Values))
	for v := range want {
		want[v], writer[v] = content(v, 1), -1
	}
	apply := func(op int, read func(v int) []byte) map[int][]byte {
		h := fnv.New64()
		fmt.Fprint(h, op)
		for _, v := range g.Ops[op].Reads {
			h.Write(read(v))
		}
		made := map[int][]byte{}
		for _, v := range g.Ops[op].Writes {
			made[v] = content(v, h.Sum64())
		}
		return made
	}
	for i := range g.Ops {
		for v, b := range apply(i, func(v int) []byte { return want[v] }) {
			want[v], writer[v] = b, i
		}
	}

	block := make([]byte, p.Bytes-p.Resident)
	host := map[int][]byte{}
	memory := func(l Life) []byte { return block[l.Offset:][:g.Values[l.Value].Bytes] }
	at := map[int]int{} // the life in which a value is there
	for i, l := range p.Lives {
		if l.Scratch {
			continue
		}
		if l.From < 0 || l.To < l.From || l.To >= len(p.Runs) {
			t.Fatalf("life %d: %+v of %d runs", i, l, len(p.Runs))
		}
		if writer[l.Value] < 0 && !l.Fetched {
			copy(memory(l), want[l.Value])
			at[l.Value] = i
		}
	}
	done, live := 0, int64(0)
	for r, run := range p.Runs {
		for _, l := range run.Fetch {
			x := p.Lives[l]
			if host[x.Value] == nil || !x.Fetched || x.From != r {
				t.Fatalf("run %d fetches %+v", r, x)
			}
			copy(memory(x), host[x.Value])
			at[x.Value] = l
		}
		for _, l := range run.Wait {
			if x := p.Lives[l]; x.From > r || x.To < r {
				t.Fatalf("run %d waits for %+v", r, x)
			}
		}
		op := g.Ops[run.Op]
		if !run.Again {
			if run.Op != done {
				t.Fatalf("operation %d runs, and %d is next", run.Op, done)
			}
			done++
		} else if op.Once || run.Op >= done {
			t.Fatalf("operation %d runs again", run.Op)
		}
		made := apply(run.Op, func(v int) []byte {
			if g.Values[v].Resident {
				return want[v]
			}
			l, ok := at[v]
			if !ok || p.Lives[l].To < r || p.Lives[l].From > r {
				t.Fatalf("run %d of %s: %s is not there", r, op.Name, g.Values[v].Name)
			}
			if b := memory(p.Lives[l]); !slices.Equal(b, want[v]) {
				t.Fatalf("run %d of %s: %s was overwritten", r, op.Name, g.Values[v].Name)
			}
			return want[v]
		})
		for l, x := range p.Lives {
			switch {
			case x.From > r || x.To < r:
			case x.Scratch:
				clear(block[x.Offset:][:op.Scratch])
				live += op.Scratch
			default:
				live += g.Values[x.Value].Bytes
				if b, ok := made[x.Value]; ok && x.From == r && !x.Fetched {
					copy(memory(x), b)
					if old, ok := at[x.Value]; !ok || p.Lives[old].To < r || x.To > r {
						at[x.Value] = l
					}
				}
			}
		}
		if live+p.Resident != run.Bytes {
			t.Fatalf("run %d has %d bytes in use, and says %d", r, live+p.Resident, run.Bytes)
		}
		live = 0
		for _, x := range p.Lives { // the copy may come as late as this
			if x.Sent && x.To == r {
				if !slices.Equal(memory(x), want[x.Value]) {
					t.Fatalf("run %d: what is sent of %s was overwritten", r, g.Values[x.Value].Name)
				}
				host[x.Value] = want[x.Value]
			}
		}
	}
	if done != len(g.Ops) {
		t.Fatalf("%d of %d operations ran", done, len(g.Ops))
	}
	for v, value := range g.Values {
		if l, ok := at[v]; value.Output && !value.Resident && (!ok || p.Lives[l].To != len(p.Runs)-1 || !slices.Equal(memory(p.Lives[l]), want[v])) {
			t.Fatalf("output %s is not there in the end", value.Name)
		}
	}
	if o.Budget > 0 && p.Bytes > o.Budget || p.Live > p.Bytes {
		t.Fatalf("%d bytes of %d, %d at once", p.Bytes, o.Budget, p.Live)
	}
}

// chain is n layers, each with a value that its backward pass reads, which the next
// layer reads too.
func chain(rng *rand.Rand, n int) Graph {
	var g Graph
	value := func(name string, bytes int64) int {
		g.Values = append(g.Values, Value{Name: name, Bytes: bytes})
		return len(g.Values) - 1
	}
	saved := []int{value("input", 1+rng.Int64N(40))}
	for i := range n {
		saved = append(saved, value(fmt.Sprint("a", i), 1+rng.Int64N(100)))
		g.Ops = append(g.Ops, Op{Name: fmt.Sprint("forward ", i), Seconds: 0.1 + rng.Float64(), Reads: []int{saved[i]}, Writes: []int{saved[i+1]}})
	}
	grad := value("g", g.Values[saved[n]].Bytes)
	g.Ops = append(g.Ops, Op{Name: "loss", Seconds: 0.1, Reads: []int{saved[n]}, Writes: []int{grad}})
	for i := n - 1; i >= 0; i-- {
		next := value(fmt.Sprint("g", i), g.Values[saved[i]].Bytes)
		g.Ops = append(g.Ops, Op{Name: fmt.Sprint("backward ", i), Seconds: 0.1 + 2*rng.Float64(), Reads: []int{saved[i], grad}, Writes: []int{next}})
		grad = next
	}
	g.Values[grad].Output = true
	return g
}

// random is any graph.
func random(rng *rand.Rand, n int) Graph {
	var g Graph
	for i := range 1 + rng.IntN(3) {
		g.Values = append(g.Values, Value{Name: fmt.Sprint("in", i), Bytes: rng.Int64N(50), Resident: rng.IntN(2) == 0, Output: rng.IntN(4) == 0})
	}
	for i := range n {
		op := Op{Name: fmt.Sprint("op", i), Seconds: rng.Float64(), Scratch: rng.Int64N(20) * rng.Int64N(2), Once: rng.IntN(8) == 0}
		for range rng.IntN(4) {
			op.Reads = append(op.Reads, len(g.Values)-1-min(len(g.Values)-1, int(rng.ExpFloat64()*4)))
		}
		for k := range 1 + rng.IntN(2) {
			op.Writes = append(op.Writes, len(g.Values))
			g.Values = append(g.Values, Value{Name: fmt.Sprint("v", i, ".", k), Bytes: rng.Int64N(100), Output: rng.IntN(10) == 0})
		}
		g.Ops = append(g.Ops, op)
	}
	return g
}

func TestPlansAreRight(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	fit, not := 0, 0
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	for round := range rounds {
		g := random(rng, 2+rng.IntN(25))
		if round%2 == 0 {
			g = chain(rng, 1+rng.IntN(12))
		}
		o := Options{Align: 1 + rng.Int64N(3)}
		whole, err := Make(g, o)
		if err != nil {
			t.Fatal(err)
		}
		execute(t, g, whole, o)
		if rng.IntN(3) > 0 {
			o.Out, o.Back = 10+rng.Float64()*400, 10+rng.Float64()*400
		}
		if rng.IntN(4) == 0 {
			o.HostBytes = 1 + rng.Int64N(200)
		}
		for _, share := range []float64{0.95, 0.8, 0.6, 0.4, 0.1} {
			if o.Budget = int64(share * float64(whole.Bytes)); o.Budget == 0 {
				continue
			}
			p, err := Make(g, o)
			var impossible *ImpossibleError
			switch {
			case errors.As(err, &impossible):
				not++
				if impossible.Found <= o.Budget || impossible.Least > impossible.Found || !errors.Is(err, ErrBudget) {
					t.Fatalf("%+v", impossible)
				}
			case err != nil:
				t.Fatal(err)
			default:
				fit++
				execute(t, g, p, o)
				if p.Seconds < whole.Seconds-1e-9 || o.HostBytes > 0 && p.HostBytes > o.HostBytes {
					t.Fatalf("%v", p)
				}
			}
		}
	}
	t.Logf("%d plans, %d budgets that are too small", fit, not)
}

// TestHeuristicAgainstAll compares what is done for large graphs with the best of all
// decisions, where these are few, on chains and on any graphs.
func TestHeuristicAgainstAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	n, exact, none, worst := 0, 0, 0, 1.0
	if testing.Short() {
		t.Skip("it tries all of many plans")
	}
	for round := range 160 {
		g := chain(rng, 2+rng.IntN(5))
		if round%4 == 3 {
			g = random(rng, 4+rng.IntN(6))
		}
		o := Options{}
		if rng.IntN(2) == 0 {
			o.Out, o.Back = 20+rng.Float64()*200, 20+rng.Float64()*200
		}
		p, err := newProblem(&g, o)
		if err != nil {
			t.Fatal(err)
		}
		whole := p.try(p.keepAll(), math.MaxInt64)
		for _, share := range []float64{0.9, 0.75, 0.6} {
			target := int64(share * float64(whole.o.peak))
			want := p.exhaust(whole, target)
			if want == nil || want.o.peak > target {
				continue
			}
			if least := p.bound(whole, target); want.o.seconds < least*(1-1e-9) {
				t.Errorf("a plan takes %v s, and none was to take less than %v", want.o.seconds, least)
			}
			n++
			got := p.heuristic(whole, target)
			if got.o.peak > target {
				none++
				continue
			}
			ratio := got.o.seconds / want.o.seconds
			worst = max(worst, ratio)
			if ratio < 1+1e-9 {
				exact++
			}
		}
	}
	t.Logf("of %d plans, %d are the best there is, %d were not found, and the worst takes %.3f times as long", n, exact, none, worst)
	if n < 100 || exact < n*98/100 || none > n/100 || worst > 1.1 {
		t.Error("that is worse than it was")
	}
}
