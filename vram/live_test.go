package vram

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// What is listed is what was allocated and not freed.
func TestLive(t *testing.T) {
	for _, source := range []Source{SourceAuto, SourceSegments} {
		p := newPool(t, devicetest.Open(t), Options{Source: source})
		r := rand.New(rand.NewPCG(5, 6))
		live := map[string]Block{}
		for step := range 300 {
			name := fmt.Sprint(r.IntN(40))
			if b, ok := live[name]; ok {
				testkit.OK(t, b.Free())
				delete(live, name)
			} else {
				live[name] = alloc(t, p, 1+r.Int64N(1<<20), Use{Purpose: KVCache, Name: name})
			}
			got := map[string]BlockInfo{}
			for _, b := range p.Live() {
				got[b.Name] = b
			}
			if len(got) != len(live) {
				t.Fatalf("step %d: %v, want %v", step, got, live)
			}
			for name, b := range live {
				if i := got[name]; i.Address != b.Ptr() || i.Requested != b.Bytes() || i.State != BlockLive || i.Purpose != KVCache {
					t.Fatalf("step %d: %s is %+v", step, name, i)
				}
			}
		}
		for b := range maps.Values(live) {
			testkit.OK(t, b.Free())
		}
		if list := p.Live(); len(list) != 0 {
			t.Errorf("all were freed: %v", list)
		}
	}
}
