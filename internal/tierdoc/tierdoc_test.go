package tierdoc

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
)

// Whoever reads the document has what was written, under the names of the vocabulary.
func TestDocument(t *testing.T) {
	want := Document{BudgetBytes: 1, ArrayBytes: 2, H2DGBPerS: 3, D2HGBPerS: 4, InitSeconds: 5, Report: "r",
		Rows:     []Row{{Use: Use{Zipf, true}, Ratio: 2, By: Store, UsedBytes: 8, LeastBytes: 2, FloorFraction: 0.5}},
		Pressure: Pressure{Arrays: 1, ReclaimedBytes: 2}}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Document
	if err := json.Unmarshal(data, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	var plain struct{ Rows []map[string]any }
	if err := json.Unmarshal(data, &plain); err != nil || plain.Rows[0]["access"] != "zipf" || plain.Rows[0]["least_filled_bytes"] != 2.0 || plain.Rows[0]["write"] != true {
		t.Errorf("%s, %v", data, err)
	}
	if r := &want.Rows[0]; r.Share(r.LeastBytes) != "25.0 %" || r.Use.String() != "zipf, every byte written" {
		t.Error(r.Share(r.LeastBytes), r.Use)
	}
}

func TestPressureSentence(t *testing.T) {
	p := Pressure{Arrays: 128, Bytes: 4 << 30, Touches: 256, Allocs: 61, ReclaimedBytes: 1 << 30}
	if got, want := p.Sentence(2<<30), "A pool of 2 GiB, 4 GiB of arrays in it, touched 256 times at random, and 61 plain allocations beside them: 0 failures; 1 GiB left the device for them."; got != want {
		t.Error(got)
	}
	if (&Pressure{}).Sentence(1) != "" {
		t.Error("nothing was measured, and something is said")
	}
}

// Every line of the curves is of somebody who holds arrays.
func TestSeries(t *testing.T) {
	for _, s := range Series() {
		if !slices.Contains(Holders(), s.Name) {
			t.Error(s.Name)
		}
	}
	c := Curves(Use{Access: Random})
	if p := Point(1.5, 7); p.X != 150 || p.Y != 7 || c.Label(p.X) != "1.5x" || c.Title != "random" {
		t.Errorf("%+v %q", p, c.Title)
	}
}
