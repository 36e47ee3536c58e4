package linkmodel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// smallest is the smallest size of the random models' curves.
const smallest = int64(16 << 10)

// sizesOf lists sizes from one byte to all there are: edges of steps, their
// neighbours and others.
func sizesOf(r *rand.Rand) (list []int64) {
	for e := range 63 {
		for q := range int64(8) {
			n := int64(1)<<e + q*(int64(1)<<e)/8
			list = append(list, n, max(n-1, 0), n+1, n+r.Int64N(max(n/8, 1)))
		}
	}
	return append(list, 0, math.MaxInt64, math.MaxInt64-1)
}

// Steps divide all sizes, in order, into ranges that hold their middle and are
// no wider than a quarter of an octave.
func TestSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range int64(1 << 12) {
		if step(n+1) < step(n) {
			t.Fatalf("step(%d) = %d, step(%d) = %d", n, step(n), n+1, step(n+1))
		}
	}
	for _, n := range sizesOf(r) {
		i := step(n)
		if i < 0 || i >= len(Table{}[0]) {
			t.Fatalf("step(%d) = %d of %d", n, i, len(Table{}[0]))
		}
		m := stepMiddle(i)
		if step(m) != i {
			t.Fatalf("%d is in step %d, whose middle %d is in step %d", n, i, m, step(m))
		}
		if off := float64(n) - float64(m); n >= 4 && math.Abs(off) > 0.125*float64(min(n, m)) {
			t.Fatalf("%d is in step %d, whose middle is %d", n, i, m)
		}
		if n < math.MaxInt64 && step(n+1) < i {
			t.Fatalf("step(%d) = %d, step(%d) = %d", n, i, n+1, step(n+1))
		}
	}
}

// randomModel makes paths that a machine could have: a latency, a rate that
// saturates with the copiers, and some noise.
func randomModel(r *rand.Rand, noise float64) *Model {
	m := &Model{Version: Version}
	for _, toHost := range []bool{false, true} {
		link := 5e9 * math.Pow(20, r.Float64())
		plain := &Path{Path: "plain", ToHost: toHost}
		paths := []*Path{plain}
		for _, copiers := range []int{1, 2, 4, 8, 16}[:1+r.IntN(5)] {
			for _, past := range []bool{false, true} {
				paths = append(paths, &Path{Path: "staged", ToHost: toHost, Copiers: copiers, PastCaches: past})
			}
		}
		first := smallest
		for _, p := range paths {
			latency := 1e-6 * math.Pow(50, r.Float64())
			rate := min(link, 8e9*float64(max(p.Copiers, 1))) * (0.7 + 0.3*r.Float64())
			if p.Copiers > 0 && r.IntN(3) == 0 {
				first *= 4 // as where most of the copiers would have nothing to do
			}
			for n := first; n <= 256<<20; n *= 4 {
				seconds := (latency + float64(n)/rate) * (1 + noise*(2*r.Float64()-1))
				p.Curve = append(p.Curve, Point{n, seconds})
			}
			if len(p.Curve) > 0 {
				m.Paths = append(m.Paths, *p)
			}
		}
	}
	return m
}

// bestOf returns the shortest time that the paths allowed to a copy promise,
// and that of the one that was chosen.
func bestOf(t *testing.T, m *Model, n int64, toHost bool, copiers int, chosen Staging) (best, got float64) {
	best, got = math.Inf(1), math.Inf(1)
	for _, p := range m.Paths {
		if p.ToHost != toHost || p.Copiers > copiers || p.Copiers > 0 && n < p.Curve[0].Bytes/2 {
			continue
		}
		seconds := p.Curve.At(n)
		best = min(best, seconds)
		if (Staging{p.Copiers, p.PastCaches}) == chosen {
			got = seconds
		}
	}
	if math.IsInf(got, 0) {
		t.Fatalf("%d bytes, to host %t, %d copiers: %+v is none of the paths allowed", n, toHost, copiers, chosen)
	}
	return best, got
}

// The path chosen is the best for the middle of its step, up to the 1.5 % that
// more copiers must gain, and for the other sizes up to what a step is wide.
func TestChooseIsNearTheBest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for round := range 200 {
		m := randomModel(r, 0.2*float64(round%2)) // curves with noise cross more often
		allowed := 1 + r.IntN(20)
		c := m.Table(allowed)
		for direction := range c {
			toHost := direction == 1
			for i := step(smallest) + 1; i <= step(256<<20); i++ {
				n := stepMiddle(i)
				chosen := c[direction][i]
				if chosen.Copiers > allowed {
					t.Fatalf("%d bytes: %d copiers, %d allowed", n, chosen.Copiers, allowed)
				}
				if best, got := bestOf(t, m, n, toHost, allowed, chosen); got > 1.02*best {
					t.Fatalf("%d bytes, to host %t: %+v takes %v s, the best %v", n, toHost, chosen, got, best)
				}
			}
			if round%2 == 1 {
				continue // what noise does inside a step is nobody's guess
			}
			for range 100 {
				n := smallest + r.Int64N(1<<(15+r.IntN(13)))
				chosen := c[direction][step(n)]
				if n < firstOf(m, toHost, chosen)/2 {
					continue // the middle of the step is allowed, this size is below
				}
				if best, got := bestOf(t, m, n, toHost, allowed, chosen); got > 1.15*best {
					t.Fatalf("%d bytes, to host %t: %+v takes %v s, the best %v", n, toHost, chosen, got, best)
				}
			}
		}
	}
}

// firstOf is the smallest size that the path of a choice was tried with.
func firstOf(m *Model, toHost bool, c Staging) int64 {
	for _, p := range m.Paths {
		if p.ToHost == toHost && (Staging{p.Copiers, p.PastCaches}) == c {
			return p.Curve[0].Bytes
		}
	}
	return 0
}

// A path that is a little faster, and takes more copiers, is not worth it; nor
// is one that was never tried on copies so small.
func TestChoose(t *testing.T) {
	sizes := []int64{64 << 10, 1 << 20, 64 << 20}
	staged := func(copiers int, rate float64, sizes ...int64) Path {
		return Path{Path: "staged", Copiers: copiers, Curve: line(20e-6, rate, sizes...)}
	}
	m := &Model{Paths: []Path{
		{Path: "plain", Curve: line(5e-6, 6e9, sizes...)},
		staged(1, 8e9, sizes...),
		staged(2, 16e9, sizes...),
		staged(4, 16.1e9, sizes...),
		staged(8, 48e9, 4<<20, 64<<20),
	}}
	for _, c := range []struct {
		n             int64
		allowed, want int
	}{
		{1000, 16, 0},
		{64 << 10, 16, 0},
		{1 << 20, 16, 2},
		{1 << 20, 4, 2},
		{1 << 20, 1, 1},
		{3 << 20, 16, 8},
		{64 << 20, 16, 8},
		{64 << 20, 7, 2},
		{1 << 40, 16, 16}, // far beyond what was measured all of them
		{1 << 40, 7, 7},
		{math.MaxInt64, 16, 16},
	} {
		if got := m.Table(c.allowed)[0][step(c.n)]; got.Copiers != c.want {
			t.Errorf("%d bytes, %d copiers allowed: %d chosen, want %d", c.n, c.allowed, got.Copiers, c.want)
		}
		if got := m.Table(c.allowed)[1][step(c.n)]; got.Copiers != 0 {
			t.Errorf("%d bytes to the host, of which the model knows nothing: %d copiers", c.n, got.Copiers)
		}
	}
}
