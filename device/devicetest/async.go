package devicetest

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// streamAllocator returns the device as a [device.StreamAllocator], or skips
// the test.
func (f *fixture) streamAllocator() device.StreamAllocator {
	f.Helper()
	a, ok := device.As[device.StreamAllocator](f.dev)
	if !ok {
		f.Skip("the device does not allocate in stream order")
	}
	if !a.CanAllocAsync() {
		_, err := a.AllocAsync(f.stream(), 16)
		f.fails("AllocAsync on a device that cannot", err, device.ErrNotSupported)
		f.Skip("the device does not allocate in stream order")
	}
	return a
}

func (f *fixture) allocAsync(a device.StreamAllocator, s device.Stream, n int64) device.Ptr {
	f.Helper()
	p, err := a.AllocAsync(s, n)
	f.ok(err)
	if p == 0 || p%256 != 0 {
		f.Fatalf("AllocAsync(%d) = %#x, want a multiple of 256", n, p)
	}
	return p
}

// Memory is there for the work behind it, on its stream at once and on another
// after an event, and is freed on either.
func testAsync(f *fixture) {
	a := f.streamAllocator()
	s, other := f.stream(), f.stream()
	e := f.event(device.EventNoTiming)
	for i, n := range []int64{1, 257, 4097, 1<<20 + 1} {
		want := unique(n, byte(i))
		got, there := make([]byte, n), make([]byte, n)
		p := f.allocAsync(a, s, n)
		q := f.allocAsync(a, s, n)
		f.ok(s.CopyH2D(p, want))
		f.ok(s.CopyD2D(q, p, n))
		f.ok(s.CopyD2H(got, q))
		f.ok(a.FreeAsync(s, q))
		f.ok(s.Record(e))
		f.ok(other.Wait(e))
		f.ok(other.CopyD2H(there, p))
		if c, ok := device.As[device.RangeChecker](f.dev); ok {
			f.ok(c.CheckRange(p, n))
		}
		f.ok(a.FreeAsync(other, p))
		f.ok(other.Synchronize())
		f.ok(s.Synchronize())
		if !bytes.Equal(got, want) || !bytes.Equal(there, want) {
			f.Fatalf("%d bytes in memory allocated in stream order have the wrong content", n)
		}
		if c, ok := device.As[device.RangeChecker](f.dev); ok {
			f.fails("CheckRange of what was freed in stream order", c.CheckRange(p, n), device.ErrPointer)
		}
	}
}

// What is freed and allocated again on one stream is used by one after the
// other.
func testAsyncReuse(f *fixture) {
	a := f.streamAllocator()
	f.ok(a.SetReleaseThreshold(64 << 20))
	s := f.stream()
	const n, rounds = 1 << 18, 16
	keep := f.alloc(rounds * n)
	release, _ := f.delay(s)
	for i := range int64(rounds) {
		p := f.allocAsync(a, s, n)
		f.ok(s.Memset(p, byte(i+1), n))
		f.ok(s.CopyD2D(keep.Add(i*n), p, n))
		f.ok(a.FreeAsync(s, p))
	}
	release()
	f.ok(s.Synchronize())
	got := f.download(keep, rounds*n)
	for i := range int64(rounds) {
		if !bytes.Equal(got[i*n:][:n], bytes.Repeat([]byte{byte(i + 1)}, n)) {
			f.Errorf("allocation %d was used while it was freed or not yet allocated", i)
		}
	}
}

// FreeAsync does not wait, and what is queued before it still has the memory.
func testAsyncFreeWaits(f *fixture) {
	a := f.streamAllocator()
	s, other := f.stream(), f.stream()
	const n = 1 << 20
	want := unique(n, 1)
	keep := f.alloc(n)
	p := f.allocAsync(a, s, n)
	f.ok(s.CopyH2D(p, want))
	f.ok(s.Synchronize())
	release, _ := f.delay(s)
	f.ok(s.CopyD2D(keep, p, n))
	if c, ok := device.As[device.Caller](f.dev); ok {
		f.ok(c.Call(s, func() error {
			b, err := c.Bytes(p, n)
			if err == nil && !bytes.Equal(b, want) {
				err = errors.New("the memory changed before the free that is queued")
			}
			return err
		}))
	}
	f.within("FreeAsync", func() error { return a.FreeAsync(s, p) })
	f.fails("the second FreeAsync", a.FreeAsync(s, p), device.ErrPointer)
	q, err := a.AllocAsync(other, n)
	f.ok(err)
	f.ok(other.Memset(q, 0xEE, n))
	f.ok(other.Synchronize())
	release()
	f.ok(s.Synchronize())
	if !bytes.Equal(f.download(keep, n), want) {
		f.Error("memory changed before the free that was queued")
	}
	if q != p { // or the address is live again
		f.fails("Free of what was freed in stream order", f.dev.Free(p), device.ErrPointer)
		f.fails("FreeAsync of it once more", a.FreeAsync(other, p), device.ErrPointer)
	}
	f.ok(a.FreeAsync(other, q))
	f.ok(other.Synchronize())
}

// What is freed can be had again in the order of its stream however little is
// left, and goes back to the device when the pool is trimmed.
func testAsyncMemory(f *fixture) {
	a := f.streamAllocator()
	total := f.smallDevice()
	free := func() int64 {
		f.Helper()
		m, err := f.dev.Memory()
		f.ok(err)
		return m.FreeBytes
	}
	s := f.stream()
	n := total / 2
	release, held := f.delay(s)
	before := free()
	p := f.allocAsync(a, s, n)
	f.ok(s.Memset(p, 1, 1<<20))
	f.ok(a.FreeAsync(s, p))
	again := async(func() error {
		q, err := a.AllocAsync(s, n+n/2)
		if err != nil {
			return err
		}
		return errors.Join(s.Memset(q, 2, 1<<20), a.FreeAsync(s, q))
	})
	if held {
		time.Sleep(time.Millisecond) // for it to come to wait, if it does
	}
	release()
	f.arrives("AllocAsync behind a free", again)
	p = f.allocAsync(a, s, 1<<20)
	_, err := a.AllocAsync(s, total)
	f.fails("AllocAsync of more than is left", err, device.ErrOutOfMemory)
	if now := free(); now > before-1<<20 {
		f.Errorf("%d bytes free before and %d with 1 MiB allocated in stream order", before, now)
	}
	f.ok(a.SetReleaseThreshold(n))
	f.ok(a.FreeAsync(s, p))
	f.ok(s.Synchronize())
	f.ok(a.TrimPool(n)) // allowed, whatever the pool has
	f.ok(a.TrimPool(0))
	if now := free(); now != before {
		f.Errorf("%d bytes free before and %d after the pool was trimmed", before, now)
	}
	f.ok(f.dev.Free(f.alloc(n + n/2)))
}

func testAsyncArguments(f *fixture) {
	a := f.streamAllocator()
	s, closed := f.stream(), f.stream()
	f.ok(closed.Close())
	other := f.open()
	foreign, err := other.NewStream()
	f.ok(err)
	for _, n := range []int64{0, -1, math.MinInt64} {
		_, err := a.AllocAsync(s, n)
		f.fails("AllocAsync of no bytes", err, device.ErrArgument)
	}
	for _, n := range []int64{f.dev.Info().TotalBytes + 1, math.MaxInt64} {
		_, err = a.AllocAsync(s, n)
		f.fails("AllocAsync of more than all", err, device.ErrOutOfMemory)
		if err != nil && !aSize.MatchString(err.Error()) {
			f.Errorf("no sizes in %q", err)
		}
	}
	for _, n := range []int64{-1, math.MinInt64} {
		f.fails("SetReleaseThreshold below zero", a.SetReleaseThreshold(n), device.ErrArgument)
		f.fails("TrimPool below zero", a.TrimPool(n), device.ErrArgument)
	}
	f.ok(a.SetReleaseThreshold(math.MaxInt64))
	f.ok(a.SetReleaseThreshold(0))

	p := f.allocAsync(a, s, 4096)
	for what, on := range map[string]device.Stream{"no stream": nil, "a stream of another device": foreign} {
		_, err := a.AllocAsync(on, 16)
		f.fails("AllocAsync on "+what, err, device.ErrArgument)
		f.fails("FreeAsync on "+what, a.FreeAsync(on, p), device.ErrArgument)
	}
	_, err = a.AllocAsync(closed, 16)
	f.fails("AllocAsync on a closed stream", err, device.ErrClosed)
	f.fails("FreeAsync on a closed stream", a.FreeAsync(closed, p), device.ErrClosed)
	for what, p := range map[string]device.Ptr{
		"zero":                            0,
		"garbage":                         0xdead_beef_0000,
		"an interior address":             p.Add(256),
		"memory that Alloc gave":          f.alloc(4096),
		"memory that another device gave": otherAsync(f, other, foreign),
	} {
		f.fails("FreeAsync of "+what, a.FreeAsync(s, p), device.ErrPointer)
	}
	want := unique(4096, 1) // and it is none the worse
	f.ok(s.CopyH2D(p, want))
	f.ok(s.Synchronize())
	if !bytes.Equal(f.download(p, 4096), want) {
		f.Error("a failed FreeAsync changed live memory")
	}
	f.ok(f.dev.Free(p))
	f.fails("FreeAsync of freed memory", a.FreeAsync(s, p), device.ErrPointer)
	f.fails("the second Free", f.dev.Free(p), device.ErrPointer)
}

// otherAsync allocates on another device.
func otherAsync(f *fixture, other device.Device, s device.Stream) device.Ptr {
	f.Helper()
	p, err := As[device.StreamAllocator](f, other).AllocAsync(s, 4096)
	f.ok(err)
	return p
}

// Close finds what is left, and what is about to be freed.
func testAsyncClose(f *fixture) {
	f.streamAllocator()
	second := f.open()
	a := As[device.StreamAllocator](f, second)
	before, err := f.dev.Memory()
	f.ok(err)
	s, err := second.NewStream()
	f.ok(err)
	f.ok(a.SetReleaseThreshold(64 << 20))
	for i := range 4 {
		p := f.allocAsync(a, s, 1<<20)
		f.ok(s.Memset(p, 1, 1<<20))
		if i%2 == 0 {
			f.ok(a.FreeAsync(s, p))
		}
	}
	f.within("Close", second.Close)
	after, err := f.dev.Memory()
	f.ok(err)
	if f.dev.Info().TotalBytes <= small && after != before {
		f.Errorf("memory was %+v, and is %+v after a device with a pool was closed", before, after)
	}
}

// Many goroutines allocate and free, each on its stream.
func testAsyncGoroutines(f *fixture) {
	a := f.streamAllocator()
	f.ok(a.SetReleaseThreshold(32 << 20))
	var done []<-chan error
	for i := range 4 {
		s := f.stream()
		done = append(done, async(func() error {
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			for range 30 {
				want := unique(1+rng.Int64N(1<<16), byte(rng.Uint32()))
				got := make([]byte, len(want))
				p, err := a.AllocAsync(s, int64(len(want)))
				if err != nil {
					return err
				}
				err = errors.Join(s.CopyH2D(p, want), s.CopyD2H(got, p), a.FreeAsync(s, p), s.Synchronize())
				if err == nil && !bytes.Equal(got, want) {
					err = errors.New("memory of one goroutine changed under another")
				}
				if err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, d := range done {
		f.arrives("a goroutine among many", d)
	}
}
