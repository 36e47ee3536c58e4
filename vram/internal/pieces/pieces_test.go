package pieces_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/vram/internal/pieces"
)

const step = 2 << 20

// TestChoose compares with all pairs, on random pieces.
func TestChoose(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	sizes := func() []int64 {
		list := make([]int64, r.IntN(30))
		for i := range list {
			list[i] = (1 + r.Int64N(step/512*2)) * 512
		}
		slices.Sort(list)
		return list
	}
	pairs, opened, none := 0, 0, 0
	for range 5000 {
		n, whole, effort := (1+r.Int64N(4*step/512))*512, r.Int64N(5)*step, pieces.Effort(r.IntN(3))
		ends, starts := sizes(), sizes()
		least := int64(1 << 40) // left over of a pair
		for _, e := range append(ends, 0) {
			for _, s := range append(starts, 0) {
				for k := int64(0); k <= whole && k <= n; k += step {
					if over := e + s - (n - k); over >= 0 && e+s > 0 && k < n && e <= n && (e == 0 || s == 0 || over < step) {
						least = min(least, over)
					}
				}
			}
		}
		c, ok := pieces.Choose(n, step, whole, ends, starts, effort)
		if !ok {
			none++
			if least <= pieces.Close || effort == pieces.Any && least < step {
				t.Fatalf("nothing for %d of %v and %v, %d whole: %d is left over of a pair", n, ends, starts, whole, least)
			}
			continue
		}
		var first, last int64
		if c.First >= 0 {
			first = ends[c.First]
		}
		if c.Last >= 0 {
			last = starts[c.Last]
		}
		rest := c.Head + c.Whole + c.Tail - n
		if c.Head < 0 || c.Head > first || c.Tail < 0 || c.Tail > last || c.Whole > whole || c.Whole%step != 0 ||
			effort == pieces.Pair && rest > 0 || rest < 0 || rest >= step || rest > 0 && (c.Tail > 0 || c.Whole == 0) {
			t.Fatalf("%+v for %d of %v and %v, %d whole", c, n, ends, starts, whole)
		}
		if over := first - c.Head + last - c.Tail; rest == 0 && over > pieces.Close && effort < pieces.Any || least <= pieces.Close && (rest > 0 || over > least) {
			t.Fatalf("%+v for %d of %v and %v, %d whole: %d left over, could be %d", c, n, ends, starts, whole, over, least)
		}
		if rest > 0 {
			opened++
		} else {
			pairs++
		}
	}
	if pairs < 100 || opened < 100 || none < 100 {
		t.Errorf("%d pairs, %d times a whole chunk, %d times nothing", pairs, opened, none)
	}
}

func ExampleChoose() {
	const MiB = 1 << 20
	ends := []int64{0.5 * MiB, 1.25 * MiB}
	starts := []int64{0.25 * MiB, 0.75 * MiB}
	c, _ := pieces.Choose(6*MiB, 2*MiB, 4*MiB, ends, starts, pieces.Pair)
	fmt.Println(ends[c.First], c.Whole, starts[c.Last])
	// Output: 1310720 4194304 786432
}
