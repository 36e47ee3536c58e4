package transfer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// calls makes the rows of a fit: one, blocks, bytes.
func calls(pairs ...[2]float64) (x [][3]float64) {
	for _, p := range pairs {
		x = append(x, [3]float64{1, p[0], p[0] * p[1]})
	}
	return x
}

func times(x [][3]float64, c [3]float64) (y []float64) {
	for _, r := range x {
		y = append(y, r[0]*c[0]+r[1]*c[1]+r[2]*c[2])
	}
	return y
}

// What a calibration measures.
var calibrated = calls([2]float64{2048, 4 << 10}, [2]float64{2048, 16 << 10}, [2]float64{1024, 64 << 10},
	[2]float64{256, 256 << 10}, [2]float64{64, 1 << 20})

func TestFit3(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		// Each cost is a good part of the time of some row, or nothing.
		want := [3]float64{1e-4 * (0.1 + r.Float64()), 1e-6 * (0.1 + r.Float64()), 2e-11 * (0.5 + r.Float64())}
		for k := range want {
			if r.IntN(4) == 0 {
				want[k] = 0
			}
		}
		if want == [3]float64{} {
			continue
		}
		y := times(calibrated, want)
		var got [3]float64
		got[0], got[1], got[2] = fit3(calibrated, y)
		for k := range want {
			if math.Abs(got[k]-want[k]) > 1e-4*want[k]+[3]float64{1e-9, 1e-11, 1e-16}[k] {
				t.Fatalf("fit of %v: %v", want, got)
			}
		}
		// With noise: never below nothing, and near what was measured.
		noisy := slices.Clone(y)
		for i := range noisy {
			noisy[i] *= 1 + 0.05*(2*r.Float64()-1)
		}
		got[0], got[1], got[2] = fit3(calibrated, noisy)
		for i, fitted := range times(calibrated, got) {
			if min(got[0], got[1], got[2]) < 0 || math.Abs(fitted-noisy[i]) > 0.16*noisy[i] {
				t.Fatalf("fit of %v with noise: %v, which gives %v for %v", want, got, fitted, noisy[i])
			}
		}
	}
}

// A coefficient that would be negative is nothing, and the others make the
// best of it.
func TestFit3NotNegative(t *testing.T) {
	for _, c := range [][3]float64{{-1e-5, 1e-6, 2e-11}, {1e-4, -1e-8, 2e-11}, {1e-3, 1e-6, -1e-13}} {
		y := times(calibrated, c)
		a, b, s := fit3(calibrated, y)
		if got := [3]float64{a, b, s}; min(a, b, s) < 0 || !finite(a, b, s) || c[0] < 0 && a != 0 || c[1] < 0 && b != 0 || c[2] < 0 && s != 0 {
			t.Errorf("fit of %v: %v", c, got)
		}
	}
}

func finite(values ...float64) bool {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// Measurements that leave coefficients open give some that are numbers, none
// below zero, and that fit what was measured.
func TestFit3Singular(t *testing.T) {
	for _, c := range []struct {
		name string
		x    [][3]float64
		fits bool // some coefficients give y
	}{
		{"one row", calls([2]float64{64, 4096}), true},
		{"two rows", calls([2]float64{64, 4096}, [2]float64{16, 16384}), true},
		{"the same row", calls([2]float64{64, 4096}, [2]float64{64, 4096}, [2]float64{64, 4096}), true},
		{"as many bytes everywhere", calls([2]float64{64, 4096}, [2]float64{16, 16384}, [2]float64{4, 65536}), true},
		{"as many blocks everywhere", calls([2]float64{8, 4096}, [2]float64{8, 16384}, [2]float64{8, 65536}), true},
		{"blocks of one size", calls([2]float64{8, 4096}, [2]float64{16, 4096}, [2]float64{32, 4096}), true},
		{"no rows", nil, true},
		{"nothing", [][3]float64{{0, 0, 0}, {0, 0, 0}}, false},
	} {
		for _, coefficients := range [][3]float64{{1e-5, 2e-7, 3e-11}, {0, 2e-7, 3e-11}, {1e-5, 0, 0}} {
			y := times(c.x, coefficients)
			if !c.fits {
				y = []float64{1, 2}
			}
			a, b, s := fit3(c.x, y)
			got := [3]float64{a, b, s}
			if !finite(a, b, s) || min(a, b, s) < 0 {
				t.Fatalf("%s: %v", c.name, got)
			}
			for i, fitted := range times(c.x, got) {
				if c.fits && math.Abs(fitted-y[i]) > 1e-6*y[i] {
					t.Errorf("%s, %v: %v gives %v for %v", c.name, coefficients, got, fitted, y[i])
				}
			}
		}
	}
	// A clock that stood still says nothing, and never that a copy is free of
	// any other number.
	if a, b, s := fit3(calibrated, make([]float64, len(calibrated))); !finite(a, b, s) || min(a, b, s) < 0 {
		t.Errorf("no time: %v %v %v", a, b, s)
	}
}

func TestSolve3(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		want := [3]float64{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
		var m [3][4]float64
		for i := range m {
			for k := range 3 {
				m[i][k] = r.NormFloat64()
				if r.IntN(5) == 0 {
					m[i][k] = 0 // pivots have to be looked for
				}
				m[i][3] += m[i][k] * want[k]
			}
		}
		det := m[0][0]*(m[1][1]*m[2][2]-m[1][2]*m[2][1]) - m[0][1]*(m[1][0]*m[2][2]-m[1][2]*m[2][0]) + m[0][2]*(m[1][0]*m[2][1]-m[1][1]*m[2][0])
		if math.Abs(det) < 1e-3 {
			continue
		}
		got := solve3(m)
		for k := range want {
			if math.Abs(got[k]-want[k]) > 1e-9 {
				t.Fatalf("%v: %v, want %v", m, got, want)
			}
		}
	}
}

// The path that the model says is fastest comes first, and one that is for
// boxes only for boxes.
func TestRowsRanking(t *testing.T) {
	e := &Engine{options: Options{Model: &Model{Batches: []BatchModel{
		{BatchLoop, "h2d", 0, 2e-6, 2e-11},
		{BatchKernel, "h2d", 10e-6, 1e-9, 2.2e-11},
		{BatchBox, "h2d", 5e-6, 0, 2e-11},
		{BatchDriver, "d2h", 1e-6, 1e-6, 2e-11},
	}}}}
	list := func(n, bytes int64) rows {
		return &blockList{blocks: make([]Block, n), sum: n * bytes, ends: []int64{n * bytes}}
	}
	box := func(n, bytes int64) rows { return &boxRows{rows: n, planes: 1, bytes: bytes} }
	for _, c := range []struct {
		name string
		d    direction
		rows rows
		want []BatchPath
	}{
		{"few", hostToDevice, list(2, 4096), []BatchPath{BatchLoop, BatchKernel}},
		{"many", hostToDevice, list(2000, 4096), []BatchPath{BatchKernel, BatchLoop}},
		{"a box", hostToDevice, box(2000, 4096), []BatchPath{BatchBox, BatchKernel, BatchLoop}},
		{"the other way", deviceToHost, box(2, 4096), []BatchPath{BatchDriver}},
		{"thumb, large", deviceToDevice, list(2, 1<<20), []BatchPath{BatchLoop}},
		{"thumb, small", deviceToDevice, list(2, 1000), []BatchPath{BatchKernel, BatchBox, BatchDriver, BatchLoop}},
		{"thumb, box", deviceToDevice, box(2, 5000), []BatchPath{BatchBox, BatchKernel, BatchDriver, BatchLoop}},
	} {
		if got := e.rowsRanking(c.d, c.rows); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
