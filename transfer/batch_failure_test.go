package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/transfer"
)

// A batch that makes no sense is refused with its numbers, and nothing is copied.
func TestBatchArguments(t *testing.T) {
	s := openSides(t, 4096, transfer.Options{StageAbove: 1})
	want := unique(s.n, 1)
	s.upload(s.a, want)
	dev, host := transfer.Device(s.a, s.n), transfer.Host(s.pinned[0])
	other := transfer.Device(s.b, s.n)
	type blocks = []transfer.Block
	for _, c := range []struct {
		name     string
		dst, src transfer.Memory
		blocks   blocks
	}{
		{"empty block", dev, host, blocks{{0, 0, 16}, {32, 32, 0}}},
		{"negative length", dev, host, blocks{{0, 0, -1}}},
		{"negative destination", dev, host, blocks{{-1, 0, 1}}},
		{"negative source", dev, host, blocks{{0, -1, 1}}},
		{"destination outside", dev, host, blocks{{s.n - 15, 0, 16}}},
		{"source outside", dev, host, blocks{{0, s.n - 15, 16}}},
		{"overflow", dev, host, blocks{{math.MaxInt64, 0, 16}}},
		{"long", dev, host, blocks{{16, 16, math.MaxInt64}}},
		{"overlap", dev, host, blocks{{64, 0, 16}, {0, 0, 16}, {79, 32, 16}}},
		{"the same twice", dev, host, blocks{{64, 0, 16}, {64, 32, 16}}},
		{"onto a source", dev, dev, blocks{{0, 2000, 100}, {500, 1000, 100}, {1050, 3000, 16}}},
		{"onto itself", dev, dev, blocks{{0, 0, 16}, {64, 0, 16}}},
		{"two hosts", host, host, blocks{{0, 64, 16}, {128, 64, 16}}},
		{"negative memory", transfer.Device(s.a, -1), other, blocks{{0, 0, 1}}},
		{"memory past the end", transfer.Device(math.MaxUint64, 2), other, blocks{{0, 0, 1}}},
	} {
		err := s.engine.Batch(ctx, transfer.Batch{Dst: c.dst, Src: c.src, Blocks: c.blocks,
			Progress: func(int64, int64) { t.Errorf("%s: progress", c.name) }})
		if !errors.Is(err, device.ErrArgument) {
			t.Errorf("%s: %v, want %q", c.name, err, device.ErrArgument)
		}
	}
	if err := s.engine.Batch(ctx, transfer.Batch{Dst: dev, Src: host, Path: "guess",
		Blocks: blocks{{0, 0, 16}, {64, 0, 16}}}); !errors.Is(err, device.ErrArgument) {
		t.Errorf("an unknown path: %v", err)
	}
	for i, b := range []transfer.Box{
		{Dst: dev, Src: host},
		{Dst: dev, Src: host, RowBytes: -1},
		{Dst: dev, Src: host, RowBytes: 16, Rows: -1},
		{Dst: dev, Src: host, RowBytes: 16, Planes: -1},
		{Dst: dev, Src: host, RowBytes: 16, DstOffset: -1},
		{Dst: dev, Src: host, RowBytes: 16, SrcOffset: s.n - 15},
		{Dst: dev, Src: host, RowBytes: 16, Rows: 2, DstRowStride: 15},
		{Dst: dev, Src: host, RowBytes: 16, Rows: 2, DstRowStride: -16},
		{Dst: dev, Src: host, RowBytes: 16, Rows: 2, SrcRowStride: s.n},
		{Dst: dev, Src: host, RowBytes: 16, Rows: math.MaxInt64},
		{Dst: dev, Src: host, RowBytes: 16, Rows: 1 << 32, Planes: 1 << 32},
		{Dst: dev, Src: host, RowBytes: 16, Rows: 4, Planes: 2, DstPlaneStride: 63},
		{Dst: dev, Src: host, RowBytes: math.MaxInt64, Rows: 3},
		{Dst: dev, Src: dev, RowBytes: 16, Rows: 4, SrcOffset: 48},
		{Dst: host, Src: host, RowBytes: 16},
	} {
		if err := s.engine.Box(ctx, b); !errors.Is(err, device.ErrArgument) {
			t.Errorf("box %d: %v, want %q", i, err, device.ErrArgument)
		}
	}
	if got := s.download(s.a); !bytes.Equal(got, want) {
		t.Error("a batch that was refused changed the destination")
	}
}

// A range that is not all memory of the device is found out before a kernel
// could touch it.
func TestBatchForeignMemory(t *testing.T) {
	s := openSides(t, 4096, transfer.Options{StageAbove: 1})
	if _, ok := device.As[device.RangeChecker](s.dev); !ok {
		t.Skip("the device does not know its memory")
	}
	other := devicetest.Open(t)
	foreign, err := other.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	freed, err := s.dev.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.dev.Free(freed); err != nil {
		t.Fatal(err)
	}
	// So many that the staged path would use a kernel.
	var blocks []transfer.Block
	for i := range int64(16) {
		blocks = append(blocks, transfer.Block{Dst: 128 * i, Src: 64 * i, Bytes: 32})
	}
	places := map[string]device.Ptr{"freed": freed, "nowhere": nowhere}
	if s.dev.Info().UUID == "" || s.dev.Info().UUID != other.Info().UUID {
		places["of another device"] = foreign
	}
	for name, p := range places {
		for _, host := range [][]byte{s.pinned[0], make([]byte, 4096)} {
			err := s.engine.Batch(ctx, transfer.Batch{Dst: transfer.Device(p, 4096), Src: transfer.Host(host), Blocks: blocks})
			if !errors.Is(err, device.ErrPointer) {
				t.Errorf("to %s memory: %v, want %q", name, err, device.ErrPointer)
			}
			err = s.engine.Batch(ctx, transfer.Batch{Dst: transfer.Host(host), Src: transfer.Device(p, 4096), Blocks: blocks})
			if !errors.Is(err, device.ErrPointer) {
				t.Errorf("from %s memory: %v, want %q", name, err, device.ErrPointer)
			}
		}
	}
}

// A batch that is cancelled lets go of the caller's memory.
func TestBatchCancelled(t *testing.T) {
	const n = 1 << 20
	s := openSides(t, n, transfer.Options{Copiers: 2, Slots: 2, SlotBytes: 8 << 10, StageAbove: 1})
	ended, cancel := context.WithCancel(ctx)
	cancel()
	blocks := randomBlocks(rand.New(rand.NewPCG(5, 6)), n, 1, 20_000)
	for _, route := range s.routes() {
		t.Run(route.name, func(t *testing.T) {
			b := transfer.Batch{Dst: route.dst, Src: route.src, Blocks: blocks, Path: route.path}
			if err := s.engine.Batch(ended, b); !errors.Is(err, context.Canceled) {
				t.Fatalf("cancelled before: %v", err)
			}
			dst, src := bytes.Repeat([]byte{before}, n), bytes.Repeat([]byte{sent}, n)
			route.set(dst, src)
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			b.Progress = func(int64, int64) { cancel() }
			err := s.engine.Batch(ctx, b)
			if errors.Is(err, device.ErrNotSupported) || errors.Is(err, device.ErrArgument) {
				t.Skip(err)
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			got := route.get()
			if bytes.Count(got, []byte{before})+bytes.Count(got, []byte{sent}) != len(got) {
				t.Error("foreign bytes arrived")
			}
		})
	}
}

func TestBatchClosed(t *testing.T) {
	s := openSides(t, 4096, transfer.Options{StageAbove: 1})
	if err := s.engine.Close(); err != nil {
		t.Fatal(err)
	}
	for _, route := range s.routes() {
		err := s.engine.Batch(ctx, transfer.Batch{Dst: route.dst, Src: route.src,
			Blocks: []transfer.Block{{Dst: 0, Src: 0, Bytes: 16}, {Dst: 64, Src: 64, Bytes: 16}}})
		if !errors.Is(err, device.ErrClosed) {
			t.Errorf("%s: %v", route.name, err)
		}
	}
}

// The device may be closed first: it takes its memory back by itself.
func TestCloseAfterDevice(t *testing.T) {
	dev := openLinked(t)
	e, err := transfer.New(dev, transfer.Options{StageAbove: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := dev.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	b := transfer.Batch{Dst: transfer.Device(p, 2048), Src: transfer.Device(p.Add(2048), 2048),
		Blocks: []transfer.Block{{Dst: 0, Src: 0, Bytes: 16}, {Dst: 64, Src: 64, Bytes: 16}}}
	if err := errors.Join(e.Batch(ctx, b), e.H2D(ctx, p, make([]byte, 4096))); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dev.Close(), e.Close()); err != nil {
		t.Error(err)
	}
}

// A batch needs device memory for its kernel, or does without the kernel.
func TestBatchOnFullDevice(t *testing.T) {
	const n = 256 << 10
	dev, err := device.Open(fmt.Sprintf("host:%d", n))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	e, err := transfer.New(dev, transfer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	p, err := dev.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	want, got := unique(n, 3), make([]byte, n)
	b := transfer.Batch{Dst: transfer.Device(p, n), Src: transfer.Device(p, n),
		Blocks: []transfer.Block{{Dst: 0, Src: 1000, Bytes: 100}, {Dst: 500, Src: 2000, Bytes: 100}}}
	if err := errors.Join(e.H2D(ctx, p, want), e.Batch(ctx, b), e.D2H(ctx, got, p)); err != nil {
		t.Fatal(err)
	}
	copy(want, want[1000:1100])
	copy(want[500:], want[2000:2100])
	if !bytes.Equal(got, want) {
		t.Error("wrong content")
	}
	b.Path = transfer.BatchKernel
	if err := e.Batch(ctx, b); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("by the kernel: %v", err)
	}
}

// Among many blocks an overlap is found while they are copied, and the batch
// fails all the same; the one after it works.
func TestBatchLateOverlap(t *testing.T) {
	const n = 1 << 20
	s := openSides(t, n, transfer.Options{StageAbove: 1})
	for _, size := range []int64{16, 48} { // found by a bitmap, and by sorting
		var blocks []transfer.Block
		for at := int64(0); at+size <= n/4 && len(blocks) < 5000; at += size {
			blocks = append(blocks, transfer.Block{Dst: at, Src: at + n/2, Bytes: size})
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
		good := transfer.Batch{Dst: transfer.Device(s.a, n), Src: transfer.Device(s.b, n), Blocks: blocks}
		bad := good
		bad.Blocks = append(slices.Clone(blocks), transfer.Block{Dst: blocks[7].Dst, Src: 0, Bytes: 16})
		for range 2 {
			if err := s.engine.Batch(ctx, bad); !errors.Is(err, device.ErrArgument) {
				t.Errorf("blocks of %d bytes that overlap: %v, want %q", size, err, device.ErrArgument)
			}
			if err := s.engine.Batch(ctx, good); err != nil {
				t.Errorf("blocks of %d bytes: %v", size, err)
			}
		}
	}
}

// Goroutines share the parts of a long batch inside the device. Every block
// arrives, a block that reaches outside is found wherever it stands, and the
// batch after that one works.
func TestBatchShared(t *testing.T) {
	const n, size, count = 1 << 20, 48, 9000
	s := openSides(t, n, transfer.Options{StageAbove: 1})
	src, blank := unique(n, 3), make([]byte, n)
	s.upload(s.b, src)
	random := rand.New(rand.NewPCG(3, 4))
	to, from := random.Perm(n/size), random.Perm(n/size)
	want := bytes.Clone(blank)
	var blocks []transfer.Block
	for i := range count {
		k := transfer.Block{Dst: int64(to[i]) * size, Src: int64(from[i]) * size, Bytes: size - int64(i%3)*16}
		copy(want[k.Dst:k.Dst+k.Bytes], src[k.Src:])
		blocks = append(blocks, k)
	}
	good := transfer.Batch{Dst: transfer.Device(s.a, n), Src: transfer.Device(s.b, n), Blocks: blocks, Path: transfer.BatchKernel}
	for _, at := range []int{0, 700, 3000, count - 1} {
		bad := good
		bad.Blocks = slices.Clone(blocks)
		bad.Blocks[at].Src = n - bad.Blocks[at].Bytes + 1
		err := s.engine.Batch(ctx, bad)
		if errors.Is(err, device.ErrNotSupported) {
			t.Skip(err)
		}
		if !errors.Is(err, device.ErrArgument) || !strings.Contains(err.Error(), fmt.Sprintf("block %d ", at)) {
			t.Errorf("block %d reaches outside: %v, want %q", at, err, device.ErrArgument)
		}
		s.upload(s.a, blank)
		if err := s.engine.Batch(ctx, good); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(s.download(s.a), want) {
			t.Fatal("wrong content")
		}
	}
}
