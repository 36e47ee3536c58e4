package monitor_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/monitor"
)

// What others tell is in every snapshot until they are removed, added up by source
// and device, with counts that Since takes the difference of.
func TestForeign(t *testing.T) {
	if f := monitor.Take().Foreign; f == nil || len(f) != 0 {
		t.Errorf("%v", f)
	}
	a := monitor.Foreign{Source: "pytorch", Device: "cuda:1", ReservedBytes: 8, Allocations: 2}
	remove := monitor.AddForeign(func() []monitor.Foreign { return []monitor.Foreign{a} })
	removeOther := monitor.AddForeign(func() []monitor.Foreign {
		return []monitor.Foreign{{Source: "pytorch", Device: "cuda:1", ReservedBytes: 1}, {Source: "jax", Device: "cuda:1", OutOfMemory: 1}}
	})
	before := monitor.Take()
	want := []monitor.Foreign{
		{Source: "jax", Device: "cuda:1", OutOfMemory: 1},
		{Source: "pytorch", Device: "cuda:1", ReservedBytes: 9, Allocations: 2},
	}
	if !reflect.DeepEqual(before.Foreign, want) {
		t.Errorf("%+v", before.Foreign)
	}
	a.ReservedBytes, a.Allocations = 4, 5
	d := monitor.Take().Since(before)
	want[0].OutOfMemory = 0
	want[1].ReservedBytes, want[1].Allocations = 5, 3
	if !reflect.DeepEqual(d.Foreign, want) {
		t.Errorf("%+v", d.Foreign)
	}
	removeOther()
	removeOther()
	if f := monitor.Take().Foreign; len(f) != 1 || f[0] != a {
		t.Errorf("%+v", f)
	}
	remove()
	if f := monitor.Take().Foreign; len(f) != 0 {
		t.Errorf("%+v", f)
	}
}

// What cannot be is refused, and what was added is listed until it is removed.
func TestForeignMemory(t *testing.T) {
	good := func() monitor.ForeignMemory {
		return monitor.ForeignMemory{Source: "x", Device: "d", Stacks: [][]string{{"f"}}, Segments: []monitor.ForeignSegment{
			{Address: 512, Blocks: []monitor.ForeignBlock{{Bytes: 8, RequestedBytes: 7, State: "live", Stack: 1}, {Bytes: 8, State: "free"}}},
		}}
	}
	m := good()
	testkit.OK(t, m.Check())
	for name, change := range map[string]func(s *monitor.ForeignSegment, b *monitor.ForeignBlock){
		"nothing":        func(s *monitor.ForeignSegment, b *monitor.ForeignBlock) { b.Bytes = 0 },
		"less":           func(s *monitor.ForeignSegment, b *monitor.ForeignBlock) { b.Bytes = -1 },
		"asked for more": func(s *monitor.ForeignSegment, b *monitor.ForeignBlock) { b.RequestedBytes = 9 },
		"too much":       func(s *monitor.ForeignSegment, b *monitor.ForeignBlock) { b.Bytes = 1<<50 + 1 },
		"a state":        func(s *monitor.ForeignSegment, b *monitor.ForeignBlock) { b.State = "odd" },
		"a stack":        func(s *monitor.ForeignSegment, b *monitor.ForeignBlock) { b.Stack = 2 },
		"an address":     func(s *monitor.ForeignSegment, b *monitor.ForeignBlock) { s.Address = 1<<64 - 10 },
	} {
		m := good()
		change(&m.Segments[0], &m.Segments[0].Blocks[0])
		testkit.WantError(t, name, m.Check(), monitor.ErrArgument)
	}

	server := httptest.NewServer(monitor.Handler())
	defer server.Close()
	pools := func() int {
		answer, err := http.Get(server.URL + "/api/memory")
		testkit.OK(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		testkit.OK(t, err)
		return strings.Count(string(text), `"source":"x","reserved_bytes":16,`)
	}
	other := m
	other.Device = "e"
	remove := monitor.AddForeignMemory(func() []monitor.ForeignMemory { return []monitor.ForeignMemory{m, other} })
	if n := pools(); n != 2 { // the map is of the first, the other one is not surveyed
		t.Errorf("%d times with 16 bytes", n)
	}
	remove()
	if n := pools(); n != 0 {
		t.Errorf("%d times after it was removed", n)
	}
}
