package linkmodel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// line is a curve of points on seconds = latency + bytes / rate.
func line(latency, rate float64, sizes ...int64) Curve {
	var c Curve
	for _, n := range sizes {
		c = append(c, Point{n, latency + float64(n)/rate})
	}
	return c
}

// near reports whether two times are the same but for rounding.
func near(a, b float64) bool { return a == b || math.Abs(a-b) <= 1e-12*max(a, b) }

func TestCurveAt(t *testing.T) {
	straight := line(10e-6, 50e9, 16<<10, 64<<10, 1<<20, 256<<20)
	bent := Curve{{100, 1}, {200, 2}, {300, 10}, {400, 12}}
	noisy := Curve{{100, 2}, {200, 1}, {300, 4}, {400, 3}}
	for _, c := range []struct {
		name  string
		curve Curve
		n     int64
		want  float64
	}{
		{"line, at nothing", straight, 0, 10e-6},
		{"line, before the first", straight, 1000, 10e-6 + 1000/50e9},
		{"line, at the first", straight, 16 << 10, 10e-6 + (16<<10)/50e9},
		{"line, between", straight, 12345678, 10e-6 + 12345678/50e9},
		{"line, at the last", straight, 256 << 20, 10e-6 + (256<<20)/50e9},
		{"line, behind the last", straight, 1 << 40, 10e-6 + (1<<40)/50e9},
		{"bent, first segment", bent, 150, 1.5},
		{"bent, at a point", bent, 200, 2},
		{"bent, steep segment", bent, 250, 6},
		{"bent, behind", bent, 500, 14},
		{"bent, the first segment goes on to nothing", bent, 50, 0.5},
		{"never below nothing", Curve{{100, 1}, {200, 4}}, 10, 0},
		{"noisy, falling between", noisy, 150, 1.5},
		{"noisy, at a point", noisy, 200, 1},
		{"noisy, rising between", noisy, 250, 2.5},
		{"noisy, before: flat", noisy, 1, 2},
		{"noisy, behind: flat", noisy, 1000, 3},
		{"one point, less", Curve{{100, 2}}, 10, 2},
		{"one point", Curve{{100, 2}}, 100, 2},
		{"one point, more", Curve{{100, 2}}, 1000, 20},
		{"no point", nil, 7, math.Inf(1)},
		{"all the bytes there are", Curve{{1, 1e-9}, {2, 2e-9}}, math.MaxInt64, math.MaxInt64 * 1e-9},
	} {
		if got := c.curve.At(c.n); !near(got, c.want) {
			t.Errorf("%s: %d bytes take %v s, want %v", c.name, c.n, got, c.want)
		}
	}
}

// Random curves: exact at every point, without jumps, and monotone where the
// points are.
func TestCurveAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var c Curve
		at, seconds := int64(0), 0.0
		rising := r.IntN(2) == 0
		for range 2 + r.IntN(6) {
			at += 1 + r.Int64N(1<<r.IntN(30))
			if rising {
				seconds += r.Float64()
			} else {
				seconds = 0.01 + r.Float64()
			}
			c = append(c, Point{at, seconds})
		}
		for _, p := range c {
			if got := c.At(p.Bytes); math.Abs(got-p.Seconds) > 1e-9 {
				t.Fatalf("%v at %d: %v", c, p.Bytes, got)
			}
		}
		last, lastN := -1.0, int64(0)
		for range 50 {
			lastN += r.Int64N(at/25 + 2)
			got := c.At(lastN)
			if got < 0 || math.IsNaN(got) || math.IsInf(got, 0) {
				t.Fatalf("%v at %d: %v", c, lastN, got)
			}
			if rising && got < last-1e-9 {
				t.Fatalf("%v at %d: %v, and %v for less", c, lastN, got, last)
			}
			last = got
		}
		if got, end := c.At(4*at), c.At(at); got < end-1e-9 {
			t.Fatalf("%v: %v for four times the last, %v for the last", c, got, end)
		}
	}
}

func TestCurveFit(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	sizes := []int64{16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20}
	for range 200 {
		latency, rate := 1e-6*math.Pow(100, r.Float64()), 1e9*math.Pow(100, r.Float64())
		exact := line(latency, rate, sizes...)
		gotLatency, gotRate := exact.Fit()
		if math.Abs(gotLatency.Seconds()-latency) > 1e-3*latency+2e-9 || math.Abs(gotRate-rate) > 1e-6*rate {
			t.Fatalf("fit of %v + n / %v: %v, %v", latency, rate, gotLatency, gotRate)
		}
		noisy := slices.Clone(exact)
		for i := range noisy {
			noisy[i].Seconds *= 1 + 0.03*(2*r.Float64()-1)
		}
		// Errors of 3 % in the points: the largest sizes give the rate, and the
		// smallest what is left for the latency.
		_, gotRate = noisy.Fit()
		if math.Abs(gotRate-rate) > 0.06*rate {
			t.Fatalf("fit of a noisy %v + n / %v: a rate of %v", latency, rate, gotRate)
		}
		gotLatency, _ = noisy.Fit()
		if off := math.Abs(gotLatency.Seconds() - latency); off > 0.06*(latency+float64(sizes[1])/rate) {
			t.Fatalf("fit of a noisy %v + n / %v: a latency of %v", latency, rate, gotLatency)
		}
	}
}

// What is no line has no rate, and never one that is not a number.
func TestCurveFitDegenerate(t *testing.T) {
	for _, c := range []Curve{
		nil,
		{{100, 1}},
		{{100, 1}, {100, 1}},
		{{100, 1}, {100, 2}},
		{{100, 1}, {200, 1}, {300, 1}},
		{{100, 3}, {200, 2}, {300, 1}},
		{{100, 0}, {200, 1}},
		{{100, 0}, {200, 0}},
		{{100, math.NaN()}, {200, 1}},
		{{100, math.Inf(1)}, {200, 1}, {300, 1}},
		{{100, 1e300}, {200, 2e300}},
	} {
		latency, rate := c.Fit()
		if latency != 0 || rate != 0 {
			t.Errorf("%v: %v, %v bytes/s", c, latency, rate)
		}
	}
	// A latency below nothing is nothing.
	if latency, rate := (Curve{{100, 1}, {200, 3}}).Fit(); latency != time.Duration(0) || rate != 50 {
		t.Errorf("%v, %v bytes/s", latency, rate)
	}
}
