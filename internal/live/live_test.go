package live

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// What is listed is what was added and not removed, whatever the order, and each
// value is told of once when it goes.
func TestRandom(t *testing.T) {
	type thing struct{ id int }
	var gone []*thing
	OnRemove(func(x *thing) { gone = append(gone, x) })
	r := rand.New(rand.NewPCG(1, 2))
	var want, wantGone []*thing
	for i := range 2000 {
		switch {
		case len(want) == 0 || r.IntN(2) == 0:
			x := &thing{i}
			Add(x)
			want = append(want, x)
		default:
			at := r.IntN(len(want))
			x := want[at]
			want = slices.Delete(want, at, at+1)
			wantGone = append(wantGone, x)
			Remove(x)
			Remove(x)
		}
		View(func(all []*thing) {
			if !slices.Equal(all, want) {
				t.Fatalf("step %d: %d are listed, want %d, or in another order", i, len(all), len(want))
			}
		})
	}
	if !slices.Equal(gone, wantGone) {
		t.Errorf("%d were told to be gone, want %d, or in another order", len(gone), len(wantGone))
	}
	for _, x := range want { // for the next run
		Remove(x)
	}
}

// Types have lists of their own.
func TestTypes(t *testing.T) {
	type one struct{ _ int }
	type other struct{ _ int }
	Add(new(one))
	View(func(all []*other) {
		if len(all) != 0 {
			t.Errorf("%d of a type of which none was added", len(all))
		}
	})
	Remove(new(other)) // of a type that nobody knows: nothing happens
}

// Nothing is lost or counted twice between those that are listed and those that
// went, at whatever moment somebody looks.
func TestConcurrent(t *testing.T) {
	type thing struct{ _ int }
	total := 0 // that went; guarded by the list's lock
	OnRemove(func(*thing) { total++ })
	const workers, each = 4, 500
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range each {
				x := new(thing)
				Add(x)
				Remove(x)
			}
		})
	}
	for seen := 0; seen < workers*each; {
		View(func(listed []*thing) {
			if n := total + len(listed); n < seen {
				t.Fatalf("%d are there or gone, after %d were", n, seen)
			} else {
				seen = n
			}
		})
	}
	all.Wait()
}
