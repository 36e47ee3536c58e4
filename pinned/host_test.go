package pinned_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
)

var ctx = context.Background()

func Example() {
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pool, err := pinned.NewPool(dev, pinned.Options{Name: "example", Budget: 16 << 20, AllowPageable: true})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	stream, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	dst, err := dev.Alloc(1000)
	if err != nil {
		log.Fatal(err)
	}

	buf, err := pool.Alloc(ctx, 1000)
	if err != nil {
		log.Fatal(err)
	}
	copy(buf.Bytes(), "to the device")
	if err := stream.CopyH2D(dst, buf.Bytes()); err != nil {
		log.Fatal(err)
	}
	if err := buf.Free(stream); err != nil { // once the copy is done
		log.Fatal(err)
	}
	if err := stream.Synchronize(); err != nil {
		log.Fatal(err)
	}

	stats := pool.Stats()
	fmt.Println(stats.Buffers, stats.PendingBuffers, stats.ReservedBytes == stats.FreeBytes)
	// Output: 0 0 true
}

// newPool makes a pool on a real device. Where locking is not allowed the
// memory is pageable, and the rest holds all the same.
func newPool(t testing.TB, dev device.Device, o pinned.Options) *pinned.Pool {
	o.AllowPageable = true
	pool, err := pinned.NewPool(dev, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

func TestDevice(t *testing.T) {
	dev := devicetest.Open(t)
	pool := newPool(t, dev, pinned.Options{Budget: 64 << 20, Flags: device.PinMapped | device.PinPortable})
	for _, n := range []int64{1, 5000, 3 << 20, 9<<20 + 1} {
		buf, err := pool.Alloc(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		pinner, ok := device.As[device.Pinner](dev)
		if ok && pinner.Pinned(buf.Bytes()) != buf.Pinned() {
			t.Errorf("%d bytes: the device says pinned %t, the buffer %t", n, !buf.Pinned(), buf.Pinned())
		}
		if ptr, err := buf.Mapped(); buf.Pinned() && pinner.CanMap() && (err != nil || ptr == 0) {
			t.Errorf("%d bytes: mapped at %#x: %v", n, ptr, err)
		}
		if err := buf.Free(); err != nil {
			t.Error(err)
		}
	}
	if reason := pool.Stats().PageableReason; reason != "" {
		t.Log(reason)
	}
	freed, err := pool.Trim()
	if s := pool.Stats(); err != nil || s.ReservedBytes != 0 || freed == 0 {
		t.Errorf("trim: %d, %v: %+v", freed, err, s)
	}
}

// Buffers go round through copies in both directions, faster than the device
// is done with them, and everything arrives.
func TestRoundTrips(t *testing.T) {
	dev := devicetest.Open(t)
	pool := newPool(t, dev, pinned.Options{Budget: 8 << 20, SegmentBytes: 1 << 20})
	up, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	down, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	uploaded, err := dev.NewEvent(device.EventNoTiming)
	if err != nil {
		t.Fatal(err)
	}
	const n, rounds = 100_000, 200
	ptr, err := dev.Alloc(n * rounds)
	if err != nil {
		t.Fatal(err)
	}
	alloc := func() *pinned.Buffer {
		for {
			buf, err := pool.Alloc(ctx, n)
			if err == nil {
				return buf
			}
			if !errors.Is(err, pinned.ErrBudget) {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Microsecond) // pending buffers will come back
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range rounds {
		buf := alloc()
		copy(buf.Bytes(), bytes.Repeat([]byte{byte(i)}, n))
		must(up.CopyH2D(ptr.Add(int64(i)*n), buf.Bytes()))
		must(buf.Free(up))
	}
	must(up.Record(uploaded))
	must(down.Wait(uploaded))
	for i := range rounds {
		buf := alloc()
		must(down.CopyD2H(buf.Bytes(), ptr.Add(int64(i)*n)))
		must(down.Synchronize())
		if want := bytes.Repeat([]byte{byte(i)}, n); !bytes.Equal(buf.Bytes(), want) {
			t.Fatalf("round %d: got %d…", i, buf.Bytes()[:8])
		}
		must(buf.Free())
	}
	s := pool.Stats()
	if s.Buffers != 0 || s.PendingBuffers != 0 || s.Allocs != 2*rounds || s.PeakPendingBytes == 0 {
		t.Errorf("%+v", s)
	}
	// A stream that is closed has no work left.
	buf := alloc()
	must(up.Close())
	must(buf.Free(up))
	if s := pool.Stats(); s.PendingBuffers != 0 || s.LostBytes != 0 || s.Waits != 1 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkAllocFree(b *testing.B) {
	pool := newPool(b, devicetest.Open(b), pinned.Options{Budget: 64 << 20})
	// Neighbours in use keep blocks apart, as in real life.
	var others []*pinned.Buffer
	for range 64 {
		other, err := pool.Alloc(ctx, 16<<10)
		if err != nil {
			b.Fatal(err)
		}
		others = append(others, other)
	}
	for i := 0; i < len(others); i += 2 {
		others[i].Free()
	}
	for _, n := range []int64{16 << 10, 40 << 10} {
		b.Run(fmt.Sprintf("KiB=%d", n>>10), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf, err := pool.Alloc(ctx, n)
				if err != nil {
					b.Fatal(err)
				}
				if err := buf.Free(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for i := 1; i < len(others); i += 2 {
		others[i].Free()
	}
}

func BenchmarkAllocFreeAfterStream(b *testing.B) {
	dev := devicetest.Open(b)
	pool := newPool(b, dev, pinned.Options{Budget: 1 << 30})
	stream, err := dev.NewStream()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		buf, err := pool.Alloc(ctx, 16<<10)
		if err != nil {
			b.Fatal(err)
		}
		if err := buf.Free(stream); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAllocFreeParallel(b *testing.B) {
	pool := newPool(b, devicetest.Open(b), pinned.Options{Budget: 64 << 20})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			buf, err := pool.Alloc(ctx, 16<<10)
			if err != nil {
				b.Error(err)
				return
			}
			if err := buf.Free(); err != nil {
				b.Error(err)
			}
		}
	})
}

// What a new segment of 1 GiB costs, from mapping to giving it back.
func BenchmarkPinGiB(b *testing.B) {
	for _, workers := range []int{1, 2, 4, 8, 16} {
		b.Run(fmt.Sprint("workers=", workers), func(b *testing.B) {
			pool := newPool(b, devicetest.Open(b), pinned.Options{Budget: 1 << 30, PrefaultWorkers: workers, ShrinkAfter: -1})
			b.SetBytes(1 << 30)
			for b.Loop() {
				buf, err := pool.Alloc(ctx, 1<<30)
				if err != nil {
					b.Fatal(err)
				}
				if err := buf.Free(); err != nil {
					b.Fatal(err)
				}
				if _, err := pool.Trim(); err != nil {
					b.Fatal(err)
				}
			}
			s := pool.Stats()
			b.ReportMetric(s.PinTime.Seconds()*1e3/float64(s.SegmentAllocs), "ms/pin")
			if s.PageableReason != "" {
				b.Log(s.PageableReason)
			}
		})
	}
}

// Work that failed is over: its buffer is free again, and the error is kept.
func TestFreeAfterFailedWork(t *testing.T) {
	dev, err := device.Open("host")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close() // which tells the error that only events told
	const n = 1 << 20
	p := newPool(t, dev, pinned.Options{Budget: n, SegmentBytes: n})
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	bad := errors.New("bad kernel")
	if err := devicetest.As[device.Caller](t, dev).Call(s, func() error { return bad }); err != nil {
		t.Fatal(err)
	}
	e, err := dev.NewEvent(device.EventNoTiming)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // each takes the whole budget
		b, err := p.Alloc(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.Free(s), s.Record(e)); err != nil {
			t.Fatal(err)
		}
		if err := e.Synchronize(); !errors.Is(err, bad) {
			t.Fatalf("the event says %v", err)
		}
	}
	if got := p.Stats(); got.EventError != bad.Error() || got.LostBytes != 0 {
		t.Errorf("%+v", got)
	}
}

// Memory of the caller's own is copied as pinned memory once it is registered.
func TestRegisterOnDevice(t *testing.T) {
	dev := devicetest.Open(t)
	pinner, ok := device.As[device.Pinner](dev)
	if !ok {
		t.Skip("the device pins no memory")
	}
	p := newPool(t, dev, pinned.Options{Budget: 4 << 20, Flags: device.PinMapped})
	all, err := pagemem.Map(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pagemem.Unmap(all) })
	b := all[100:900_000]
	r, err := p.Register(b)
	if errors.Is(err, device.ErrPinLimit) || errors.Is(err, device.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !pinner.Pinned(b) {
		t.Error("registered, but not pinned")
	}
	if _, err := p.Register(b[5000:6000]); !errors.Is(err, device.ErrArgument) {
		t.Errorf("a part of it again: %v", err)
	}
	if at, err := r.Mapped(); pinner.CanMap() && (err != nil || at == 0) {
		t.Errorf("mapped at %#x: %v", at, err)
	}
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	q, err := dev.Alloc(int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = byte(i % 251)
	}
	got := make([]byte, len(b))
	if err := errors.Join(s.CopyH2D(q, b), s.CopyD2H(got, q), s.Synchronize()); err != nil || !bytes.Equal(got, b) {
		t.Errorf("other bytes came back; %v", err)
	}
	if err := r.Unregister(); err != nil || pinner.Pinned(b) {
		t.Errorf("unregistered: %v, pinned %t", err, pinner.Pinned(b))
	}
}
