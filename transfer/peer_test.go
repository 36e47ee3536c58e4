package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/transfer"
)

// Between two devices of one backend, straight and staged, and between
// backends.
func TestPeer(t *testing.T) {
	to, from := devicetest.Open(t), openPeer(t)
	host, err := device.Open("host:256MiB")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	e, err := transfer.New(to, transfer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	const most = 20<<20 + 5
	for _, c := range []struct {
		name   string
		from   device.Device
		staged bool
	}{{"straight", from, false}, {"staged", from, true}, {"other backend", host, false}, {"the device itself", to, false}} {
		t.Run(c.name, func(t *testing.T) {
			src, err := c.from.Alloc(most)
			if err != nil {
				t.Fatal(err)
			}
			dst, err := to.Alloc(most)
			if err != nil {
				t.Fatal(err)
			}
			up, down := streamOf(t, c.from), streamOf(t, to)
			for _, n := range []int64{0, 1, 1000, 4 << 20, 4<<20 + 1, most} {
				want, got := unique(n, byte(n)), make([]byte, n+1)
				if err := errors.Join(up.CopyH2D(src, want), up.Synchronize(), down.Memset(dst, guardValue, most), down.Synchronize()); err != nil {
					t.Fatal(err)
				}
				var last int64 = -1
				err := e.Peer(ctx, transfer.PeerCopy{Dst: dst, From: c.from, Src: src, Bytes: n, Staged: c.staged,
					Progress: func(done, total int64) {
						if done < last || total != n {
							t.Errorf("%d of %d after %d", done, total, last)
						}
						last = done
					}})
				if errors.Is(err, device.ErrPinLimit) {
					t.Skip(err)
				}
				if err != nil {
					t.Fatal(err)
				}
				if last != n {
					t.Errorf("%d bytes reported of %d", last, n)
				}
				if n == most {
					got = got[:n]
				}
				if err := errors.Join(down.CopyD2H(got, dst), down.Synchronize()); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got[:n], want) || n < most && got[n] != guardValue {
					t.Fatalf("%d bytes: wrong content", n)
				}
			}
			ctx, cancel := context.WithCancel(ctx)
			err = e.Peer(ctx, transfer.PeerCopy{Dst: dst, From: c.from, Src: src, Bytes: most, Staged: true,
				Progress: func(int64, int64) { cancel() }})
			if errors.Is(err, device.ErrPinLimit) {
				t.Skip(err)
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled midway: %v", err)
			}
		})
	}
	if e.PeerAccess(host) && to.Info().Backend != "host" || e.PeerAccess(nil) {
		t.Error("access to where there is none")
	}
}

// What was made for a device that is closed by now is given back when another
// one comes.
func TestPeersThatGo(t *testing.T) {
	f := open(t)
	f.NeedsPinned(32 << 20)
	e := f.Engine(transfer.Options{})
	const n = 1000
	p := f.Alloc(n)
	var first [2]int64
	for i := range 4 {
		from, err := device.Open("host:1MiB")
		f.OK(err)
		src, err := from.Alloc(n)
		f.OK(err)
		f.OK(e.Peer(ctx, transfer.PeerCopy{Dst: p, From: from, Src: src, Bytes: n, Staged: true}))
		f.OK(from.Close())
		if taken := [2]int64{f.Dev.PinnedNow.Load(), f.Dev.Opened.Load()}; i == 0 {
			first = taken
		} else if taken != first {
			t.Errorf("bytes pinned, streams and events open: %d after device %d, %d after the first", taken, i, first)
		}
	}
}

func TestPeerArguments(t *testing.T) {
	to, from := devicetest.Open(t), devicetest.Open(t)
	e, err := transfer.New(to, transfer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := to.Alloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []transfer.PeerCopy{
		{Dst: p, Src: p, Bytes: 16},
		{Dst: p, From: from, Src: p, Bytes: -1},
		{Dst: p, From: from, Src: math.MaxUint64, Bytes: 16},
		{Dst: math.MaxUint64, From: from, Src: p, Bytes: 16},
	} {
		if err := e.Peer(ctx, c); !errors.Is(err, device.ErrArgument) {
			t.Errorf("copy %d: %v", i, err)
		}
	}
	if err := e.Peer(ctx, transfer.PeerCopy{Dst: p, From: from, Src: 0, Bytes: 16}); !errors.Is(err, device.ErrPointer) {
		t.Errorf("from nowhere: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Peer(ctx, transfer.PeerCopy{Dst: p, From: to, Src: p, Bytes: 16}); !errors.Is(err, device.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// labelled is a wrapper that is held by value and cannot be compared.
type labelled struct {
	device.Wrapper
	_ []string
}

// The other device may be wrapped in any type, and the bridge to it is kept.
func TestPeerOfWrapped(t *testing.T) {
	to, from := devicetest.Open(t), openPeer(t)
	e, err := transfer.New(to, transfer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	counted := &counting{Wrapper: device.Wrapper{Device: from}}
	wrapped := labelled{Wrapper: device.Wrapper{Device: counted}}
	dst, err := to.Alloc(16)
	if err != nil {
		t.Fatal(err)
	}
	src, err := from.Alloc(16)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := e.Peer(ctx, transfer.PeerCopy{Dst: dst, From: wrapped, Src: src, Bytes: 16}); err != nil {
			t.Fatal(err)
		}
	}
	if n := counted.streams.Load(); n != 1 {
		t.Errorf("%d streams for three copies one after the other", n)
	}
}

// counting counts the streams that are made.
type counting struct {
	device.Wrapper
	streams atomic.Int64
}

func (c *counting) NewStream() (device.Stream, error) {
	c.streams.Add(1)
	return c.Device.NewStream()
}

// openPeer opens another device beside the one that devicetest opens: the
// second GPU where there is one, and otherwise the same again.
func openPeer(t testing.TB) device.Device {
	t.Helper()
	if os.Getenv("PINION_DEVICE") == "cuda:0" {
		if dev, err := device.Open("cuda:1"); err == nil {
			t.Cleanup(func() { dev.Close() })
			return dev
		}
	}
	return devicetest.Open(t)
}

// A GiB from one device to another.
func BenchmarkPeer(b *testing.B) {
	to, from := devicetest.Open(b), openPeer(b)
	e, err := transfer.New(to, transfer.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	const n = 1 << 30
	dst, err := to.Alloc(n)
	if err != nil {
		b.Skip(err)
	}
	src, err := from.Alloc(n)
	if err != nil {
		b.Skip(err)
	}
	b.Logf("%s to %s, straight: %t", from.Info().ID, to.Info().ID, e.PeerAccess(from))
	for _, staged := range []bool{false, true} {
		b.Run(fmt.Sprintf("staged=%t", staged), func(b *testing.B) {
			b.SetBytes(n)
			for b.Loop() {
				if err := e.Peer(ctx, transfer.PeerCopy{Dst: dst, From: from, Src: src, Bytes: n, Staged: staged}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func streamOf(t *testing.T, dev device.Device) device.Stream {
	t.Helper()
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
