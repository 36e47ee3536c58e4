package monitor_test

import (
	"reflect"
	"testing"

	"github.com/pinion-gpu/pinion/monitor"
)

// What others tell is in every snapshot until they are removed, added up by source
// and device, with counts that Since takes the difference of.
func TestForeign(t *testing.T) {
	if f := monitor.Take().Foreign; f == nil || len(f) != 0 {
		t.Errorf("%v", f)
	}
	a := monitor.Foreign{Source: "pytorch", Device: "cuda:1", ReservedBytes: 8, Allocations: 2}
	remove := monitor.AddForeign(func() []monitor.Foreign { return []monitor.Foreign{a} })
	removeOther := monitor.AddForeign(func() []monitor.Foreign {
		return []monitor.Foreign{{Source: "pytorch", Device: "cuda:1", ReservedBytes: 1}, {Source: "jax", Device: "cuda:1", OutOfMemory: 1}}
	})
	before := monitor.Take()
	want := []monitor.Foreign{
		{Source: "jax", Device: "cuda:1", OutOfMemory: 1},
		{Source: "pytorch", Device: "cuda:1", ReservedBytes: 9, Allocations: 2},
	}
	if !reflect.DeepEqual(before.Foreign, want) {
		t.Errorf("%+v", before.Foreign)
	}
	a.ReservedBytes, a.Allocations = 4, 5
	d := monitor.Take().Since(before)
	want[0].OutOfMemory = 0
	want[1].ReservedBytes, want[1].Allocations = 5, 3
	if !reflect.DeepEqual(d.Foreign, want) {
		t.Errorf("%+v", d.Foreign)
	}
	removeOther()
	removeOther()
	if f := monitor.Take().Foreign; len(f) != 1 || f[0] != a {
		t.Errorf("%+v", f)
	}
	remove()
	if f := monitor.Take().Foreign; len(f) != 0 {
		t.Errorf("%+v", f)
	}
}
