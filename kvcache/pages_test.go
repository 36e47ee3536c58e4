package kvcache

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// rig is pages on a device.
type rig struct {
	*Pages
	dev    device.Device
	stream device.Stream
}

func newRig(t testing.TB, c *Cache, blockBytes int64) *rig {
	dev := devicetest.Open(t)
	pool := testkit.Must(vram.New(dev, vram.Options{}))(t)
	t.Cleanup(func() { testkit.OK(t, pool.Close()) })
	host := testkit.Must(pinned.NewPool(dev, pinned.Options{Budget: 2 << 30}))(t)
	t.Cleanup(func() { testkit.OK(t, host.Close()) })
	engine := testkit.Must(transfer.New(dev, transfer.Options{Pool: host}))(t)
	t.Cleanup(func() { testkit.OK(t, engine.Close()) })
	r := &rig{Pages: testkit.Must(OpenPages(t.Context(), c, engine, PagesOptions{pool, host, blockBytes}))(t), dev: dev, stream: testkit.Must(dev.NewStream())(t)}
	t.Cleanup(func() {
		testkit.OK(t, r.stream.Synchronize())
		testkit.OK(t, r.Pages.Close())
		testkit.OK(t, r.Pages.Close())
		testkit.OK(t, r.stream.Close())
	})
	return r
}

// Copies that are queued in groups come to what they come to one after the other.
func TestPages(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			blocks, hosts := 1+rng.IntN(12), 1+rng.IntN(12)
			c := testkit.Must(New(Options{Blocks: blocks, HostBlocks: hosts}))(t)
			r := newRig(t, c, 64)
			r.order.most = 1 + rng.IntN(5)
			model := [2][]uint64{make([]uint64, blocks), make([]uint64, hosts)}
			fill := func(i int) { // what a kernel would write
				model[0][i] = rng.Uint64()
				b := make([]byte, 64)
				for k := range 8 {
					binary.LittleEndian.PutUint64(b[8*k:], model[0][i])
				}
				testkit.OK(t, r.stream.CopyH2D(r.Ptr().Add(int64(64*i)), b))
			}
			for i := range blocks {
				fill(i)
			}
			place := func() Place {
				if rng.IntN(2) == 0 {
					return Place{true, int32(rng.IntN(hosts))}
				}
				return Place{false, int32(rng.IntN(blocks))}
			}
			for range 30 {
				var copies []Copy
				for range rng.IntN(25) {
					x := Copy{place(), place()}
					if x.From == x.To || x.From.Host && x.To.Host {
						continue
					}
					copies = append(copies, x)
					side := func(p Place) *uint64 { return &model[b2i(p.Host)][p.Number] }
					*side(x.To) = *side(x.From)
				}
				testkit.OK(t, r.Copy(t.Context(), r.stream, copies))
				if rng.IntN(2) == 0 {
					fill(rng.IntN(blocks))
				}
			}
			testkit.OK(t, r.stream.Synchronize())
			got := make([]byte, 64*blocks)
			testkit.OK(t, r.stream.CopyD2H(got, r.Ptr()))
			testkit.OK(t, r.stream.Synchronize())
			for side, b := range [][]byte{got, r.host.Bytes()} {
				for i, want := range model[side] {
					for k := range 8 {
						if v := binary.LittleEndian.Uint64(b[64*i+8*k:]); v != want {
							t.Fatalf("side %d: block %d, word %d is %x, want %x", side, i, k, v, want)
						}
					}
				}
			}
		})
	}
}

// Blocks that change places with others need few groups, and both directions go at once.
func TestGroups(t *testing.T) {
	const n = 100
	o := newOrder(n, 2*n, 30)
	var copies []Copy
	for i := range int32(n) { // out to make room, and then another one in
		copies = append(copies, Copy{Place{false, i}, Place{true, n + i}}, Copy{Place{true, i}, Place{false, i}})
	}
	groups, waits := 0, 0
	for len(copies) > 0 {
		g := o.next(copies)
		copies = copies[g.n:]
		groups++
		waits += b2i(g.outWaits)
	}
	if groups != 4 || waits != 0 {
		t.Errorf("%d groups, of which %d wait for the other direction before they take blocks out", groups, waits)
	}
}

// Pages that cannot be are refused, and leave nothing.
func TestPagesRefused(t *testing.T) {
	c := testkit.Must(New(Options{Blocks: 4, HostBlocks: 4}))(t)
	dev := testkit.Must(device.Open("host:64MiB"))(t)
	defer dev.Close()
	pool := testkit.Must(vram.New(dev, vram.Options{}))(t)
	host := testkit.Must(pinned.NewPool(dev, pinned.Options{Budget: 1 << 20}))(t)
	engine := testkit.Must(transfer.New(dev, transfer.Options{Pool: host}))(t)
	for what, o := range map[string]PagesOptions{"no pool": {Pinned: host, BlockBytes: 1}, "no pinned memory": {Pool: pool, BlockBytes: 1}, "no bytes": {Pool: pool, Pinned: host}} {
		_, err := OpenPages(t.Context(), c, engine, o)
		testkit.WantError(t, what, err, ErrArgument)
	}
	_, err := OpenPages(t.Context(), c, nil, PagesOptions{pool, host, 1})
	testkit.WantError(t, "no engine", err, ErrArgument)
	_, err = OpenPages(t.Context(), c, engine, PagesOptions{pool, host, 1 << 26})
	testkit.WantError(t, "too large", err, device.ErrOutOfMemory, "kvcache: ")
	_, err = OpenPages(t.Context(), c, engine, PagesOptions{pool, host, 1 << 61})
	testkit.WantError(t, "far too large", err, ErrArgument)

	p := testkit.Must(OpenPages(t.Context(), c, engine, PagesOptions{pool, host, 16}))(t)
	s := testkit.Must(dev.NewStream())(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	one := []Copy{{Place{false, 1}, Place{true, 2}}}
	testkit.WantError(t, "a context that has ended", p.Copy(ended, s, one), context.Canceled)
	testkit.WantError(t, "no stream", p.Copy(t.Context(), nil, one), ErrArgument)
	for _, x := range []Copy{{Place{false, 4}, Place{true, 0}}, {Place{false, 0}, Place{true, 4}}, {Place{false, -1}, Place{true, 0}}, {Place{true, 0}, Place{true, 1}}} {
		testkit.WantError(t, fmt.Sprint(x), p.Copy(t.Context(), s, []Copy{x}), ErrArgument)
	}
	testkit.OK(t, p.Copy(t.Context(), s, one)) // none of these has changed anything
	testkit.OK(t, s.Synchronize())
	testkit.OK(t, s.Close())
	testkit.OK(t, p.Close())
	testkit.WantError(t, "closed", p.Copy(t.Context(), s, one), ErrClosed)
	testkit.OK(t, engine.Close())
	testkit.OK(t, host.Close())
	testkit.OK(t, pool.Close()) // or else it says what is left
}

// How fast scattered blocks leave the device, come back, and change places with others.
func BenchmarkPages(b *testing.B) {
	const n = 256 << 20 // bytes in one direction
	for _, size := range []int64{16 << 10, 64 << 10, 256 << 10, 2 << 20} {
		blocks := int(n / size)
		c := testkit.Must(New(Options{Blocks: 2 * blocks, HostBlocks: 2 * blocks}))(b)
		var out, in, both []Copy
		rng := rand.New(rand.NewPCG(1, 1))
		device, host := rng.Perm(2*blocks), rng.Perm(2*blocks)
		for i := range blocks {
			from, to := Place{false, int32(device[i])}, Place{true, int32(host[i])}
			out, in = append(out, Copy{from, to}), append(in, Copy{to, from})
			// As the books have it: one leaves, another comes to its place.
			both = append(both, Copy{from, to}, Copy{Place{true, int32(host[blocks+i])}, from})
		}
		for _, v := range []struct {
			name   string
			copies []Copy
		}{{"out", out}, {"in", in}, {"both", both}} {
			b.Run(fmt.Sprintf("%s/%dKiB", v.name, size>>10), func(b *testing.B) {
				r := newRig(b, c, size)
				b.SetBytes(int64(len(v.copies)) * size)
				b.ReportAllocs()
				for b.Loop() {
					testkit.OK(b, r.Copy(b.Context(), r.stream, v.copies))
					testkit.OK(b, r.stream.Synchronize())
				}
			})
		}
	}
}
