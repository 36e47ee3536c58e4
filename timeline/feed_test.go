package timeline

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// images are samples that are made as they are read, which takes time.
func images(t testing.TB, n int) dataset.Dataset {
	t.Helper()
	const side = 64
	pixels := testkit.RandomBytes(n*side*side*3, 1)
	ds, err := dataset.NewMemory(pixels, dataset.Spec{Shape: []int{side, side, 3}, DType: dtype.U8}, dataset.MemoryOptions{})
	testkit.OK(t, err)
	return ds
}

// A feed is all there: every stage, every batch, every byte, each arrow, nothing
// dropped, and the trace and the report hold what such files promise.
func TestFeed(t *testing.T) {
	for _, devices := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d devices", devices), func(t *testing.T) {
			r := start(t, Options{})
			var devs []device.Device
			for range devices {
				devs = append(devs, open(t, r))
			}
			l, err := loader.NewOn(devs, images(t, 300), loader.Options{Batch: 16, Epochs: 3, Workers: 3, Shuffle: true})
			testkit.OK(t, err)
			batches := 0
			for {
				b, err := l.Next(context.Background())
				if err == io.EOF {
					break
				}
				testkit.OK(t, err)
				testkit.OK(t, b.Release())
				batches++
			}
			stats := l.Stats()
			testkit.OK(t, l.Close())
			r.Stop()
			if r.Dropped() > 0 || r.Untimed() > 0 {
				t.Errorf("%d dropped, %d untimed", r.Dropped(), r.Untimed())
			}

			samples := 0
			var h2d int64
			ofBatches := map[string][]bool{}
			for _, s := range r.Spans(0, 1<<20) {
				switch {
				case s.Name == "samples":
					samples += s.Samples
				case s.Engine == H2D && s.Row == "loader copies":
					h2d += s.Bytes
				case s.Name == "upload" || s.Name == "wait for samples":
					if ofBatches[s.Name] == nil {
						ofBatches[s.Name] = make([]bool, batches+1)
					}
					if s.Batch > 0 {
						ofBatches[s.Name][s.Batch] = true
					}
				}
			}
			if int64(samples) != stats.Samples {
				t.Errorf("workers read %d samples, and %d were delivered", samples, stats.Samples)
			}
			if h2d != stats.BytesToDevice && stats.StagingBytes == 0 {
				t.Errorf("%d bytes went to devices, %d by the loader's count", h2d, stats.BytesToDevice)
			}
			for what, of := range ofBatches {
				if i := slices.Index(of[1:], false); i >= 0 {
					t.Errorf("there is no %s of batch %d of %d", what, i+1, batches)
				}
			}

			x := checkTrace(t, written(t, r))
			if x.Other.Overlap.Dropped != 0 || x.Other.Overlap.Untimed != 0 || x.flows == 0 {
				t.Errorf("%+v, %d arrows", x.Other, x.flows)
			}
			id := devs[0].Info().ID
			for _, want := range []string{"loader", callsTo(id), id} {
				if len(x.spansOf(want)) == 0 {
					t.Errorf("nothing of %q in %v", want, x.processes)
				}
			}
			if calls, work := len(x.spansOf(callsTo(id))), len(x.spansOf(id)); x.flows != work || calls < work {
				t.Errorf("%d calls, %d pieces of work and %d arrows", calls, work, x.flows)
			}
			if len(x.counters["allocated from the device"]) == 0 {
				t.Errorf("no counter of memory in %v", x.counters)
			}

			rep := r.Report()
			checkReport(t, rep)
			if len(rep.Devices) != 1 || rep.Devices[0].Device != id || rep.FirstByteSeconds <= 0 {
				t.Fatalf("%+v", rep)
			}
			var engines []Engine
			for _, e := range rep.Devices[0].Engines {
				engines = append(engines, e.Engine)
				if e.Engine == H2D && (stats.StagingBytes == 0 && e.Bytes != stats.BytesToDevice || e.BusySeconds <= 0) {
					t.Errorf("%+v, want %d bytes", e, stats.BytesToDevice)
				}
			}
			if !slices.Equal(engines, []Engine{H2D, Compute}) {
				t.Errorf("engines %v", engines)
			}
			var stages []string
			for _, s := range rep.Stages {
				stages = append(stages, s.Where+": "+s.Stage)
			}
			for _, want := range []string{"worker: read", "consumer: wait for a batch", "upload " + id + ": upload"} {
				if !slices.Contains(stages, want) {
					t.Errorf("no stage %q in %q", want, stages)
				}
			}
		})
	}
}

// Copies of an engine, moves of a store and what pools hold are told of.
func TestMovesAndAmounts(t *testing.T) {
	r := start(t, Options{Every: time.Millisecond})
	dev := open(t, r)
	id := dev.Info().ID
	ctx := context.Background()

	e, err := transfer.New(dev, transfer.Options{Copiers: 2, StageAbove: 1 << 10})
	testkit.OK(t, err)
	p, err := dev.Alloc(1 << 20)
	testkit.OK(t, err)
	host := make([]byte, 1<<20)
	testkit.OK(t, e.H2D(ctx, p, host))
	testkit.OK(t, e.D2H(ctx, host, p))
	testkit.OK(t, e.Close())
	testkit.OK(t, dev.Free(p))

	s, err := tier.New(dev, tier.Options{DeviceBytes: 4 << 20, HostBytes: 32 << 20})
	testkit.OK(t, err)
	stream, err := dev.NewStream()
	testkit.OK(t, err)
	var arrays []*tier.Array
	for i := range 12 {
		a, err := s.NewArray(fmt.Sprintf("array %d", i), 1<<20)
		testkit.OK(t, err)
		arrays = append(arrays, a)
	}
	for range 3 {
		for _, a := range arrays {
			lease, err := s.Use(ctx, stream, tier.Write(a))
			testkit.OK(t, err)
			testkit.OK(t, stream.Memset(lease.Ptr(a), 1, 1<<20))
			testkit.OK(t, lease.Release())
		}
	}
	pool, err := vram.New(dev, vram.Options{})
	testkit.OK(t, err)
	block, err := pool.Alloc(ctx, 1<<20, vram.Use{Stream: stream, Purpose: vram.Weights})
	testkit.OK(t, err)
	pin, err := pinned.NewPool(dev, pinned.Options{Budget: 1 << 20, AllowPageable: true})
	testkit.OK(t, err)
	buffer, err := pin.Alloc(ctx, 1<<16)
	testkit.OK(t, err)
	testkit.Eventually(t, "the amounts are looked at", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, k := range []string{"vram weights", "pinned in use"} {
			if _, ok := r.store.rows.ids[rowKey{id, k}]; !ok {
				return false
			}
		}
		return true
	})
	testkit.OK(t, buffer.Free())
	testkit.OK(t, pin.Close())
	testkit.OK(t, block.Free())
	testkit.OK(t, pool.Close())
	testkit.OK(t, s.Close())
	testkit.OK(t, stream.Close())
	r.Stop()

	rows := map[string]int{}
	for _, s := range r.Spans(0, 1<<20) {
		rows[s.Group+": "+s.Row]++
		if strings.HasPrefix(s.Group, "tier") && s.Row != "uses" && (s.Bytes != 1<<20 || !strings.HasPrefix(s.Name, "array ")) {
			t.Errorf("%+v", s)
		}
	}
	for _, want := range []string{
		"transfer " + id + ": h2d", "transfer " + id + ": d2h", "tier " + id + ": fills", "tier " + id + ": write-backs",
		id + ": tier fills", id + ": tier write-backs",
	} {
		if rows[want] == 0 {
			t.Errorf("nothing of %q in %v", want, rows)
		}
	}
	x := checkTrace(t, written(t, r))
	for _, want := range []string{"vram weights", "vram reserved", "pinned in use", "tier device"} {
		list := x.counters[want]
		if len(list) == 0 {
			t.Errorf("no counter %q", want)
			continue
		}
		most := 0.0
		for _, e := range list {
			most = max(most, e.Args["bytes"].(float64))
		}
		if last := list[len(list)-1].Args["bytes"].(float64); most == 0 || last != 0 {
			t.Errorf("%s was %v bytes at most, and %v at last", want, most, last)
		}
	}
	checkReport(t, r.Report())
}

// A recording that ends while work is queued tells of it without times, and the
// device works on.
func TestStopsBetween(t *testing.T) {
	r := start(t, Options{})
	dev := open(t, r)
	c, ok := device.As[device.Caller](dev)
	if !ok {
		t.Skip("no work that lasts until it is told to end")
	}
	s, err := dev.NewStream()
	testkit.OK(t, err)
	gate := make(chan struct{})
	testkit.OK(t, c.Call(s, func() error { <-gate; return nil }))
	const behind = 10
	for range behind {
		testkit.OK(t, c.Call(s, func() error { return nil }))
	}
	for _, d := range r.devices() {
		d.finish(closedNow) // Stop would wait for longer
	}
	if got := r.Untimed(); got != behind+1 {
		t.Errorf("%d are untimed, want %d", got, behind+1)
	}
	close(gate)
	testkit.OK(t, c.Call(s, func() error { return nil }))
	testkit.OK(t, s.Synchronize())
	r.Stop()
	testkit.OK(t, c.Call(s, func() error { return nil }))
	testkit.OK(t, s.Close())
	checkTrace(t, written(t, r))
	if got := r.Untimed(); got != behind+2 {
		t.Errorf("%d are untimed, want %d", got, behind+2)
	}
}

// More work than is timed at once is told of without times.
func TestMostMarks(t *testing.T) {
	r := start(t, Options{})
	dev := open(t, r)
	s, err := dev.NewStream()
	testkit.OK(t, err)
	p, err := dev.Alloc(256)
	testkit.OK(t, err)
	d := r.devices()[0]
	d.made.Store(mostMarks - 3)
	d.collecting.Lock() // nothing lands
	rng := rand.New(rand.NewPCG(1, 1))
	for range 8 {
		testkit.OK(t, s.Memset(p, byte(rng.IntN(256)), 256))
	}
	d.collecting.Unlock()
	testkit.OK(t, s.Close())
	if got := r.Untimed(); got != 5 {
		t.Errorf("%d of 8 are untimed, want 5", got)
	}
	testkit.OK(t, dev.Free(p))
}
