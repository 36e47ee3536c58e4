package memory

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
	"github.com/pinion-gpu/pinion/device/devicetest"
)

// streamAllocator returns the device as a [device.StreamAllocator], or skips
// the test.
func streamAllocator(f *fixture.F) device.StreamAllocator {
	f.Helper()
	a, ok := device.As[device.StreamAllocator](f.Dev)
	if !ok {
		f.Skip("the device does not allocate in stream order")
	}
	if !a.CanAllocAsync() {
		_, err := a.AllocAsync(f.Stream(), 16)
		f.Fails("AllocAsync on a device that cannot", err, device.ErrNotSupported)
		f.Skip("the device does not allocate in stream order")
	}
	return a
}

func allocAsync(f *fixture.F, a device.StreamAllocator, s device.Stream, n int64) device.Ptr {
	f.Helper()
	p, err := a.AllocAsync(s, n)
	f.OK(err)
	if p == 0 || p%256 != 0 {
		f.Fatalf("AllocAsync(%d) = %#x, want a multiple of 256", n, p)
	}
	return p
}

// Memory is there for the work behind it, on its stream at once and on another
// after an event, and is freed on either.
func testAsync(f *fixture.F) {
	a := streamAllocator(f)
	s, other := f.Stream(), f.Stream()
	e := f.Event(device.EventNoTiming)
	for i, n := range []int64{1, 257, 4097, 1<<20 + 1} {
		want := fixture.Unique(n, byte(i))
		got, there := make([]byte, n), make([]byte, n)
		p := allocAsync(f, a, s, n)
		q := allocAsync(f, a, s, n)
		f.OK(s.CopyH2D(p, want))
		f.OK(s.CopyD2D(q, p, n))
		f.OK(s.CopyD2H(got, q))
		f.OK(a.FreeAsync(s, q))
		f.OK(s.Record(e))
		f.OK(other.Wait(e))
		f.OK(other.CopyD2H(there, p))
		if c, ok := device.As[device.RangeChecker](f.Dev); ok {
			f.OK(c.CheckRange(p, n))
		}
		f.OK(a.FreeAsync(other, p))
		f.OK(other.Synchronize())
		f.OK(s.Synchronize())
		if !bytes.Equal(got, want) || !bytes.Equal(there, want) {
			f.Fatalf("%d bytes in memory allocated in stream order have the wrong content", n)
		}
		if c, ok := device.As[device.RangeChecker](f.Dev); ok {
			f.Fails("CheckRange of what was freed in stream order", c.CheckRange(p, n), device.ErrPointer)
		}
	}
}

// What is freed and allocated again on one stream is used by one after the
// other.
func testAsyncReuse(f *fixture.F) {
	a := streamAllocator(f)
	f.OK(a.SetReleaseThreshold(64 << 20))
	s := f.Stream()
	const n, rounds = 1 << 18, 16
	keep := f.Alloc(rounds * n)
	release, _ := f.Delay(s)
	for i := range int64(rounds) {
		p := allocAsync(f, a, s, n)
		f.OK(s.Memset(p, byte(i+1), n))
		f.OK(s.CopyD2D(keep.Add(i*n), p, n))
		f.OK(a.FreeAsync(s, p))
	}
	release()
	f.OK(s.Synchronize())
	got := f.Download(keep, rounds*n)
	for i := range int64(rounds) {
		if !bytes.Equal(got[i*n:][:n], bytes.Repeat([]byte{byte(i + 1)}, n)) {
			f.Errorf("allocation %d was used while it was freed or not yet allocated", i)
		}
	}
}

// FreeAsync does not wait, and what is queued before it still has the memory.
func testAsyncFreeWaits(f *fixture.F) {
	a := streamAllocator(f)
	s, other := f.Stream(), f.Stream()
	const n = 1 << 20
	want := fixture.Unique(n, 1)
	keep := f.Alloc(n)
	p := allocAsync(f, a, s, n)
	f.OK(s.CopyH2D(p, want))
	f.OK(s.Synchronize())
	release, _ := f.Delay(s)
	f.OK(s.CopyD2D(keep, p, n))
	if c, ok := device.As[device.Caller](f.Dev); ok {
		f.OK(c.Call(s, func() error {
			b, err := c.Bytes(p, n)
			if err == nil && !bytes.Equal(b, want) {
				err = errors.New("the memory changed before the free that is queued")
			}
			return err
		}))
	}
	f.Within("FreeAsync", func() error { return a.FreeAsync(s, p) })
	f.Fails("the second FreeAsync", a.FreeAsync(s, p), device.ErrPointer)
	q, err := a.AllocAsync(other, n)
	f.OK(err)
	f.OK(other.Memset(q, 0xEE, n))
	f.OK(other.Synchronize())
	release()
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(keep, n), want) {
		f.Error("memory changed before the free that was queued")
	}
	if q != p { // or the address is live again
		f.Fails("Free of what was freed in stream order", f.Dev.Free(p), device.ErrPointer)
		f.Fails("FreeAsync of it once more", a.FreeAsync(other, p), device.ErrPointer)
	}
	f.OK(a.FreeAsync(other, q))
	f.OK(other.Synchronize())
}

// What is freed can be had again in the order of its stream however little is
// left, and goes back to the device when the pool is trimmed.
func testAsyncMemory(f *fixture.F) {
	a := streamAllocator(f)
	total := f.SmallDevice()
	free := func() int64 {
		f.Helper()
		m, err := f.Dev.Memory()
		f.OK(err)
		return m.FreeBytes
	}
	s := f.Stream()
	n := total / 2
	release, held := f.Delay(s)
	before := free()
	p := allocAsync(f, a, s, n)
	f.OK(s.Memset(p, 1, 1<<20))
	f.OK(a.FreeAsync(s, p))
	again := fixture.Async(func() error {
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
	f.Arrives("AllocAsync behind a free", again)
	p = allocAsync(f, a, s, 1<<20)
	_, err := a.AllocAsync(s, total)
	f.Fails("AllocAsync of more than is left", err, device.ErrOutOfMemory)
	if now := free(); now > before-1<<20 {
		f.Errorf("%d bytes free before and %d with 1 MiB allocated in stream order", before, now)
	}
	f.OK(a.SetReleaseThreshold(n))
	f.OK(a.FreeAsync(s, p))
	f.OK(s.Synchronize())
	f.OK(a.TrimPool(n)) // allowed, whatever the pool has
	f.OK(a.TrimPool(0))
	if now := free(); now != before {
		f.Errorf("%d bytes free before and %d after the pool was trimmed", before, now)
	}
	f.OK(f.Dev.Free(f.Alloc(n + n/2)))
}

func testAsyncArguments(f *fixture.F) {
	a := streamAllocator(f)
	s, closed := f.Stream(), f.Stream()
	f.OK(closed.Close())
	other := f.Open()
	foreign, err := other.NewStream()
	f.OK(err)
	for _, n := range []int64{0, -1, math.MinInt64} {
		_, err := a.AllocAsync(s, n)
		f.Fails("AllocAsync of no bytes", err, device.ErrArgument)
	}
	for _, n := range []int64{f.Dev.Info().TotalBytes + 1, math.MaxInt64} {
		_, err = a.AllocAsync(s, n)
		f.Fails("AllocAsync of more than all", err, device.ErrOutOfMemory)
		if err != nil && !fixture.ASize.MatchString(err.Error()) {
			f.Errorf("no sizes in %q", err)
		}
	}
	for _, n := range []int64{-1, math.MinInt64} {
		f.Fails("SetReleaseThreshold below zero", a.SetReleaseThreshold(n), device.ErrArgument)
		f.Fails("TrimPool below zero", a.TrimPool(n), device.ErrArgument)
	}
	f.OK(a.SetReleaseThreshold(math.MaxInt64))
	f.OK(a.SetReleaseThreshold(0))

	p := allocAsync(f, a, s, 4096)
	for what, on := range map[string]device.Stream{"no stream": nil, "a stream of another device": foreign} {
		_, err := a.AllocAsync(on, 16)
		f.Fails("AllocAsync on "+what, err, device.ErrArgument)
		f.Fails("FreeAsync on "+what, a.FreeAsync(on, p), device.ErrArgument)
	}
	_, err = a.AllocAsync(closed, 16)
	f.Fails("AllocAsync on a closed stream", err, device.ErrClosed)
	f.Fails("FreeAsync on a closed stream", a.FreeAsync(closed, p), device.ErrClosed)
	for what, p := range map[string]device.Ptr{
		"zero":                            0,
		"garbage":                         0xdead_beef_0000,
		"an interior address":             p.Add(256),
		"memory that Alloc gave":          f.Alloc(4096),
		"memory that another device gave": otherAsync(f, other, foreign),
	} {
		f.Fails("FreeAsync of "+what, a.FreeAsync(s, p), device.ErrPointer)
	}
	want := fixture.Unique(4096, 1) // and it is none the worse
	f.OK(s.CopyH2D(p, want))
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(p, 4096), want) {
		f.Error("a failed FreeAsync changed live memory")
	}
	f.OK(f.Dev.Free(p))
	f.Fails("FreeAsync of freed memory", a.FreeAsync(s, p), device.ErrPointer)
	f.Fails("the second Free", f.Dev.Free(p), device.ErrPointer)
}

// otherAsync allocates on another device.
func otherAsync(f *fixture.F, other device.Device, s device.Stream) device.Ptr {
	f.Helper()
	p, err := devicetest.As[device.StreamAllocator](f, other).AllocAsync(s, 4096)
	f.OK(err)
	return p
}

// Close finds what is left, and what is about to be freed.
func testAsyncClose(f *fixture.F) {
	streamAllocator(f)
	second := f.Open()
	a := devicetest.As[device.StreamAllocator](f, second)
	before, err := f.Dev.Memory()
	f.OK(err)
	s, err := second.NewStream()
	f.OK(err)
	f.OK(a.SetReleaseThreshold(64 << 20))
	for i := range 4 {
		p := allocAsync(f, a, s, 1<<20)
		f.OK(s.Memset(p, 1, 1<<20))
		if i%2 == 0 {
			f.OK(a.FreeAsync(s, p))
		}
	}
	f.Within("Close", second.Close)
	after, err := f.Dev.Memory()
	f.OK(err)
	if f.Dev.Info().TotalBytes <= fixture.Small && after != before {
		f.Errorf("memory was %+v, and is %+v after a device with a pool was closed", before, after)
	}
}

// Many goroutines allocate and free, each on its stream.
func testAsyncGoroutines(f *fixture.F) {
	a := streamAllocator(f)
	f.OK(a.SetReleaseThreshold(32 << 20))
	var done []<-chan error
	for i := range 4 {
		s := f.Stream()
		done = append(done, fixture.Async(func() error {
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			for range 30 {
				want := fixture.Unique(1+rng.Int64N(1<<16), byte(rng.Uint32()))
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
		f.Arrives("a goroutine among many", d)
	}
}
