package measure_test

import (
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/measure"
)

func TestNewRow(t *testing.T) {
	values := []float64{9, 1, 2}
	want := measure.Row{Name: "a", By: "me", Value: 2, Unit: "ms", Min: 1, Max: 9}
	if got := measure.NewRow("a", "me", "ms", values); got != want || values[0] != 9 {
		t.Errorf("%+v of %v, want %+v", got, values, want)
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
