package outofcore

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// audit carries a plan out on names of tiles, with the worst timing that its
// dependencies allow, and finds what is wrong.
func audit(p *Plan) error {
	mt, nt, kt := p.tiles()
	if p.DeviceBytes() > p.Problem.DeviceBytes {
		return fmt.Errorf("it takes %d bytes of %d", p.DeviceBytes(), p.Problem.DeviceBytes)
	}
	none := tile{of: 99}
	// Slots of A and B have numbers of their own, or share those of A.
	type slot struct{ shelf, number int }
	slotOf := func(of matrix, number int) slot {
		if of == matrixB && p.B.Count > 0 {
			return slot{1, number}
		}
		return slot{0, number}
	}
	factors, lastUse := map[slot]tile{}, map[slot]int{}
	for shelf, slots := range []Slots{p.A, p.B} {
		for n := range int(slots.Count) {
			factors[slot{shelf, n}], lastUse[slot{shelf, n}] = none, -1
		}
	}
	sums, lastStore := make([]tile, p.Sums.Count), make([]int, p.Sums.Count)
	for i := range lastStore {
		lastStore[i] = -1
	}
	for i := range sums {
		sums[i] = none
	}
	type cellKey struct{ i, j, l int }
	done := map[cellKey]bool{}
	count := map[[2]int]int{}
	// Narrow slots: what came in and is not read yet, and how each was used last.
	narrow := make([]tile, p.Narrow.Count)
	narrowStep, narrowStore := make([]int, p.Narrow.Count), make([]int, p.Narrow.Count)
	for i := range narrow {
		narrow[i], narrowStep[i], narrowStore[i] = none, -1, -1
	}
	loaded, stores := 0, 0
	var h2d, d2h int64
	for n, s := range p.steps {
		for ; loaded < s.loads; loaded++ {
			l := p.loads[loaded]
			h2d += p.bytes(l.tile)
			if l.tile.of == matrixC && p.narrows() {
				if narrow[l.slot] != none || narrowStore[l.slot] >= 0 || l.after < narrowStep[l.slot] || l.after >= n {
					return fmt.Errorf("load %d of %v overwrites a tile that is not read yet", loaded, l.tile)
				}
				narrow[l.slot] = l.tile
				continue
			}
			if l.tile.of == matrixC {
				if sums[l.slot] != none || l.after < lastStore[l.slot] || l.after >= stores {
					return fmt.Errorf("load %d of %v overwrites a live sum, or one that is on its way (store %d, it waits for %d of %d)",
						loaded, l.tile, lastStore[l.slot], l.after, stores)
				}
				continue
			}
			at := slotOf(l.tile.of, l.slot)
			if used, there := lastUse[at]; !there || l.after < used || l.after >= n {
				return fmt.Errorf("load %d of %v into slot %v waits for step %d; the slot is used until %d, and step %d needs it",
					loaded, l.tile, at, l.after, used, n)
			}
			if need := p.TileK * int64(p.Problem.Type.Size()); at.shelf == 0 && l.tile.of == matrixA && p.A.Bytes < p.TileM*need ||
				l.tile.of == matrixB && []int64{p.A.Bytes, p.B.Bytes}[at.shelf] < p.TileN*need {
				return fmt.Errorf("load %d of %v goes to slots of %d and %d bytes", loaded, l.tile, p.A.Bytes, p.B.Bytes)
			}
			factors[at] = l.tile
		}
		a, b, c := tile{matrixA, s.i, s.l}, tile{matrixB, s.l, s.j}, tile{matrixC, s.i, s.j}
		atA, atB := slotOf(matrixA, s.a), slotOf(matrixB, s.b)
		if factors[atA] != a || factors[atB] != b || atA == atB {
			return fmt.Errorf("step %d finds %v and %v, wants %v and %v", n, factors[atA], factors[atB], a, b)
		}
		lastUse[atA], lastUse[atB] = n, n
		if s.first {
			if sums[s.c] != none || s.after < lastStore[s.c] || s.after >= stores {
				return fmt.Errorf("step %d overwrites a live sum, or one that is on its way", n)
			}
			sums[s.c] = c
			if p.narrows() && p.Problem.ReadC {
				if narrow[s.narrow] != c {
					return fmt.Errorf("step %d finds %v, wants %v", n, narrow[s.narrow], c)
				}
				narrow[s.narrow], narrowStep[s.narrow] = none, n
			}
		}
		if sums[s.c] != c || s.first != (count[[2]int{s.i, s.j}] == 0) || s.last != (count[[2]int{s.i, s.j}] == kt-1) {
			return fmt.Errorf("step %d: slot %d holds %v, want %v; it is product %d of %d", n, s.c, sums[s.c], c, count[[2]int{s.i, s.j}], kt)
		}
		count[[2]int{s.i, s.j}]++
		if done[cellKey{s.i, s.j, s.l}] {
			return fmt.Errorf("step %d is done twice", n)
		}
		done[cellKey{s.i, s.j, s.l}] = true
		if s.last {
			if s.store != stores {
				return fmt.Errorf("step %d is store %d, want %d", n, s.store, stores)
			}
			sums[s.c] = none
			if p.narrows() {
				if narrow[s.narrow] != none || narrowStep[s.narrow] >= 0 || s.after < narrowStore[s.narrow] || s.after >= stores {
					return fmt.Errorf("step %d overwrites a tile that is on its way", n)
				}
				narrowStore[s.narrow] = stores
			} else {
				lastStore[s.c] = stores
			}
			stores++
			d2h += p.bytes(c)
		}
	}
	switch {
	case len(done) != mt*nt*kt || p.Products != len(done) || stores != mt*nt || p.stores != stores || loaded != len(p.loads):
		return fmt.Errorf("%d products of %d, %d stores of %d, %d loads of %d", len(done), mt*nt*kt, stores, mt*nt, loaded, len(p.loads))
	case h2d != p.H2DBytes || d2h != p.D2HBytes:
		return fmt.Errorf("it moves %d and %d bytes, and says %d and %d", h2d, d2h, p.H2DBytes, p.D2HBytes)
	}
	return nil
}

// TestPlans: every plan, of every kind, is in order, and no plan moves less
// than the floor.
func TestPlans(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	audited, refused, rounds := 0, 0, 300
	if testing.Short() {
		rounds = 50
	}
	for range rounds {
		dim := func() int64 { return 1 + random.Int64N(int64(1)<<(1+random.IntN(12))) }
		p := Problem{M: dim(), N: dim(), K: dim(), Type: dtype.F32, ReadC: random.IntN(3) == 0, H2DRate: 50e9, D2HRate: 40e9}
		for i := range random.IntN(speedSides + 1) {
			p.Speed.FlopRate[i] = math.Pow(10, 9+6*random.Float64())
		}
		p.TransA, p.TransB = random.IntN(2) == 0, random.IntN(2) == 0
		for i := range p.RowShare {
			for k := range random.IntN(len(p.RowShare[i]) + 1) {
				p.RowShare[i][k] = 0.1 + 0.9*random.Float64()
			}
		}
		p.Speed.AddSeconds = float64(random.IntN(2)) * 1e-12
		if random.IntN(2) == 0 {
			p.Type = dtype.BF16
		}
		data := (p.M*p.K + p.K*p.N + p.M*p.N) * int64(p.Type.Size())
		p.DeviceBytes = int64(float64(data)*math.Pow(2, 1-7*random.Float64())) + 4096
		best, err := MakePlan(p)
		if errors.Is(err, ErrBudget) {
			refused++
			continue
		}
		testkit.OK(t, err)
		plans := []*Plan{best}
		for _, k := range best.Problem.kinds(manySteps) {
			if random.IntN(20) == 0 {
				plans = append(plans, best.Problem.simulate(k))
			}
		}
		floor := best.Problem.Floor()
		for _, plan := range plans {
			audited++
			if err := audit(plan); err != nil {
				t.Fatalf("%+v: tiles %d x %d x %d, %v, %v, %v slots: %v", p, plan.TileM, plan.TileN, plan.TileK, plan.A, plan.B, plan.Sums, err)
			}
			if plan.H2DBytes < floor.H2DBytes || plan.D2HBytes < floor.D2HBytes || plan.H2DBytes+plan.D2HBytes < floor.BothBytes ||
				plan.Seconds < floor.Seconds() {
				t.Fatalf("%+v: the plan moves %d and %d bytes in %v s, the floor is %+v", p, plan.H2DBytes, plan.D2HBytes, plan.Seconds, floor)
			}
		}
	}
	if audited < rounds || refused > rounds/2 {
		t.Errorf("%d plans were looked at, %d problems refused", audited, refused)
	}
}

// tiny is a problem of mt x nt x kt elements with tiles of one.
func tiny(mt, nt, kt, slots, sums int) *Problem {
	return &Problem{M: int64(mt), N: int64(nt), K: int64(kt), Type: dtype.F32, H2DRate: 1e9, D2HRate: 1e9,
		DeviceBytes: int64(slots+sums) * slotAlign}
}

// leastOfOrder is the fewest loads of any replacement, for an order.
func leastOfOrder(order []cell, mt, nt, kt, capacity int) int {
	now := map[uint32]int{0: 0} // resident tiles, and loads so far
	for _, c := range order {
		need := uint32(1)<<(c.i*kt+c.l) | uint32(1)<<((mt+c.j)*kt+c.l)
		next := map[uint32]int{}
		for resident, loads := range now {
			with := resident | need
			loads += bits.OnesCount32(need &^ resident)
			// Any of the others may leave.
			others := with &^ need
			for keep := others; ; keep = (keep - 1) & others {
				if set := keep | need; bits.OnesCount32(set) <= capacity {
					if had, ok := next[set]; !ok || loads < had {
						next[set] = loads
					}
				}
				if keep == 0 {
					break
				}
			}
		}
		now = next
	}
	least := math.MaxInt
	for _, loads := range now {
		least = min(least, loads)
	}
	return least
}

// TestReplacement: for an order, no replacement loads less than that of the
// plan.
func TestReplacement(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	for range 300 {
		mt, nt, kt := 1+random.IntN(4), 1+random.IntN(4), 1+random.IntN(2)
		window := random.IntN(2)
		slots := 2 + window + random.IntN(5)
		k := kind{m: 1, n: 1, depth: 1, rows: 1 + random.IntN(mt), columns: 1 + random.IntN(nt), group: 1 + random.IntN(3),
			slots: [2]int{slots}, window: [2]int{window}, sums: sumSlots, swapped: random.IntN(2) == 0}
		if kt > 1 {
			k.sums = k.rows*k.columns + 1
		}
		if kt > 1 && k.swapped {
			continue // a square's sums; the block is turned
		}
		p := tiny(mt, nt, kt, slots, min(k.sums, mt*nt))
		plan := p.simulate(k)
		testkit.OK(t, audit(plan))
		capacity := slots - window
		if slots >= (mt+nt)*kt {
			capacity = (mt + nt) * kt
		}
		if want := leastOfOrder(k.order(mt, nt, kt), mt, nt, kt, capacity); len(plan.loads) != want {
			t.Fatalf("%d x %d x %d, %d slots, window %d, %+v: %d loads, want %d", mt, nt, kt, slots, window, k, len(plan.loads), want)
		}
	}
}

// leastOfAll is the fewest loads of any order and replacement, by Dijkstra's
// algorithm on what is done and what is resident.
func leastOfAll(mt, nt, capacity int) int {
	type state struct{ done, resident uint32 }
	all := uint32(1)<<(mt*nt) - 1
	// Between two loads, everything that can be done is done.
	settle := func(s state) state {
		for i := range mt {
			for j := range nt {
				if s.resident>>i&1 == 1 && s.resident>>(mt+j)&1 == 1 {
					s.done |= 1 << (i*nt + j)
				}
			}
		}
		return s
	}
	layer := map[state]bool{{}: true}
	seen := map[state]bool{}
	for loads := 0; ; loads++ {
		next := map[state]bool{}
		for s := range layer {
			if s.done == all {
				return loads
			}
			if seen[s] {
				continue
			}
			seen[s] = true
			for t := range mt + nt {
				if s.resident>>t&1 == 1 {
					continue
				}
				if bits.OnesCount32(s.resident) < capacity {
					next[settle(state{s.done, s.resident | 1<<t})] = true
					continue
				}
				for v := range mt + nt {
					if s.resident>>v&1 == 1 {
						next[settle(state{s.done, s.resident&^(1<<v) | 1<<t})] = true
					}
				}
			}
		}
		layer = next
	}
}

// TestBands: bands come near the best of all orders, found by brute force.
func TestBands(t *testing.T) {
	exact, all := 0, 0
	for mt := 1; mt <= 3; mt++ {
		for nt := 1; nt <= 4; nt++ {
			for capacity := 2; capacity <= mt+nt; capacity++ {
				want := leastOfAll(mt, nt, capacity)
				least := math.MaxInt
				for _, swapped := range []bool{false, true} {
					for group := 1; group <= 2; group++ {
						rows := mt
						if swapped {
							rows = nt
						}
						for ; rows >= 1; rows-- {
							p := tiny(mt, nt, 1, capacity, min(sumSlots, mt*nt))
							plan := p.simulate(kind{m: 1, n: 1, depth: 1, slots: [2]int{capacity}, sums: sumSlots,
								rows: rows, columns: nt, group: group, swapped: swapped})
							testkit.OK(t, audit(plan))
							least = min(least, len(plan.loads))
						}
					}
				}
				all++
				if least == want {
					exact++
				}
				if least < want || least > want+1 {
					t.Errorf("%d x %d tiles in %d slots: %d loads, the least possible is %d", mt, nt, capacity, least, want)
				}
			}
		}
	}
	t.Logf("%d of %d are the least possible", exact, all)
	if exact*10 < all*8 {
		t.Errorf("only %d of %d are the least possible", exact, all)
	}
}

// TestSame: a plan is a function of its problem.
func TestSame(t *testing.T) {
	p := Problem{M: 5000, N: 3000, K: 4000, Type: dtype.BF16, DeviceBytes: 20 << 20}
	a, err := MakePlan(p)
	testkit.OK(t, err)
	b, err := MakePlan(p)
	testkit.OK(t, err)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Error("two plans of one problem differ")
	}
}

// TestLittleMemory: where the usual number of products is not enough, there are
// more.
func TestLittleMemory(t *testing.T) {
	p := Problem{M: 128 << 10, N: 128 << 10, K: 128 << 10, Type: dtype.F32, DeviceBytes: 128 << 20}
	plan, err := MakePlan(p)
	testkit.OK(t, err)
	testkit.OK(t, audit(plan))
	if plan.Products <= manySteps {
		t.Errorf("%d products: the test is too easy", plan.Products)
	}
}

func TestBadProblems(t *testing.T) {
	good := Problem{M: 10, N: 10, K: 10, Type: dtype.F32, DeviceBytes: 1 << 20}
	for name, change := range map[string]func(p *Problem){
		"M":     func(p *Problem) { p.M = 0 },
		"K":     func(p *Problem) { p.K = -1 },
		"type":  func(p *Problem) { p.Type = dtype.F64 },
		"large": func(p *Problem) { p.M, p.N = 1<<40, 1<<40 },
		"bytes": func(p *Problem) { p.DeviceBytes = -1 },
	} {
		p := good
		change(&p)
		if _, err := MakePlan(p); !errors.Is(err, device.ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good.DeviceBytes = 0
	if _, err := MakePlan(good); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
}
