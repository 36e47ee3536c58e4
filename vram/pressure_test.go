package vram

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// canHold skips a test where hold does not work, before anything is allocated.
func canHold(t testing.TB, dev device.Device) {
	t.Helper()
	if _, ok := device.As[device.Caller](dev); !ok || guard > 0 { // which waits at each free
		t.Skip("needs work that can be held up")
	}
}

// hold keeps the stream from going on until release is called.
func hold(t testing.TB, dev device.Device, s device.Stream) (release func()) {
	canHold(t, dev)
	c := make(chan struct{})
	testkit.OK(t, devicetest.As[device.Caller](t, dev).Call(s, func() error { <-c; return nil }))
	var once sync.Once
	f := func() { once.Do(func() { close(c) }) }
	t.Cleanup(f)
	return f
}

const mb = 1 << 20

// TestClosingStream: a stream that is being closed may still have work.
func TestClosingStream(t *testing.T) {
	exact(t)
	dev := openHost(t, "host:64MiB")
	p, _ := New(dev, Options{Budget: 8 * mb, ChunkBytes: 2 * mb})
	one, _ := dev.NewStream()
	other := newStream(t, dev)
	b := alloc(t, p, 8*mb, Use{Stream: one})
	rel := hold(t, dev, one)
	testkit.OK(t, one.Memset(b.Ptr(), 1, 8*mb))
	testkit.OK(t, b.Free())
	go one.Close()
	time.Sleep(20 * time.Millisecond)
	c, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	x, err := p.Alloc(c, 8*mb, Use{Stream: other})
	if err == nil {
		t.Errorf("%#x given to other (was %#x) while the work of one is held up", uint64(x.Ptr()), uint64(b.Ptr()))
	}
	rel()
}

// TestMarksOfClosedStream: marks that pass after a stream was closed change nothing.
func TestMarksOfClosedStream(t *testing.T) {
	exact(t)
	dev := openHost(t, "host:64MiB")
	p, _ := New(dev, Options{Budget: 16 * mb, ChunkBytes: 2 * mb})
	one, _ := dev.NewStream()
	a, b := alloc(t, p, 8*mb, Use{Stream: one}), alloc(t, p, 8*mb, Use{Stream: one})
	rel := hold(t, dev, one)
	testkit.OK(t, a.Free())
	p.Trim() // mark 1
	testkit.OK(t, b.Free())
	rel()
	testkit.OK(t, one.Close())
	for range 3 {
		p.Trim()
	}
	if p.Reserved() != 0 {
		t.Errorf("%d bytes reserved after trim, nothing live", p.Reserved())
	}
}

// TestSegmentsJoin: idle segments go back for one that is larger than each.
func TestSegmentsJoin(t *testing.T) {
	dev := openHost(t, "host:64MiB")
	p, _ := New(dev, Options{Source: SourceSegments})
	var l []Block
	for range 3 {
		l = append(l, alloc(t, p, 16*mb, Use{}))
	}
	for _, b := range l {
		testkit.OK(t, b.Free())
	}
	if _, err := p.Alloc(ctx, 48*mb, Use{}); err != nil {
		t.Errorf("%v", err)
	}
}

// TestOneStuckStream: memory of one stream is had while another is stuck.
func TestOneStuckStream(t *testing.T) {
	exact(t)
	dev := openHost(t, "host:64MiB")
	p, _ := New(dev, Options{Budget: 18 * mb, ChunkBytes: 2 * mb})
	stuck, quick, third := newStream(t, dev), newStream(t, dev), newStream(t, dev)
	a, b := alloc(t, p, 2*mb, Use{Stream: stuck}), alloc(t, p, 16*mb, Use{Stream: quick})
	hold(t, dev, stuck)
	relQ := hold(t, dev, quick)
	testkit.OK(t, a.Free())
	testkit.OK(t, b.Free())
	time.AfterFunc(50*time.Millisecond, relQ)
	c, cancel := context.WithTimeout(ctx, testkit.Hang)
	defer cancel()
	if _, err := p.Alloc(c, 16*mb, Use{Stream: third}); err != nil {
		t.Errorf("%v", err)
	}
}

// TestTrimBehindClose: who waited for the lock meets a closed pool.
func TestTrimBehindClose(t *testing.T) {
	for _, src := range []Source{SourceChunks, SourceSegments} {
		dev := openHost(t, "host:64MiB")
		p, _ := New(dev, Options{Source: src, ChunkBytes: 2 * mb})
		testkit.OK(t, alloc(t, p, 4*mb, Use{}).Free())
		p.mu.Lock() // as a long search of somebody
		done := make(chan error, 2)
		go func() { done <- p.Close() }()
		time.Sleep(20 * time.Millisecond)
		go func() { _, err := p.Trim(); done <- err }()
		time.Sleep(20 * time.Millisecond)
		p.mu.Unlock()
		for range 2 {
			if err := <-done; err != nil && !errors.Is(err, ErrClosed) {
				t.Errorf("%v: %v", src, err)
			}
		}
	}
}

// TestDriverStreamClosed: what is freed after its stream was closed goes back to the driver's pool.
func TestDriverStreamClosed(t *testing.T) {
	exact(t)
	dev := openHost(t, "host:64MiB")
	p, _ := New(dev, Options{Source: SourceDriver})
	s, _ := dev.NewStream()
	b := alloc(t, p, 8*mb, Use{Stream: s})
	testkit.OK(t, s.Close())
	err := b.Free()
	t.Log("free:", err)
	testkit.OK(t, p.Close())
	if m, _ := dev.Memory(); m.FreeBytes != m.TotalBytes {
		t.Errorf("%+v after pool close, reserved %d", m, p.Reserved())
	}
}

// TestDriverWithoutStream: an allocation without a stream does not wait for frees.
func TestDriverWithoutStream(t *testing.T) {
	dev := openHost(t, "host:64MiB")
	p, _ := New(dev, Options{Source: SourceDriver})
	s := newStream(t, dev)
	b := alloc(t, p, 8*mb, Use{})
	testkit.OK(t, b.RecordStream(s))
	rel := hold(t, dev, s)
	testkit.OK(t, b.Free())
	c, cancel := context.WithTimeout(ctx, testkit.Hang/2)
	defer cancel()
	done := make(chan error, 1)
	go func() { _, err := p.Alloc(c, mb, Use{}); done <- err }()
	select {
	case err := <-done:
		testkit.OK(t, err)
	case <-time.After(testkit.Hang):
		t.Error("alloc of 1 MiB of 56 waits past its context; lock free:", p.mu.TryLock())
	}
	rel()
}

// TestOtherHeapAfterWait: what becomes idle in one heap is there for the other.
func TestOtherHeapAfterWait(t *testing.T) {
	exact(t)
	dev := openHost(t, "host:64MiB")
	p, _ := New(dev, Options{Budget: 8 * mb, ChunkBytes: 2 * mb})
	one, other := newStream(t, dev), newStream(t, dev)
	b := alloc(t, p, 8*mb, Use{Stream: one})
	rel := hold(t, dev, one)
	testkit.OK(t, b.Free())
	time.AfterFunc(30*time.Millisecond, rel)
	if _, err := p.Alloc(ctx, 1000, Use{Stream: other}); err != nil {
		t.Errorf("%v", err)
	}
}

// TestOtherHeapReclaimed: so is what a reclaimer frees.
func TestOtherHeapReclaimed(t *testing.T) {
	exact(t)
	dev := openHost(t, "host:64MiB")
	p, _ := New(dev, Options{Budget: 8 * mb, ChunkBytes: 2 * mb})
	b := alloc(t, p, 8*mb, Use{})
	p.OnLowMemory(func(context.Context, int64) (int64, error) { return 8 * mb, b.Free() })
	if _, err := p.Alloc(ctx, 1000, Use{}); err != nil {
		t.Errorf("%v", err)
	}
}

// TestStill: nothing comes or goes meanwhile, also when the collector forgot the shards.
func TestStill(t *testing.T) {
	dev := openHost(t, "host:64MiB")
	p, _ := New(dev, Options{})
	b := alloc(t, p, 1000, Use{})
	p.freeze(func() {
		x := p.stats()
		runtime.GC()
		runtime.GC() // forgets what sync.Pool holds
		done := make(chan error, 1)
		go func() { done <- b.Free() }()
		select {
		case err := <-done:
			y := p.stats()
			t.Errorf("Free went through (%v) while all is still: %d live before, %d after", err, x.Blocks.Current, y.Blocks.Current)
		case <-time.After(100 * time.Millisecond):
		}
	})
}

// TestTakenByAnother: what was waited for may go to another; then it waits on.
func TestTakenByAnother(t *testing.T) {
	exact(t)
	dev := openHost(t, "host:64MiB")
	p, _ := New(dev, Options{Budget: 4 * mb, ChunkBytes: 2 * mb})
	s1, s2, s3 := newStream(t, dev), newStream(t, dev), newStream(t, dev)
	x, y := alloc(t, p, 2*mb, Use{Stream: s1}), alloc(t, p, 2*mb, Use{Stream: s2})
	rel1, rel2 := hold(t, dev, s1), hold(t, dev, s2)
	testkit.OK(t, x.Free())
	got := make(chan error)
	go func() { _, err := p.Alloc(ctx, 2*mb, Use{Stream: s3}); got <- err }()
	time.Sleep(20 * time.Millisecond)
	testkit.OK(t, y.Free())
	alloc(t, p, 2*mb, Use{Stream: s1})
	rel1()
	time.AfterFunc(50*time.Millisecond, rel2)
	if err := <-got; err != nil {
		t.Errorf("2 of 4 MiB live, 2 pending: %v", err)
	}
}

// TestLimitAmidReclaim: what a limit refuses does not count.
func TestLimitAmidReclaim(t *testing.T) {
	dev := openHost(t, "host:64MiB")
	p, _ := New(dev, Options{Limits: map[Purpose]int64{KVCache: 4 * mb}})
	in, out := make(chan int), make(chan int)
	first := true
	p.OnLowMemory(func(context.Context, int64) (int64, error) {
		if first {
			first = false
			in <- 1
			<-out
		}
		return 0, nil
	})
	go p.Alloc(ctx, 8*mb, Use{Purpose: KVCache})
	<-in
	if _, err := p.Alloc(ctx, 512, Use{Purpose: KVCache}); err != nil {
		t.Errorf("%v", err)
	}
	close(out)
}

// TestLimitPanic: nor when a reclaimer panics.
func TestLimitPanic(t *testing.T) {
	dev := openHost(t, "host:64MiB")
	p, _ := New(dev, Options{Limits: map[Purpose]int64{KVCache: 4 * mb}})
	remove := p.OnLowMemory(func(context.Context, int64) (int64, error) { panic("mine") })
	func() {
		defer func() { recover() }()
		p.Alloc(ctx, 8*mb, Use{Purpose: KVCache})
	}()
	remove()
	if _, err := p.Alloc(ctx, 512, Use{Purpose: KVCache}); err != nil {
		t.Errorf("%v", err)
	}
}
