package calibrate

import (
	"testing"

	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// TestContenders: what is near the fastest of its size and direction is timed
// again, and nothing else.
func TestContenders(t *testing.T) {
	plain := &linkmodel.Path{Path: "plain"}
	staged := &linkmodel.Path{Path: "staged", Copiers: 4}
	down := &linkmodel.Path{Path: "plain", ToHost: true}
	trials := []*trial{
		{path: plain, bytes: 1, times: []float64{1}},                                      // alone
		{path: plain, bytes: 2, times: []float64{10, 11, 9}},                              // the fastest
		{path: staged, bytes: 2, times: []float64{10.9, 1, 50}},                           // near
		{path: &linkmodel.Path{Path: "staged"}, bytes: 2, times: []float64{11.1, 11, 12}}, // not near
		{path: down, bytes: 2, times: []float64{1}},                                       // another direction
		{path: &linkmodel.Path{Path: "pinned"}, bytes: 2, times: []float64{1}},            // no choice
	}
	got := contenders(trials)
	if len(got) != 2 || got[0] != trials[1] || got[1] != trials[2] {
		t.Errorf("%d contenders: %+v", len(got), got)
	}
}
