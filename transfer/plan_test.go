package transfer

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// named is the host backend under another name, behind a link or not.
type named struct {
	device.Wrapper
	change func(*device.Info)
}

func (n named) Info() device.Info {
	info := n.Device.Info()
	info.Integrated = false
	if n.change != nil {
		n.change(&info)
	}
	return info
}

func openNamed(t testing.TB, change func(*device.Info)) named {
	t.Helper()
	dev := devicetest.Open(t)
	if _, ok := device.As[device.Pinner](dev); !ok {
		t.Skip("the device pins no memory")
	}
	return named{device.Wrapper{Device: dev}, change}
}

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
		if i < 0 || i >= len(choices{}[0]) {
			t.Fatalf("step(%d) = %d of %d", n, i, len(choices{}[0]))
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

// Whatever the choice and the size, chunks are whole pages where a slot has
// room for them, never larger than a slot and never empty, and cutting by them
// takes every byte once.
func TestChoicePlan(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	page := pagemem.PageSize()
	for _, slot := range []int64{1, 4095, 8 << 10, 100_003, defaultSlotBytes, 1 << 31} {
		for range 50 {
			c := choice{1 + r.IntN(40), r.IntN(2) == 0}
			if r.IntN(10) == 0 {
				c.copiers = maxCopiers
			}
			for _, n := range []int64{1, page, minChunk, minChunk + 1, 1 + r.Int64N(1<<20), 1 + r.Int64N(1<<40), 1 << 47} {
				p := c.plan(n, slot)
				if p.choice != c || p.chunk <= 0 || p.chunk > slot || p.least <= 0 || p.least%page != 0 {
					t.Fatalf("%+v, %d bytes, slots of %d: %+v", c, n, slot, p)
				}
				if n/min(slot, goodChunk) > 10_000 {
					continue
				}
				k := &task{total: n, copiers: int64(p.copiers), most: p.chunk, least: min(p.least, p.chunk), phase: r.Int64N(3) * 1000}
				for next := int64(0); next < n; {
					offset, size := k.cut()
					if offset != next || size <= 0 || size > slot || size > n-offset || k.next != offset+size {
						t.Fatalf("%+v, %d bytes, slots of %d: %d bytes cut at %d, want some at %d", p, n, slot, size, offset, next)
					}
					next += size
					if next < n && slot >= 2*cutAlign && (k.phase+next)%cutAlign != 0 {
						t.Fatalf("%+v, %d bytes, slots of %d: %d bytes cut at %d end inside a page", p, n, slot, size, offset)
					}
				}
			}
		}
	}
	e := &Engine{options: Options{Copiers: 3, SlotBytes: 1 << 20}}
	for _, n := range []int64{1, 1 << 20, 1 << 40, math.MaxInt64} {
		if p := e.stagedPlan(n, false); p.copiers != 3 || p.chunk != 1<<20 {
			t.Errorf("by rules of thumb: %+v for %d bytes", p, n)
		}
	}
}

// randomModel makes paths that a machine could have: a latency, a rate that
// saturates with the copiers, and some noise.
func randomModel(r *rand.Rand, noise float64) *Model {
	m := &Model{Version: modelVersion}
	for _, toHost := range []bool{false, true} {
		link := 5e9 * math.Pow(20, r.Float64())
		plain := &PathModel{Path: "plain", ToHost: toHost}
		paths := []*PathModel{plain}
		for _, copiers := range copierCounts(1 + r.IntN(20)) {
			for _, past := range []bool{false, true} {
				paths = append(paths, &PathModel{Path: "staged", ToHost: toHost, Copiers: copiers, PastCaches: past})
			}
		}
		first := int64(firstCalibrationSize)
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
func bestOf(t *testing.T, m *Model, n int64, toHost bool, copiers int, chosen choice) (best, got float64) {
	best, got = math.Inf(1), math.Inf(1)
	for _, p := range m.Paths {
		if p.ToHost != toHost || p.Copiers > copiers || p.Copiers > 0 && n < p.Curve[0].Bytes/2 {
			continue
		}
		seconds := p.Curve.At(n)
		best = min(best, seconds)
		if (choice{p.Copiers, p.PastCaches}) == chosen {
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
		c := m.choose(allowed)
		for direction := range c {
			toHost := direction == 1
			for i := step(firstCalibrationSize) + 1; i <= step(256<<20); i++ {
				n := stepMiddle(i)
				chosen := c[direction][i]
				if chosen.copiers > allowed {
					t.Fatalf("%d bytes: %d copiers, %d allowed", n, chosen.copiers, allowed)
				}
				if best, got := bestOf(t, m, n, toHost, allowed, chosen); got > 1.02*best {
					t.Fatalf("%d bytes, to host %t: %+v takes %v s, the best %v", n, toHost, chosen, got, best)
				}
			}
			if round%2 == 1 {
				continue // what noise does inside a step is nobody's guess
			}
			for range 100 {
				n := firstCalibrationSize + r.Int64N(1<<(15+r.IntN(13)))
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
func firstOf(m *Model, toHost bool, c choice) int64 {
	for _, p := range m.Paths {
		if p.ToHost == toHost && (choice{p.Copiers, p.PastCaches}) == c {
			return p.Curve[0].Bytes
		}
	}
	return 0
}

// A path that is a little faster, and takes more copiers, is not worth it; nor
// is one that was never tried on copies so small.
func TestChoose(t *testing.T) {
	sizes := []int64{64 << 10, 1 << 20, 64 << 20}
	staged := func(copiers int, rate float64, sizes ...int64) PathModel {
		return PathModel{Path: "staged", Copiers: copiers, Curve: line(20e-6, rate, sizes...)}
	}
	m := &Model{Paths: []PathModel{
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
		if got := m.choose(c.allowed)[0][step(c.n)]; got.copiers != c.want {
			t.Errorf("%d bytes, %d copiers allowed: %d chosen, want %d", c.n, c.allowed, got.copiers, c.want)
		}
		if got := m.choose(c.allowed)[1][step(c.n)]; got.copiers != 0 {
			t.Errorf("%d bytes to the host, of which the model knows nothing: %d copiers", c.n, got.copiers)
		}
	}
}

// Whose word counts: the device's, the caller's, the model's, rules of thumb.
func TestEnginePlan(t *testing.T) {
	emptyCache(t)
	always := &Model{Paths: []PathModel{{Path: "staged", Copiers: 2, Curve: Curve{{100, 1e-9}, {200, 2e-9}}}}}
	never := &Model{Paths: []PathModel{{Path: "plain", Curve: Curve{{1, 1e-9}, {2, 2e-9}}}}}
	integrated := func(i *device.Info) { i.Integrated = true }
	const mib = 1 << 20
	for _, c := range []struct {
		name   string
		change func(*device.Info)
		o      Options
		n      int64
		want   int // copiers
	}{
		{"thumb, small", nil, Options{Copiers: 3}, mib, 0},
		{"thumb, large", nil, Options{Copiers: 3}, mib + 1, 3},
		{"user, small", nil, Options{Copiers: 3, StageAbove: 100}, 100, 0},
		{"user, large", nil, Options{Copiers: 3, StageAbove: 100}, 101, 3},
		{"model, staged", nil, Options{Copiers: 3, Model: always}, 100, 2},
		{"model, plain", nil, Options{Copiers: 3, Model: never}, 100 * mib, 0},
		{"nothing is never staged", nil, Options{Copiers: 3, Model: always}, 0, 0},
		{"a model without paths", nil, Options{Copiers: 3, Model: &Model{}}, 2 * mib, 3},
		{"too many copiers for the model", nil, Options{Copiers: 1, Model: always}, 2 * mib, 0},
		{"the user turns the model off", nil, Options{Copiers: 3, StageAbove: 100, Model: never}, 101, 3},
		{"and on the other side", nil, Options{Copiers: 3, StageAbove: 100, Model: always}, 100, 0},
		{"integrated", integrated, Options{Copiers: 3}, 1 << 40, 0},
		{"integrated, with a model", integrated, Options{Copiers: 3, Model: always}, 1 << 40, 0},
		{"integrated, the user insists", integrated, Options{Copiers: 3, StageAbove: 100}, 101, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := New(openNamed(t, c.change), c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			p := e.plan(c.n, false)
			if p.copiers != c.want || p.chunk > e.options.SlotBytes || p.chunk == 0 && p.copiers > 0 {
				t.Errorf("%+v, want %d copiers", p, c.want)
			}
		})
	}
}

// What a model says it would do is what an engine with default options does,
// in the time that the path's curve promises.
func TestModelChoice(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		m := randomModel(r, 0)
		e, err := New(openNamed(t, nil), Options{Model: m})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for range 50 {
			n, toHost := 1+r.Int64N(1<<(1+r.IntN(40))), r.IntN(2) == 0
			got, p := m.Choice(n, toHost), e.plan(n, toHost)
			if got.Copiers != p.copiers || got.PastCaches != p.pastCaches || (got.Path == "staged") != (p.copiers > 0) {
				t.Fatalf("%d bytes, to host %t: %+v, the engine does %+v", n, toHost, got, p.choice)
			}
			for _, path := range m.Paths {
				if path.ToHost == toHost && path.Copiers == got.Copiers && path.PastCaches == got.PastCaches && path.Curve.At(n) != got.Seconds {
					t.Fatalf("%d bytes, to host %t: %+v, the curve says %v s", n, toHost, got, path.Curve.At(n))
				}
			}
		}
	}
	if c := (&Model{}).Choice(-1, true); c != (Choice{Path: "plain"}) {
		t.Errorf("no model, no bytes: %+v", c)
	}
}
