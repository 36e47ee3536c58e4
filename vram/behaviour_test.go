package vram

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

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
	testkit.OK(t, b.Free())
	if err := b.RecordStream(newStream(t, p.dev)); !errors.Is(err, ErrFreed) {
		t.Error(err)
	}
	// Also when the memory has a new life.
	again := alloc(t, p, 1, Use{})
	if err := b.Free(); !errors.Is(err, ErrFreed) {
		t.Error(err)
	}
	testkit.OK(t, again.Free())
}

// TestClosed: live blocks are reported, with where they come from, and nothing
// works afterwards.
func TestClosed(t *testing.T) {
	for _, source := range []Source{SourceChunks, SourceSegments, SourceDriver} {
		dev := devicetest.Open(t)
		before, err := dev.Memory()
		testkit.OK(t, err)
		p := newPool(t, dev, Options{Source: source, Stacks: StacksAll, History: 4})
		small := alloc(t, p, 100, Use{Purpose: KVCache, Name: "block table"})
		alloc(t, p, 5<<20, Use{Purpose: Weights})
		testkit.OK(t, alloc(t, p, 1000, Use{}).Free())
		var leak *LeakError
		err = p.Close()
		if !errors.As(err, &leak) || len(leak.Leaks) != 2 || leak.Bytes != 5<<20+100 || leak.Leaks[0].Purpose != Weights {
			t.Fatalf("%v: %+v", err, leak)
		}
		for _, want := range []string{"2 blocks (5.00 MiB in all) not freed", "100 B of kvcache (block table)", "fixture_test.go"} {
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
		testkit.OK(t, p.Close())
		after, err := dev.Memory()
		testkit.OK(t, err)
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
	testkit.OK(t, b.Free())
	if again := alloc(t, p, n, Use{Stream: one}); again.Ptr() != b.Ptr() {
		t.Errorf("%#x, not the freed %#x", uint64(again.Ptr()), uint64(b.Ptr()))
	} else {
		testkit.OK(t, again.Free())
	}
	far := alloc(t, p, n, Use{Stream: other})
	if far.Ptr() == b.Ptr() {
		t.Error("another stream has memory that is in use")
	}
	testkit.OK(t, far.RecordStream(one))
	testkit.OK(t, far.Free())
	if s := p.Stats(); s.Active.Current != n || s.Allocated.Current != 0 {
		t.Errorf("%d active, %d allocated, want %d and none", s.Active.Current, s.Allocated.Current, n)
	}
	if x := alloc(t, p, n, Use{Stream: other}); x.Ptr() == far.Ptr() || x.Ptr() == b.Ptr() {
		t.Error("a stream has memory that another still uses")
	} else {
		testkit.OK(t, x.Free())
	}
	release()
	testkit.OK(t, dev.Synchronize())
	_, err := p.Trim()
	testkit.OK(t, err)
	testkit.OK(t, dev.Synchronize())
	_, err = p.Trim()
	testkit.OK(t, err)
	if s := p.Stats(); s.Reserved.Current != 0 || s.Active.Current != 0 {
		t.Errorf("%d bytes reserved, %d active", s.Reserved.Current, s.Active.Current)
	}
}

// TestStreamEnds: the memory of a stream that was closed is not lost.
func TestStreamEnds(t *testing.T) {
	exact(t)
	dev := openHost(t, "host:64MiB")
	p := newPool(t, dev, Options{})
	for range 100 {
		s, err := dev.NewStream()
		testkit.OK(t, err)
		b := alloc(t, p, 48<<20, Use{Stream: s})
		testkit.OK(t, b.Free())
		testkit.OK(t, s.Close())
	}
	// Nor what is freed after it was closed.
	s, err := dev.NewStream()
	testkit.OK(t, err)
	late := []Block{alloc(t, p, 16<<20, Use{Stream: s}), alloc(t, p, 16<<20, Use{Stream: s})}
	testkit.OK(t, s.Close())
	testkit.OK(t, late[0].Free())
	_, err = p.Trim() // which sees that the stream is closed
	testkit.OK(t, err)
	testkit.OK(t, late[1].Free())
	testkit.OK(t, alloc(t, p, 48<<20, Use{}).Free())
	p.verify(t)
	owners := 0
	p.owners.Range(func(any, any) bool { owners++; return true })
	if owners > 2 {
		t.Errorf("%d streams are still known", owners)
	}
}
