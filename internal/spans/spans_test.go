package spans

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func Example() {
	var set Set
	set.Insert(0x1000, 64)
	set.Insert(0x1040, 64)
	fmt.Println(set.Find(0x1010, 16))
	fmt.Println(set.Find(0x1010, 64))
	fmt.Println(set.Covers(0x1010, 64), set.Tiles(0x1010, 64), set.Tiles(0x1000, 128))
	// Output:
	// {4096 64} true
	// {0 0} false
	// true false true
}

// model is a set as an array of addresses, each with the span that holds it.
type model struct {
	owner [4000]Span
	count int
}

func (m *model) has(at uint64) (Span, bool) { return m.owner[at], m.owner[at].Bytes > 0 }

func (m *model) in(start uint64, n int64) []Span {
	var list []Span
	for at := start; at < start+uint64(n); at++ {
		if span, ok := m.has(at); ok && !slices.Contains(list, span) {
			list = append(list, span)
		}
	}
	return list
}

func (m *model) insert(span Span) {
	for at := span.Start; at < span.End(); at++ {
		m.owner[at] = span
	}
	m.count++
}

func (m *model) remove(span Span) {
	clear(m.owner[span.Start:span.End()])
	m.count--
}

// TestRandom compares the set with a model, from nearly empty to full and
// back.
func TestRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var set Set
	var m model
	most := 0
	for round := range 40_000 {
		start, n := uint64(rng.IntN(3900)), int64(1+rng.IntN(3))
		growing := round/10_000%2 == 0
		switch op := rng.IntN(10); {
		case op < 4 && growing || op == 0:
			want := len(m.in(start, n)) == 0
			if set.Overlaps(start, n) == want {
				t.Fatalf("Overlaps(%d, %d) = %v", start, n, !want)
			}
			if got := set.Insert(start, n); got != want {
				t.Fatalf("Insert(%d, %d) = %v, want %v", start, n, got, want)
			}
			if want {
				m.insert(Span{start, n})
			}
		case op < 4:
			span, ok := m.has(start)
			want := ok && span.Start == start
			if got, ok := set.Remove(start); ok != want || want && got != span.Bytes {
				t.Fatalf("Remove(%d) = %d, %v, want %v, %v", start, got, ok, span, want)
			}
			if want {
				m.remove(span)
			}
		case op < 6:
			first, ok := m.has(start)
			want := ok && first.End() >= start+uint64(n)
			if span, got := set.Find(start, n); got != want || want && span != first {
				t.Fatalf("Find(%d, %d) = %v, %v, want %v, %v", start, n, span, got, first, want)
			}
		case op < 9:
			n = 1 + rng.Int64N(1<<rng.IntN(7))
			list := m.in(start, n)
			if got := slices.Collect(set.In(start, n)); !slices.Equal(got, list) {
				t.Fatalf("In(%d, %d) = %v, want %v", start, n, got, list)
			}
			covers := !slices.Contains(m.owner[start:start+uint64(n)], Span{})
			if got := set.Covers(start, n); got != covers {
				t.Fatalf("Covers(%d, %d) = %v", start, n, got)
			}
			tiles := covers && list[0].Start == start && list[len(list)-1].End() == start+uint64(n)
			if got := set.Tiles(start, n); got != tiles {
				t.Fatalf("Tiles(%d, %d) = %v", start, n, got)
			}
		default:
			if n = 1 + rng.Int64N(8); !growing && rng.IntN(100) == 0 {
				n = rng.Int64N(2000)
			}
			n = min(max(n, 1), int64(len(m.owner))-int64(start))
			for _, span := range m.in(start, n) {
				if span.Start >= start && span.End() <= start+uint64(n) {
					m.remove(span)
				}
			}
			set.RemoveIn(start, n)
		}
		if round%100 == 0 {
			all := set.All()
			if len(all) != m.count || !slices.Equal(all, m.in(0, int64(len(m.owner)))) {
				t.Fatalf("%d spans, want %d", len(all), m.count)
			}
			for _, block := range set.blocks {
				if len(block) == 0 || len(block) > blockSpans {
					t.Fatalf("a block of %d spans", len(block))
				}
			}
			most = max(most, len(set.blocks))
		}
	}
	if most < 4 {
		t.Errorf("%d blocks at most: too few to tell anything", most)
	}
}

// Ranges that end where addresses end.
func TestEnd(t *testing.T) {
	var set Set
	const last = math.MaxUint64 - 15
	set.Insert(last-16, 16)
	set.Insert(last, 15)
	if !set.Covers(last-8, 23) || set.Covers(last-8, 24) || set.Covers(last-8, math.MaxInt64) ||
		!set.Overlaps(last, math.MaxInt64) || set.Tiles(last-16, 32) || !set.Tiles(last-16, 31) {
		t.Error("wrong at the end of addresses")
	}
	set.RemoveIn(last, math.MaxInt64)
	if got := set.All(); !slices.Equal(got, []Span{{last - 16, 16}}) {
		t.Errorf("%v left", got)
	}
}

// A set that shrinks gives blocks up, and one that goes back and forth takes
// no memory for it.
func TestBlocks(t *testing.T) {
	var set Set
	const n = 100 * blockSpans
	for i := range uint64(n) {
		set.Insert(i*2, 1)
	}
	if len(set.blocks) > 2*n/blockSpans+1 {
		t.Errorf("%d blocks for %d spans", len(set.blocks), n)
	}
	for i := range uint64(n) {
		if i%64 != 0 {
			set.Remove(i * 2)
		}
	}
	if left := n / 64; len(set.blocks) > 4*left/blockSpans+2 {
		t.Errorf("%d blocks for %d spans", len(set.blocks), left)
	}
	for range 2 {
		allocations := testing.AllocsPerRun(100, func() {
			set.Insert(1, 1)
			set.Remove(1)
		})
		if allocations != 0 {
			t.Errorf("%g allocations for an insertion and a removal in a set of %d", allocations, len(set.All()))
		}
		set.RemoveIn(0, math.MaxInt64)
	}
	if len(set.All()) != 0 {
		t.Error("not empty")
	}
}

// BenchmarkInsertRemove takes a span out of a set of that many and puts it
// back.
func BenchmarkInsertRemove(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var set Set
			for i := range n {
				set.Insert(uint64(i)*16, 16)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				start := uint64(rng.IntN(n)) * 16
				set.Remove(start)
				set.Insert(start, 16)
			}
		})
	}
}
