package outofcore

import (
	"math"

	"github.com/pinion-gpu/pinion/dtype"
)

// never is the next use of a tile that is not used again.
const never = math.MaxInt

// place is where a tile of A or B is, and when it is wanted.
type place struct {
	slot int // -1: nowhere
	last int // the newest step that uses it
	next int // the next one
	at   int // in the list of resident tiles
}

// vacancy is a slot that is free behind a step or a store.
type vacancy struct{ slot, after int }

// vacancies are the free slots.
type vacancies []vacancy

// take returns the one that is free first.
func (v *vacancies) take() vacancy {
	best := 0
	for n, free := range *v {
		if free.after < (*v)[best].after {
			best = n
		}
	}
	free := (*v)[best]
	(*v)[best] = (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return free
}

func allVacant(n int64) vacancies {
	v := make(vacancies, n)
	for i := range v {
		v[i] = vacancy{i, -1}
	}
	return v
}

// shelf is where tiles of A, of B or of both are.
type shelf struct {
	free     vacancies
	resident []int // of places
	capacity int   // of resident tiles
}

// simulate makes the plan of a kind: it decides which tile is where and when,
// and adds up what that takes.
func (p *Problem) simulate(k kind) *Plan {
	plan := &Plan{Problem: *p, TileM: k.m, TileN: k.n, TileK: k.depth, SplitK: k.depth < p.K}
	mt, nt, kt := plan.tiles()
	sizes := p.slotSizes(k.m, k.n, k.depth)
	plan.Narrow = sizes.narrow
	plan.Sums = Slots{min(int64(k.sums), int64(mt)*int64(nt)), sizes.sum}
	all := [2]int{mt * kt, nt * kt}
	if k.slots[matrixB] == 0 {
		all = [2]int{(mt + nt) * kt, 0}
	}
	var shelves [2]shelf
	for of, slots := range []*Slots{&plan.A, &plan.B} {
		n := k.slots[of]
		shelves[of].capacity = n - k.window[of]
		if n >= all[of] {
			n = all[of]
			shelves[of].capacity = n
		}
		if n > 0 {
			*slots = Slots{int64(n), sizes.factors[of]}
		}
		shelves[of].free = allVacant(int64(n))
	}
	shelfOf := func(of matrix) *shelf {
		if plan.B.Count == 0 {
			of = matrixA
		}
		return &shelves[of]
	}
	order := k.order(mt, nt, kt)

	// When is each tile used next, seen from each step?
	index := func(c cell) (a, b int) { return c.i*kt + c.l, (mt+c.j)*kt + c.l }
	nextUse := make([]int, (mt+nt)*kt)
	for n := range nextUse {
		nextUse[n] = never
	}
	nextA, nextB := make([]int, len(order)), make([]int, len(order))
	for s := len(order) - 1; s >= 0; s-- {
		a, b := index(order[s])
		nextA[s], nextB[s] = nextUse[a], nextUse[b]
		nextUse[a], nextUse[b] = s, s
	}

	places := make([]place, len(nextUse))
	for n := range places {
		places[n].slot = -1
	}
	leave := func(on *shelf, t int) {
		was := &places[t]
		on.free = append(on.free, vacancy{was.slot, was.last})
		was.slot = -1
		moved := on.resident[len(on.resident)-1]
		on.resident[was.at], places[moved].at = moved, was.at
		on.resident = on.resident[:len(on.resident)-1]
	}
	bring := func(is tile, v vacancy) {
		plan.loads = append(plan.loads, load{is, v.slot, v.after})
		plan.Moved[is.of].H2DBytes += plan.bytes(is)
	}
	// use makes a tile resident for step s, beside the other tile of the step.
	use := func(s, t, other, next int, is tile) int {
		on := shelfOf(is.of)
		if places[t].slot < 0 {
			for len(on.resident) >= on.capacity || len(on.free) == 0 {
				victim := -1
				for _, r := range on.resident {
					if r != other && (victim < 0 || places[r].next > places[victim].next) {
						victim = r
					}
				}
				leave(on, victim)
			}
			v := on.free.take()
			places[t].slot, places[t].at = v.slot, len(on.resident)
			on.resident = append(on.resident, t)
			bring(is, v)
		}
		places[t].last, places[t].next = s, next
		return places[t].slot
	}

	// Sums are free again behind a store; narrowed ones at once, for products
	// run in order, and the tiles that they become and come from are elsewhere.
	sums, goOut, comeIn := allVacant(plan.Sums.Count), allVacant(min(plan.Narrow.Count, narrowOut)), allVacant(narrowIn)
	for n := range comeIn {
		comeIn[n].slot += narrowOut
	}
	type sum struct{ slot, left int } // left: products
	live := make([]sum, mt*nt)
	plan.steps = make([]step, len(order))
	for s, c := range order {
		at := step{i: c.i, j: c.j, l: c.l, after: -1, store: -1}
		a, b := index(c)
		at.a = use(s, a, b, nextA[s], tile{matrixA, c.i, c.l})
		at.b = use(s, b, a, nextB[s], tile{matrixB, c.l, c.j})
		here, is := &live[c.i*nt+c.j], tile{matrixC, c.i, c.j}
		if here.left == 0 {
			v := sums.take()
			*here = sum{v.slot, kt}
			at.first, at.after = true, v.after
			if p.ReadC {
				if plan.narrows() {
					v = comeIn.take()
					at.narrow = v.slot
					comeIn = append(comeIn, vacancy{v.slot, s})
				}
				bring(is, v)
			}
		}
		at.c = here.slot
		at.loads = len(plan.loads)
		if here.left--; here.left == 0 {
			at.last, at.store = true, plan.stores
			if plan.narrows() {
				v := goOut.take()
				at.narrow, at.after = v.slot, v.after
				goOut = append(goOut, vacancy{v.slot, plan.stores})
				sums = append(sums, vacancy{at.c, -1})
			} else {
				sums = append(sums, vacancy{at.c, plan.stores})
			}
			plan.stores++
			plan.Moved[matrixC].D2HBytes += plan.bytes(is)
		}
		plan.steps[s] = at
		for of, t := range []int{a, b} { // what is not used again makes room at once
			if places[t].next == never {
				leave(shelfOf(matrix(of)), t)
			}
		}
	}
	plan.Products = len(order)
	for of := range plan.Moved {
		m := &plan.Moved[of]
		m.RowBytes = p.rowBytes(matrix(of), plan.TileM, plan.TileN, plan.TileK)
		plan.H2DBytes += m.H2DBytes
		plan.D2HBytes += m.D2HBytes
	}
	plan.time()
	return plan
}

// tiles are the numbers of tiles in each direction.
func (p *Plan) tiles() (mt, nt, kt int) {
	return int(ceil(p.Problem.M, p.TileM)), int(ceil(p.Problem.N, p.TileN)), int(ceil(p.Problem.K, p.TileK))
}

// extent is the first row and column of op(matrix) that a tile has, and how
// many.
func (p *Plan) extent(t tile) (row, column, rows, columns int64) {
	high, wide := p.TileM, p.TileN
	m, n := p.Problem.M, p.Problem.N
	switch t.of {
	case matrixA:
		wide, n = p.TileK, p.Problem.K
	case matrixB:
		high, m = p.TileK, p.Problem.K
	}
	row, column = int64(t.row)*high, int64(t.column)*wide
	return row, column, min(high, m-row), min(wide, n-column)
}

func (p *Plan) bytes(t tile) int64 {
	_, _, rows, columns := p.extent(t)
	return rows * columns * int64(p.Problem.Type.Size())
}

// duplex is the share of both directions' rates that the link carries together:
// of PCIe 5, 97 GB/s of 110. Copies that are slower for other reasons, as those
// of rows with gaps, do not slow each other.
const duplex = 0.88

// together is how many times longer copies in and out take beside each other,
// for bytes that alone take so many seconds: as long as both directions are
// busy, both may be slower.
func (p *Problem) together(inBytes, in, outBytes, out float64) (slowIn, slowOut float64) {
	most := min(in, out) * max((inBytes/in+outBytes/out)/(duplex*(p.H2DRate+p.D2HRate))-1, 0)
	return 1 + most/in, 1 + most/out
}

// time runs the plan by the rates: three queues that wait for each other.
func (p *Plan) time() {
	p.Lanes = Lanes{}
	q, lanes := &p.Problem, &p.Lanes
	rate := func(of matrix, toHost bool) float64 { return q.rate(of, p.TileM, p.TileN, p.TileK, toHost) }
	var loading [3]float64 // seconds a byte
	alone := 0.0           // seconds of all copies in, if nothing went out
	for of, m := range p.Moved {
		loading[of] = 1 / rate(matrix(of), false)
		alone += float64(m.H2DBytes) * loading[of]
	}
	storing := 1 / rate(matrixC, true)
	slowIn, slowOut := q.together(float64(p.H2DBytes), alone, float64(p.D2HBytes), float64(p.D2HBytes)*storing)
	storing *= slowOut
	for of := range p.Moved {
		m := &p.Moved[of]
		loading[of] *= slowIn
		m.H2DSeconds, m.D2HSeconds = float64(m.H2DBytes)*loading[of], float64(m.D2HBytes)*storing
	}

	in, compute, out := &lanes.In, &lanes.Products, &lanes.Out
	loaded, stepped := make([]float64, len(p.loads)), make([]float64, len(p.steps))
	stored := make([]float64, 0, p.stores)
	next := 0
	for s, at := range p.steps {
		for ; next < at.loads; next++ {
			l := p.loads[next]
			free := 0.0
			if l.after >= 0 {
				if p.behindStore(l) {
					free = stored[l.after]
				} else {
					free = stepped[l.after]
				}
			}
			loaded[next] = in.add(free, float64(p.bytes(l.tile))*loading[l.tile.of])
		}
		ready := 0.0
		if at.loads > 0 {
			ready = loaded[at.loads-1]
		}
		if at.after >= 0 {
			ready = max(ready, stored[at.after])
		}
		_, _, rows, depth := p.extent(tile{matrixA, at.i, at.l})
		_, _, _, columns := p.extent(tile{matrixB, at.l, at.j})
		stepped[s] = compute.add(ready, q.stepSeconds(rows, columns, depth, !at.first, at.last && p.narrows()))
		if at.last {
			stored = append(stored, out.add(stepped[s], float64(p.bytes(tile{matrixC, at.i, at.j}))*storing))
		}
	}
	p.Seconds = max(compute.Ended, out.Ended)
}

// behindStore reports whether a load waits for a store, and not for a step.
func (p *Plan) behindStore(l load) bool { return l.tile.of == matrixC && !p.narrows() }

// narrows reports whether C is summed in float32 and narrowed at the end.
func (p *Plan) narrows() bool { return p.SplitK && p.Problem.Type == dtype.BF16 }
