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
	resident := map[int]int{}   // the value that lies in the memory of each resident one
	over := make(map[int][]int) // of runs: lives that lie in resident memory
	for i, l := range p.Lives {
		if l.Offset < 0 {
			over[l.From] = append(over[l.From], i)
		}
	}
	there := func(v int) bool { // in resident memory
		for root, now := range resident {
			if now == v {
				return g.Values[root].Resident
			}
		}
		return false
	}
	for v, value := range g.Values {
		if value.Resident && writer[v] < 0 {
			resident[v] = v
		}
	}
	host := map[int][]byte{}
	memory := func(l Life) []byte { return block[l.Offset:][:g.Values[l.Value].Bytes] }
	at := map[int]int{} // the life in which a value is there
	for i, l := range p.Lives {
		if l.Scratch || l.Offset < 0 {
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
	waits := map[int]bool{} // lives whose copies have not been waited for
	for r, run := range p.Runs {
		for _, l := range run.Fetch {
			x := p.Lives[l]
			if host[x.Value] == nil || !x.Fetched || x.From != r {
				t.Fatalf("run %d fetches %+v", r, x)
			}
			copy(memory(x), host[x.Value])
			at[x.Value], waits[l] = l, true
		}
		for _, l := range run.Wait {
			if x := p.Lives[l]; x.From > r || x.To < r {
				t.Fatalf("run %d waits for %+v", r, x)
			}
			delete(waits, l)
		}
		op, instead := g.op(run.Op), -1
		if run.Op >= len(g.Ops) {
			instead = g.Again[run.Op-len(g.Ops)].For
		}
		if !run.Again {
			if run.Op != done && instead != done {
				t.Fatalf("operation %d runs, and %d is next", run.Op, done)
			}
			done++
		} else if op.Once || instead >= 0 || run.Op >= done && run.Op < len(g.Ops) {
			t.Fatalf("operation %d runs again", run.Op)
		}
		read := func(v int) []byte {
			if there(v) {
				return want[v]
			}
			l, ok := at[v]
			if !ok || p.Lives[l].To < r || p.Lives[l].From > r || waits[l] {
				t.Fatalf("run %d of %s: %s is not there", r, op.Name, g.Values[v].Name)
			}
			if b := memory(p.Lives[l]); !slices.Equal(b, want[v]) {
				t.Fatalf("run %d of %s: %s was overwritten", r, op.Name, g.Values[v].Name)
			}
			return want[v]
		}
		made := map[int][]byte{}
		if run.Op < len(g.Ops) {
			made = apply(run.Op, read)
		} else {
			for _, v := range op.Reads {
				read(v)
			}
			for _, v := range op.Writes {
				if writer[v] >= done {
					t.Fatalf("run %d of %s writes %s for the first time", r, op.Name, g.Values[v].Name)
				}
				made[v] = want[v]
			}
		}
		for _, v := range op.Writes {
			if g.Values[v].Resident {
				resident[v] = v
			}
		}
		for _, l := range over[r] {
			x := p.Lives[l]
			if !g.Values[x.Over].Resident || g.Values[x.Over].Bytes != g.Values[x.Value].Bytes || made[x.Value] == nil || g.Values[resident[x.Over]].Output {
				t.Fatalf("run %d writes over resident memory: %+v", r, x)
			}
			resident[x.Over] = x.Value
		}
		for l, x := range p.Lives {
			switch {
			case x.From > r || x.To < r || x.Offset < 0:
			case x.Scratch:
				clear(block[x.Offset:][:op.Scratch])
				live += op.Scratch
			default:
				live += g.Values[x.Value].Bytes
				if x.Over >= 0 && x.From == r {
					old := at[x.Over]
					if p.Lives[old].To != r || p.Lives[old].Offset != x.Offset || !slices.Contains(g.Values[x.Value].Over, x.Over) {
						t.Fatalf("run %d writes %+v over %+v", r, x, p.Lives[old])
					}
					live -= g.Values[x.Value].Bytes
				}
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
		if l, ok := at[v]; value.Output && !there(v) && (!ok || p.Lives[l].To != len(p.Runs)-1 || !slices.Equal(memory(p.Lives[l]), want[v])) {
			t.Fatalf("output %s is not there in the end", value.Name)
		}
	}
	if o.Budget > 0 && p.Bytes > o.Budget || p.Live > p.Bytes {
		t.Fatalf("%d bytes of %d, %d at once", p.Bytes, o.Budget, p.Live)
	}
}

// chainOf is n layers, each with a value that its backward pass reads, which the next
// layer reads too.
func chainOf(rng *rand.Rand, n int) Graph {
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

// random is any graph: with values of no bytes or that nobody reads, operations that
// take no time, read a value twice, or neither read nor write.
func random(rng *rand.Rand, n int) Graph {
	var g Graph
	for i := range rng.IntN(4) {
		g.Values = append(g.Values, Value{Name: fmt.Sprint("in", i), Bytes: rng.Int64N(50) * rng.Int64N(2), Resident: rng.IntN(2) == 0, Output: rng.IntN(4) == 0})
	}
	far := 1 + 8*rng.Float64()
	for i := range n {
		op := Op{Name: fmt.Sprint("op", i), Seconds: rng.Float64() * float64(rng.IntN(4)), Scratch: rng.Int64N(20) * rng.Int64N(2), Once: rng.IntN(8) == 0}
		for range min(rng.IntN(5), len(g.Values)) {
			op.Reads = append(op.Reads, len(g.Values)-1-min(len(g.Values)-1, int(rng.ExpFloat64()*far)))
		}
		for k := range rng.IntN(4) {
			op.Writes = append(op.Writes, len(g.Values))
			v := Value{Name: fmt.Sprint("v", i, ".", k), Bytes: rng.Int64N(100) * min(1, rng.Int64N(5)), Output: rng.IntN(10) == 0, Resident: rng.IntN(20) == 0}
			for _, u := range op.Reads {
				if rng.IntN(2) == 0 {
					if v.Over = append(v.Over, u); rng.IntN(3) > 0 {
						v.Bytes = g.Values[u].Bytes
					}
				}
			}
			g.Values = append(g.Values, v)
		}
		g.Ops = append(g.Ops, op)
	}
	return g
}

// others adds other ways to write values of a graph: of any values, or together with an
// operation.
func others(rng *rand.Rand, g *Graph, n int) {
	writer := map[int]int{}
	for i, op := range g.Ops {
		for _, v := range op.Writes {
			writer[v] = i
		}
	}
	if len(g.Values) == 0 {
		return
	}
	for i := range n {
		a := Again{Op: Op{Name: fmt.Sprint("again ", i), Seconds: rng.Float64() / 2, Scratch: rng.Int64N(20) * rng.Int64N(2)}, For: -1}
		v := rng.IntN(len(g.Values))
		w, ok := writer[v]
		if !ok {
			continue
		}
		a.Writes = []int{v}
		if u := rng.IntN(len(g.Values)); u != v {
			a.Reads = append(a.Reads, u)
		}
		if later := w + 1 + rng.IntN(len(g.Ops)-w); later < len(g.Ops) && rng.IntN(2) == 0 {
			op := g.Ops[later]
			if a.Reads = slices.Clone(op.Reads); slices.Contains(a.Reads, v) {
				continue
			}
			a.For, a.Writes, a.Seconds = later, append(a.Writes, op.Writes...), a.Seconds+op.Seconds
			a.Scratch += op.Scratch
		}
		g.Again = append(g.Again, a)
	}
}

// goOn makes operations that run once go on beside others.
func goOn(rng *rand.Rand, g *Graph) {
	for i := range g.Ops {
		if op := &g.Ops[i]; op.Once {
			op.Beside = rng.Float64() * float64(rng.IntN(4))
		}
	}
}

// timed checks when runs begin, and when the step ends, and says for how long it waits for
// what goes on beside operations, if it waits for no copies.
func timed(t *testing.T, g Graph, p *Plan) (waited float64) {
	t.Helper()
	whole := problem{Graph: &g}
	there, end, free := map[int]float64{}, 0.0, 0.0
	for i, r := range p.Runs {
		op, begin := whole.op(r.Op), end
		for _, v := range op.Reads {
			if op.Beside == 0 {
				begin = max(begin, there[v])
			}
		}
		if r.Start < begin-1e-9 || p.HostBytes == 0 && r.Start > begin+1e-9 {
			t.Fatalf("run %d begins at %v s, want %v", i, r.Start, begin)
		}
		waited += begin - end
		end = r.Start + op.Seconds
		if op.Beside > 0 {
			free = max(free, end) + op.Beside
		}
		for _, v := range op.Writes {
			if there[v] = end; op.Beside > 0 {
				there[v] = free
			}
		}
	}
	waited += max(0, free-end)
	if math.Abs(p.Seconds-max(end, free)) > 1e-9 {
		t.Fatalf("the step takes %v s, and ends after %v", p.Seconds, max(end, free))
	}
	if p.HostBytes == 0 && math.Abs(p.Beside-waited) > 1e-9 {
		t.Fatalf("%v s of waiting, want %v", p.Beside, waited)
	}
	return waited
}

// What goes on beside operations is waited for where it is read, and at the end.
func TestBeside(t *testing.T) {
	for _, c := range []struct {
		sums            [2]float64 // how long the first and the second go on
		seconds, beside float64
	}{
		{[2]float64{0, 0}, 5, 0},
		{[2]float64{3, 0.5}, 5, 0},   // until 4 and 4.5, when they are read
		{[2]float64{3, 1}, 5.5, 0.5}, // the second, behind the first, until 5
		{[2]float64{5, 2}, 8.5, 3.5}, // until 6 and 8
		{[2]float64{1, 2.5}, 6, 1},   // until 2 and 5.5
	} {
		var g Graph
		for range 4 {
			g.Values = append(g.Values, Value{Bytes: 8})
		}
		g.Ops = []Op{
			{Seconds: 1, Writes: []int{0}},
			{Once: true, Beside: c.sums[0], Reads: []int{0}, Writes: []int{1}},
			{Seconds: 2, Writes: []int{2}},
			{Once: true, Beside: c.sums[1], Reads: []int{2}, Writes: []int{3}},
			{Seconds: 1},
			{Seconds: 0.5, Reads: []int{1}},
			{Seconds: 0.5, Reads: []int{3}},
		}
		p, err := Make(g, Options{})
		if err != nil {
			t.Fatal(err)
		}
		timed(t, g, p)
		if math.Abs(p.Seconds-c.seconds) > 1e-9 || math.Abs(p.Beside-c.beside) > 1e-9 {
			t.Errorf("%v: %v s, %v of it waiting; want %v and %v", c.sums, p.Seconds, p.Beside, c.seconds, c.beside)
		}
	}
}

// Nobody takes the memory with which an operation goes on before the next of its name, as
// long as the budget has room for that.
func TestBesideKeepsMemory(t *testing.T) {
	g := Graph{Values: []Value{{Bytes: 100}, {Bytes: 10}, {Bytes: 100}, {Bytes: 10}, {Bytes: 100}, {Bytes: 1}}}
	g.Ops = []Op{
		{Seconds: 1, Writes: []int{0}},
		{Name: "sum", Once: true, Beside: 1, Reads: []int{0}, Writes: []int{1}},
		{Name: "gather", Once: true, Beside: 1, Writes: []int{5}},
		{Seconds: 1, Writes: []int{2}},
		{Name: "sum", Once: true, Beside: 1, Reads: []int{2}, Writes: []int{3}},
		{Seconds: 1, Writes: []int{4}},
		{Seconds: 1, Reads: []int{1, 3, 4}},
	}
	for _, budget := range []int64{0, 321, 130} {
		p, err := Make(g, Options{Budget: budget, Align: 1})
		if err != nil {
			t.Fatal(err)
		}
		at := map[int]int64{}
		for _, l := range p.Lives {
			at[l.Value] = l.Offset
		}
		if apart := at[0]+100 <= at[2] || at[2]+100 <= at[0]; apart != (budget != 130) {
			t.Errorf("within %d bytes: at %d and %d of %d", budget, at[0], at[2], p.Bytes)
		}
	}
}

func TestPlansAreRight(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	fit, not, inPlace, inResident, otherwise, together, waits := 0, 0, 0, 0, 0, 0, 0
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	for round := range rounds {
		g := random(rng, 2+rng.IntN(25))
		if round%2 == 0 {
			g = chainOf(rng, 1+rng.IntN(12))
		}
		if round%3 == 0 {
			others(rng, &g, 2*len(g.Ops))
		}
		if round%4 > 1 {
			goOn(rand.New(rand.NewPCG(7, uint64(round))), &g)
		}
		o := Options{Align: 1 + rng.Int64N(3)}
		whole, err := Make(g, o)
		if err != nil {
			t.Fatal(err)
		}
		execute(t, g, whole, o)
		timed(t, g, whole)
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
				if impossible.Found <= o.Budget || impossible.Least > impossible.Found || impossible.Op == "" || !errors.Is(err, ErrBudget) {
					t.Fatalf("%+v", impossible)
				}
			case err != nil:
				t.Fatal(err)
			default:
				fit++
				for _, l := range p.Lives {
					if l.Offset < 0 {
						inResident++
					} else if l.Over >= 0 {
						inPlace++
					}
				}
				for _, r := range p.Runs {
					if r.Op >= len(g.Ops) && r.Again {
						otherwise++
					} else if r.Op >= len(g.Ops) {
						together++
					}
				}
				execute(t, g, p, o)
				if timed(t, g, p) > 0 {
					waits++
				}
				if p.Seconds < whole.Seconds-1e-9 || !(p.Least <= p.Seconds) || o.HostBytes > 0 && p.HostBytes > o.HostBytes {
					t.Fatalf("%v", p)
				}
			}
		}
	}
	t.Logf("%d plans, %d budgets that are too small; %d values written over others, %d over resident ones; %d runs by other ways, %d together with operations",
		fit, not, inPlace, inResident, otherwise, together)
	if inPlace == 0 || inResident == 0 {
		t.Error("nothing was written in place")
	}
	if otherwise == 0 || together == 0 {
		t.Error("no other ways were taken")
	}
	if waits == 0 {
		t.Error("nothing that goes on beside operations was waited for")
	}
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
		g := chainOf(rng, 2+rng.IntN(5))
		if round%4 == 3 {
			g = random(rand.New(rand.NewPCG(5, uint64(round))), 4+round%6)
		}
		if round%5 == 4 {
			others(rand.New(rand.NewPCG(6, uint64(round))), &g, len(g.Ops))
		}
		if round%8 == 7 {
			goOn(rand.New(rand.NewPCG(7, uint64(round))), &g)
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
			if round%4 < 3 {
				worst = max(worst, ratio)
			}
			if ratio < 1+1e-9 {
				exact++
			}
		}
	}
	t.Logf("of %d plans, %d are the best there is, %d were not found, and the worst of a chain takes %.3f times as long", n, exact, none, worst)
	if n < 100 || exact < n*97/100 || none > n/100 || worst > 1.05 {
		t.Error("that is worse than it was")
	}
}

func TestWhatCannotBeRight(t *testing.T) {
	whole := func() (Graph, Options) {
		return Graph{Values: []Value{{Bytes: 8}, {Bytes: 8}}, Ops: []Op{{Seconds: 1, Reads: []int{0}, Writes: []int{1}}, {Reads: []int{1}}}}, Options{Budget: 1 << 20}
	}
	for name, spoil := range map[string]func(g *Graph, o *Options){
		"no operations":              func(g *Graph, o *Options) { g.Ops = nil },
		"an input, no operations":    func(g *Graph, o *Options) { g.Ops, g.Values[0].Output = nil, true },
		"endless operation":          func(g *Graph, o *Options) { g.Ops[0].Seconds = math.Inf(1) },
		"no number":                  func(g *Graph, o *Options) { g.Ops[0].Seconds = math.NaN() },
		"goes on, and runs again":    func(g *Graph, o *Options) { g.Ops[0].Beside = 1 },
		"goes on without end":        func(g *Graph, o *Options) { g.Ops[0].Once, g.Ops[0].Beside = true, math.Inf(1) },
		"negative time":              func(g *Graph, o *Options) { g.Ops[0].Seconds = -1 },
		"negative size":              func(g *Graph, o *Options) { g.Values[0].Bytes = -1 },
		"too large":                  func(g *Graph, o *Options) { g.Values[0].Bytes = math.MaxInt64 },
		"too large together":         func(g *Graph, o *Options) { g.Values[0].Bytes, g.Values[1].Bytes = mostBytes, 1 },
		"too much scratch memory":    func(g *Graph, o *Options) { g.Ops[0].Scratch = math.MaxInt64 },
		"too large when aligned":     func(g *Graph, o *Options) { o.Align = math.MaxInt64 },
		"reads what is not":          func(g *Graph, o *Options) { g.Ops[0].Reads[0] = 2 },
		"over what is not read":      func(g *Graph, o *Options) { g.Values[1].Over = []int{1} },
		"over what is not":           func(g *Graph, o *Options) { g.Values[1].Over = []int{7} },
		"an input over another":      func(g *Graph, o *Options) { g.Values[0].Over = []int{1} },
		"reads a negative index":     func(g *Graph, o *Options) { g.Ops[0].Reads[0] = -1 },
		"writes a negative index":    func(g *Graph, o *Options) { g.Ops[0].Writes[0] = -1 },
		"reads before it is written": func(g *Graph, o *Options) { g.Ops[0].Reads[0] = 1 },
		"written twice":              func(g *Graph, o *Options) { g.Ops[1].Writes = []int{1} },
		"a link of one direction":    func(g *Graph, o *Options) { o.Out = 1 },
		"a link without end":         func(g *Graph, o *Options) { o.Out, o.Back = math.Inf(1), math.Inf(1) },
		"a link that is no number":   func(g *Graph, o *Options) { o.Out, o.Back = math.NaN(), math.NaN() },
		"a negative budget":          func(g *Graph, o *Options) { o.Budget = -1 },
		"again, and endless":         func(g *Graph, o *Options) { g.Again = []Again{{Op: Op{Seconds: math.Inf(1)}, For: -1}} },
		"again once":                 func(g *Graph, o *Options) { g.Again = []Again{{Op: Op{Once: true}, For: -1}} },
		"again what is not":          func(g *Graph, o *Options) { g.Again = []Again{{Op: Op{Writes: []int{2}}, For: -1}} },
		"again of what is not":       func(g *Graph, o *Options) { g.Again = []Again{{Op: Op{Reads: []int{-1}}, For: -1}} },
		"again what is an input":     func(g *Graph, o *Options) { g.Again = []Again{{Op: Op{Writes: []int{0}}, For: -1}} },
		"again of itself":            func(g *Graph, o *Options) { g.Again = []Again{{Op: Op{Reads: []int{1}, Writes: []int{1}}, For: -1}} },
		"in place of what is not":    func(g *Graph, o *Options) { g.Again = []Again{{For: 2}} },
		"in place, and reads less":   func(g *Graph, o *Options) { g.Again = []Again{{For: 1}} },
		"in place, with less memory": func(g *Graph, o *Options) { g.Ops[1].Scratch, g.Again = 8, []Again{{Op: Op{Reads: []int{1}}, For: 1}} },
	} {
		g, o := whole()
		if _, err := Make(g, o); err != nil {
			t.Fatal(err)
		}
		spoil(&g, &o)
		if p, err := Make(g, o); !errors.Is(err, ErrArgument) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	// What is wrong is named alone.
	g, _ := whole()
	for want, o := range map[string]Options{
		"plan: bad argument: a budget of -1 bytes":                                               {Budget: -1, Out: 1},
		"plan: bad argument: at most -2 bytes on the host":                                       {HostBytes: -2},
		"plan: bad argument: an alignment of -3 bytes":                                           {Align: -3},
		"plan: bad argument: copies that take -1 s besides":                                      {Latency: -1},
		"plan: bad argument: a link of -1 bytes/s to the host and 2 back":                        {Out: -1, Back: 2},
		"plan: bad argument: a link of 1 bytes/s to the host and 0 back: both are 0, or neither": {Out: 1},
	} {
		if _, err := Make(g, o); err == nil || err.Error() != want {
			t.Errorf("%v, not %s", err, want)
		}
	}
}

// TestString has plans in which nothing runs again or travels, one value does, and several do.
func TestString(t *testing.T) {
	for want, p := range map[string]Plan{
		"0 B of device memory, 0 B of it resident; at most 0 B in use\n1.00 s a step; no plan takes less than 1.00 s\nnothing travels to the host\n":                                                                                              {Seconds: 1, Least: 1},
		"0 B of device memory, 0 B of it resident; at most 0 B in use\n1.00 s a step, 250 ms of it to run 1 operation again and 500 ms of it to wait for copies; no plan takes less than 1.00 s\na value of 1 KiB travels to the host and back\n": {Seconds: 1, Least: 1, Again: 0.25, Waited: 0.5, HostBytes: 1024, Runs: []Run{{Again: true}}, Lives: []Life{{Sent: true}}},
		"0 B of device memory, 0 B of it resident; at most 0 B in use\n1.00 s a step, 500 ms of it to wait for copies; no plan takes less than 1.00 s\n2 values of 1 KiB travel to the host and back\n":                                           {Seconds: 1, Least: 1, Waited: 0.5, HostBytes: 1024, Lives: []Life{{Sent: true}, {Sent: true}}},
	} {
		if got := p.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
}

// TestImpossible has budgets that values exceed, and one that only their alignment
// exceeds.
func TestImpossible(t *testing.T) {
	g := Graph{Values: []Value{{Bytes: 100, Resident: true}, {Bytes: 3}}, Ops: []Op{{Name: "a", Writes: []int{1}}}}
	for budget, want := range map[int64]ImpossibleError{
		1:   {Budget: 1, Found: 100 + 256, Least: 103, Op: "a"},
		103: {Budget: 103, Found: 100 + 256, Least: 103, Op: "a"},
		355: {Budget: 355, Found: 100 + 256, Least: 103, Op: "a"},
	} {
		_, err := Make(g, Options{Budget: budget})
		var got *ImpossibleError
		if !errors.As(err, &got) || *got != want {
			t.Errorf("%v, not %v", err, &want)
		}
	}
	if _, err := Make(g, Options{Budget: 356}); err != nil {
		t.Error(err)
	}
	// The least is rounded up: a budget of as much as the error says is enough.
	const want = "plan: the step does not fit its budget of 5 MiB; the least that was found is 5.01 MiB, and none can have less than 4 MiB, for a"
	if text := (&ImpossibleError{Budget: 5 << 20, Found: 5<<20 + 1, Least: 4 << 20, Op: "a"}).Error(); text != want {
		t.Errorf("%q, not %q", text, want)
	}
	// What cannot be computed again stays without a link.
	g = Graph{Values: []Value{{Bytes: 100}, {Bytes: 100}, {Bytes: 1}}, Ops: []Op{{Writes: []int{0}, Once: true}, {Name: "middle", Writes: []int{1}}, {Reads: []int{1}, Writes: []int{2}}, {Reads: []int{0, 2}}}}
	if _, err := Make(g, Options{Budget: 150, Align: 1}); !errors.As(err, new(*ImpossibleError)) || err.(*ImpossibleError).Least != 201 {
		t.Errorf("%v", err)
	}
	if _, err := Make(g, Options{Budget: 150, Align: 1, Out: 1, Back: 1}); err != nil {
		t.Error(err)
	}
	// Outputs stay.
	g = Graph{Values: []Value{{Bytes: 100, Output: true}, {Bytes: 100, Output: true}, {Bytes: 1}}, Ops: []Op{{Writes: []int{0}}, {Writes: []int{1}}, {Name: "last", Writes: []int{2}}}}
	_, err := Make(g, Options{Budget: 150, Align: 1})
	var got *ImpossibleError
	if !errors.As(err, &got) || got.Least != 201 || got.Found != 201 || got.Op != "last" {
		t.Errorf("%+v", err)
	}
}

// TestImpossibleChain asks what the least is that a chain of equal layers takes: the same
// for all budgets that are too small, and it is enough.
func TestImpossibleChain(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	g := chainOf(rand.New(rand.NewPCG(1, 1)), 64)
	for i := range g.Values {
		g.Values[i].Bytes = 1024
	}
	found := int64(0)
	for _, budget := range []int64{1, 3000, 4096, 8192, 12000} {
		_, err := Make(g, Options{Budget: budget})
		var got *ImpossibleError
		if !errors.As(err, &got) {
			t.Fatalf("%d bytes: %v", budget, err)
		}
		if found != 0 && got.Found != found {
			t.Errorf("%d bytes do not fit, and the least is %d; of another budget, it was %d", budget, got.Found, found)
		}
		found = got.Found
	}
	if _, err := Make(g, Options{Budget: found}); err != nil {
		t.Errorf("the least that was found does not fit: %v", err)
	}
	if _, err := Make(g, Options{Budget: found - 1024}); err == nil {
		t.Errorf("%d bytes were to be the least, and a layer less fits", found)
	}
}

// TestWritesInPlace plans an update of weights in whose chain every operation may
// write over what it reads: it takes no memory but that of the gradient.
func TestWritesInPlace(t *testing.T) {
	g := Graph{
		Values: []Value{
			{Name: "w", Bytes: 100, Resident: true},
			{Name: "x", Bytes: 10},
			{Name: "gradient", Bytes: 100},
			{Name: "scaled", Bytes: 100, Over: []int{2}},
			{Name: "clipped", Bytes: 100, Over: []int{3}},
			{Name: "new w", Bytes: 100, Output: true, Over: []int{0, 4}},
		},
		Ops: []Op{
			{Name: "backward", Seconds: 1, Reads: []int{0, 1}, Writes: []int{2}},
			{Name: "scale", Seconds: 1, Reads: []int{2}, Writes: []int{3}},
			{Name: "clip", Seconds: 1, Reads: []int{3}, Writes: []int{4}},
			{Name: "update", Seconds: 1, Reads: []int{0, 4}, Writes: []int{5}},
		},
	}
	p, err := Make(g, Options{Align: 1})
	if err != nil {
		t.Fatal(err)
	}
	execute(t, g, p, Options{})
	if p.Bytes != 100+110 || p.Resident != 100 {
		t.Errorf("%v", p)
	}
	// What is read once more is not written over.
	g.Ops = append(g.Ops, Op{Name: "norm", Seconds: 1, Reads: []int{0, 3}, Writes: nil})
	if p, err = Make(g, Options{Align: 1}); err != nil {
		t.Fatal(err)
	}
	execute(t, g, p, Options{})
	if p.Bytes != 100+200 {
		t.Errorf("%v", p)
	}
	// Nothing runs again that reads the old weights when the new ones are there.
	g = Graph{
		Values: []Value{
			{Name: "w", Bytes: 10, Resident: true},
			{Name: "big", Bytes: 100},
			{Name: "new w", Bytes: 10, Output: true, Over: []int{0}},
			{Name: "other", Bytes: 100},
			{Name: "sum", Bytes: 1, Output: true},
		},
		Ops: []Op{
			{Name: "make", Seconds: 1, Reads: []int{0}, Writes: []int{1}},
			{Name: "update", Seconds: 1, Reads: []int{0}, Writes: []int{2}},
			{Name: "between", Seconds: 1, Writes: []int{3}},
			{Name: "use", Seconds: 1, Reads: []int{3}},
			{Name: "last", Seconds: 1, Reads: []int{1}, Writes: []int{4}},
		},
	}
	if p, err := Make(g, Options{Align: 1, Budget: 150}); !errors.Is(err, ErrBudget) {
		t.Errorf("%v, %v", p, err)
	}
	g.Values[2].Over = nil
	p, err = Make(g, Options{Align: 1, Budget: 150})
	if err != nil {
		t.Fatal(err)
	}
	execute(t, g, p, Options{Budget: 150})
}
