package pipeline

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Intervals against a model that knows each nanosecond.
func TestIntervals(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const end = 60
	random := func() (list []Interval, covered [end]bool) {
		for range rng.IntN(7) {
			start := rng.IntN(end)
			i := Interval{time.Duration(start), time.Duration(start + rng.IntN(end-start))}
			list = append(list, i)
			for at := i.Start; at < i.End; at++ {
				covered[at] = true
			}
		}
		return list, covered
	}
	for range 3000 {
		a, inA := random()
		b, inB := random()
		var wantA, wantBoth time.Duration
		for at := range end {
			if inA[at] {
				wantA++
			}
			if inA[at] && inB[at] {
				wantBoth++
			}
		}
		held := slices.Clone(a)
		ma, mb := merged(a), merged(b)
		for i := 1; i < len(ma); i++ {
			if ma[i].Start <= ma[i-1].End {
				t.Fatalf("merged(%v) = %v", a, ma)
			}
		}
		if got := length(ma); got != wantA {
			t.Fatalf("length of %v: %d, want %d", a, got, wantA)
		}
		if got := common(ma, mb); got != wantBoth || common(mb, ma) != got {
			t.Fatalf("common(%v, %v) = %d, want %d", a, b, got, wantBoth)
		}
		if !slices.Equal(a, held) {
			t.Fatal("merged changed its argument")
		}
	}
}

func TestMakespan(t *testing.T) {
	for _, c := range []struct {
		name string
		jobs [][3]time.Duration
		want time.Duration
	}{
		{"nothing", nil, 0},
		{"one job", [][3]time.Duration{{3, 4, 5}}, 12},
		{"equal stages", [][3]time.Duration{{2, 2, 2}, {2, 2, 2}, {2, 2, 2}, {2, 2, 2}}, (4 + 2) * 2},
		{"the first stage is longest", [][3]time.Duration{{9, 1, 1}, {9, 1, 1}, {9, 1, 1}}, 27 + 2},
		{"the middle is longest", [][3]time.Duration{{1, 9, 2}, {1, 9, 2}, {1, 9, 2}}, 1 + 27 + 2},
		{"the last is longest", [][3]time.Duration{{1, 2, 9}, {1, 2, 9}, {1, 2, 9}}, 3 + 27},
		{"two stages", [][3]time.Duration{{5, 5, 0}, {5, 5, 0}}, 15},
		{"a long job holds up those behind it", [][3]time.Duration{{1, 8, 1}, {1, 1, 1}, {1, 1, 1}}, 1 + 8 + 1 + 1 + 1},
	} {
		var m makespan
		for _, job := range c.jobs {
			m.add(job)
		}
		if got := m.total(); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
