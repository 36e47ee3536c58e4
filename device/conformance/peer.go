package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
	"github.com/pinion-gpu/pinion/device/devicetest"
)

// peerTests are those of copies between two devices.
var peerTests = []fixture.Test{
	{Name: "peer", Run: testPeer},
	{Name: "peer-order", Run: testPeerOrder},
	{Name: "peer-virtual-memory", Run: testPeerVirtualMemory},
	{Name: "peer-arguments", Run: testPeerArguments},
	{Name: "peer-closed", Run: testPeerClosed},
	{Name: "peer-free-waits", Run: testPeerFree},
	{Name: "peer-close-waits", Run: testPeerClose},
	{Name: "peer-both-ways", Run: testPeerBothWays},
	{Name: "peer-close-while-copying", Run: testPeerCloseWhileCopying},
	{Name: "share", Run: testShare},
	{Name: "share-captured", Run: testShareCaptured},
	{Name: "share-arguments", Run: testShareArguments},
}

// RunPeers checks copies between the devices that open and openOther give,
// which belong to one backend. [Run] does it with two that are opened alike;
// this is for two that differ, such as two GPUs.
func RunPeers(t *testing.T, open, openOther func(t testing.TB) device.Device) {
	keepOpen(t, open)
	keepOpen(t, openOther)
	for _, c := range peerTests {
		t.Run(c.Name, func(t *testing.T) {
			f := fixture.New(t, open)
			f.OpenOther = fixture.Opener(t, openOther)
			c.Run(f)
		})
	}
}

// peer returns the device as a [device.PeerCopier], and another, or skips the
// test.
func peer(f *fixture.F) (device.PeerCopier, *fixture.F) {
	f.Helper()
	c, ok := device.As[device.PeerCopier](f.Dev)
	if !ok {
		f.Skip("the device copies from no other")
	}
	other := *f
	other.Dev = f.OpenOther()
	return c, &other
}

// Bytes come from another device, and from the device itself.
func testPeer(f *fixture.F) {
	c, other := peer(f)
	back, ok := device.As[device.PeerCopier](other.Dev)
	if !ok {
		f.Fatal("the other device copies from no other")
	}
	if there, here := c.PeerAccess(other.Dev), back.PeerAccess(f.Dev); there != here || there != c.PeerAccess(other.Dev) {
		f.Errorf("access there %t, access back %t, or it changed", there, here)
	}
	if !c.PeerAccess(f.Dev) {
		f.Error("no access to itself")
	}
	const most = 1<<20 + 1 + 2*guardBytes
	a, b, own := f.Alloc(most), other.Alloc(most), f.Alloc(most)
	home, away := f.Stream(), other.Stream()
	got := make([]byte, most)
	for i, n := range copySizes {
		all := n + 2*guardBytes
		if all > most {
			continue
		}
		at := copyOffsets[i%len(copyOffsets)]
		src, dst := guardBytes-1-at[0], guardBytes-1-at[1]
		want := fixture.Unique(n, byte(i))
		what := fmt.Sprintf("%d bytes from offset %d to %d", n, src, dst)
		for _, p := range []device.Ptr{a, own} {
			f.OK(home.Memset(p, guardValue, all))
		}
		f.OK(home.CopyH2D(a.Add(src), want))
		f.OK(home.Synchronize())
		f.OK(away.Memset(b, guardValue, all))
		f.OK(back.CopyPeer(away, b.Add(dst), f.Dev, a.Add(src), n))
		f.OK(away.Synchronize())
		f.OK(c.CopyPeer(home, a.Add(dst), other.Dev, b.Add(dst), n))
		f.OK(c.CopyPeer(home, own.Add(src), f.Dev, a.Add(dst), n))
		f.OK(home.CopyD2H(got[:all], own))
		f.OK(home.Synchronize())
		guarded(f, "there and back, "+what, got[:all], src, want)
		f.OK(away.CopyD2H(got[:all], b))
		f.OK(away.Synchronize())
		guarded(f, "there, "+what, got[:all], dst, want)
	}
}

// Copies from another device stand in the order of their stream.
func testPeerOrder(f *fixture.F) {
	c, other := peer(f)
	const n = 1 << 20
	a, b, src := f.Alloc(n), f.Alloc(n), other.Alloc(n)
	s := f.Stream()
	got := make([]byte, n)
	for round := range byte(4) {
		want := fixture.Unique(n, round)
		other.Upload(src, want)
		release, _ := f.Delay(s)
		f.OK(s.Memset(a, 1, n))
		f.OK(c.CopyPeer(s, a, other.Dev, src, n))
		f.OK(s.CopyD2D(b, a, n))
		f.OK(s.Memset(a, 2, n))
		f.OK(c.CopyPeer(s, a, f.Dev, b, n))
		copied := fixture.Async(func() error { return errors.Join(s.CopyD2H(got, a), s.Synchronize()) })
		release()
		f.Arrives("a copy from another device", copied)
		if !bytes.Equal(got, want) {
			f.Fatal("a copy from another device did not run in the order of its stream")
		}
	}
}

// chunk returns a granularity's worth of memory that is mapped.
func chunk(f *fixture.F) (p device.Ptr, n int64) {
	f.Helper()
	m, n := f.Mapper()
	p, err := m.Reserve(n)
	f.OK(err)
	c, err := m.CreateChunk(n)
	f.OK(err)
	f.OK(m.Map(p, []device.Chunk{c}, n))
	return p, n
}

// Mapped chunks are memory that peers copy from and to as well, whether they
// were mapped before the first copy or after it.
func testPeerVirtualMemory(f *fixture.F) {
	c, other := peer(f)
	s := f.Stream()
	for round := range byte(2) {
		src, n := chunk(other)
		dst, room := chunk(f)
		n = min(n, room)
		want := fixture.Unique(n, round)
		other.Upload(src, want)
		f.OK(c.CopyPeer(s, dst, other.Dev, src, n))
		f.OK(s.Synchronize())
		if !bytes.Equal(f.Download(dst, n), want) {
			f.Error("a copy of mapped chunks brought the wrong content")
		}
	}
}

// foreignDevice is a device that no backend knows.
type foreignDevice struct{ device.Device }

func testPeerArguments(f *fixture.F) {
	c, other := peer(f)
	const n = 1 << 10
	p, q := f.Alloc(n), other.Alloc(n)
	s, away := f.Stream(), other.Stream()
	f.Upload(p, fixture.Unique(n, 1))

	f.OK(c.CopyPeer(s, p, other.Dev, q, 0))
	for _, from := range []*fixture.F{f, other} {
		src := q
		if from == f {
			src = f.Alloc(n)
		}
		for _, n := range []int64{-1, math.MinInt64} {
			f.Fails("CopyPeer of less than nothing", c.CopyPeer(s, p, from.Dev, src, n), device.ErrArgument)
		}
		f.Fails("CopyPeer to address zero", c.CopyPeer(s, 0, from.Dev, src, 16), device.ErrPointer)
		f.Fails("CopyPeer from address zero", c.CopyPeer(s, p, from.Dev, 0, 16), device.ErrPointer)
	}
	f.Fails("CopyPeer on no stream", c.CopyPeer(nil, p, other.Dev, q, n), device.ErrArgument)
	f.Fails("CopyPeer on a stream of the other device", c.CopyPeer(away, p, other.Dev, q, n), device.ErrArgument)
	f.Fails("CopyPeer from no device", c.CopyPeer(s, p, nil, q, n), device.ErrNotSupported)
	f.Fails("CopyPeer from a device of another backend", c.CopyPeer(s, p, foreignDevice{other.Dev}, q, n), device.ErrNotSupported)
	if c.PeerAccess(nil) || c.PeerAccess(foreignDevice{other.Dev}) {
		f.Error("access to a device of another backend")
	}
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(p, n), fixture.Unique(n, 1)) {
		f.Error("a copy that failed changed something")
	}
	f.OK(s.Close())
	f.Fails("CopyPeer on a closed stream", c.CopyPeer(s, p, other.Dev, q, n), device.ErrClosed)
}

func testPeerClosed(f *fixture.F) {
	c, other := peer(f)
	const n = 64
	p, q := f.Alloc(n), other.Alloc(n)
	s, away := f.Stream(), other.Stream()
	f.OK(c.CopyPeer(s, p, other.Dev, q, n))
	f.OK(other.Dev.Close())
	f.Fails("CopyPeer from a closed device", c.CopyPeer(s, p, other.Dev, q, n), device.ErrClosed)
	f.Fails("CopyPeer of a closed device", devicetest.As[device.PeerCopier](other, other.Dev).CopyPeer(away, q, f.Dev, p, n), device.ErrClosed)
	if c.PeerAccess(other.Dev) || devicetest.As[device.PeerCopier](other, other.Dev).PeerAccess(f.Dev) {
		f.Error("access to or from a closed device")
	}
	f.OK(s.Memset(p, 1, n)) // the one that is open still works
	f.OK(s.Synchronize())
	f.OK(f.Dev.Close())
	f.Fails("CopyPeer between closed devices", c.CopyPeer(s, p, other.Dev, q, n), device.ErrClosed)
}

// Free waits for copies that use the memory, of whichever device.
func testPeerFree(f *fixture.F) {
	c, other := peer(f)
	const n = 1 << 20
	want := fixture.Unique(n, 1)
	for _, freeSource := range []bool{true, false} {
		keep, s := f.Alloc(n), f.Stream()
		dst, src := f.Alloc(n), other.Alloc(n)
		other.Upload(src, want)
		release, held := f.Delay(s)
		f.OK(c.CopyPeer(s, dst, other.Dev, src, n))
		f.OK(s.CopyD2D(keep, dst, n))
		freed := fixture.Async(func() error {
			if freeSource {
				return other.Dev.Free(src)
			}
			return f.Dev.Free(dst)
		})
		if held {
			select {
			case err := <-freed:
				f.Fatalf("Free (of the source: %t) did not wait for a copy; its error: %v", freeSource, err)
			case <-time.After(5 * time.Millisecond):
			}
		}
		release()
		f.Arrives("Free", freed)
		f.OK(s.Synchronize())
		if !bytes.Equal(f.Download(keep, n), want) {
			f.Errorf("Free (of the source: %t) took memory from under a copy", freeSource)
		}
	}
}

// Close waits for copies that others do with the device's memory.
func testPeerClose(f *fixture.F) {
	c, other := peer(f)
	const n = 1 << 20
	want := fixture.Unique(n, 1)
	dst, src, s := f.Alloc(n), other.Alloc(n), f.Stream()
	other.Upload(src, want)
	release, held := f.Delay(s)
	f.OK(c.CopyPeer(s, dst, other.Dev, src, n))
	closed := fixture.Async(other.Dev.Close)
	if held {
		select {
		case err := <-closed:
			f.Fatalf("Close did not wait for a copy; its error: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	release()
	f.Arrives("Close", closed)
	if !bytes.Equal(f.Download(dst, n), want) {
		f.Error("Close took memory from under a copy of another device")
	}
}

// shuttle copies from b to a, n bytes, again and again, until it fails or has
// done so many.
func shuttle(a, b *fixture.F, p, q device.Ptr, n int64, rounds int) error {
	c := devicetest.As[device.PeerCopier](a, a.Dev)
	s, err := a.Dev.NewStream()
	for i := 0; err == nil && i < rounds; i++ {
		if err = c.CopyPeer(s, p, b.Dev, q, n); err == nil && i%8 == 7 {
			err = s.Synchronize()
		}
		c.PeerAccess(b.Dev)
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// Copies in both directions at a time do not hold each other up.
func testPeerBothWays(f *fixture.F) {
	_, other := peer(f)
	const n, rounds = 1 << 12, 100
	var done []<-chan error
	for range 2 {
		p, q := f.Alloc(n), other.Alloc(n)
		r, o := f.Alloc(n), other.Alloc(n)
		done = append(done,
			fixture.Async(func() error { return shuttle(f, other, p, q, n, rounds) }),
			fixture.Async(func() error { return shuttle(other, f, o, r, n, rounds) }),
			fixture.Async(func() error { return shuttle(f, f, p.Add(n/2), p, n/2, rounds) }))
	}
	for _, d := range done {
		f.Arrives("copies in both directions", d)
	}
}

// Close of both devices under the hands of those who copy between them.
func testPeerCloseWhileCopying(f *fixture.F) {
	const n = 1 << 12
	for range 50 { // one round seldom meets the moment
		_, other := peer(f)
		sub := *f
		sub.Dev = f.Open()
		var done []<-chan error
		for range 2 {
			p, q := sub.Alloc(n), other.Alloc(n)
			r, o := sub.Alloc(n), other.Alloc(n)
			done = append(done,
				fixture.Async(func() error { return shuttle(&sub, other, p, q, n, math.MaxInt) }),
				fixture.Async(func() error { return shuttle(other, &sub, o, r, n, math.MaxInt) }))
		}
		time.Sleep(time.Millisecond)
		closing := []<-chan error{fixture.Async(sub.Dev.Close), fixture.Async(other.Dev.Close)}
		for _, c := range closing {
			f.Arrives("Close of a device that others copy from", c)
		}
		for _, d := range done {
			if err := <-d; !errors.Is(err, device.ErrClosed) {
				f.Errorf("copying between devices that are closed: %v, want %q", err, device.ErrClosed)
			}
		}
	}
}
