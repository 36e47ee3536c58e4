package leaks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/monitor/leaks"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/vram"
)

var ctx = context.Background()

// bench is one of each thing that can leak.
type bench struct {
	vram   *vram.Pool
	pinned *pinned.Pool
	store  *tier.Store
	layer  *tier.Array
	stream device.Stream
	quit   chan struct{}
}

func newBench(t *testing.T) *bench {
	dev := devicetest.OpenDiscrete(t, 256<<20)
	b := &bench{quit: make(chan struct{})}
	var err error
	b.vram, err = vram.New(dev, vram.Options{})
	testkit.OK(t, err)
	b.pinned, err = pinned.NewPool(dev, pinned.Options{Name: "slabs", Budget: 64 << 20})
	testkit.OK(t, err)
	b.store, err = tier.New(dev, tier.Options{DeviceBytes: 1 << 20, HostBytes: 8 << 20})
	testkit.OK(t, err)
	b.stream, err = dev.NewStream()
	testkit.OK(t, err)
	t.Cleanup(func() {
		close(b.quit)
		testkit.OK(t, b.store.Close())
		testkit.OK(t, b.pinned.Close())
		_ = b.vram.Close() // says what leaked
		testkit.OK(t, b.stream.Close())
	})
	return b
}

//go:noinline
func (b *bench) block(t *testing.T, name string) vram.Block {
	x, err := b.vram.Alloc(ctx, 5000, vram.Use{Purpose: vram.KVCache, Name: name})
	testkit.OK(t, err)
	return x
}

//go:noinline
func (b *bench) buffer(t *testing.T) *pinned.Buffer {
	x, err := b.pinned.Alloc(ctx, 3000)
	testkit.OK(t, err)
	return x
}

//go:noinline
func (b *bench) array(t *testing.T, name string) *tier.Array {
	x, err := b.store.NewArray(name, 4096)
	testkit.OK(t, err)
	return x
}

//go:noinline
func (b *bench) lease(t *testing.T, a *tier.Array) *tier.Lease {
	x, err := b.store.Use(ctx, b.stream, tier.Read(a))
	testkit.OK(t, err)
	return x
}

//go:noinline
func (b *bench) register(t *testing.T, memory []byte) *pinned.Registration {
	x, err := b.pinned.Register(memory)
	testkit.OK(t, err)
	return x
}

//go:noinline
func (b *bench) wait(quit chan struct{}) { go func() { <-quit }() }

// A leak of each kind is found, with what a step leaves and where it came from, and
// the same use without the leak is not.
func TestKinds(t *testing.T) {
	page := 4096
	for _, kind := range []struct {
		name, kind, function, of string
		bytes                    float64
		step                     func(t *testing.T, b *bench, step int, leak bool)
	}{
		{"vram", leaks.VRAM, "leaks_test.(*bench).block", "request #", 5000, func(t *testing.T, b *bench, step int, leak bool) {
			if x := b.block(t, fmt.Sprint("request ", step)); !leak {
				testkit.OK(t, x.Free())
			}
		}},
		{"pinned", leaks.Pinned, "leaks_test.(*bench).buffer", "slabs", 3000, func(t *testing.T, b *bench, _ int, leak bool) {
			if x := b.buffer(t); !leak {
				testkit.OK(t, x.Free())
			} else {
				t.Cleanup(func() { testkit.OK(t, x.Free()) })
			}
		}},
		{"registered", leaks.Pinned, "leaks_test.(*bench).register", "slabs", 1, func(t *testing.T, b *bench, step int, leak bool) {
			if x := b.register(t, region[step*2*page:][:1]); !leak {
				testkit.OK(t, x.Unregister())
			} else {
				t.Cleanup(func() { testkit.OK(t, x.Unregister()) })
			}
		}},
		{"tier", leaks.Tier, "leaks_test.(*bench).array", "layer", 4096, func(t *testing.T, b *bench, _ int, leak bool) {
			if x := b.array(t, "layer"); !leak {
				testkit.OK(t, x.Free())
			}
		}},
		{"lease", leaks.Tier, "leaks_test.(*bench).lease", "layer", 4096, func(t *testing.T, b *bench, step int, leak bool) {
			if b.layer == nil {
				b.layer = b.array(t, "layer")
			}
			if x := b.lease(t, b.layer); !leak {
				testkit.OK(t, x.Release())
			} else {
				t.Cleanup(func() { testkit.OK(t, x.Release()) })
			}
		}},
		{"goroutine", leaks.Goroutine, "leaks_test.(*bench).wait", "", 0, func(t *testing.T, b *bench, _ int, leak bool) {
			quit := make(chan struct{})
			if leak {
				quit = b.quit
			} else {
				defer close(quit)
			}
			b.wait(quit)
		}},
	} {
		for _, leak := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/leak=%t", kind.name, leak), func(t *testing.T) {
				b := newBench(t)
				w := leaks.Start(leaks.Options{})
				defer w.Stop()
				for step := range 70 {
					kind.step(t, b, step, leak)
					w.Step()
				}
				r := w.Report()
				if !leak {
					testkit.OK(t, r.Err())
					return
				}
				testkit.WantError(t, "a leak", r.Err(), leaks.ErrLeak, strings.TrimPrefix(kind.function, "leaks_test."))
				if len(r.Leaks) != 1 {
					t.Fatalf("%d leaks:\n%v", len(r.Leaks), r)
				}
				s := r.Leaks[0]
				if s.Kind != kind.kind || s.ItemsPerStep != 1 || s.BytesPerStep != kind.bytes || s.Name != kind.of ||
					!strings.Contains(s.Where(), kind.function) {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// region is memory outside the heap's ordinary objects to register a byte of every
// other page of.
var region = make([]byte, 2*4096*100)

// A program with all that is no leak on real pools, and under it a slow leak of one
// small block in eight steps: below a cache of device memory that grows by far more
// until it is full, a queue of pinned buffers that are filled ahead, arrays that move
// between tiers, and workers that come and go.
func TestProgram(t *testing.T) {
	for _, leak := range []bool{false, true} {
		t.Run(fmt.Sprintf("leak=%t", leak), func(t *testing.T) {
			b := newBench(t)
			r := rand.New(rand.NewPCG(3, 4))
			stream := b.stream
			var err error
			var arrays []*tier.Array
			for range 12 {
				x, err := b.store.NewArray("expert", 200<<10)
				testkit.OK(t, err)
				arrays = append(arrays, x)
			}
			w := leaks.Start(leaks.Options{})
			defer w.Stop()
			cache := map[int]vram.Block{}
			var queue []*pinned.Buffer
			const steps = 1200
			for step := range steps {
				if k := r.IntN(200); cache[k] == (vram.Block{}) {
					cache[k], err = b.vram.Alloc(ctx, 256<<10, vram.Use{Purpose: vram.KVCache, Name: fmt.Sprint("prefix ", k)})
					testkit.OK(t, err)
				}
				for range r.IntN(4) {
					queue = append(queue, b.buffer(t))
				}
				for len(queue) > 6 || len(queue) > 0 && r.IntN(3) == 0 {
					testkit.OK(t, queue[0].Free(stream))
					queue = queue[1:]
				}
				l, err := b.store.Use(ctx, stream, tier.Write(arrays[r.IntN(len(arrays))]))
				testkit.OK(t, err)
				testkit.OK(t, l.Release())
				done := make(chan struct{})
				b.wait(done)
				close(done)
				if x := b.block(t, "loss"); !leak || step%8 != 0 {
					testkit.OK(t, x.Free())
				}
				w.Step()
			}
			for _, x := range queue {
				testkit.OK(t, x.Free())
			}
			rep := w.Report()
			if !leak {
				testkit.OK(t, rep.Err())
				return
			}
			if len(rep.Leaks) != 1 || rep.Leaks[0].Name != "loss" || !strings.Contains(rep.Leaks[0].Where(), "block") ||
				math.Abs(rep.Leaks[0].ItemsPerStep-1./8) > 0.01 {
				t.Errorf("%v", rep)
			}
		})
	}
}

// Without stacks, purpose and name tell leaks apart, and nobody notes stacks.
func TestNoStacks(t *testing.T) {
	b := newBench(t)
	w := leaks.Start(leaks.Options{NoStacks: true})
	defer w.Stop()
	for range 40 {
		b.block(t, "loss")
		w.Step()
	}
	r := w.Report()
	if len(r.Leaks) != 1 || r.Leaks[0].Name != "loss" || len(r.Leaks[0].Stack) != 0 {
		t.Errorf("%v", r)
	}
}

// Stacks are noted while a watch runs, and no longer.
func TestStop(t *testing.T) {
	b := newBench(t)
	w := leaks.Start(leaks.Options{})
	x := b.block(t, "")
	defer x.Free()
	if len(b.vram.Live()[0].Stack) == 0 {
		t.Error("no stack was noted")
	}
	w.Stop()
	w.Stop()
	y := b.block(t, "")
	defer y.Free()
	for _, l := range b.vram.Live() {
		if l.Address == y.Ptr() && len(l.Stack) != 0 {
			t.Error("a stack was noted")
		}
	}
}

// Goroutines may step, allocate and report at once.
func TestConcurrent(t *testing.T) {
	b := newBench(t)
	w := leaks.Start(leaks.Options{})
	defer w.Stop()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				if x, err := b.vram.Alloc(ctx, 1000, vram.Use{}); err != nil || x.Free() != nil {
					t.Error("cannot allocate or free", err)
				}
				w.Step()
				_ = w.Report()
			}
		})
	}
	all.Wait()
	if r := w.Report(); r.Steps < 192 || r.Steps > 200 { // the last of 200 may lie in a generation that is not over
		t.Errorf("%d steps", r.Steps)
	}
}

// What pools keep for reuse is a cache, however it grows.
func TestCaches(t *testing.T) {
	b := newBench(t)
	w := leaks.Start(leaks.Options{})
	defer w.Stop()
	id := b.vram.Device().Info().ID
	for step := range 64 {
		x, err := b.vram.Alloc(ctx, int64(step+1)<<16, vram.Use{})
		testkit.OK(t, err)
		testkit.OK(t, x.Free())
		w.Step()
	}
	r := w.Report()
	testkit.OK(t, r.Err())
	for _, c := range r.Caches {
		if c.Device == id && c.Kind == leaks.VRAM && c.GrownBytes > 0 && c.ActiveBytes == 0 && c.FreeBytes == c.ReservedBytes {
			return
		}
	}
	t.Errorf("the pool has grown, and keeps it all:\n%v", r)
}

// Too few steps say nothing, and say so.
func TestFewSteps(t *testing.T) {
	w := leaks.Start(leaks.Options{})
	defer w.Stop()
	for range 15 {
		w.Step()
	}
	r := w.Report()
	testkit.WantError(t, "15 steps", r.Err(), errs.ErrArgument, "15 steps", "16")
	w.Step()
	testkit.OK(t, w.Report().Err())
	if r.WindowSteps != 0 || r.Steps != 15 || !strings.HasPrefix(r.String(), "15 steps: 16 are needed") {
		t.Errorf("%v", r)
	}
}

// A report as JSON has all its lists.
func TestJSON(t *testing.T) {
	text, err := json.Marshal(leaks.Start(leaks.Options{NoStacks: true}).Report())
	testkit.OK(t, err)
	if strings.Contains(string(text), "null") {
		t.Errorf("a list is missing: %s", text)
	}
}
