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
