package vram

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func alloc(t testing.TB, p *Pool, n int64, use Use) Block {
	t.Helper()
	b, err := p.Alloc(ctx, n, use)
	must(t, err)
	return b
}

func newStream(t testing.TB, dev device.Device) device.Stream {
	t.Helper()
	s, err := dev.NewStream()
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestBadOptions(t *testing.T) {
	dev := devicetest.Open(t)
	for _, o := range []Options{
		{Budget: -1}, {Soft: -1}, {Budget: 1 << 20, Soft: 2 << 20}, {ChunkBytes: -1}, {ChunkBytes: 3 << 20}, {ChunkBytes: 1},
		{History: -1}, {Source: 9}, {Stacks: 9}, {Limits: map[Purpose]int64{Weights: 0}}, {Limits: map[Purpose]int64{99: 1}},
		{SoftLimits: map[Purpose]int64{Batch: -1}}, {Limits: map[Purpose]int64{Batch: 1}, SoftLimits: map[Purpose]int64{Batch: 2}},
	} {
		if p, err := New(dev, o); !errors.Is(err, device.ErrArgument) {
			t.Errorf("%+v: %v, %v", o, p, err)
		}
	}
}

func TestBadAlloc(t *testing.T) {
	p := newPool(t, devicetest.Open(t), Options{})
	for _, n := range []int64{0, -1, math.MinInt64, math.MaxInt64} {
		if _, err := p.Alloc(ctx, n, Use{}); !errors.Is(err, device.ErrArgument) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := p.Alloc(ctx, 1, Use{Purpose: purposes}); !errors.Is(err, device.ErrArgument) {
		t.Error(err)
	}
	if err := (Block{}).Free(); !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
	if err := (Block{}).RecordStream(nil); !errors.Is(err, ErrForeign) {
		t.Error(err)
	}
	b := alloc(t, p, 1, Use{})
	if err := b.RecordStream(nil); !errors.Is(err, device.ErrArgument) {
		t.Error(err)
	}
	must(t, b.Free())
	if err := b.RecordStream(newStream(t, p.dev)); !errors.Is(err, ErrFreed) {
		t.Error(err)
	}
	// Also when the memory has a new life.
	again := alloc(t, p, 1, Use{})
	if err := b.Free(); !errors.Is(err, ErrFreed) {
		t.Error(err)
	}
	must(t, again.Free())
}

// TestClosed: live blocks are reported, with where they come from, and nothing
// works afterwards.
func TestClosed(t *testing.T) {
	for _, source := range []Source{SourceChunks, SourceSegments, SourceDriver} {
		dev := devicetest.Open(t)
		before, err := dev.Memory()
		must(t, err)
		p := newPool(t, dev, Options{Source: source, Stacks: StacksAll, History: 4})
		small := alloc(t, p, 100, Use{Purpose: KVCache, Name: "block table"})
		alloc(t, p, 5<<20, Use{Purpose: Weights})
		must(t, alloc(t, p, 1000, Use{}).Free())
		var leak *LeakError
		err = p.Close()
		if !errors.As(err, &leak) || len(leak.Leaks) != 2 || leak.Bytes != 5<<20+100 || leak.Leaks[0].Purpose != Weights {
			t.Fatalf("%v: %+v", err, leak)
		}
		for _, want := range []string{"2 blocks (5.00 MiB in all) not freed", "100 B of kvcache (block table)", "behaviour_test.go"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q, want %q", err, want)
			}
		}
		if err := small.Free(); !errors.Is(err, ErrClosed) {
			t.Errorf("free: %v", err)
		}
		if _, err := p.Alloc(ctx, 1, Use{}); !errors.Is(err, ErrClosed) {
			t.Errorf("alloc: %v", err)
		}
		if _, err := p.Alloc(ctx, 1<<20, Use{}); !errors.Is(err, ErrClosed) {
			t.Errorf("alloc: %v", err)
		}
		if _, err := p.Trim(); !errors.Is(err, ErrClosed) {
			t.Errorf("trim: %v", err)
		}
		must(t, p.Close())
		after, err := dev.Memory()
		must(t, err)
		if after != before && dev.Info().Backend == "host" {
			t.Errorf("device memory %+v, before %+v", after, before)
		}
	}
}

// TestStreamOrder: memory that was freed on a stream is used there again at
// once, elsewhere only when its work is done.
func TestStreamOrder(t *testing.T) {
	exact(t)
	dev := devicetest.Open(t)
	canHold(t, dev)
	const n = 8 << 20
	p := newPool(t, dev, Options{Source: SourceChunks})
	one, other := newStream(t, dev), newStream(t, dev)
	b := alloc(t, p, n, Use{Stream: one})
	release := hold(t, dev, one)
	must(t, b.Free())
	if again := alloc(t, p, n, Use{Stream: one}); again.Ptr() != b.Ptr() {
		t.Errorf("%#x, not the freed %#x", uint64(again.Ptr()), uint64(b.Ptr()))
	} else {
		must(t, again.Free())
	}
	far := alloc(t, p, n, Use{Stream: other})
	if far.Ptr() == b.Ptr() {
		t.Error("another stream has memory that is in use")
	}
	must(t, far.RecordStream(one))
	must(t, far.Free())
	if s := p.Stats(); s.Active.Current != n || s.Allocated.Current != 0 {
		t.Errorf("%d active, %d allocated, want %d and none", s.Active.Current, s.Allocated.Current, n)
	}
	if x := alloc(t, p, n, Use{Stream: other}); x.Ptr() == far.Ptr() || x.Ptr() == b.Ptr() {
		t.Error("a stream has memory that another still uses")
	} else {
		must(t, x.Free())
	}
	release()
	must(t, dev.Synchronize())
	_, err := p.Trim()
	must(t, err)
	must(t, dev.Synchronize())
	_, err = p.Trim()
	must(t, err)
	if s := p.Stats(); s.Reserved.Current != 0 || s.Active.Current != 0 {
		t.Errorf("%d bytes reserved, %d active", s.Reserved.Current, s.Active.Current)
	}
}

// TestShort: when memory is short, what is pending is waited for, reclaimers are
// called in order, and then there is an error that explains.
func TestShort(t *testing.T) {
	exact(t)
	dev := devicetest.Open(t)
	canHold(t, dev)
	const n = 8 << 20
	p := newPool(t, dev, Options{Source: SourceChunks, Budget: 3 * n})
	one, other := newStream(t, dev), newStream(t, dev)
	held := alloc(t, p, n, Use{Purpose: Weights, Name: "head"})
	spill := []Block{alloc(t, p, n, Use{}), alloc(t, p, n, Use{Stream: one})}
	release := hold(t, dev, one)
	must(t, spill[1].Free())

	// A context ends the wait.
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := p.Alloc(short, n, Use{Stream: other}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the context's", err)
	}
	time.AfterFunc(20*time.Millisecond, release)
	b := alloc(t, p, n, Use{Stream: other})

	var calls []string
	remove := p.OnLowMemory(func(_ context.Context, need int64) (int64, error) {
		calls = append(calls, "first")
		return 0, nil
	})
	p.OnLowMemory(func(_ context.Context, need int64) (int64, error) {
		if calls = append(calls, "second"); spill[0] == (Block{}) {
			return 0, nil
		}
		err := spill[0].Free()
		spill[0] = Block{}
		return n, err
	})
	c := alloc(t, p, n, Use{})
	remove()
	_, err := p.Alloc(ctx, 2*n+1, Use{Purpose: Batch, Name: "images"})
	if got := strings.Join(calls, " "); got != "first second second" {
		t.Errorf("reclaimers were called: %s", got)
	}
	var oom *OutOfMemoryError
	if !errors.As(err, &oom) || !errors.Is(err, device.ErrOutOfMemory) {
		t.Fatal(err)
	}
	if oom.Asked != 2*n+1 || oom.Purpose != Batch || oom.Name != "images" || oom.Stats.Allocated.Current != 3*n ||
		len(oom.Holders) != 2 || oom.Holders[0] != (Holder{Other, "", 2, 2 * n}) || len(oom.Advice) == 0 {
		t.Errorf("%+v", oom)
	}
	if s := p.Stats(); s.Retries != 2 || s.OutOfMemory != 1 {
		t.Errorf("%d retries, %d failures", s.Retries, s.OutOfMemory)
	}
	failure := errors.New("disk full")
	p.OnLowMemory(func(context.Context, int64) (int64, error) { return 0, failure })
	if _, err := p.Alloc(ctx, n, Use{}); !errors.Is(err, failure) {
		t.Error(err)
	}
	for _, x := range []Block{held, b, c} {
		must(t, x.Free())
	}
}

// exact skips tests that count bytes where blocks have a guard.
func exact(t *testing.T) {
	if guard > 0 {
		t.Skip("blocks have a guard")
	}
}

// TestSoft: above the soft limit reclaimers come first, but memory is still had.
func TestSoft(t *testing.T) {
	exact(t)
	p := newPool(t, devicetest.Open(t), Options{Source: SourceChunks, ChunkBytes: 2 << 20, Budget: 16 << 20, Soft: 4 << 20})
	called := 0
	p.OnLowMemory(func(context.Context, int64) (int64, error) { called++; return 0, nil })
	a := alloc(t, p, 4<<20, Use{})
	if called != 0 {
		t.Error("a reclaimer was called below the limit")
	}
	b := alloc(t, p, 4<<20, Use{})
	if s := p.Stats(); called != 1 || s.Reserved.Current != 8<<20 {
		t.Errorf("called %d times, %d bytes reserved", called, s.Reserved.Current)
	}
	must(t, a.Free())
	must(t, b.Free())
}

func TestLimit(t *testing.T) {
	exact(t)
	p := newPool(t, devicetest.Open(t), Options{Limits: map[Purpose]int64{KVCache: 1 << 20}})
	a := alloc(t, p, 1<<20, Use{Purpose: KVCache})
	_, err := p.Alloc(ctx, 1, Use{Purpose: KVCache})
	if !errors.Is(err, ErrLimit) || !errors.Is(err, device.ErrOutOfMemory) {
		t.Error(err)
	}
	b := alloc(t, p, 1<<20, Use{Purpose: Batch})
	must(t, a.Free())
	a = alloc(t, p, 1<<20, Use{Purpose: KVCache})
	must(t, a.Free())
	for range 100 { // also with what a shard keeps
		must(t, alloc(t, p, 1<<19, Use{Purpose: KVCache}).Free())
	}
	must(t, b.Free())
	if s := p.Stats().Purposes[KVCache]; s.Limit != 1<<20 || s.Allocated.Current != 0 {
		t.Errorf("%+v", s)
	}
}

// TestSoftLimit: above it reclaimers are called, and what is asked for is had.
func TestSoftLimit(t *testing.T) {
	exact(t)
	p := newPool(t, devicetest.Open(t), Options{
		Limits: map[Purpose]int64{KVCache: 3 << 20}, SoftLimits: map[Purpose]int64{KVCache: 1 << 20, Batch: 1 << 20},
	})
	var pages []Block
	called := 0
	p.OnLowMemory(func(context.Context, int64) (int64, error) {
		if called++; called != 3 || len(pages) == 0 {
			return 0, nil
		}
		b := pages[0]
		pages = pages[1:]
		return b.Bytes(), b.Free()
	})
	for i := range 3 {
		pages = append(pages, alloc(t, p, 1<<20, Use{Purpose: KVCache}))
		if called != i {
			t.Errorf("%d calls after %d MiB", called, i+1)
		}
	}
	pages = append(pages, alloc(t, p, 1<<20, Use{Purpose: KVCache})) // the third call makes room for it
	if _, err := p.Alloc(ctx, 1, Use{Purpose: KVCache}); !errors.Is(err, ErrLimit) || called != 4 {
		t.Errorf("%v after %d calls", err, called)
	}
	pages = append(pages, alloc(t, p, 4<<20, Use{Purpose: Batch}))
	for _, b := range pages {
		must(t, b.Free())
	}
}

// TestFailureKeepsNothing: what was made for an allocation that failed goes back.
func TestFailureKeepsNothing(t *testing.T) {
	for _, o := range []Options{{}, {Budget: 32 << 20}} {
		p := newPool(t, openHost(t, "host:64MiB"), o)
		b := alloc(t, p, 8<<20, Use{})
		before := p.Reserved()
		if _, err := p.Alloc(ctx, 60<<20, Use{}); !errors.Is(err, device.ErrOutOfMemory) {
			t.Fatal(err)
		}
		if after := p.Reserved(); after != before {
			t.Errorf("%+v: %d bytes reserved, %d before", o, after, before)
		}
		p.verify(t)
		calls := p.Stats().Calls.Total()
		if _, err := p.Alloc(ctx, 1<<40, Use{}); !errors.Is(err, device.ErrOutOfMemory) || p.Stats().Calls.Total() != calls {
			t.Errorf("%v after %d calls", err, p.Stats().Calls.Total()-calls)
		}
		must(t, b.Free())
	}
}

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
		must(t, err)
		must(t, x.Free())
		if _, err := p.Lookup(a.Ptr()); !errors.Is(err, ErrForeign) {
			t.Error(err)
		}
		if err := a.Free(); !errors.Is(err, ErrFreed) {
			t.Error(err)
		}
		must(t, b.Free())
	}
}

// TestSiblings: pools of one device give each other what they do not use.
func TestSiblings(t *testing.T) {
	dev := openHost(t, "host:64MiB")
	a, b := newPool(t, dev, Options{}), newPool(t, dev, Options{})
	must(t, alloc(t, a, 48<<20, Use{}).Free())
	x := alloc(t, b, 48<<20, Use{})
	if n := a.Reserved(); n > 16<<20 {
		t.Errorf("the other pool still has %d bytes", n)
	}
	must(t, x.Free())
}

// TestOthersUseTheDevice: what is free to one kind of block is there for another.
func TestHeapsShare(t *testing.T) {
	dev := openHost(t, "host:64MiB")
	p := newPool(t, dev, Options{ChunkBytes: 4 << 20})
	var list []Block
	for range 60 {
		list = append(list, alloc(t, p, 1<<20, Use{}))
	}
	for _, b := range list {
		must(t, b.Free())
	}
	b := alloc(t, p, 60<<20, Use{})
	must(t, b.Free())
	for i := range list {
		list[i] = alloc(t, p, 1<<20, Use{})
	}
	for _, b := range list {
		must(t, b.Free())
	}
}

// TestStreamEnds: the memory of a stream that was closed is not lost.
func TestStreamEnds(t *testing.T) {
	exact(t)
	dev := openHost(t, "host:64MiB")
	p := newPool(t, dev, Options{})
	for range 100 {
		s, err := dev.NewStream()
		must(t, err)
		b := alloc(t, p, 48<<20, Use{Stream: s})
		must(t, b.Free())
		must(t, s.Close())
	}
	// Nor what is freed after it was closed.
	s, err := dev.NewStream()
	must(t, err)
	late := []Block{alloc(t, p, 16<<20, Use{Stream: s}), alloc(t, p, 16<<20, Use{Stream: s})}
	must(t, s.Close())
	must(t, late[0].Free())
	_, err = p.Trim() // which sees that the stream is closed
	must(t, err)
	must(t, late[1].Free())
	must(t, alloc(t, p, 48<<20, Use{}).Free())
	p.verify(t)
	owners := 0
	p.owners.Range(func(any, any) bool { owners++; return true })
	if owners > 2 {
		t.Errorf("%d streams are still known", owners)
	}
}

func TestHistory(t *testing.T) {
	p := newPool(t, devicetest.Open(t), Options{Source: SourceChunks, History: 6, Stacks: StacksAll})
	a := alloc(t, p, 1000, Use{Purpose: Gradients, Name: "w"})
	must(t, a.Free())
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
		must(t, alloc(t, p, 1000, Use{}).Free())
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
	must(t, a.Free())
	must(t, b.Free())
}

// TestTogether: many goroutines share a pool, and free what others allocated.
func TestTogether(t *testing.T) {
	for _, source := range []Source{SourceChunks, SourceSegments} {
		dev := devicetest.Open(t)
		p := newPool(t, dev, Options{Source: source, Budget: 128 << 20, History: 50})
		streams := []device.Stream{nil, newStream(t, dev), newStream(t, dev)}
		pass := make(chan Block, 64)
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(w), 1))
				for i := range 2000 {
					b, err := p.Alloc(ctx, 1+r.Int64N(1<<(1+r.IntN(22))), Use{Stream: streams[r.IntN(3)], Purpose: Purpose(r.IntN(int(purposes)))})
					if err != nil && !errors.Is(err, device.ErrOutOfMemory) {
						t.Error(err)
						return
					}
					if err == nil {
						select {
						case pass <- b:
						default:
							b.Free()
						}
					}
					select {
					case b := <-pass:
						if err := b.Free(); err != nil {
							t.Error(err)
						}
					default:
					}
					switch i % 500 {
					case 100:
						p.Stats()
					case 200:
						p.Trim()
					case 300:
						p.Snapshot()
					}
				}
			})
		}
		wg.Wait()
		close(pass)
		for b := range pass {
			must(t, b.Free())
		}
		p.verify(t)
		if s := p.Stats(); s.Blocks.Current != 0 || s.Requested.Current != 0 {
			t.Errorf("%+v", s.Blocks)
		}
	}
}

// TestCloseAmid: Close while others allocate.
func TestCloseAmid(t *testing.T) {
	dev := devicetest.Open(t)
	p, err := New(dev, Options{})
	must(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				b, err := p.Alloc(ctx, 3<<20, Use{})
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if err := b.Free(); err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
		})
	}
	time.Sleep(5 * time.Millisecond)
	var leak *LeakError
	if err := p.Close(); err != nil && !errors.As(err, &leak) {
		t.Error(err)
	}
	wg.Wait()
}

// TestAllocationsOfGo: what the pool keeps costs the garbage collector nothing.
func TestAllocationsOfGo(t *testing.T) {
	exact(t)
	dev := devicetest.Open(t)
	p := newPool(t, dev, Options{})
	use := Use{Stream: newStream(t, dev)}
	for _, n := range []int64{100, 1 << 20, 30 << 20} {
		if got := testing.AllocsPerRun(100, func() {
			b, err := p.Alloc(ctx, n, use)
			if err != nil {
				t.Fatal(err)
			}
			b.Free()
		}); got != 0 {
			t.Errorf("%d bytes: %v allocations", n, got)
		}
	}
}
