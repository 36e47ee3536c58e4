package trace

import (
	"errors"
	"hash/fnv"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// small generators, quick enough to try many seeds.
func generators(seed uint64) map[string]func() (iter.Seq[Event], error) {
	model := Model{Layers: 3, Width: 16, Sequence: 8, Vocabulary: 64, Workspace: 1000}
	return map[string]func() (iter.Seq[Event], error){
		"random": func() (iter.Seq[Event], error) {
			return Random(RandomOptions{Count: 500, Max: 1000, Live: 9000, Seed: seed})
		},
		"streams": func() (iter.Seq[Event], error) {
			return Streams(StreamsOptions{Count: 500, Streams: 3, Max: 1 << 20, Live: 3 << 20, Seed: seed})
		},
		"cycles": func() (iter.Seq[Event], error) {
			return Cycles(CyclesOptions{Cycles: 10, Bytes: 10000, Min: 10, Max: 999, Seed: seed})
		},
		"steps": func() (iter.Seq[Event], error) {
			return Steps(StepsOptions{Model: model, Steps: 4, Batch: 3, Seed: seed})
		},
		"growing": func() (iter.Seq[Event], error) {
			return Growing(GrowingOptions{Model: model, Steps: 5, From: 2, To: 8, Seed: seed})
		},
	}
}

// run collects a trace, and checks that it makes sense and ends with nothing
// live.
func run(t *testing.T, make func() (iter.Seq[Event], error)) (events []Event, peak int64) {
	t.Helper()
	seq, err := make()
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(1)
	for e := range seq {
		events = append(events, e)
		if e.Op == Free {
			b, err := l.free(e.ID)
			if err != nil || b.bytes != e.Bytes || b.stream != e.Stream {
				t.Fatalf("%+v: %v, allocated as %+v", e, err, b)
			}
			continue
		}
		id, err := l.alloc(e.ID, 0, e.Bytes, e.Stream)
		if err != nil || id != e.ID {
			t.Fatalf("%+v: %v, want id %d", e, err, id)
		}
		peak = max(peak, l.bytes)
	}
	if l.bytes != 0 {
		t.Fatalf("%d bytes live at the end", l.bytes)
	}
	return events, peak
}

func TestGenerators(t *testing.T) {
	for seed := range uint64(20) {
		other := generators(seed + 1)
		for name, make := range generators(seed) {
			t.Run(name, func(t *testing.T) {
				events, _ := run(t, make)
				again, _ := run(t, make)
				if !slices.Equal(events, again) {
					t.Fatal("the same seed gave other events")
				}
				if different, _ := run(t, other[name]); slices.Equal(events, different) {
					t.Fatal("another seed gave the same events")
				}
				got, err := readAll(write(t, slices.Values(events)), Options{})
				if err != nil || !slices.Equal(got, events) {
					t.Fatalf("written and read: %v", err)
				}
				seq, _ := make()
				n := 0
				for range seq {
					if n++; n == len(events)/2 {
						break
					}
				}
			})
		}
	}
}

func TestRandomLimits(t *testing.T) {
	events, peak := run(t, generators(3)["random"])
	if peak > 9000 || peak < 8000 {
		t.Errorf("peak %d of 9000", peak)
	}
	var sizes []int64
	for _, e := range events {
		if e.Op == Alloc {
			sizes = append(sizes, e.Bytes)
		}
	}
	if len(sizes) != 500 || slices.Min(sizes) < 1 || slices.Min(sizes) > 20 || slices.Max(sizes) > 1000 || slices.Max(sizes) < 980 {
		t.Errorf("%d sizes of %d to %d", len(sizes), slices.Min(sizes), slices.Max(sizes))
	}
}

func TestStreamsLimits(t *testing.T) {
	events, peak := run(t, generators(3)["streams"])
	if peak > 3<<20 {
		t.Errorf("peak %d", peak)
	}
	perStream, small, allocs := map[int]int{}, 0, 0
	for _, e := range events {
		if e.Op == Alloc {
			allocs++
			perStream[e.Stream]++
			if e.Bytes < 512 || e.Bytes > 1<<20 {
				t.Errorf("%d bytes", e.Bytes)
			}
			if e.Bytes < 32<<10 { // 6 of the 11 powers of two
				small++
			}
		}
	}
	if allocs != 500 || len(perStream) != 3 || small < allocs*45/100 || small > allocs*65/100 {
		t.Errorf("%d allocations, %d small, by stream %v", allocs, small, perStream)
	}
}

func TestCyclesLimits(t *testing.T) {
	events, _ := run(t, generators(3)["cycles"])
	var live, high int64
	cycles := 0
	for _, e := range events {
		if e.Op == Alloc {
			live += e.Bytes
			high = max(high, live)
			continue
		}
		if live -= e.Bytes; live == 0 {
			if high != 10000 {
				t.Errorf("cycle %d reached %d bytes", cycles, high)
			}
			cycles++
			high = 0
		}
	}
	if cycles != 10 {
		t.Errorf("%d cycles", cycles)
	}
}

// TestGrowingSizes: activations follow the batch, and nothing else does.
func TestGrowingSizes(t *testing.T) {
	events, _ := run(t, generators(3)["growing"])
	var inputs, activations []int64
	purposes := map[string]bool{}
	for _, e := range events {
		if e.Op == Free {
			continue
		}
		purposes[e.Purpose] = true
		switch e.Name {
		case "inputs":
			inputs = append(inputs, e.Bytes)
		case "layer1.up":
			if e.Purpose == "activations" {
				activations = append(activations, e.Bytes)
			}
		}
	}
	const tokens = 8 // of a sample
	if want := []int64{2, 3, 5, 6, 8}; !slices.Equal(inputs, scaled(want, tokens*8)) || !slices.Equal(activations, scaled(want, tokens*4*16*2)) {
		t.Errorf("inputs %v, activations %v", inputs, activations)
	}
	if len(purposes) != 6 {
		t.Errorf("purposes %v", purposes)
	}
}

func scaled(values []int64, by int64) []int64 {
	var out []int64
	for _, v := range values {
		out = append(out, v*by)
	}
	return out
}

// TestDefaults pins the traces that the defaults make: published figures are
// about them.
func TestDefaults(t *testing.T) {
	for name, test := range map[string]struct {
		make   func() (iter.Seq[Event], error)
		events int
		peak   int64
		hash   uint64
	}{
		"random":  {func() (iter.Seq[Event], error) { return Random(RandomOptions{Seed: 1}) }, 20000, 17179863485, 0x30ece0099d6080b1},
		"streams": {func() (iter.Seq[Event], error) { return Streams(StreamsOptions{Seed: 1}) }, 20000, 8589922160, 0x27e675834865c47b},
		"cycles":  {func() (iter.Seq[Event], error) { return Cycles(CyclesOptions{Seed: 1}) }, 3322, 8589934592, 0xb252c21a34046b55},
		"steps":   {func() (iter.Seq[Event], error) { return Steps(StepsOptions{Seed: 1}) }, 18216, 19059179520, 0x74a4f2fb4142f837},
		"growing": {func() (iter.Seq[Event], error) { return Growing(GrowingOptions{Seed: 1}) }, 26936, 26575503360, 0x7977ed1019d20816},
	} {
		t.Run(name, func(t *testing.T) {
			events, peak := run(t, test.make)
			h := fnv.New64a()
			h.Write([]byte(write(t, slices.Values(events))))
			if len(events) != test.events || peak != test.peak || h.Sum64() != test.hash {
				t.Errorf("%d, %d, %#x: want %d, %d, %#x", len(events), peak, h.Sum64(), test.events, test.peak, test.hash)
			}
		})
	}
}

func TestGeneratorErrors(t *testing.T) {
	for name, make := range map[string]func() (iter.Seq[Event], error){
		"count":      func() (iter.Seq[Event], error) { return Random(RandomOptions{Count: -1}) },
		"max":        func() (iter.Seq[Event], error) { return Random(RandomOptions{Max: -1}) },
		"live":       func() (iter.Seq[Event], error) { return Random(RandomOptions{Max: 10, Live: 9}) },
		"streams":    func() (iter.Seq[Event], error) { return Streams(StreamsOptions{Streams: -1}) },
		"min":        func() (iter.Seq[Event], error) { return Streams(StreamsOptions{Min: 10, Max: 9}) },
		"full":       func() (iter.Seq[Event], error) { return Streams(StreamsOptions{Live: 1}) },
		"cycles":     func() (iter.Seq[Event], error) { return Cycles(CyclesOptions{Cycles: -1}) },
		"bytes":      func() (iter.Seq[Event], error) { return Cycles(CyclesOptions{Bytes: 5, Max: 6}) },
		"steps":      func() (iter.Seq[Event], error) { return Steps(StepsOptions{Steps: -1}) },
		"batch":      func() (iter.Seq[Event], error) { return Steps(StepsOptions{Batch: -1}) },
		"layers":     func() (iter.Seq[Event], error) { return Steps(StepsOptions{Model: Model{Layers: -1}}) },
		"huge model": func() (iter.Seq[Event], error) { return Steps(StepsOptions{Model: Model{Width: 1 << 40}}) },
		"huge batch": func() (iter.Seq[Event], error) { return Growing(GrowingOptions{To: 1 << 50}) },
		"shrinking":  func() (iter.Seq[Event], error) { return Growing(GrowingOptions{From: 5, To: 4}) },
	} {
		if seq, err := make(); !errors.Is(err, ErrArgument) || seq != nil {
			t.Errorf("%s: got %v, want %v", name, err, ErrArgument)
		}
	}
}

func TestOneStep(t *testing.T) {
	grown, _ := run(t, func() (iter.Seq[Event], error) { return Growing(GrowingOptions{Steps: 1, From: 8, To: 9}) })
	fixed, _ := run(t, func() (iter.Seq[Event], error) { return Steps(StepsOptions{Steps: 1, Batch: 8}) })
	if !slices.Equal(grown, fixed) {
		t.Error("one growing step differs from one step")
	}
}

func TestOctaves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, limits := range [][2]int64{{1, 1}, {1, 2}, {3, 3}, {5, 6}, {1, 9}, {512, 512}, {7, 1 << 10}, {math.MaxInt64, math.MaxInt64}, {1, math.MaxInt64}, {1<<62 + 1, math.MaxInt64}} {
		least, most := limits[1], limits[0]
		for range 1000 {
			size := octaves(rng, limits[0], limits[1])
			if size < limits[0] || size > limits[1] {
				t.Fatalf("%d is not in %v", size, limits)
			}
			least, most = min(least, size), max(most, size)
		}
		if limits[1] < 10 && [2]int64{least, most} != limits {
			t.Errorf("sizes of %d to %d, want %v", least, most, limits)
		}
	}
}
