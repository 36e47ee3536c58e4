package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// linked is the host backend with all that it can do, but behind a link.
type linked struct {
	device.Wrapper
}

func (l *linked) Info() device.Info {
	info := l.Device.Info()
	info.Integrated = false
	return info
}

// openLinked opens a device that stages and runs kernels.
func openLinked(t testing.TB) device.Device {
	t.Helper()
	dev := devicetest.Open(t)
	if _, ok := device.As[device.Caller](dev); !ok {
		return dev
	}
	return &linked{device.Wrapper{Device: dev}}
}

// sides is memory for batches, with room for a copy of it.
type sides struct {
	testing.TB
	dev    device.Device
	stream device.Stream
	engine *transfer.Engine
	a, b   device.Ptr
	pinned [2][]byte
	n      int64
}

func openSides(t testing.TB, n int64, o transfer.Options) *sides {
	t.Helper()
	s := &sides{TB: t, dev: openLinked(t), n: n}
	var err error
	ok := func(err error) {
		t.Helper()
		if errors.Is(err, device.ErrPinLimit) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.stream, err = s.dev.NewStream()
	ok(err)
	s.engine, err = transfer.New(s.dev, o)
	ok(err)
	t.Cleanup(func() { ok(s.engine.Close()) })
	for _, p := range []*device.Ptr{&s.a, &s.b} {
		*p, err = s.dev.Alloc(n)
		ok(err)
	}
	pool, err := pinned.NewPool(s.dev, pinned.Options{Budget: 4 * (n + 1<<16), Flags: device.PinMapped})
	ok(err)
	t.Cleanup(func() { ok(pool.Close()) })
	for i := range s.pinned {
		buffer, err := pool.Alloc(context.Background(), n)
		ok(err)
		t.Cleanup(func() { ok(buffer.Free()) })
		s.pinned[i] = buffer.Bytes()
	}
	return s
}

func (s *sides) upload(p device.Ptr, b []byte) {
	s.Helper()
	if err := errors.Join(s.stream.CopyH2D(p, b), s.stream.Synchronize()); err != nil {
		s.Fatal(err)
	}
}

func (s *sides) download(p device.Ptr) []byte {
	s.Helper()
	b := make([]byte, s.n)
	if err := errors.Join(s.stream.CopyD2H(b, p), s.stream.Synchronize()); err != nil {
		s.Fatal(err)
	}
	return b
}

// route is one way from one memory to another.
type route struct {
	name     string
	dst, src transfer.Memory
	path     transfer.BatchPath
	set      func(dst, src []byte) // of both memories
	get      func() []byte         // of the destination
}

// routes lists every way that the device has.
func (s *sides) routes() []route {
	pageable := [2][]byte{make([]byte, s.n), make([]byte, s.n)}
	device := func(p device.Ptr) transfer.Memory { return transfer.Device(p, s.n) }
	var list []route
	for _, path := range []transfer.BatchPath{transfer.BatchAuto, transfer.BatchKernel, transfer.BatchDriver, transfer.BatchLoop, transfer.BatchBox} {
		for _, host := range []struct {
			name string
			mem  [2][]byte
		}{{"pageable", pageable}, {"pinned", s.pinned}} {
			if host.name == "pageable" && path != transfer.BatchAuto {
				continue
			}
			list = append(list, route{
				host.name + " h2d " + string(path), device(s.a), transfer.Host(host.mem[0]), path,
				func(dst, src []byte) { s.upload(s.a, dst); copy(host.mem[0], src) },
				func() []byte { return s.download(s.a) },
			}, route{
				host.name + " d2h " + string(path), transfer.Host(host.mem[1]), device(s.b), path,
				func(dst, src []byte) { copy(host.mem[1], dst); s.upload(s.b, src) },
				func() []byte { return host.mem[1] },
			})
		}
		list = append(list, route{
			"d2d " + string(path), device(s.a), device(s.b), path,
			func(dst, src []byte) { s.upload(s.a, dst); s.upload(s.b, src) },
			func() []byte { return s.download(s.a) },
		})
	}
	return list
}

// randomBlocks cuts destinations out of n bytes, all of them multiples of
// unit, in random order; some are neighbours on both sides.
func randomBlocks(r *rand.Rand, n, unit int64, most int) (list []transfer.Block) {
	largest := max(n/unit/int64(most)*2, 2)
	for at := int64(0); len(list) < most; {
		at += r.Int64N(3) / 2 * r.Int64N(8) * unit
		size := (1 + r.Int64N(largest)) * unit
		if at+size > n {
			break
		}
		src := r.Int64N((n-size)/unit+1) * unit
		if k := len(list); k > 0 && r.IntN(3) == 0 {
			if last := list[k-1]; last.Src+last.Bytes+size <= n && last.Dst+last.Bytes == at {
				src = last.Src + last.Bytes
			}
		}
		list = append(list, transfer.Block{Dst: at, Src: src, Bytes: size})
		at += size
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func TestBatch(t *testing.T) {
	s := openSides(t, 300_000, transfer.Options{Copiers: 3, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1})
	r := rand.New(rand.NewPCG(1, 2))
	for _, route := range s.routes() {
		t.Run(route.name, func(t *testing.T) {
			for round := range 24 {
				unit := []int64{1, 4, 16, 20}[round%4]
				blocks := randomBlocks(r, s.n, unit, 1<<(1+round/2))
				dst, src := unique(s.n, byte(round)), unique(s.n, byte(round+100))
				route.set(dst, src)
				var reports []int64
				err := s.engine.Batch(ctx, transfer.Batch{
					Dst: route.dst, Src: route.src, Blocks: blocks, Path: route.path,
					Progress: func(done, total int64) { reports = append(reports, done, total) },
				})
				if errors.Is(err, device.ErrNotSupported) || route.path == transfer.BatchBox && errors.Is(err, device.ErrArgument) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				var total int64
				for _, k := range blocks {
					copy(dst[k.Dst:k.Dst+k.Bytes], src[k.Src:])
					total += k.Bytes
				}
				if got := route.get(); !bytes.Equal(got, dst) {
					t.Fatalf("round %d, %d blocks of units of %d: wrong content", round, len(blocks), unit)
				}
				if n := len(reports); n < 2 || reports[n-1] != total || reports[n-2] != total {
					t.Fatalf("reports %v, want %d last", reports, total)
				}
			}
		})
	}
}

func TestBox(t *testing.T) {
	s := openSides(t, 200_000, transfer.Options{Copiers: 3, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1})
	r := rand.New(rand.NewPCG(3, 4))
	for _, route := range s.routes() {
		t.Run(route.name, func(t *testing.T) {
			done := 0
			for round := range 40 {
				unit := []int64{1, 4, 16}[round%3]
				b := transfer.Box{Dst: route.dst, Src: route.src, Path: route.path,
					DstOffset: r.Int64N(20) * unit, SrcOffset: r.Int64N(20) * unit,
					RowBytes: (1 + r.Int64N(60)) * unit, Rows: r.Int64N(30), Planes: r.Int64N(8),
				}
				// Strides: packed (0), and with gaps, whole rows between planes.
				gap := func() int64 { return r.Int64N(3) * unit }
				if r.IntN(3) > 0 {
					b.DstRowStride, b.SrcRowStride = b.RowBytes+gap(), b.RowBytes+gap()
				}
				if r.IntN(3) > 0 {
					b.DstPlaneStride = (max(b.Rows, 1) + r.Int64N(2)) * max(b.DstRowStride, b.RowBytes)
					b.SrcPlaneStride = (max(b.Rows, 1) + r.Int64N(2)) * max(b.SrcRowStride, b.RowBytes)
				}
				dst, src := unique(s.n, byte(round)), unique(s.n, byte(round+100))
				route.set(dst, src)
				err := s.engine.Box(ctx, b)
				if errors.Is(err, device.ErrNotSupported) {
					continue
				}
				if err != nil {
					t.Fatalf("%+v: %v", b, err)
				}
				done++
				dstRow, srcRow := stride(b.DstRowStride, b.RowBytes), stride(b.SrcRowStride, b.RowBytes)
				dstPlane, srcPlane := stride(b.DstPlaneStride, max(b.Rows, 1)*dstRow), stride(b.SrcPlaneStride, max(b.Rows, 1)*srcRow)
				for p := range max(b.Planes, 1) {
					for y := range max(b.Rows, 1) {
						copy(dst[b.DstOffset+p*dstPlane+y*dstRow:][:b.RowBytes], src[b.SrcOffset+p*srcPlane+y*srcRow:])
					}
				}
				if got := route.get(); !bytes.Equal(got, dst) {
					t.Fatalf("round %d, %+v: wrong content", round, b)
				}
			}
			if done == 0 {
				t.Skip("the device has no such path")
			}
		})
	}
}

func stride(given, packed int64) int64 {
	if given == 0 {
		return packed
	}
	return given
}

// What cannot be meant is refused with the numbers, and nothing is copied.
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

// Sources may overlap each other, and neighbours of other blocks.
func TestBatchSharedSources(t *testing.T) {
	s := openSides(t, 8192, transfer.Options{StageAbove: 1})
	want := unique(s.n, 1)
	s.upload(s.a, want)
	if err := s.engine.Batch(ctx, transfer.Batch{Dst: transfer.Device(s.a, s.n), Src: transfer.Device(s.a, s.n),
		Blocks: []transfer.Block{{Dst: 4096, Src: 0, Bytes: 100}, {Dst: 5000, Src: 50, Bytes: 100}, {Dst: 100, Src: 0, Bytes: 100}}}); err == nil {
		t.Error("a destination may not be a source")
	}
	err := s.engine.Batch(ctx, transfer.Batch{Dst: transfer.Device(s.a, s.n), Src: transfer.Device(s.a, s.n),
		Blocks: []transfer.Block{{Dst: 4096, Src: 0, Bytes: 100}, {Dst: 5000, Src: 50, Bytes: 100}, {Dst: 150, Src: 0, Bytes: 100}}})
	if err != nil {
		t.Fatal(err)
	}
	copy(want[4096:], want[:100])
	copy(want[5000:], want[50:150])
	copy(want[150:], want[:100])
	if got := s.download(s.a); !bytes.Equal(got, want) {
		t.Error("wrong content")
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
