package forecast

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/internal/workload"
)

// policy says which array leaves: the one with the largest distance.
type policy interface {
	use(x int, now int64)
	distance(x int, now int64) float64
}

// misses is how often a policy with room for so many arrays misses in the last three
// quarters of a trace.
func misses(p policy, trace []int, n, room int) int {
	in := make([]bool, n)
	var held []int
	missed := 0
	for i, x := range trace {
		now := int64(i)
		if !in[x] {
			if i >= len(trace)/4 {
				missed++
			}
			if len(held) == room {
				worst := 0
				for j := range held {
					if p.distance(held[j], now) > p.distance(held[worst], now) {
						worst = j
					}
				}
				in[held[worst]] = false
				held[worst] = held[room-1]
				held = held[:room-1]
			}
			held, in[x] = append(held, x), true
		}
		p.use(x, now)
	}
	return missed
}

// ours is the policy of the store: what Reuse says.
type ours struct {
	of    []Reuse
	clock Clock
}

func (p *ours) use(x int, now int64) {
	p.clock.Now = now
	p.of[x].Use(&p.clock)
}

func (p *ours) distance(x int, now int64) float64 {
	p.clock.Now = now
	return p.of[x].Next(&p.clock)
}

// lru is least recently used.
type lru []int64

func (p lru) use(x int, now int64)              { p[x] = now }
func (p lru) distance(x int, now int64) float64 { return float64(now - p[x]) }

// lruK goes by the second newest use (O'Neil et al., LRU-2).
type lruK [][2]int64

func (p lruK) use(x int, now int64)              { p[x] = [2]int64{p[x][1], now} }
func (p lruK) distance(x int, now int64) float64 { return float64(now - p[x][0]) }

// lfu counts, halving nothing.
type lfu []int

func (p lfu) use(x int, _ int64)              { p[x]++ }
func (p lfu) distance(x int, _ int64) float64 { return -float64(p[x]) }

// belady knows the trace.
type belady struct{ order *Order[int] }

func (p belady) use(x int, _ int64)              { p.order.Use(x) }
func (p belady) distance(x int, _ int64) float64 { return p.order.Next(x) }

// The figures of this test are why Reuse is as it is: run it with -v.
func TestPolicies(t *testing.T) {
	const n, length, room = 128, 10000, 64
	r := rand.New(rand.NewPCG(1, 2))
	loop, scans, moving := make([]int, length), workload.ByRank(r, n, length, 1), []int(nil)
	for i := range loop {
		loop[i] = i % n
		if i%1000 >= 1000-n { // now and then somebody looks at everything
			scans[i] = i % n
		}
	}
	for range 5 {
		moving = append(moving, workload.ByRank(r, n, length/5, 1)...)
	}
	var back []int
	for len(back) < length {
		for i := range n {
			back = append(back, i)
		}
		for i := range n {
			back = append(back, n-1-i)
		}
	}
	for _, c := range []struct {
		name  string
		trace []int
		most  float64 // misses of ours, as a share of those of LRU
	}{
		{"zipf 0.8", workload.ByRank(r, n, length, 0.8), 0.8},
		{"zipf 1.0", workload.ByRank(r, n, length, 1), 0.75},
		{"zipf 1.2", workload.ByRank(r, n, length, 1.2), 0.75},
		{"zipf and scans", scans, 0.7},
		{"moving zipf", moving, 0.95},
		{"loop", loop, 0.6},
		{"there and back", back, 1.05},
	} {
		own := misses(&ours{make([]Reuse, n), Clock{HalfLife: halfLives * n}}, c.trace, n, room)
		recent := misses(make(lru, n), c.trace, n, room)
		best := misses(belady{NewOrder(c.trace, func(int) int64 { return 1 }, false)}, c.trace, n, room)
		t.Logf("%-15s best %5d, ours %5d, LRU %5d, LRU-2 %5d, LFU %5d", c.name, best, own, recent,
			misses(make(lruK, n), c.trace, n, room), misses(make(lfu, n), c.trace, n, room))
		if float64(own) > c.most*float64(recent) || best > own {
			t.Errorf("%s: %d misses, %d of LRU, %d of the best", c.name, own, recent, best)
		}
	}
}

const halfLives = 4 // as in package tier

func TestNeverUsed(t *testing.T) {
	var r Reuse
	if !math.IsInf(r.Next(&Clock{Now: 5, HalfLife: 10}), 1) {
		t.Error("an array that was never used is expected")
	}
	r.Use(&Clock{Now: 5, HalfLife: 10})
	near, far := r.Next(&Clock{Now: 6, HalfLife: 10}), r.Next(&Clock{Now: 60, HalfLife: 10})
	if near <= 0 || far <= near || r.Last() != 5 {
		t.Error(near, far, r.Last())
	}
}
