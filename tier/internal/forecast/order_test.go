package forecast

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The order agrees with looking through the list.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		cyclic := r.IntN(2) == 0
		items := make([]int, 1+r.IntN(40))
		for i := range items {
			items[i] = r.IntN(1 + len(items)/2)
		}
		size := func(x int) int64 { return int64(x + 1) }
		o := NewOrder(items, size, cyclic)
		for at := 0; cyclic && at < 3*len(items) || at < len(items); at++ {
			for x := range len(items) {
				want, found := 0.0, false
				for i := at; i < at+len(items) && (cyclic || i < len(items)); i++ {
					if y := items[i%len(items)]; y == x {
						found = true
						break
					} else {
						want += float64(size(y))
					}
				}
				if !found {
					want = math.Inf(1)
				}
				if got := o.Next(x); got != want {
					t.Fatalf("%v cyclic %v at %d: next %d is %v, want %v", items, cyclic, at, x, got, want)
				}
			}
			if x, ok := o.At(int64(at)); !ok || x != items[at%len(items)] || o.Cursor() != int64(at) {
				t.Fatalf("%d: %v %v, cursor %d", at, x, ok, o.Cursor())
			}
			if !o.Use(items[at%len(items)]) {
				t.Fatalf("%v: use %d was not expected", items, at)
			}
		}
	}
}

// Uses that come a little out of order move the cursor on; one from far away does
// not, and several from there do.
func TestStrays(t *testing.T) {
	items := make([]int, 100)
	for i := range items {
		items[i] = i
	}
	o := NewOrder(items, func(int) int64 { return 1 }, true)
	o.Use(0)
	if !o.Use(2) || o.Cursor() != 3 {
		t.Error(o.Cursor())
	}
	if o.Use(50) || o.Cursor() != 3 {
		t.Error("one stray moved the cursor", o.Cursor())
	}
	if !o.Use(3) || o.Cursor() != 4 {
		t.Error(o.Cursor())
	}
	if o.Use(70) || o.Use(71) || o.Use(72) || o.Cursor() != 73 {
		t.Error("three strays did not move the cursor", o.Cursor())
	}
	if o.Use(1000) {
		t.Error("an item of no order was expected")
	}
	o.Remove(75)
	if at, ok := o.Find(75); ok || !math.IsInf(o.Next(75), 1) {
		t.Error(at)
	}
	if n := len(slices.Collect(o.Items)); n != 99 || o.Left() != 99 || o.Len() != 100 {
		t.Error(n, o.Len())
	}
	empty := NewOrder(nil, func(int) int64 { return 1 }, true)
	if _, ok := empty.At(0); ok || empty.Use(1) || !math.IsInf(empty.Next(1), 1) {
		t.Error("an empty order expects something")
	}
}
