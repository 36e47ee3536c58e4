package vram

import (
	"errors"
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
