package plan

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestChainsAreOptimal compares the dynamic program with all decisions where these are
// few, and with what the search finds where they are many.
func TestChainsAreOptimal(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	rng := rand.New(rand.NewPCG(8, 1))
	few, many, shorter, worst := 0, 0, 0, 1.0
	for round := range 120 {
		n := 2 + round%9
		if round%4 == 3 {
			n = 20 + rng.IntN(60)
		}
		g := chainOf(rng, n)
		if round%3 == 0 {
			for i := range g.Ops {
				g.Ops[i].Scratch = rng.Int64N(30)
			}
		}
		p, err := newProblem(&g, Options{})
		if err != nil {
			t.Fatal(err)
		}
		whole := p.try(p.keepAll(), math.MaxInt64)
		if _, ok := p.chain(whole); !ok {
			t.Fatal("that is no chain")
		}
		for _, share := range []float64{0.9, 0.7, 0.5, 0.3, 0.15} {
			target := int64(share * float64(whole.o.peak))
			got := p.checkpoints(whole, target)
			if got != nil && got.o.peak > target {
				t.Fatalf("%d bytes of %d", got.o.peak, target)
			}
			p.left, p.floor = patience/20, p.bound(whole, target)
			want := p.exhaust(whole, target)
			if want != nil {
				few++
			} else {
				many++
				want = p.evict(p.try(whole.d, target), target, 0, -1)
				if want.o.peak <= target {
					want = p.exchange(p.takeBack(want, target), target)
				}
			}
			switch {
			case want.o.peak > target && got == nil:
			case got == nil:
				t.Errorf("%d layers, %d bytes: no plan, and there is one of %v s", n, target, want.o.seconds)
			case want.o.peak > target:
				shorter++
			default:
				if got.o.seconds > want.o.seconds*(1+1e-9) {
					t.Errorf("%d layers, %d bytes: %v s, and there is a plan of %v s", n, target, got.o.seconds, want.o.seconds)
				}
				if got.o.seconds < p.floor*(1-1e-9) {
					t.Errorf("%d layers, %d bytes: %v s, and none was to take less than %v", n, target, got.o.seconds, p.floor)
				}
				worst = max(worst, want.o.seconds/got.o.seconds)
			}
		}
	}
	t.Logf("%d times all decisions were compared, and %d times what a search finds, which takes up to %.3f times as long, and %d times found none", few, many, worst, shorter)
	if few < 100 || many < 50 {
		t.Error("that is few")
	}
}
