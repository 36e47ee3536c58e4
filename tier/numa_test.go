package tier_test

import (
	"bytes"
	"testing"

	"github.com/pinion-gpu/pinion/internal/numa"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier"
)

// A node without processors is a tier of its own: arrays that are only streamed go
// there first, others when host memory is full.
func TestFarNode(t *testing.T) {
	defer numa.Fake(numa.Node{ID: 0, CPUs: []int{0}, MemoryBytes: 1 << 34}, numa.Node{ID: 2, MemoryBytes: 32 * mib})()
	f := open(t, tier.Options{DeviceBytes: 8 * mib, HostBytes: 8 * mib})
	level := func(i int) tier.Level { return f.store.Stats().Levels[i] }
	if l := level(2); len(f.store.Stats().Levels) != 3 || l.Name != "node 2" || l.Budget != 16*mib {
		t.Fatalf("%+v", f.store.Stats().Levels)
	}
	write := func(n int, order bool) (list []*tier.Array) {
		for range n {
			list = append(list, f.array("", mib))
		}
		if order {
			f.store.Sequential(list...)
		}
		for i, a := range list {
			testkit.OK(t, a.WriteAt(ctx, bytes.Repeat([]byte{byte(i)}, mib), 0))
		}
		return list
	}
	streamed := write(4, true)
	if level(1).Used != 0 || level(2).Used != 4*mib {
		t.Errorf("%+v", f.store.Stats().Levels)
	}
	others := write(10, false)
	if level(1).Used != 8*mib || level(2).Used != 6*mib {
		t.Errorf("%+v", f.store.Stats().Levels)
	}
	for _, list := range [][]*tier.Array{streamed, others} {
		for i, a := range list {
			if got := f.read(a); !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, mib)) {
				t.Errorf("array %d: %d", i, got[0])
			}
		}
	}
}
