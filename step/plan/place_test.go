package plan

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// checkLayout fails if two buffers are in each other's way.
func checkLayout(t *testing.T, buffers []Buffer, l Layout, align int64) {
	t.Helper()
	most := int64(0)
	for i, a := range buffers {
		if a.Bytes == 0 {
			continue
		}
		if l.Offsets[i] < 0 || l.Offsets[i]%align != 0 {
			t.Fatalf("buffer %d is at %d", i, l.Offsets[i])
		}
		most = max(most, l.Offsets[i]+a.Bytes)
		for j, b := range buffers[:i] {
			if b.Bytes > 0 && a.From <= b.To && b.From <= a.To && l.Offsets[i] < l.Offsets[j]+b.Bytes && l.Offsets[j] < l.Offsets[i]+a.Bytes {
				t.Fatalf("buffers %d %+v at %d and %d %+v at %d overlap", j, b, l.Offsets[j], i, a, l.Offsets[i])
			}
		}
	}
	if most > l.Bytes || l.Bytes < l.Least {
		t.Fatalf("%d bytes are used of %d, and %d are the least", most, l.Bytes, l.Least)
	}
}

// smallest is the smallest block that there is: in some order, the lowest places
// make it.
func smallest(buffers []Buffer) int64 {
	offsets := make([]int64, len(buffers))
	best := int64(-1)
	var try func(placed []int, top int64)
	try = func(placed []int, top int64) {
		if best >= 0 && top >= best {
			return
		}
		if len(placed) == len(buffers) {
			best = top
			return
		}
		for i, b := range buffers {
			if slices.Contains(placed, i) {
				continue
			}
			// The lowest place on top of another one, or at the bottom.
			at := int64(0)
			sorted := slices.Clone(placed)
			slices.SortFunc(sorted, func(x, y int) int { return int(offsets[x] - offsets[y]) })
			for _, j := range sorted {
				o := buffers[j]
				if o.From > b.To || b.From > o.To {
					continue
				}
				if offsets[j]-at >= b.Bytes {
					break
				}
				at = max(at, offsets[j]+o.Bytes)
			}
			offsets[i] = at
			try(append(slices.Clone(placed), i), max(top, at+b.Bytes))
		}
	}
	try(nil, 0)
	return best
}

func TestPlaceIsSmallestOfFew(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	worse := 0
	for range 300 {
		buffers := make([]Buffer, 1+rng.IntN(7))
		for i := range buffers {
			from := rng.IntN(8)
			buffers[i] = Buffer{Bytes: rng.Int64N(9), From: from, To: from + rng.IntN(5)}
		}
		l, err := Place(buffers, 1)
		if err != nil {
			t.Fatal(err)
		}
		checkLayout(t, buffers, l, 1)
		if want := smallest(buffers); l.Bytes > want {
			worse++
			t.Logf("%v: %d bytes, %d would do", buffers, l.Bytes, want)
		}
	}
	if worse > 0 {
		t.Errorf("%d of 300 layouts are larger than need be", worse)
	}
}

// training are the lives of values of a training step: what a layer makes for its
// own backward pass, what is gone at once, and gradients.
func training(rng *rand.Rand, layers, each int) []Buffer {
	var list []Buffer
	n := 2 * layers * each
	for at := range layers * each {
		bytes := 1 + rng.Int64N(1<<20)
		switch rng.IntN(4) {
		case 0: // gone at once
			list = append(list, Buffer{bytes, at, at + 1})
		default:
			list = append(list, Buffer{bytes, at, n - 1 - at + rng.IntN(each)})
		}
		list = append(list, Buffer{bytes, n - 1 - at, n - at}) // its gradient
	}
	return list
}

func TestPlaceWithinFivePercent(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	sizes := [][2]int{{1, 5}, {4, 10}, {12, 10}, {24, 20}, {100, 5}}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, size := range sizes {
		for range 2 {
			buffers := training(rng, size[0], size[1])
			l, err := Place(buffers, 256)
			if err != nil {
				t.Fatal(err)
			}
			checkLayout(t, buffers, l, 256)
			if share := float64(l.Bytes) / float64(l.Least); share > 1.05 {
				t.Errorf("%v layers: %d buffers take %.3f times their largest live set", size, len(buffers), share)
			}
		}
	}
}

func TestPlaceEdges(t *testing.T) {
	l, err := Place(nil, 1)
	if err != nil || l.Bytes != 0 || l.Least != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	l, err = Place([]Buffer{{0, 1, 2}, {5, 3, 3}, {0, 3, 3}}, 4)
	if err != nil || l.Bytes != 8 || l.Least != 8 || len(l.Offsets) != 3 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, b := range []Buffer{{-1, 0, 0}, {1, 2, 1}, {math.MaxInt64, 0, 0}} {
		if _, err := Place([]Buffer{b}, 256); !errors.Is(err, ErrArgument) {
			t.Errorf("%+v: %v", b, err)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	for _, layers := range []int{24, 240} {
		buffers := training(rand.New(rand.NewPCG(2, 1)), layers, 30)
		b.Run(fmt.Sprint(len(buffers)), func(b *testing.B) {
			for b.Loop() {
				if _, err := Place(buffers, 256); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
