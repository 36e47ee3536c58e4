package measure_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/measure"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		before := slices.Clone(c.values)
		if got := measure.Median(c.values); got != c.want {
			t.Errorf("%v: %g, want %g", c.values, got, c.want)
		}
		if !slices.Equal(c.values, before) {
			t.Errorf("%v became %v", before, c.values)
		}
	}
}

// TestSince: no time at all is still a figure.
func TestSince(t *testing.T) {
	if got := measure.Since(time.Now().Add(time.Hour), time.Microsecond); got != 0.001 {
		t.Errorf("%g us, want 0.001", got)
	}
	if got := measure.Since(time.Now().Add(-time.Minute), time.Second); got < 60 {
		t.Errorf("%g s, want 60 or more", got)
	}
}
