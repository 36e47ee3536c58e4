package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/transfer"
)

// behind is how a test orders a copy: what it sets in a copy after it has
// queued work on s.
type behind struct {
	name   string
	queued bool // the call may return before the copy is done
	set    func(f *fixture, s device.Stream) (after device.Event, on device.Stream)
}

var behinds = []behind{
	{"after an event", false, func(f *fixture, s device.Stream) (device.Event, device.Stream) {
		e := f.event()
		f.OK(s.Record(e))
		return e, nil
	}},
	{"on a stream", true, func(_ *fixture, s device.Stream) (device.Event, device.Stream) { return nil, s }},
	{"after an event on another stream", true, func(f *fixture, s device.Stream) (device.Event, device.Stream) {
		e := f.event()
		f.OK(s.Record(e))
		return e, f.newStream()
	}},
}

func (f *fixture) event() device.Event {
	f.Helper()
	e, err := f.Dev.NewEvent(device.EventNoTiming)
	f.OK(err)
	f.Cleanup(func() { f.OK(e.Close()) })
	return e
}

func (f *fixture) newStream() device.Stream {
	f.Helper()
	s, err := f.Dev.NewStream()
	f.OK(err)
	f.Cleanup(func() { f.OK(s.Close()) })
	return s
}

// hold keeps s from going on until release is called, where the device can do
// that; else it gives it work.
func (f *fixture) hold(s device.Stream) (release func()) {
	f.Helper()
	caller, ok := device.As[device.Caller](f.Dev.Device)
	if !ok {
		const n = 256 << 20
		p := f.Alloc(n)
		for range 20 {
			f.OK(s.Memset(p, 1, n))
		}
		return func() {}
	}
	wait, open := f.Gate()
	f.OK(caller.Call(s, func() error { wait(); return nil }))
	return open
}

// A memset that is queued on a stream is seen by a copy that is ordered behind
// it, and a copy that is queued behind a read does not change what is read,
// whatever the memory and the size are.
func TestOrder(t *testing.T) {
	for _, b := range behinds {
		for _, n := range []int{100, 4096, 100_000} {
			for _, pinnedMemory := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d bytes, pinned %t", b.name, n, pinnedMemory), func(t *testing.T) {
					f := open(t)
					e := f.Engine(small)
					host := make([]byte, n)
					if pinnedMemory {
						host = f.PinnedMemory(int64(n))
					}
					p, q := f.Alloc(int64(n)), f.Alloc(int64(n))
					s := f.newStream()

					// To the host, behind a memset.
					f.Memset(p, before, int64(n))
					release := f.hold(s)
					f.OK(s.Memset(p, sent, int64(n)))
					after, on := b.set(f, s)
					f.copies(e, transfer.Copy{Host: host, Device: p, ToHost: true, After: after, On: on}, release)
					if bytes.Count(host, []byte{sent}) != n {
						t.Fatalf("the copy to the host read %#x before the memset", host[0])
					}

					// To the device, behind a read and before another.
					f.Memset(p, before, int64(n))
					fill(host, scribed)
					release = f.hold(s)
					f.OK(s.CopyD2D(q, p, int64(n)))
					after, on = b.set(f, s)
					c := transfer.Copy{Host: host, Device: p, After: after, On: on}
					f.copies(e, c, release)
					if got := f.Download(make([]byte, n), q); bytes.Count(got, []byte{before}) != n {
						t.Fatalf("what was queued before the copy read %#x", got[0])
					}
					if on != nil {
						f.OK(e.Do(ctx, c))
						f.OK(on.CopyD2D(q, p, int64(n)))
						f.OK(on.Synchronize())
						if got := f.Download(make([]byte, n), q); bytes.Count(got, []byte{scribed}) != n {
							t.Fatalf("what was queued after the copy read %#x", got[0])
						}
					}
				})
			}
		}
	}
}

// copies carries out c, whose stream or event is held up until release, and
// waits until it is done.
func (f *fixture) copies(e *transfer.Engine, c transfer.Copy, release func()) {
	f.Helper()
	done := async(func() error { return e.Do(ctx, c) })
	time.Sleep(2 * time.Millisecond) // a copy that does not wait is done by now
	release()
	f.OK(f.Arrives("a copy that waits", done))
	if c.On != nil {
		f.OK(c.On.Synchronize())
	}
}

// A copy of pinned memory on a stream returns while the stream is held up, and
// nothing is copied before the stream comes to it.
func TestQueuedCopyReturns(t *testing.T) {
	f := open(t)
	if _, ok := device.As[device.Caller](f.Dev.Device); !ok {
		t.Skip("a stream cannot be held up")
	}
	e := f.Engine(small)
	const n = 100_000
	host, p, s := f.PinnedMemory(n), f.Alloc(n), f.newStream()
	f.Memset(p, sent, n)
	fill(host, before)
	release := f.hold(s)
	f.OK(f.Within("a queued copy", func() error {
		return e.Do(ctx, transfer.Copy{Host: host, Device: p, ToHost: true, On: s,
			Progress: func(int64, int64) { t.Error("progress of a copy that is only queued") }})
	}))
	if bytes.Count(host, []byte{before}) != n {
		t.Error("the copy was done before its stream came to it")
	}
	release()
	f.OK(s.Synchronize())
	if bytes.Count(host, []byte{sent}) != n {
		t.Error("the copy was not done")
	}
}

// Batches and boxes keep the order too, by each path, many of them in a row;
// Close waits for them.
func TestOrderOfBatches(t *testing.T) {
	const n, block = 64 << 10, 256
	for _, b := range behinds {
		for _, pageable := range []bool{false, true} {
			for _, path := range []transfer.BatchPath{transfer.BatchAuto, transfer.BatchKernel, transfer.BatchDriver, transfer.BatchLoop, transfer.BatchBox} {
				t.Run(fmt.Sprintf("%s, pageable %t, path %q", b.name, pageable, path), func(t *testing.T) {
					f := open(t)
					f.NeedsPinned(1 << 18)
					e, err := transfer.New(f.Full(), rowsOptions)
					f.OK(err)
					defer e.Close()
					host := make([]byte, n)
					if !pageable {
						host = f.PinnedMemory(n)
					}
					p, s := f.Alloc(n), f.newStream()
					f.Memset(p, before, n)
					release := f.hold(s)
					f.OK(s.Memset(p, sent, n))
					after, on := b.set(f, s)
					box := transfer.Box{Dst: transfer.Host(host), Src: transfer.Device(p, n), RowBytes: block, Rows: n / block / 2,
						DstRowStride: 2 * block, SrcRowStride: 2 * block, Path: path, After: after, On: on}
					batch := transfer.Batch{Dst: box.Dst, Src: box.Src, Path: path, After: after, On: on}
					for at := int64(0); at < n; at += 2 * block {
						batch.Blocks = append(batch.Blocks, transfer.Block{Dst: at, Src: at, Bytes: block})
					}
					done := async(func() error {
						for range 20 {
							if err := e.Box(ctx, box); err != nil {
								return err
							}
							if path == transfer.BatchBox {
								continue
							}
							if err := e.Batch(ctx, batch); err != nil {
								return err
							}
						}
						return e.Close()
					})
					time.Sleep(time.Millisecond)
					release()
					err = f.Arrives("batches that wait", done)
					if errors.Is(err, device.ErrNotSupported) {
						t.Skip(err)
					}
					f.OK(err)
					f.OK(s.Synchronize())
					if on != nil {
						f.OK(on.Synchronize())
					}
					if bytes.Count(host, []byte{sent}) != n/2 {
						t.Errorf("%d bytes of the memset arrived, want %d", bytes.Count(host, []byte{sent}), n/2)
					}
				})
			}
		}
	}
}

// So do all parts of a long batch inside the device.
func TestOrderInside(t *testing.T) {
	const block, count = 16, 6000
	const n = 2 * block * count
	for _, b := range behinds {
		t.Run(b.name, func(t *testing.T) {
			f := open(t)
			e, err := transfer.New(f.Full(), rowsOptions)
			f.OK(err)
			defer e.Close()
			to, from, s := f.Alloc(n), f.Alloc(n), f.newStream()
			f.Memset(to, before, n)
			f.Memset(from, before, n)
			batch := transfer.Batch{Dst: transfer.Device(to, n), Src: transfer.Device(from, n), Path: transfer.BatchKernel}
			for i := range int64(count) {
				at := 2 * block * (i * 7 % count)
				batch.Blocks = append(batch.Blocks, transfer.Block{Dst: at, Src: at, Bytes: block})
			}
			f.OK(e.Batch(ctx, batch)) // with what it needs at hand, the next one takes no time
			release := f.hold(s)
			f.OK(s.Memset(from, sent, n))
			batch.After, batch.On = b.set(f, s)
			done := async(func() error { return e.Batch(ctx, batch) })
			time.Sleep(5 * time.Millisecond)
			release()
			f.OK(f.Arrives("a batch that waits", done))
			f.OK(s.Synchronize())
			if batch.On != nil {
				f.OK(batch.On.Synchronize())
			}
			if got := bytes.Count(f.Download(make([]byte, n), to), []byte{sent}); got != n/2 {
				t.Errorf("%d bytes of the memset arrived, want %d", got, n/2)
			}
		})
	}
}

// Files and copies between devices wait as well.
func TestOrderOfFiles(t *testing.T) {
	const n = 100_000
	for _, b := range behinds[:2] {
		t.Run(b.name, func(t *testing.T) {
			f := open(t)
			e := f.Engine(small)
			p, s := f.Alloc(n), f.newStream()
			path := filepath.Join(t.TempDir(), "file")
			release := f.hold(s)
			f.OK(s.Memset(p, sent, n))
			after, on := b.set(f, s)
			done := async(func() error {
				_, err := e.CreateFile(ctx, path, transfer.FileCopy{Device: p, Bytes: n, After: after, On: on})
				return err
			})
			time.Sleep(time.Millisecond)
			release()
			f.OK(f.Arrives("a file that waits", done))
			if got, err := os.ReadFile(path); err != nil || bytes.Count(got, []byte{sent}) != n {
				t.Errorf("the file does not have the bytes of the memset (%v)", err)
			}
		})
	}
}

// The event and the stream may be those of the other device.
func TestOrderOfPeers(t *testing.T) {
	const n = 100_000
	for _, queued := range []bool{false, true} {
		f := open(t)
		f.NeedsPinned(16 << 20)
		other := devicetest.OpenDiscrete(t, 1<<20)
		from, err := other.Alloc(n)
		f.OK(err)
		s, err := other.NewStream()
		f.OK(err)
		defer s.Close()
		e := f.Engine(small)
		p := f.Alloc(n)
		wait, release := f.Gate()
		f.OK(devicetest.As[device.Caller](t, other).Call(s, func() error { wait(); return nil }))
		f.OK(s.Memset(from, sent, n))
		c := transfer.PeerCopy{Dst: p, From: other, Src: from, Bytes: n}
		if queued {
			c.On = s
		} else {
			c.After, err = other.NewEvent(device.EventNoTiming)
			f.OK(err)
			defer c.After.Close()
			f.OK(s.Record(c.After))
		}
		done := async(func() error { return e.Peer(ctx, c) })
		time.Sleep(time.Millisecond)
		release()
		f.OK(f.Arrives("a copy between devices that waits", done))
		if got := f.Download(make([]byte, n), p); bytes.Count(got, []byte{sent}) != n {
			t.Errorf("%#x arrived", got[0])
		}
	}
}

// A context ends the wait for an event, where goroutines copy; the copy has
// then touched nothing, and touches nothing later.
func TestOrderCancelled(t *testing.T) {
	f := open(t)
	if _, ok := device.As[device.Caller](f.Dev.Device); !ok {
		t.Skip("a stream cannot be held up")
	}
	e := f.Engine(small)
	const n = 100_000
	host, p, s := make([]byte, n), f.Alloc(n), f.newStream()
	f.Memset(p, sent, n)
	fill(host, before)
	for _, b := range behinds {
		release := f.hold(s)
		after, on := b.set(f, s)
		ended, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
		err := f.Within("a copy that is cancelled", func() error {
			return e.Do(ended, transfer.Copy{Host: host, Device: p, ToHost: true, After: after, On: on})
		})
		cancel()
		f.Fails(b.name, err, context.DeadlineExceeded)
		release()
		f.OK(s.Synchronize())
	}
	f.Works(e)
	if bytes.Count(host, []byte{before}) != n {
		t.Error("a cancelled copy touched its destination")
	}
}

// Work that failed before the copy fails it, and a closed engine queues nothing.
func TestOrderFails(t *testing.T) {
	f := open(t)
	caller, ok := device.As[device.Caller](f.Dev.Device)
	if !ok {
		t.Skip("no function of a test runs on the device")
	}
	e, err := transfer.New(f.Dev, small)
	f.OK(err)
	defer e.Close()
	const n = 100_000
	broken := errors.New("broken on purpose")
	host, p, s := make([]byte, n), f.Alloc(n), f.newStream()
	f.OK(caller.Call(s, func() error { return broken }))
	mark := f.event()
	f.OK(s.Record(mark))
	f.Fails("after work that failed", e.Do(ctx, transfer.Copy{Host: host, Device: p, After: mark}), broken)
	_ = s.Synchronize()
	f.OK(e.Close())
	for _, host := range [][]byte{host, host[:100]} {
		f.Fails("a closed engine", e.Do(ctx, transfer.Copy{Host: host, Device: p, On: s}), device.ErrClosed)
	}
}

// A context ends the wait of batches for a stream that is held up: of one that
// is too long to be queued at once, and of one behind many others.
func TestOrderOfBatchesCancelled(t *testing.T) {
	f := open(t)
	if _, ok := device.As[device.Caller](f.Dev.Device); !ok {
		t.Skip("a stream cannot be held up")
	}
	f.NeedsPinned(1 << 22)
	const n, block = 1 << 21, 16
	for _, c := range []struct {
		name          string
		batches, rows int
	}{{"a long one", 1, n / block / 2}, {"many", 40, 16}} {
		for _, path := range []transfer.BatchPath{transfer.BatchKernel, transfer.BatchDriver, transfer.BatchLoop} {
			t.Run(fmt.Sprintf("%s by %s", c.name, path), func(t *testing.T) {
				e, err := transfer.New(f.Full(), rowsOptions)
				f.OK(err)
				host, p, s := f.PinnedMemory(n), f.Alloc(n), f.newStream()
				f.Memset(p, sent, n)
				release := f.hold(s)
				batch := transfer.Batch{Dst: transfer.Host(host), Src: transfer.Device(p, n), Path: path, On: s}
				for at := range int64(c.rows) {
					batch.Blocks = append(batch.Blocks, transfer.Block{Dst: at * 2 * block, Src: at * 2 * block, Bytes: block})
				}
				ended, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
				defer cancel()
				err = f.Within("a batch that is cancelled", func() error {
					for range c.batches {
						if err := e.Batch(ended, batch); err != nil {
							return err
						}
					}
					return nil
				})
				f.Fails(c.name, err, context.DeadlineExceeded)
				release()
				f.OK(f.Within("Close", e.Close))
				f.OK(s.Synchronize())
			})
		}
	}
}
