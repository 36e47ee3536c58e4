package page

import "testing"

func TestPercent(t *testing.T) {
	if got := Percent(0.947); got != "95 %" {
		t.Error(got)
	}
}
