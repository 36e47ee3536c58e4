package tune

import (
	"math"
	"testing"
)

// A choice is settled when no other can be much faster and its own rate is known,
// also where there is no other.
func TestSettledRule(t *testing.T) {
	for _, c := range []struct {
		choice float64 // its standard error
		other  float64 // rate of another setting, of 100; 0: there is none
		want   bool
	}{
		{0.01, 0, true},
		{0.05, 0, true},
		{0.06, 0, false},
		{0.5, 0, false},
		{math.Inf(1), 0, false},
		{0.01, 90, true},
		{0.01, 104, false},
		{0.02, 50, true},
		{0.2, 10, false},
	} {
		choice := &runner{score: 100, err: c.choice}
		field := []*runner{choice}
		if c.other > 0 {
			field = append(field, &runner{score: c.other, err: 0.01})
		}
		if got := settled(choice, field, false); got != c.want {
			t.Errorf("error %v, another at %v: settled %t", c.choice, c.other, got)
		}
	}
}
