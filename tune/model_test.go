package tune

import (
	"math"
	"slices"
	"testing"
)

// The model is the least over the stages, as its parts say.
func TestModel(t *testing.T) {
	m := Model{
		Variants: []Variant{{Pin: true, Correction: 1, Stages: []StageCost{
			{"decode", worker, []Value{{1, 1e-3}, {8, 2e-3}}},
			{link, "device", []Value{{8, 3e-4}}},
		}}},
		Steps: []Value{{64, 0.1}},
	}
	set := func(workers, prefetch int) Setting {
		return Setting{Workers: workers, Batch: 64, Prefetch: prefetch, Pin: true}
	}
	for _, c := range []struct {
		s    Setting
		want float64
	}{
		{set(1, 8), 1000},            // one worker
		{set(8, 8), 1 / 3e-4},        // the link
		{set(2, 8), 2000 / (8. / 7)}, // on the line between
		{set(16, 8), 1 / 3e-4},       // no further than what was measured
		{Setting{Workers: 8, Batch: 2, Prefetch: 1, Pin: true}, 4 / (2*2e-3/8 + 2e-3 + 2*3e-4)}, // Little's law
		{Setting{Workers: 1, Batch: 64, Prefetch: 8}, 0},                                        // nothing is known
	} {
		if got := m.Rate(c.s); math.Abs(got-c.want) > 1e-6*c.want {
			t.Errorf("%v: %g a second, want %g", c.s, got, c.want)
		}
	}
	for _, c := range []struct {
		s          Setting
		rate, wait float64
	}{{set(1, 8), 640, 0}, {set(8, 8), 640, 0}} {
		if rate, wait := m.Stepped(c.s); rate != c.rate || wait != c.wait {
			t.Errorf("%v: %g a second, a wait of %g", c.s, rate, wait)
		}
	}
	m.Steps[0].Value = 0.01
	if rate, wait := m.Stepped(set(1, 8)); math.Abs(rate-1000) > 1e-6 || math.Abs(wait-(1-1000/6400.)) > 1e-9 {
		t.Errorf("%g a second, a wait of %g", rate, wait)
	}
	m.Prefetch = []Value{{1, 0.5}, {4, 1}}
	if got, want := m.Rate(set(1, 2)), 750.; math.Abs(got-want) > 1e-6 {
		t.Errorf("%g a second, want %g", got, want)
	}
}

// Costs are what workers did, and the rest of their time without what they
// waited.
func TestCosts(t *testing.T) {
	m := Measurement{Elapsed: 1e9, Samples: 1000, Stages: []Stage{{"read", worker, 1e9}, {"decode", worker, 2e9}, {idle, worker, 5e8}, {link, "device", 1e8}}}
	want := map[string]float64{"read": 1e-3, "decode": 2e-3, overhead: 5e-4, link: 1e-4}
	list := m.costs(4)
	for _, c := range list {
		if got := c.at(4); math.Abs(got-want[c.Name]) > 1e-12 {
			t.Errorf("%s: %g, want %g", c.Name, got, want[c.Name])
		}
	}
	if len(list) != len(want) {
		t.Errorf("%v", list)
	}
	if m.Samples = 0; m.costs(4) != nil {
		t.Error("costs of nothing")
	}
}

// A copy that is staged costs what its copiers and chunks make of it.
func TestModelStaging(t *testing.T) {
	m := Model{Variants: []Variant{
		{Correction: 1, Stages: []StageCost{{link, "device", []Value{{8, 1e-3}}}}},
		{Correction: 1, Staged: true, Stages: []StageCost{{link, "device", []Value{{8, 1e-4}}}},
			Copiers: []Value{{2, 2}, {8, 1}, {16, 0.5}}, Chunks: []Value{{1 << 19, 4}, {1 << 21, 1}}},
	}}
	for _, c := range []struct {
		copiers int
		chunk   int64
		want    float64
	}{
		{0, 0, 1e3}, {8, 2 << 20, 1e4}, {2, 2 << 20, 5e3}, {16, 512 << 10, 5e3}, {8, 1 << 20, 1e4 / 2.5},
		{4, 2 << 20, 1e4 / (2 - 1./(1./2-1./8)/4)}, // as the share that is divided
	} {
		set := Setting{Workers: 8, Batch: 64, Prefetch: 8, Copiers: c.copiers, ChunkBytes: c.chunk}
		if got := m.Rate(set); math.Abs(got-c.want) > 1e-6*c.want {
			t.Errorf("%v: %g a second, want %g", set, got, c.want)
		}
	}
}

func TestSpace(t *testing.T) {
	s := Space{Workers: []int{1, 2}, Batch: []int{8}, Prefetch: []int{1, 2, 4}, Pin: []bool{true, false}}
	list := s.Settings()
	seen := map[Setting]bool{}
	for _, set := range list {
		seen[set] = true
		if s.at(s.place(set)) != set {
			t.Errorf("%v has no place", set)
		}
	}
	if len(list) != 12 || len(seen) != 12 {
		t.Errorf("%d settings, %d of them different", len(list), len(seen))
	}
	near := s.neighbours(Setting{Workers: 1, Batch: 8, Prefetch: 1}, func(x Setting) bool { return x.Prefetch != 2 })
	want := []Setting{{Workers: 2, Batch: 8, Prefetch: 1}, {Workers: 1, Batch: 8, Prefetch: 4}, {Workers: 1, Batch: 8, Prefetch: 1, Pin: true}}
	if len(near) != 3 || near[0] != want[0] || near[1] != want[1] || near[2] != want[2] {
		t.Errorf("%v", near)
	}
}

// Copiers and chunks are there where batches are staged, once, and the others
// are their neighbours.
func TestSpaceStaging(t *testing.T) {
	s := Space{
		Workers: []int{1, 2}, Batch: []int{8, 64, 128}, Prefetch: []int{1}, Pin: []bool{true, false}, Decode: []string{"cpu", "gpu"},
		Copiers: []int{2, 4, 8}, ChunkBytes: []int64{1 << 19, 1 << 21},
		chunks: map[int][]int64{64: {1 << 19}, 128: {1 << 19, 1 << 21}},
	}
	list := s.Settings()
	seen := map[Setting]bool{}
	for _, set := range list {
		if seen[set] || s.at(s.place(set)) != set {
			t.Errorf("%v comes twice, or has no place", set)
		}
		seen[set] = true
		if stages := !set.Pin && set.Decode == "cpu" && set.Batch > 8; set.staged() != stages || stages && (set.Copiers == 0 || set.ChunkBytes == 0) {
			t.Errorf("%v", set)
		}
	}
	// On the device 3 batch sizes, pinned or not; in workers pinned 3, else 1, 3 and 6.
	if want := 2 * (2*3 + 3 + 1 + 3 + 6); len(list) != want {
		t.Errorf("%d settings, want %d", len(list), want)
	}
	all := func(Setting) bool { return true }
	set := func(batch int, pin bool, decode string, copiers int, chunk int64) Setting {
		return Setting{1, batch, 1, pin, decode, copiers, chunk}
	}
	for _, c := range []struct {
		of   Setting
		want []Setting // but for the other number of workers, which comes first
	}{
		{set(128, true, "cpu", 0, 0), []Setting{
			set(64, true, "cpu", 0, 0), set(128, false, "cpu", 4, 1<<21), set(128, true, "gpu", 0, 0)}},
		{set(128, false, "cpu", 8, 1<<19), []Setting{
			set(64, false, "cpu", 8, 1<<19), set(128, true, "cpu", 0, 0), set(128, false, "gpu", 0, 0),
			set(128, false, "cpu", 4, 1<<19), set(128, false, "cpu", 8, 1<<21)}},
		{set(64, false, "cpu", 2, 1<<19), []Setting{
			set(8, false, "cpu", 0, 0), set(128, false, "cpu", 2, 1<<19), set(64, true, "cpu", 0, 0), set(64, false, "gpu", 0, 0),
			set(64, false, "cpu", 4, 1<<19)}},
		{set(8, false, "cpu", 0, 0), []Setting{set(64, false, "cpu", 4, 1<<19), set(8, true, "cpu", 0, 0), set(8, false, "gpu", 0, 0)}},
		{set(64, false, "gpu", 0, 0), []Setting{
			set(8, false, "gpu", 0, 0), set(128, false, "gpu", 0, 0), set(64, true, "gpu", 0, 0), set(64, false, "cpu", 4, 1<<19)}},
	} {
		if got := s.neighbours(c.of, all); len(got) == 0 || !slices.Equal(got[1:], c.want) {
			t.Errorf("%v:\n%v, want\n%v", c.of, got, c.want)
		}
	}
}
