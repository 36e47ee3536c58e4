package monitor_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

var ctx = context.Background()

// of returns the element of a device, or an empty one.
func of[S any](list []S, device func(S) string, id string) (none S) {
	for _, x := range list {
		if device(x) == id {
			return x
		}
	}
	return none
}

func vramOf(s monitor.Snapshot, id string) monitor.VRAM {
	return of(s.VRAM, func(x monitor.VRAM) string { return x.Device }, id)
}

func pinnedOf(s monitor.Snapshot, id string) monitor.Pinned {
	return of(s.Pinned, func(x monitor.Pinned) string { return x.Device }, id)
}

func transferOf(s monitor.Snapshot, id string) monitor.Transfer {
	return of(s.Transfer, func(x monitor.Transfer) string { return x.Device }, id)
}

func tierOf(s monitor.Snapshot, id string) monitor.Tier {
	return of(s.Tier, func(x monitor.Tier) string { return x.Device }, id)
}

func loaderOf(s monitor.Snapshot, id string) monitor.Loader {
	return of(s.Loader, func(x monitor.Loader) string { return x.Device }, id)
}

// Pools and engines come and go, memory and bytes with them: a snapshot shows what
// there is, and all that was done.
func TestRandomOperations(t *testing.T) {
	dev := devicetest.Open(t)
	id := dev.Info().ID
	type held struct {
		vram    vram.Block
		pinned  *pinned.Buffer
		bytes   int64
		purpose vram.Purpose
	}
	type pool struct {
		vram   *vram.Pool
		pinned *pinned.Pool
		engine *transfer.Engine
		held   []held
	}
	var open []*pool
	before := monitor.Take()
	var allocations, frees, misfits, copies int64
	moved := map[string]int64{}
	r := rand.New(rand.NewPCG(7, 8))
	free := func(p *pool, i int) {
		h := p.held[i]
		if p.held = slices.Delete(p.held, i, i+1); h.pinned != nil {
			testkit.OK(t, h.pinned.Free())
			return
		}
		testkit.OK(t, h.vram.Free())
		frees++
	}
	shut := func(p *pool) {
		for len(p.held) > 0 {
			free(p, 0)
		}
		testkit.OK(t, p.engine.Close())
		testkit.OK(t, p.vram.Close())
		testkit.OK(t, p.pinned.Close())
	}
	target, err := dev.Alloc(1 << 16)
	testkit.OK(t, err)
	defer dev.Free(target)
	for range 400 {
		if len(open) == 0 || r.IntN(15) == 0 {
			p := new(pool)
			p.vram, err = vram.New(dev, vram.Options{Budget: 64 << 20})
			testkit.OK(t, err)
			p.pinned, err = pinned.NewPool(dev, pinned.Options{Budget: 1 << 20, SegmentBytes: 64 << 10, AllowPageable: true})
			testkit.OK(t, err)
			p.engine, err = transfer.New(dev, transfer.Options{StageAbove: 1 << 20})
			testkit.OK(t, err)
			open = append(open, p)
		}
		i := r.IntN(len(open))
		p := open[i]
		n := 1 + r.Int64N(60_000)
		switch r.IntN(8) {
		case 0, 1:
			purpose := vram.Purposes()[r.IntN(4)]
			b, err := p.vram.Alloc(ctx, n, vram.Use{Purpose: purpose})
			testkit.OK(t, err)
			p.held = append(p.held, held{vram: b, bytes: n, purpose: purpose})
			allocations++
		case 2:
			b, err := p.pinned.Alloc(ctx, n)
			if errors.Is(err, pinned.ErrBudget) {
				misfits++
				break
			}
			testkit.OK(t, err)
			p.held = append(p.held, held{pinned: b, bytes: n})
		case 3:
			_, err := p.pinned.Alloc(ctx, 2<<20)
			testkit.WantError(t, "more than the budget", err, pinned.ErrBudget)
			misfits++
		case 4, 5:
			if len(p.held) > 0 {
				free(p, r.IntN(len(p.held)))
			}
		case 6:
			toHost := r.IntN(2) == 0
			testkit.OK(t, p.engine.Do(ctx, transfer.Copy{Host: make([]byte, n), Device: target, ToHost: toHost}))
			copies++
			if toHost {
				moved["d2h"] += n
			} else {
				moved["h2d"] += n
			}
		case 7:
			if r.IntN(4) == 0 {
				shut(p)
				open = slices.Delete(open, i, i+1)
			}
		}

		s := monitor.Take()
		v, q, w := vramOf(s, id), pinnedOf(s, id), transferOf(s, id)
		var blocks, bytes, buffers, pinnedBytes int64
		purposes := map[string]int64{}
		for _, p := range open {
			for _, h := range p.held {
				if h.pinned != nil {
					buffers++
					pinnedBytes += h.bytes
				} else {
					blocks++
					bytes += h.bytes
					purposes[h.purpose.String()] += h.bytes
				}
			}
		}
		n = int64(len(open))
		if v.Pools != n || v.Blocks != blocks || v.RequestedBytes != bytes || v.AllocatedBytes < bytes || v.ReservedBytes < v.AllocatedBytes {
			t.Fatalf("%d pools with %d blocks of %d bytes: %+v", n, blocks, bytes, v)
		}
		for _, u := range v.Purposes {
			if u.RequestedBytes != purposes[u.Purpose] {
				t.Fatalf("%d bytes for %s: %+v", purposes[u.Purpose], u.Purpose, u)
			}
			delete(purposes, u.Purpose)
		}
		if len(purposes) > 0 {
			t.Fatalf("purposes are missing: %v", purposes)
		}
		// The pool of an engine's own is pinned too, but nothing was staged.
		if q.Pools != n || q.Buffers != buffers || q.RequestedBytes != pinnedBytes || q.BudgetBytes != n<<20 {
			t.Fatalf("%d pools with %d buffers of %d bytes: %+v", n, buffers, pinnedBytes, q)
		}
		if w.Engines != n {
			t.Fatalf("%d engines, want %d", w.Engines, n)
		}
		d := s.Since(before)
		if v := vramOf(d, id); v.Allocations != allocations || v.Frees != frees || v.Blocks != blocks {
			t.Fatalf("%d allocations, %d frees: %+v", allocations, frees, v)
		}
		if q := pinnedOf(d, id); q.Failures != misfits {
			t.Fatalf("%d failures: %+v", misfits, q)
		}
		got, ended := map[string]int64{}, int64(0)
		for _, x := range transferOf(d, id).Traffic {
			if x.Bytes > 0 {
				got[x.Direction] += x.Bytes
			}
			ended += x.Copies
			if x.Active != 0 || x.Failed != 0 {
				t.Fatalf("nothing is under way and nothing failed: %+v", x)
			}
		}
		if !maps.Equal(got, moved) || ended != copies {
			t.Fatalf("%d copies of %v bytes, want %d of %v", ended, got, copies, moved)
		}
	}
	for _, p := range open {
		shut(p)
	}
	s := monitor.Take()
	if v := vramOf(s, id); v.Pools != 0 || v.ReservedBytes != 0 || len(v.Purposes) == 0 || vramOf(s.Since(before), id).Frees != allocations {
		t.Errorf("all pools are closed, after %d allocations: %+v", allocations, v)
	}
	if frees == 0 || misfits == 0 || len(moved) != 2 {
		t.Errorf("%d frees, %d failures, %v bytes moved: the test does not test", frees, misfits, moved)
	}
}

// A store and a loader are shown with what their own statistics say, and their
// counts outlive them.
func TestTierAndLoader(t *testing.T) {
	dev := devicetest.Open(t)
	id := dev.Info().ID
	before := monitor.Take()
	store, err := tier.New(dev, tier.Options{DeviceBytes: 1 << 20, HostBytes: 8 << 20})
	testkit.OK(t, err)
	stream, err := dev.NewStream()
	testkit.OK(t, err)
	defer stream.Close()
	var arrays []*tier.Array
	for range 4 {
		a, err := store.NewArray("", 400<<10)
		testkit.OK(t, err)
		arrays = append(arrays, a)
	}
	for i := range 12 {
		l, err := store.Use(ctx, stream, tier.Write(arrays[i%4]))
		testkit.OK(t, err)
		testkit.OK(t, l.Release())
	}
	testkit.OK(t, stream.Synchronize())
	s, d := store.Stats(), tierOf(monitor.Take().Since(before), id)
	if d.Stores != 1 || d.Arrays != 4 || d.ArrayBytes != s.Bytes || d.Uses != 12 || d.UseBytes != s.UsedBytes ||
		d.Misses != s.Misses || d.MissBytes != s.MissedBytes || s.Misses == 0 || len(d.Levels) != len(s.Levels) {
		t.Errorf("%+v: %+v", s, d)
	}
	for i, l := range d.Levels {
		if l.Tier != s.Levels[i].Name || l.BudgetBytes != s.Levels[i].Budget {
			t.Errorf("tier %d is %+v, want %+v", i, l, s.Levels[i])
		}
	}
	testkit.OK(t, store.Close())
	d = tierOf(monitor.Take().Since(before), id)
	if d.Stores != 0 || d.Arrays != 0 || d.Uses != 12 || d.Misses != s.Misses {
		t.Errorf("the store is closed: %+v", d)
	}

	numbers := make([]float32, 100*3)
	ds, err := dataset.NewMemoryOf(numbers, []int{3}, dataset.MemoryOptions{})
	testkit.OK(t, err)
	ld, err := loader.New(dev, ds, loader.Options{Batch: 10, Workers: 2, Epochs: 1})
	testkit.OK(t, err)
	for {
		b, err := ld.Next(ctx)
		if err == io.EOF {
			break
		}
		testkit.OK(t, err)
		testkit.OK(t, b.Release())
	}
	stats, l := ld.Stats(), loaderOf(monitor.Take().Since(before), id)
	if l.Loaders != 1 || l.Devices != 1 || l.Workers != int64(stats.Workers) || l.Samples != 100 || l.Batches != 10 ||
		l.H2DBytes != stats.BytesToDevice || l.HostBytes != stats.HostBytes || len(l.Stages) != len(stats.Stages) {
		t.Errorf("%+v: %+v", stats, l)
	}
	for i, g := range l.Stages {
		if want := stats.Stages[i]; g.Stage != want.Name || g.Where != want.Where || g.Seconds < 0 {
			t.Errorf("stage %d is %+v, want %+v", i, g, want)
		}
	}
	testkit.OK(t, ld.Close())
	if l := loaderOf(monitor.Take().Since(before), id); l.Loaders != 0 || l.Workers != 0 || l.Samples != 100 {
		t.Errorf("the loader is closed: %+v", l)
	}
}

// Limit is the stage that the loader's own statistics name.
func TestLimit(t *testing.T) {
	l := monitor.Loader{Devices: 1, Workers: 4, Batches: 10, DeviceWaitSeconds: 0.9, Stages: []monitor.Stage{
		{Stage: "read", Where: "worker", Seconds: 0.5}, {Stage: "decode", Where: "worker", Seconds: 3},
		{Stage: "idle", Where: "worker", Seconds: 0.5}, {Stage: "h2d", Where: "device", Seconds: 0.1},
	}}
	if got := l.Limit(1); got != "decode" {
		t.Errorf("limit is %q, want decode", got)
	}
	l.DeviceWaitSeconds = 0
	if got := l.Limit(1); got != "device" {
		t.Errorf("nobody waited, and the limit is %q", got)
	}
}

// Counts never fall and amounts are never below zero, whoever opens and closes
// meanwhile.
func TestConcurrent(t *testing.T) {
	dev := devicetest.Open(t)
	id := dev.Info().ID
	const workers, rounds, each = 3, 20, 10
	before := monitor.Take()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range rounds {
				p, err := vram.New(dev, vram.Options{Budget: 64 << 20})
				if err != nil {
					t.Error(err)
					return
				}
				for range each {
					b, err := p.Alloc(ctx, 1000, vram.Use{Purpose: vram.Batch})
					if err == nil {
						err = b.Free()
					}
					if err != nil {
						t.Error(err)
					}
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	last := before
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		s := monitor.Take()
		v := vramOf(s.Since(last), id)
		if v.Allocations < 0 || v.Frees < 0 || v.AllocationBytes < 0 || v.DriverCalls < 0 || v.Pools < 0 || v.Blocks < 0 {
			t.Fatalf("a count fell: %+v", v)
		}
		last = s
	}
	if v := vramOf(last.Since(before), id); v.Allocations != workers*rounds*each || v.Frees != v.Allocations || v.Pools != 0 {
		t.Errorf("%d allocations: %+v", workers*rounds*each, v)
	}
}

// As JSON a snapshot comes back the same, its lists are there even when they are
// empty, and its keys are of the vocabulary.
func TestJSON(t *testing.T) {
	dev := devicetest.Open(t)
	pool, err := vram.New(dev, vram.Options{Budget: 64 << 20})
	testkit.OK(t, err)
	defer pool.Close()
	engine, err := transfer.New(dev, transfer.Options{})
	testkit.OK(t, err)
	defer engine.Close()
	testkit.OK(t, engine.H2D(ctx, 0, nil))
	text, err := json.Marshal(monitor.Take())
	testkit.OK(t, err)
	var s monitor.Snapshot
	testkit.OK(t, json.Unmarshal(text, &s))
	again, err := json.Marshal(s)
	testkit.OK(t, err)
	if string(again) != string(text) {
		t.Errorf("came back as\n%s\nfrom\n%s", again, text)
	}
	if strings.Contains(string(text), "null") {
		t.Errorf("a list is missing: %s", text)
	}
}

// A device is found by its wrapper too.
func TestWrapped(t *testing.T) {
	dev := devicetest.Open(t)
	id := dev.Info().ID
	before := vramOf(monitor.Take(), id).Pools
	pool, err := vram.New(device.Wrapper{Device: dev}, vram.Options{Budget: 64 << 20})
	testkit.OK(t, err)
	defer pool.Close()
	if got := vramOf(monitor.Take(), id).Pools; got != before+1 {
		t.Errorf("%d pools, want %d", got, before+1)
	}
}
