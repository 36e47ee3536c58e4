package vram

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestLookup(t *testing.T) {
	for _, source := range []Source{SourceChunks, SourceDriver} {
		p := newPool(t, devicetest.Open(t), Options{Source: source})
		a, b := alloc(t, p, 1000, Use{}), alloc(t, p, 3<<20, Use{})
		for _, c := range []struct {
			at   device.Ptr
			want Block
		}{{a.Ptr(), a}, {a.Ptr() + 999, a}, {b.Ptr() + 1<<20, b}, {1, Block{}}, {0, Block{}}} {
			got, err := p.Lookup(c.at)
			if got != c.want || (err != nil) != (c.want == Block{}) || err != nil && !errors.Is(err, ErrForeign) {
				t.Errorf("%#x: %+v, %v", uint64(c.at), got, err)
			}
		}
		x, err := p.Lookup(a.Ptr())
		testkit.OK(t, err)
		testkit.OK(t, x.Free())
		if _, err := p.Lookup(a.Ptr()); !errors.Is(err, ErrForeign) {
			t.Error(err)
		}
		if err := a.Free(); !errors.Is(err, ErrFreed) {
			t.Error(err)
		}
		testkit.OK(t, b.Free())
	}
}

func TestHistory(t *testing.T) {
	p := newPool(t, devicetest.Open(t), Options{Source: SourceChunks, History: 6, Stacks: StacksAll})
	a := alloc(t, p, 1000, Use{Purpose: Gradients, Name: "w"})
	testkit.OK(t, a.Free())
	s := p.Snapshot()
	var kinds []EventKind
	for i, e := range s.Events {
		kinds = append(kinds, e.Kind)
		if i > 0 && e.Time < s.Events[i-1].Time {
			t.Errorf("event %d is at %v, after %v", i, e.Time, s.Events[i-1].Time)
		}
	}
	if len(kinds) != 3 || kinds[0] != EventMap || kinds[1] != EventAlloc || kinds[2] != EventFree || s.Dropped != 0 {
		t.Fatalf("%v, %d dropped", kinds, s.Dropped)
	}
	e := s.Events[1]
	f, ok := e.Stack.Caller()
	if e.Address != a.Ptr() || e.Bytes < 1024 || e.Asked != 1000 || e.Purpose != Gradients || e.Name != "w" || !ok || !strings.HasSuffix(f.Function, "vram.alloc") {
		t.Errorf("%+v, from %+v", e, f)
	}
	for range 10 {
		testkit.OK(t, alloc(t, p, 1000, Use{}).Free())
	}
	if s := p.Snapshot(); len(s.Events) != 6 || s.Dropped != 17 || s.Events[5].Kind != EventFree {
		t.Errorf("%d events, %d dropped", len(s.Events), s.Dropped)
	}
}

func TestSnapshot(t *testing.T) {
	p := newPool(t, devicetest.Open(t), Options{Source: SourceChunks, ChunkBytes: 2 << 20})
	a, b := alloc(t, p, 1000, Use{Purpose: Weights}), alloc(t, p, 3<<20, Use{Name: "x"})
	s := p.Snapshot()
	if len(s.Segments) != 2 {
		t.Fatalf("%+v", s.Segments)
	}
	for _, g := range s.Segments {
		at := g.Address
		var sum int64
		for _, i := range g.Blocks {
			if i.Address != at {
				t.Errorf("a block at %#x, want %#x", uint64(i.Address), uint64(at))
			}
			at, sum = at.Add(i.Bytes), sum+i.Bytes
		}
		first := g.Blocks[0]
		want := b
		if g.Small {
			want = a
		}
		if sum != g.Bytes || first.State != BlockLive || first.Address != want.Ptr() || first.Requested != want.Bytes() {
			t.Errorf("%+v", g)
		}
	}
	testkit.OK(t, a.Free())
	testkit.OK(t, b.Free())
}

// Visit shows the segments and blocks of Snapshot, also when the pool is closed.
func TestVisit(t *testing.T) {
	for _, source := range []Source{SourceChunks, SourceSegments, SourceDriver} {
		p := newPool(t, devicetest.Open(t), Options{Source: source})
		var held []Block
		for i := range 200 {
			held = append(held, alloc(t, p, int64(1000+i*i*100), Use{Purpose: Purposes()[i%4], Name: "x"}))
			if i%3 == 2 {
				testkit.OK(t, held[i-1].Free())
				held[i-1] = Block{}
			}
		}
		var segments []Segment
		p.Visit(func(b BlockInfo, first bool) {
			if first {
				segments = append(segments, Segment{Address: b.Address})
			}
			s := &segments[len(segments)-1]
			s.Bytes += b.Bytes
			s.Blocks = append(s.Blocks, b)
		})
		slices.SortFunc(segments, func(a, b Segment) int { return cmp.Compare(a.Address, b.Address) })
		want := p.Snapshot().Segments
		for i := range want {
			want[i].Small = false // which Visit does not tell
		}
		if len(want) == 0 || !reflect.DeepEqual(segments, want) {
			t.Errorf("source %d: %d segments, want %d\n%+v\n%+v", source, len(segments), len(want), segments, want)
		}
		for _, b := range held {
			if b != (Block{}) {
				testkit.OK(t, b.Free())
			}
		}
		testkit.OK(t, p.Close())
		p.Visit(func(b BlockInfo, _ bool) { t.Errorf("source %d: of a closed pool: %+v", source, b) })
	}
}

func BenchmarkVisit(b *testing.B) {
	p := newPool(b, devicetest.Open(b), Options{Stacks: StacksAll})
	var held []Block
	for range 300_000 {
		held = append(held, alloc(b, p, 512, Use{Purpose: Weights, Name: "layer"}))
	}
	var blocks []BlockInfo
	for b.Loop() {
		blocks = blocks[:0]
		p.Visit(func(b BlockInfo, _ bool) { blocks = append(blocks, b) })
	}
	for _, block := range held {
		testkit.OK(b, block.Free())
	}
}
