package vram

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/live"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

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
	testkit.OK(t, spill[1].Free())

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
		testkit.OK(t, x.Free())
	}
}

// A reclaimer that frees a little is asked again.
func TestReclaimAgain(t *testing.T) {
	exact(t)
	const n = 8 << 20
	p := newPool(t, devicetest.Open(t), Options{Budget: 4 * n})
	var held []Block
	for range 4 {
		held = append(held, alloc(t, p, n, Use{}))
	}
	calls := 0
	p.OnLowMemory(func(context.Context, int64) (int64, error) {
		if calls++; len(held) == 0 {
			return 0, nil
		}
		err := held[0].Free()
		held = held[1:]
		return n, err
	})
	b := alloc(t, p, 3*n, Use{})
	if calls != 3 || len(held) != 1 {
		t.Errorf("%d calls, %d blocks held; want 3 and 1", calls, len(held))
	}
	testkit.OK(t, b.Free())
	testkit.OK(t, held[0].Free())
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
	testkit.OK(t, a.Free())
	testkit.OK(t, b.Free())
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
	testkit.OK(t, a.Free())
	a = alloc(t, p, 1<<20, Use{Purpose: KVCache})
	testkit.OK(t, a.Free())
	for range 100 { // also with what a shard keeps
		testkit.OK(t, alloc(t, p, 1<<19, Use{Purpose: KVCache}).Free())
	}
	testkit.OK(t, b.Free())
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
		testkit.OK(t, b.Free())
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
		testkit.OK(t, b.Free())
	}
}

// TestSiblings: pools of one device give each other what they do not use.
func TestSiblings(t *testing.T) {
	dev := openHost(t, "host:64MiB")
	a, b := newPool(t, dev, Options{}), newPool(t, dev, Options{})
	testkit.OK(t, alloc(t, a, 48<<20, Use{}).Free())
	x := alloc(t, b, 48<<20, Use{})
	if n := a.Reserved(); n > 16<<20 {
		t.Errorf("the other pool still has %d bytes", n)
	}
	testkit.OK(t, x.Free())
}

// TestSiblingsWatched: so they do while somebody asks all of them for statistics.
func TestSiblingsWatched(t *testing.T) {
	exact(t)
	dev := openHost(t, "host:64MiB")
	one, other := newPool(t, dev, Options{}), newPool(t, dev, Options{})
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				live.View(func(all []*Pool) {
					for _, p := range all {
						p.Stats()
					}
				})
			}
		}
	})
	var both sync.WaitGroup
	for _, p := range []*Pool{one, other} {
		both.Go(func() {
			for range 200 {
				b, err := p.Alloc(ctx, 40<<20, Use{})
				if err == nil {
					testkit.OK(t, b.Free())
				} else if !errors.Is(err, device.ErrOutOfMemory) {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	close(done)
	watch.Wait()
}

// TestHeapsShare: what is free to one kind of block is there for another.
func TestHeapsShare(t *testing.T) {
	dev := openHost(t, "host:64MiB")
	p := newPool(t, dev, Options{ChunkBytes: 4 << 20})
	var list []Block
	for range 60 {
		list = append(list, alloc(t, p, 1<<20, Use{}))
	}
	for _, b := range list {
		testkit.OK(t, b.Free())
	}
	b := alloc(t, p, 60<<20, Use{})
	testkit.OK(t, b.Free())
	for i := range list {
		list[i] = alloc(t, p, 1<<20, Use{})
	}
	for _, b := range list {
		testkit.OK(t, b.Free())
	}
}
