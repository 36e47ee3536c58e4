package vram

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/device/devicetest"
)

var (
	ctx = context.Background()
	// long is how long random operations go on for each source.
	long = flag.Duration("long", 300*time.Millisecond, "how long random operations go on")
	seed = flag.Uint64("seed", 1, "of the random operations")
)

func newPool(t testing.TB, dev device.Device, o Options) *Pool {
	t.Helper()
	p, err := New(dev, o)
	if errors.Is(err, device.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// held is a block of the model: what must be in it.
type held struct {
	Block
	stream int
	value  byte
	users  []int
}

// TestRandom does random things with a pool and compares with a model: blocks
// never overlap, keep their bytes, and every figure is right.
func TestRandom(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"chunks", Options{Source: SourceChunks, ChunkBytes: 4 << 20, Budget: 64 << 20, History: 100}},
		{"chunks, soft limit", Options{Source: SourceChunks, Budget: 64 << 20, Soft: 32 << 20, Stacks: StacksSampled}},
		{"segments", Options{Source: SourceSegments, Budget: 64 << 20}},
		{"driver", Options{Source: SourceDriver, Budget: 64 << 20}},
	} {
		t.Run(c.name, func(t *testing.T) { randomly(t, c.o) })
	}
}

func randomly(t *testing.T, o Options) {
	dev := devicetest.Open(t)
	p := newPool(t, dev, o)
	var streams []device.Stream
	for range 3 {
		s, err := dev.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		streams = append(streams, s)
	}
	streams = append(streams, nil)
	side := streams[0]
	r := rand.New(rand.NewPCG(*seed, 9))
	var list []held
	var live, peak, fails int64
	drop := func(k int) {
		b := list[k]
		list[k] = list[len(list)-1]
		list = list[:len(list)-1]
		live -= b.Bytes()
		got := make([]byte, b.Bytes())
		s := streams[b.stream]
		for _, u := range b.users { // they read it, in their order
			if err := streams[u].Synchronize(); err != nil {
				t.Fatal(err)
			}
		}
		if s == nil {
			s = side
		}
		if err := errors.Join(s.CopyD2H(got, b.Ptr()), s.Synchronize()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, bytes.Repeat([]byte{b.value}, len(got))) {
			t.Fatalf("%d bytes at %#x: are not all %#x", b.Bytes(), uint64(b.Ptr()), b.value)
		}
		if err := b.Free(); err != nil {
			t.Fatal(err)
		}
		if err := b.Free(); !errors.Is(err, ErrFreed) {
			t.Fatalf("freed twice: %v", err)
		}
	}
	for i, end := 0, time.Now().Add(*long); time.Now().Before(end); i++ {
		switch k := r.IntN(20); {
		case k < 11:
			n := 1 + r.Int64N(1<<(1+r.IntN(24)))
			st := r.IntN(len(streams))
			b, err := p.Alloc(ctx, n, Use{Stream: streams[st], Purpose: Purpose(r.IntN(int(purposes))), Name: fmt.Sprint(st)})
			if err != nil {
				var oom *OutOfMemoryError
				if !errors.As(err, &oom) || !errors.Is(err, device.ErrOutOfMemory) || oom.Asked != n {
					t.Fatal(err)
				}
				fails++
				for len(list) > 0 && r.IntN(8) > 0 {
					drop(r.IntN(len(list)))
				}
				continue
			}
			if b.Ptr()%unit != 0 && o.Source != SourceDriver || b.Bytes() != n {
				t.Fatalf("%+v for %d bytes", b, n)
			}
			h := held{Block: b, stream: st, value: byte(r.Uint32())}
			s := streams[st]
			if s == nil {
				s = side
			}
			if err := s.Memset(b.Ptr(), h.value, n); err != nil {
				t.Fatal(err)
			}
			if streams[st] == nil {
				s.Synchronize()
			}
			list = append(list, h)
			live += n
			peak = max(peak, live)
		case k < 18 && len(list) > 0:
			drop(r.IntN(len(list)))
		case k == 18 && len(list) > 0:
			h := &list[r.IntN(len(list))]
			u := r.IntN(3)
			if err := h.RecordStream(streams[u]); err != nil {
				t.Fatal(err)
			}
			h.users = append(h.users, u)
		case r.IntN(10) == 0:
			if _, err := p.Trim(); err != nil {
				t.Fatal(err)
			}
		}
		if i%64 == 0 {
			if o.Source != SourceDriver {
				p.verify(t)
			}
			s := p.Stats()
			if s.Requested.Current != live || s.Blocks.Current != int64(len(list)) || max(s.Requested.Peak-peak, peak-s.Requested.Peak) > int64(len(p.shards.list()))*8*p.publishAt || s.OutOfMemory != fails {
				t.Fatalf("%d bytes in %d blocks, peak %d, failed %d; want %d in %d, %d, %d", s.Requested.Current, s.Blocks.Current, s.Requested.Peak, s.OutOfMemory, live, len(list), peak, fails)
			}
			var sum int64
			for _, u := range s.Purposes {
				sum += u.Requested.Current
			}
			if sum != live || s.Reserved.Current > o.Budget {
				t.Fatalf("purposes have %d, live are %d; %d reserved", sum, live, s.Reserved.Current)
			}
			overlap(t, list)
		}
		if t.Failed() {
			return
		}
	}
	for len(list) > 0 {
		drop(len(list) - 1)
	}
	p.Trim() // which records events behind all that was freed
	if err := dev.Synchronize(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Trim(); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.Reserved.Current != 0 || s.Blocks.Current != 0 {
		t.Errorf("after all was freed: %d reserved, %+v", s.Reserved.Current, s.Blocks)
	}
}

func overlap(t *testing.T, list []held) {
	t.Helper()
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b held) int {
		if a.Ptr() < b.Ptr() {
			return -1
		}
		return 1
	})
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; a.Ptr().Add(a.Bytes()) > b.Ptr() {
			t.Fatalf("%d bytes at %#x reach into those at %#x", a.Bytes(), uint64(a.Ptr()), uint64(b.Ptr()))
		}
	}
}
