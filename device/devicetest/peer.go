package devicetest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// peerTests are those of copies between two devices.
var peerTests = []conformanceTest{
	{"peer", testPeer},
	{"peer-order", testPeerOrder},
	{"peer-virtual-memory", testPeerVirtualMemory},
	{"peer-arguments", testPeerArguments},
	{"peer-closed", testPeerClosed},
	{"peer-free-waits", testPeerFree},
	{"peer-close-waits", testPeerClose},
	{"peer-both-ways", testPeerBothWays},
	{"peer-close-while-copying", testPeerCloseWhileCopying},
}

// RunPeers checks copies between the devices that open and openOther give,
// which belong to one backend. [Run] does it with two that are opened alike;
// this is for two that differ, such as two GPUs.
func RunPeers(t *testing.T, open, openOther func(t testing.TB) device.Device) {
	keepOpen(t, open)
	keepOpen(t, openOther)
	for _, c := range peerTests {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, open)
			f.openOther = opener(t, openOther)
			c.run(f)
		})
	}
}

// peer returns the device as a [device.PeerCopier], and another, or skips the
// test.
func (f *fixture) peer() (device.PeerCopier, *fixture) {
	f.Helper()
	c, ok := device.As[device.PeerCopier](f.dev)
	if !ok {
		f.Skip("the device copies from no other")
	}
	other := *f
	other.dev = f.openOther()
	return c, &other
}

// Bytes come from another device, and from the device itself.
func testPeer(f *fixture) {
	c, other := f.peer()
	back, ok := device.As[device.PeerCopier](other.dev)
	if !ok {
		f.Fatal("the other device copies from no other")
	}
	if there, here := c.PeerAccess(other.dev), back.PeerAccess(f.dev); there != here || there != c.PeerAccess(other.dev) {
		f.Errorf("access there %t, access back %t, or it changed", there, here)
	}
	if !c.PeerAccess(f.dev) {
		f.Error("no access to itself")
	}
	const most = 1<<20 + 1 + 2*guardBytes
	a, b, own := f.alloc(most), other.alloc(most), f.alloc(most)
	home, away := f.stream(), other.stream()
	got := make([]byte, most)
	for i, n := range copySizes {
		all := n + 2*guardBytes
		if all > most {
			continue
		}
		at := copyOffsets[i%len(copyOffsets)]
		src, dst := guardBytes-1-at[0], guardBytes-1-at[1]
		want := unique(n, byte(i))
		what := fmt.Sprintf("%d bytes from offset %d to %d", n, src, dst)
		for _, p := range []device.Ptr{a, own} {
			f.ok(home.Memset(p, guardValue, all))
		}
		f.ok(home.CopyH2D(a.Add(src), want))
		f.ok(home.Synchronize())
		f.ok(away.Memset(b, guardValue, all))
		f.ok(back.CopyPeer(away, b.Add(dst), f.dev, a.Add(src), n))
		f.ok(away.Synchronize())
		f.ok(c.CopyPeer(home, a.Add(dst), other.dev, b.Add(dst), n))
		f.ok(c.CopyPeer(home, own.Add(src), f.dev, a.Add(dst), n))
		f.ok(home.CopyD2H(got[:all], own))
		f.ok(home.Synchronize())
		f.guarded("there and back, "+what, got[:all], src, want)
		f.ok(away.CopyD2H(got[:all], b))
		f.ok(away.Synchronize())
		f.guarded("there, "+what, got[:all], dst, want)
	}
}

// Copies from another device stand in the order of their stream.
func testPeerOrder(f *fixture) {
	c, other := f.peer()
	const n = 1 << 20
	a, b, src := f.alloc(n), f.alloc(n), other.alloc(n)
	s := f.stream()
	got := make([]byte, n)
	for round := range byte(4) {
		want := unique(n, round)
		other.upload(src, want)
		release, _ := f.delay(s)
		f.ok(s.Memset(a, 1, n))
		f.ok(c.CopyPeer(s, a, other.dev, src, n))
		f.ok(s.CopyD2D(b, a, n))
		f.ok(s.Memset(a, 2, n))
		f.ok(c.CopyPeer(s, a, f.dev, b, n))
		copied := async(func() error { return errors.Join(s.CopyD2H(got, a), s.Synchronize()) })
		release()
		f.arrives("a copy from another device", copied)
		if !bytes.Equal(got, want) {
			f.Fatal("a copy from another device did not run in the order of its stream")
		}
	}
}

// chunk returns a granularity's worth of memory that is mapped.
func (f *fixture) chunk() (p device.Ptr, n int64) {
	f.Helper()
	m, n := f.mapper()
	p, err := m.Reserve(n)
	f.ok(err)
	c, err := m.CreateChunk(n)
	f.ok(err)
	f.ok(m.Map(p, []device.Chunk{c}, n))
	return p, n
}

// Mapped chunks are memory that peers copy from and to as well, whether they
// were mapped before the first copy or after it.
func testPeerVirtualMemory(f *fixture) {
	c, other := f.peer()
	s := f.stream()
	for round := range byte(2) {
		src, n := other.chunk()
		dst, room := f.chunk()
		n = min(n, room)
		want := unique(n, round)
		other.upload(src, want)
		f.ok(c.CopyPeer(s, dst, other.dev, src, n))
		f.ok(s.Synchronize())
		if !bytes.Equal(f.download(dst, n), want) {
			f.Error("a copy of mapped chunks brought the wrong content")
		}
	}
}

// foreignDevice is a device that no backend knows.
type foreignDevice struct{ device.Device }

func testPeerArguments(f *fixture) {
	c, other := f.peer()
	const n = 1 << 10
	p, q := f.alloc(n), other.alloc(n)
	s, away := f.stream(), other.stream()
	f.upload(p, unique(n, 1))

	f.ok(c.CopyPeer(s, p, other.dev, q, 0))
	for _, from := range []*fixture{f, other} {
		src := q
		if from == f {
			src = f.alloc(n)
		}
		for _, n := range []int64{-1, math.MinInt64} {
			f.fails("CopyPeer of less than nothing", c.CopyPeer(s, p, from.dev, src, n), device.ErrArgument)
		}
		f.fails("CopyPeer to address zero", c.CopyPeer(s, 0, from.dev, src, 16), device.ErrPointer)
		f.fails("CopyPeer from address zero", c.CopyPeer(s, p, from.dev, 0, 16), device.ErrPointer)
	}
	f.fails("CopyPeer on no stream", c.CopyPeer(nil, p, other.dev, q, n), device.ErrArgument)
	f.fails("CopyPeer on a stream of the other device", c.CopyPeer(away, p, other.dev, q, n), device.ErrArgument)
	f.fails("CopyPeer from no device", c.CopyPeer(s, p, nil, q, n), device.ErrNotSupported)
	f.fails("CopyPeer from a device of another backend", c.CopyPeer(s, p, foreignDevice{other.dev}, q, n), device.ErrNotSupported)
	if c.PeerAccess(nil) || c.PeerAccess(foreignDevice{other.dev}) {
		f.Error("access to a device of another backend")
	}
	f.ok(s.Synchronize())
	if !bytes.Equal(f.download(p, n), unique(n, 1)) {
		f.Error("a copy that failed changed something")
	}
	f.ok(s.Close())
	f.fails("CopyPeer on a closed stream", c.CopyPeer(s, p, other.dev, q, n), device.ErrClosed)
}

func testPeerClosed(f *fixture) {
	c, other := f.peer()
	const n = 64
	p, q := f.alloc(n), other.alloc(n)
	s, away := f.stream(), other.stream()
	f.ok(c.CopyPeer(s, p, other.dev, q, n))
	f.ok(other.dev.Close())
	f.fails("CopyPeer from a closed device", c.CopyPeer(s, p, other.dev, q, n), device.ErrClosed)
	f.fails("CopyPeer of a closed device", As[device.PeerCopier](other, other.dev).CopyPeer(away, q, f.dev, p, n), device.ErrClosed)
	if c.PeerAccess(other.dev) || As[device.PeerCopier](other, other.dev).PeerAccess(f.dev) {
		f.Error("access to or from a closed device")
	}
	f.ok(s.Memset(p, 1, n)) // the one that is open still works
	f.ok(s.Synchronize())
	f.ok(f.dev.Close())
	f.fails("CopyPeer between closed devices", c.CopyPeer(s, p, other.dev, q, n), device.ErrClosed)
}

// Free waits for copies that use the memory, of whichever device.
func testPeerFree(f *fixture) {
	c, other := f.peer()
	const n = 1 << 20
	want := unique(n, 1)
	for _, freeSource := range []bool{true, false} {
		keep, s := f.alloc(n), f.stream()
		dst, src := f.alloc(n), other.alloc(n)
		other.upload(src, want)
		release, held := f.delay(s)
		f.ok(c.CopyPeer(s, dst, other.dev, src, n))
		f.ok(s.CopyD2D(keep, dst, n))
		freed := async(func() error {
			if freeSource {
				return other.dev.Free(src)
			}
			return f.dev.Free(dst)
		})
		if held {
			select {
			case err := <-freed:
				f.Fatalf("Free (of the source: %t) did not wait for a copy; its error: %v", freeSource, err)
			case <-time.After(5 * time.Millisecond):
			}
		}
		release()
		f.arrives("Free", freed)
		f.ok(s.Synchronize())
		if !bytes.Equal(f.download(keep, n), want) {
			f.Errorf("Free (of the source: %t) took memory from under a copy", freeSource)
		}
	}
}

// Close waits for copies that others do with the device's memory.
func testPeerClose(f *fixture) {
	c, other := f.peer()
	const n = 1 << 20
	want := unique(n, 1)
	dst, src, s := f.alloc(n), other.alloc(n), f.stream()
	other.upload(src, want)
	release, held := f.delay(s)
	f.ok(c.CopyPeer(s, dst, other.dev, src, n))
	closed := async(other.dev.Close)
	if held {
		select {
		case err := <-closed:
			f.Fatalf("Close did not wait for a copy; its error: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	release()
	f.arrives("Close", closed)
	if !bytes.Equal(f.download(dst, n), want) {
		f.Error("Close took memory from under a copy of another device")
	}
}

// shuttle copies from b to a, n bytes, again and again, until it fails or has
// done so many.
func shuttle(a, b *fixture, p, q device.Ptr, n int64, rounds int) error {
	c := As[device.PeerCopier](a, a.dev)
	s, err := a.dev.NewStream()
	for i := 0; err == nil && i < rounds; i++ {
		if err = c.CopyPeer(s, p, b.dev, q, n); err == nil && i%8 == 7 {
			err = s.Synchronize()
		}
		c.PeerAccess(b.dev)
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// Copies in both directions at a time do not hold each other up.
func testPeerBothWays(f *fixture) {
	_, other := f.peer()
	const n, rounds = 1 << 12, 100
	var done []<-chan error
	for range 2 {
		p, q := f.alloc(n), other.alloc(n)
		r, o := f.alloc(n), other.alloc(n)
		done = append(done,
			async(func() error { return shuttle(f, other, p, q, n, rounds) }),
			async(func() error { return shuttle(other, f, o, r, n, rounds) }),
			async(func() error { return shuttle(f, f, p.Add(n/2), p, n/2, rounds) }))
	}
	for _, d := range done {
		f.arrives("copies in both directions", d)
	}
}

// Close of both devices under the hands of those who copy between them.
func testPeerCloseWhileCopying(f *fixture) {
	const n = 1 << 12
	for range 50 { // one round seldom meets the moment
		_, other := f.peer()
		sub := *f
		sub.dev = f.open()
		var done []<-chan error
		for range 2 {
			p, q := sub.alloc(n), other.alloc(n)
			r, o := sub.alloc(n), other.alloc(n)
			done = append(done,
				async(func() error { return shuttle(&sub, other, p, q, n, math.MaxInt) }),
				async(func() error { return shuttle(other, &sub, o, r, n, math.MaxInt) }))
		}
		time.Sleep(time.Millisecond)
		closing := []<-chan error{async(sub.dev.Close), async(other.dev.Close)}
		for _, c := range closing {
			f.arrives("Close of a device that others copy from", c)
		}
		for _, d := range done {
			if err := <-d; !errors.Is(err, device.ErrClosed) {
				f.Errorf("copying between devices that are closed: %v, want %q", err, device.ErrClosed)
			}
		}
	}
}
