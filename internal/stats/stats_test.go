package stats

import (
	"slices"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values              []time.Duration
		median, least, most time.Duration
	}{
		{nil, 0, 0, 0},
		{[]time.Duration{7}, 7, 7, 7},
		{[]time.Duration{9, 2}, 5, 2, 9},
		{[]time.Duration{9, 1, 4}, 4, 1, 9},
		{[]time.Duration{9, 1, 4, 6}, 5, 1, 9},
	} {
		before := slices.Clone(c.values)
		median, least, most := Spread(c.values)
		if median != c.median || least != c.least || most != c.most {
			t.Errorf("%v: %d, %d, %d", c.values, median, least, most)
		}
		if got := Median(c.values); got != c.median {
			t.Errorf("%v: median %d", c.values, got)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("%v became %v", before, c.values)
		}
	}
}

func TestQuantile(t *testing.T) {
	values := []float64{40, 10, 30, 20, 50}
	for q, want := range map[float64]float64{-1: 10, 0: 10, 0.25: 20, 0.5: 30, 0.9: 46, 1: 50, 2: 50} {
		if got := Quantile(values, q); got != want {
			t.Errorf("%g: %g, want %g", q, got, want)
		}
	}
	if got := Quantile([]int(nil), 0.5); got != 0 {
		t.Errorf("of none: %d", got)
	}
	if got := Quantile([]int64{3}, 0.99); got != 3 {
		t.Errorf("of one: %d", got)
	}
}
