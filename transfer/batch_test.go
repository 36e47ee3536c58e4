package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
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

// Many blocks of one page or more, all of a size or changing in the middle,
// arrive by every route, and so do boxes of such rows.
func TestBatchOfPages(t *testing.T) {
	const page, pages = 4 << 10, 2600
	s := openSides(t, 2*page*pages, transfer.Options{Copiers: 3, Slots: 2, SlotBytes: 64 << 10, StageAbove: 1})
	random := rand.New(rand.NewPCG(5, 6))
	blocks := func(change int) (list []transfer.Block) {
		to, from := random.Perm(pages), random.Perm(pages)
		for i := range pages {
			k := transfer.Block{Dst: int64(to[i]) * 2 * page, Src: int64(from[i]) * 2 * page, Bytes: page}
			if i >= change {
				k.Bytes = page + 16*int64(i%3)
			}
			list = append(list, k)
		}
		return list
	}
	for _, route := range s.routes() {
		t.Run(route.name, func(t *testing.T) {
			dst, src := unique(s.n, 1), unique(s.n, 2)
			for _, list := range [][]transfer.Block{blocks(pages), blocks(pages / 2)} {
				if route.path == transfer.BatchBox {
					break // it is for boxes
				}
				route.set(dst, src)
				err := s.engine.Batch(ctx, transfer.Batch{Dst: route.dst, Src: route.src, Blocks: list, Path: route.path})
				if errors.Is(err, device.ErrNotSupported) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				want := bytes.Clone(dst)
				for _, k := range list {
					copy(want[k.Dst:k.Dst+k.Bytes], src[k.Src:])
				}
				if !bytes.Equal(route.get(), want) {
					t.Fatal("wrong content of blocks")
				}
			}
			route.set(dst, src)
			err := s.engine.Box(ctx, transfer.Box{Dst: route.dst, Src: route.src, Path: route.path,
				RowBytes: page, Rows: pages, DstRowStride: 2 * page, SrcRowStride: page + 32})
			if errors.Is(err, device.ErrNotSupported) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range pages {
				copy(dst[2*page*i:][:page], src[(page+32)*i:])
			}
			if !bytes.Equal(route.get(), dst) {
				t.Fatal("wrong content of a box")
			}
		})
	}
}
