package vram

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestSizes does random things with blocks of up to half a GiB, which take chunks
// of many sizes: plenty of memory and hardly any in turn. What is written to the
// ends and the middle of a block stays there, and after each step everything that
// must be true of a pool is.
func TestSizes(t *testing.T) {
	exact(t) // and mostly untouched
	any := func(r *rand.Rand) int64 { return 1 + r.Int64N(1<<(1+r.IntN(29))) }
	large := func(r *rand.Rand) int64 { return 40<<20 + r.Int64N(1<<29) }
	for name, c := range map[string]struct {
		o         Options
		size      func(*rand.Rand) int64
		low, high int
	}{
		"slack":    {Options{Source: SourceChunks, Budget: 3 << 30}, any, 4, 8},
		"no slack": {Options{Source: SourceChunks, Budget: 3 << 30, Slack: -1}, any, 4, 8},
		"roomy":    {Options{Source: SourceChunks, Budget: 12 << 30, Slack: 0.5}, any, 4, 8},
		"ample":    {Options{Source: SourceChunks, Budget: 14 << 30}, large, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			end := time.Now().Add(*long)
			sizes(t, c.o, c.size, c.low, c.high, func() bool { return time.Now().Before(end) })
		})
	}
}

// TestStitch does the same with blocks of about a chunk's size and hardly any
// memory, so that most of them are stitched.
func TestStitch(t *testing.T) {
	exact(t)
	for _, chunk := range []int64{0, 2 << 20, 4 << 20} {
		left := 300
		if testing.Short() {
			left = 60
		}
		n := sizes(t, Options{Source: SourceChunks, Budget: 128 << 20, ChunkBytes: chunk}, func(r *rand.Rand) int64 {
			return 1<<20 + r.Int64N(8<<20)
		}, 8, 8, func() bool {
			left--
			return left > 0
		})
		if n < 10 && !testing.Short() {
			t.Errorf("chunks of %d: %d places of chunks that have several", chunk, n)
		}
	}
}

// sizes is TestSizes with blocks of some sizes, between low and high eighths of the
// memory, while there is more to do. It returns how many places those chunks
// had at most that have several.
func sizes(t *testing.T, o Options, size func(*rand.Rand) int64, low, high int, more func() bool) (stitched int) {
	dev := devicetest.Open(t)
	p := newPool(t, dev, o)
	streams := []device.Stream{newStream(t, dev), nil}
	r := rand.New(rand.NewPCG(*seed, 3))
	type kept struct {
		Block
		stream device.Stream
		marks  [3][]byte // at the start, in the middle, at the end
	}
	places := func(b Block) [3]int64 {
		n := min(b.Bytes(), 16)
		return [3]int64{0, (b.Bytes() - n) / 2, b.Bytes() - n}
	}
	var list []kept
	drop := func(i int) {
		b := list[i]
		list[i] = list[len(list)-1]
		list = list[:len(list)-1]
		s := streams[0]
		for k, at := range places(b.Block) {
			got := make([]byte, len(b.marks[k]))
			testkit.OK(t, errors.Join(s.CopyD2H(got, b.Ptr().Add(at)), s.Synchronize()))
			if !bytes.Equal(got, b.marks[k]) {
				t.Fatalf("%d bytes at %#x: %x at %d, want %x", b.Bytes(), uint64(b.Ptr()), got, at, b.marks[k])
			}
		}
		testkit.OK(t, b.Free())
	}
	var live int64
	full := 0
	for more() && !t.Failed() {
		if most := o.Budget * int64(low+r.IntN(high+1-low)) / 8; live < most {
			n := size(r)
			st := streams[r.IntN(2)]
			b, err := p.Alloc(ctx, n, Use{Stream: st})
			if errors.Is(err, device.ErrOutOfMemory) {
				full++
				for range 1 + r.IntN(len(list)/low) {
					drop(r.IntN(len(list)))
				}
			} else {
				testkit.OK(t, err)
				k := kept{Block: b, stream: st}
				value := byte(r.Uint32())
				for i, at := range places(b) {
					k.marks[i] = bytes.Repeat([]byte{value}, int(min(n, 16)))
					testkit.OK(t, streams[0].CopyH2D(b.Ptr().Add(at), k.marks[i]))
				}
				testkit.OK(t, streams[0].Synchronize())
				list = append(list, k)
			}
		} else {
			for range 1 + r.IntN(len(list)) {
				drop(r.IntN(len(list)))
			}
		}
		if r.IntN(200) == 0 {
			_, err := p.Trim()
			testkit.OK(t, err)
		}
		if r.IntN(20) == 0 {
			testkit.Must(p.Tidy(ctx))(t)
		}
		stitched = max(stitched, p.verify(t))
		s := p.Stats()
		live = s.Requested.Current
		if s.Reserved.Current > o.Budget || s.Blocks.Current != int64(len(list)) {
			t.Errorf("%d bytes reserved of %d, %d blocks of %d", s.Reserved.Current, o.Budget, s.Blocks.Current, len(list))
		}
	}
	for len(list) > 0 {
		drop(len(list) - 1)
	}
	testkit.OK(t, dev.Synchronize())
	for range 2 { // which records events first
		_, err := p.Trim()
		testkit.OK(t, err)
		testkit.OK(t, dev.Synchronize())
	}
	if s := p.Stats(); s.Reserved.Current != 0 {
		t.Errorf("%d bytes reserved at the end", s.Reserved.Current)
	}
	t.Logf("%d times out of memory, up to %d places of chunks that have several; %+v", full, stitched, p.Stats().Calls)
	return stitched
}

// TestSizesFaulty: after a call of the device has failed, in the middle of whatever
// the pool does with chunks of many sizes, the books are right.
func TestSizesFaulty(t *testing.T) {
	exact(t)
	t.Run("all", func(t *testing.T) {
		sizesFaulty(t, 3<<30, func(r *rand.Rand) int64 { return 1 + r.Int64N(1<<(20+r.IntN(10))) })
	})
	t.Run("stitched", func(t *testing.T) {
		sizesFaulty(t, 128<<20, func(r *rand.Rand) int64 { return 1<<20 + r.Int64N(8<<20) })
	})
}

func sizesFaulty(t *testing.T, budget int64, size func(*rand.Rand) int64) {
	f := newFaulty(t, "host:4GiB")
	p := newPool(t, f, Options{Budget: budget})
	r := rand.New(rand.NewPCG(*seed, 4))
	const any = 1 << 30
	var list []Block
	booms := 0
	for end := time.Now().Add(*long); time.Now().Before(end) && !t.Failed(); {
		switch r.IntN(12) {
		case 0:
			f.mapErr = errBoom
		case 1:
			f.unmapErr = errBoom
		case 2:
			f.createLeft = r.IntN(4)
		case 3:
			f.releaseLeft = r.IntN(2)
		}
		if r.IntN(8) == 0 {
			if _, err := p.Tidy(ctx); err != nil && !errors.Is(err, errBoom) {
				t.Fatal(err)
			}
			p.verify(t)
		}
		b, err := p.Alloc(ctx, size(r), Use{})
		if err == nil {
			list = append(list, b)
		} else if errors.Is(err, errBoom) {
			booms++
		} else if !errors.Is(err, device.ErrOutOfMemory) {
			t.Fatal(err)
		}
		f.mapErr, f.unmapErr, f.createLeft, f.releaseLeft = nil, nil, any, any
		p.verify(t)
		for len(list) > 0 && (r.IntN(3) == 0 || p.Stats().Allocated.Current > budget) {
			i := r.IntN(len(list))
			testkit.OK(t, list[i].Free())
			list = append(list[:i], list[i+1:]...)
		}
	}
	for _, b := range list {
		testkit.OK(t, b.Free())
	}
	if booms == 0 {
		t.Error("nothing failed")
	}
}

// TestTidy: after a full pool has freed every second block and tidied up, a block of
// as much takes no call of the driver, and without that it takes some.
func TestTidy(t *testing.T) {
	exact(t)
	for _, tidy := range []bool{false, true} {
		p := newPool(t, openHost(t, "host:4GiB"), Options{Budget: 4 << 30})
		var list []Block
		for range 32 {
			list = append(list, alloc(t, p, 100<<20, Use{}))
		}
		for i := 0; i < len(list); i += 2 {
			testkit.OK(t, list[i].Free())
		}
		before := p.Stats()
		if tidy {
			moved := testkit.Must(p.Tidy(ctx))(t)
			if s := p.Stats(); moved == 0 || s.Reserved.Current != before.Reserved.Current || s.LargestFree < 1<<30 {
				t.Errorf("moved %d bytes; the largest block has %d", moved, s.LargestFree)
			}
			if again := testkit.Must(p.Tidy(ctx))(t); again != 0 {
				t.Errorf("moved %d bytes again", again)
			}
			p.verify(t)
			before = p.Stats()
		}
		b := alloc(t, p, 1<<30, Use{})
		if calls := p.Stats().Calls.Total() - before.Calls.Total(); (calls == 0) != tidy {
			t.Errorf("tidy %t: %d calls", tidy, calls)
		}
		testkit.OK(t, b.Free())
		for i := 1; i < len(list); i += 2 {
			testkit.OK(t, list[i].Free())
		}
	}
	p := newPool(t, openHost(t, "host:64MiB"), Options{})
	testkit.OK(t, p.Close())
	if _, err := p.Tidy(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
