package pinned

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// What is listed is what was handed out and not freed, and what was registered and
// not unregistered.
func TestLive(t *testing.T) {
	p := newPool(t, newFake(), Options{Budget: 16 * mib})
	memory, err := pagemem.Map(64 * pagemem.PageSize())
	testkit.OK(t, err)
	defer pagemem.Unmap(memory)
	r := rand.New(rand.NewPCG(1, 2))
	buffers, registered := map[int64]*Buffer{}, map[int64]*Registration{} // by size
	for step := range 400 {
		n := 1 + r.Int64N(64)
		switch b, reg := buffers[n], registered[n]; {
		case r.IntN(2) == 0 && b == nil:
			buffers[n], err = p.Alloc(t.Context(), n)
		case r.IntN(2) == 0 && reg == nil:
			registered[n], err = p.Register(memory[(n-1)*pagemem.PageSize():][:n])
		case b != nil:
			err = b.Free()
			delete(buffers, n)
		case reg != nil:
			err = reg.Unregister()
			delete(registered, n)
		}
		testkit.OK(t, err)
		var got, gotRegistered []int64
		type id struct {
			serial     int64
			registered bool
		}
		ids := map[id]bool{}
		for _, i := range p.Live() {
			if i.Registered {
				gotRegistered = append(gotRegistered, i.Bytes)
			} else {
				got = append(got, i.Bytes)
			}
			if len(i.Stack) > 0 {
				t.Fatal("nobody wants stacks")
			}
			ids[id{i.Serial, i.Registered}] = true
		}
		slices.Sort(got)
		slices.Sort(gotRegistered)
		if !slices.Equal(got, slices.Sorted(maps.Keys(buffers))) || !slices.Equal(gotRegistered, slices.Sorted(maps.Keys(registered))) {
			t.Fatalf("step %d: buffers of %v and registrations of %v", step, got, gotRegistered)
		}
		if len(ids) != len(got)+len(gotRegistered) {
			t.Fatalf("step %d: serial numbers are not unique", step)
		}
	}
	for _, b := range buffers {
		testkit.OK(t, b.Free())
	}
	for _, reg := range registered {
		testkit.OK(t, reg.Unregister())
	}
}
