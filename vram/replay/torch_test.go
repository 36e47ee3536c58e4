package replay_test

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/vram/replay"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// TestTorch compares the simulation with what PyTorch 2.11 reserved on an H200
// (bench/results/2026-11-21-h200/torch-replay.json).
func TestTorch(t *testing.T) {
	must := func(s iter.Seq[trace.Event], err error) iter.Seq[trace.Event] {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	few := must(trace.Random(trace.RandomOptions{Count: 1000, Max: 4 << 30, Live: 16 << 30, Seed: 1}))
	many := must(trace.Random(trace.RandomOptions{Seed: 1}))
	growing := must(trace.Growing(trace.GrowingOptions{Seed: 1}))
	cycles := must(trace.Cycles(trace.CyclesOptions{Seed: 1}))
	for _, c := range []struct {
		name       string
		events     iter.Seq[trace.Event]
		expandable bool
		capacity   int64
		reserved   int64 // by PyTorch
		ooms       int64
		more       int64 // that the simulation reserves
	}{
		{"random 1000", few, false, 149555380224, 63310921728, 0, 0},
		{"random 1000, full", few, false, 17708959067, 17649631232, 174, 0},
		{"random 10000", many, false, 149557477376, 30893146112, 0, 0},
		{"random 10000, full", many, false, 17711199469, 17710448640, 1150, 0},
		{"growing", growing, false, 149557477376, 105457385472, 0, 0},
		{"growing, full", growing, false, 27397426144, 27380416512, 6, 0},
		{"cycles", cycles, false, 149557477376, 14956888064, 0, 0},
		{"cycles, full", cycles, false, 8855602672, 8847884288, 144, 0},
		{"random 1000", few, true, 149006385152, 29003612160, 0, 0},
		{"random 1000, full", few, true, 17708959067, 17699962880, 0, 20 << 20},
		{"random 10000", many, true, 149008482304, 24769462272, 0, 0},
		{"random 10000, full", many, true, 17711199469, 17720934400, 0, 0},
		{"growing", growing, true, 149008482304, 26593984512, 0, 0},
		{"growing, full", growing, true, 27397426144, 26593984512, 0, 0},
		{"cycles", cycles, true, 149008482304, 8598323200, 0, 0},
		{"cycles, full", cycles, true, 8855602672, 8598323200, 0, 0},
	} {
		sim := replay.NewTorch(c.capacity, c.expandable)
		for e := range c.events {
			sim.Add(e)
		}
		if sim.PeakReservedBytes != c.reserved+c.more || sim.OOMs != c.ooms {
			t.Errorf("%s, expandable %t: %d bytes reserved, %d times out of memory; PyTorch: %d, %d",
				c.name, c.expandable, sim.PeakReservedBytes, sim.OOMs, c.reserved, c.ooms)
		}
	}
}

// TestTee: simulations see the events that are good, and the reader sees all, as far
// as it reads.
func TestTee(t *testing.T) {
	broken := errors.New("broken")
	events := func(yield func(trace.Event, error) bool) {
		_ = yield(trace.Event{Op: trace.Alloc, ID: 1, Bytes: 1 << 20}, nil) &&
			yield(trace.Event{Op: trace.Alloc, ID: 2, Bytes: 1 << 30}, broken) &&
			yield(trace.Event{Op: trace.Alloc, ID: 3, Bytes: 3 << 20}, nil) &&
			yield(trace.Event{Op: trace.Alloc, ID: 4, Bytes: 1 << 30}, nil)
	}
	a, b := replay.NewTorch(8<<30, false), replay.NewTorch(8<<30, true)
	var read []uint64
	for e, err := range replay.Tee(events, a, b) {
		if read = append(read, e.ID); err != nil && e.ID != 2 {
			t.Error(err)
		}
		if e.ID == 3 {
			break
		}
	}
	if !slices.Equal(read, []uint64{1, 2, 3}) || a.PeakReservedBytes != 22<<20 || b.PeakReservedBytes != 22<<20 {
		t.Errorf("read %v; %d and %d bytes reserved", read, a.PeakReservedBytes, b.PeakReservedBytes)
	}
}
