package transfer_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// Guards are bytes around a destination that must stay as they are. Offsets
// fit into them.
const (
	guardBytes = 512
	guardValue = 0xA5
)

// trip takes n bytes of from to the device and back to back, from and to odd
// places, and looks at what stands around the destinations. from and back have
// room for the guards.
func (f *fixture) trip(e *transfer.Engine, from, back []byte, n, hostOffset, deviceOffset int64) {
	f.Helper()
	what := fmt.Sprintf("%d bytes, host offset %d, device offset %d", n, hostOffset, deviceOffset)
	all := n + 2*guardBytes
	want := from[hostOffset : hostOffset+n]
	p := f.Alloc(all)
	f.Memset(p, guardValue, all)
	if err := f.Within("H2D, "+what, func() error { return e.H2D(ctx, p.Add(deviceOffset), want) }); err != nil {
		f.Fatalf("H2D, %s: %v", what, err)
	}
	f.guarded("H2D, "+what, f.Download(back[:all], p), deviceOffset, want)

	at := guardBytes - 1 - hostOffset
	fill(back[:all], guardValue)
	if err := f.Within("D2H, "+what, func() error { return e.D2H(ctx, back[at:at+n], p.Add(deviceOffset)) }); err != nil {
		f.Fatalf("D2H, %s: %v", what, err)
	}
	f.guarded("D2H, "+what, back[:all], at, want)
	f.OK(f.Dev.Free(p))
}

// guarded checks that b is want at offset at, and guard bytes around it.
func (f *fixture) guarded(what string, b []byte, at int64, want []byte) {
	f.Helper()
	end := at + int64(len(want))
	if !bytes.Equal(b[at:end], want) {
		f.Fatalf("%s: wrong content", what)
	}
	for _, outside := range [][]byte{b[:at], b[end:]} {
		if bytes.Count(outside, []byte{guardValue}) != len(outside) {
			f.Fatalf("%s: bytes outside changed", what)
		}
	}
}

func fill(b []byte, value byte) {
	if len(b) == 0 {
		return
	}
	b[0] = value
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// Any size at any offset, from any memory, on any path.
func TestCopies(t *testing.T) {
	slot, above := small.SlotBytes, small.StageAbove
	ring := slot * int64(small.Slots*small.Copiers)
	sizes := []int64{
		0, 1, 2, 3, 255, 4095, 4096, 4097, slot - 1, slot, slot + 1,
		above - 1, above, above + 1, above + slot - 1, above + slot, above + slot + 1,
		ring - 1, ring, ring + 1, 5*ring + 4099,
	}
	offsets := [][2]int64{{0, 0}, {1, 0}, {0, 1}, {3, 7}, {255, 129}}
	most := sizes[len(sizes)-1] + 2*guardBytes
	for _, memory := range []string{"pageable", "pinned"} {
		t.Run(memory, func(t *testing.T) {
			f := open(t)
			e := f.Engine(small)
			from, back := make([]byte, most), make([]byte, most)
			if memory == "pinned" {
				b := f.PinnedMemory(2 * most)
				from, back = b[:most], b[most:]
			}
			copy(from, unique(most, 1))
			for _, n := range sizes {
				for _, at := range offsets {
					f.trip(e, from, back, n, at[0], at[1])
				}
			}
		})
	}
}

// What the zero Options do, on both sides of where they begin to stage, and in
// chunks that are larger than the smallest.
func TestDefaultOptions(t *testing.T) {
	f := open(t)
	e := f.Engine(transfer.Options{})
	const most = 24<<20 + 77
	from, back := unique(most+2*guardBytes, 2), make([]byte, most+2*guardBytes)
	for _, n := range []int64{1, 256 << 10, 256<<10 + 1, 1 << 20, 1<<20 + 1, 2<<20 - 1, most} {
		f.trip(e, from, back, n, 3, 7)
	}
}

// A straight copy that is queued in parts.
func TestParts(t *testing.T) {
	const part = 64 << 20
	const most = 2*part + 4099 + 2*guardBytes
	f := open(t)
	from, back := f.Pages(most), f.Pages(most)
	copy(from, unique(most, 3))
	e := f.Engine(transfer.Options{StageAbove: most})
	for _, n := range []int64{part, part + 1, 2*part + 4099} {
		f.trip(e, from, back, n, 5, 3)
	}
	if n := f.Dev.PinnedNow.Load(); n != 0 {
		t.Errorf("%d bytes were pinned for straight copies", n)
	}
}

// The path by the kind of memory, the size and the device. A straight copy
// names the caller's memory to the device, a staged one does not.
func TestPath(t *testing.T) {
	f := open(t)
	const n = 1 << 20
	pageable, pinned := make([]byte, n), f.PinnedMemory(n)
	p := f.Alloc(n)
	for _, c := range []struct {
		name   string
		dev    device.Device
		host   []byte
		size   int64
		staged bool
	}{
		{"pageable", f.Dev, pageable, n, true},
		{"pageable, just above", f.Dev, pageable, small.StageAbove + 1, true},
		{"pageable, just not", f.Dev, pageable, small.StageAbove, false},
		{"pinned", f.Dev, pinned, n, false},
		{"pinned, a part", f.Dev, pinned[1:], n - 1, false},
		{"nothing", f.Dev, nil, 0, false},
		{"no link", integrated{f.Dev}, pageable, n, false},
		{"nothing can be pinned", struct{ device.Device }{f.Dev}, pageable, n, false},
	} {
		for _, toHost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, to host %t", c.name, toHost), func(t *testing.T) {
				options := small
				if c.dev.Info().Integrated {
					options.StageAbove = 0 // the default, which is everything
				}
				e, err := transfer.New(c.dev, options)
				f.OK(err)
				before := f.Dev.PinnedNow.Load()
				var other atomic.Bool // memory other than the caller's was named
				host := c.host[:c.size]
				f.Dev.OnCopy(func(b []byte, _ device.Ptr, _ bool) error {
					if unsafe.SliceData(b) != unsafe.SliceData(host) {
						other.Store(true)
					}
					return nil
				})
				f.OK(e.Do(ctx, transfer.Copy{Host: host, Device: p, ToHost: toHost}))
				pinned := f.Dev.PinnedNow.Load() > before
				f.OK(e.Close())
				if other.Load() != c.staged || pinned != c.staged {
					t.Errorf("staged %t, memory pinned for it %t, want %t", other.Load(), pinned, c.staged)
				}
			})
		}
	}
}

// integrated is a device that shares the host's memory.
type integrated struct{ *rig }

func (d integrated) Info() device.Info {
	info := d.rig.Info()
	info.Integrated = true
	return info
}

// Chunks are whole pages, but for the last: what a copier moves should not
// share pages with the next one's.
func TestChunks(t *testing.T) {
	f := open(t)
	e := f.Engine(transfer.Options{Copiers: 3, Slots: 2, SlotBytes: 1 << 20, StageAbove: 1})
	for _, n := range []int64{100_000, 500_000, 1<<20 + 5, 2_345_679} {
		host, p := make([]byte, n), f.Alloc(n)
		chunks := make(chan [2]int64, 1000)
		f.Dev.OnCopy(func(b []byte, at device.Ptr, _ bool) error {
			chunks <- [2]int64{int64(at - p), int64(len(b))}
			return nil
		})
		f.OK(e.H2D(ctx, p, host))
		close(chunks)
		var sum int64
		for c := range chunks {
			sum += c[1]
			if c[0]%4096 != 0 || c[1]%4096 != 0 && c[0]+c[1] != n {
				t.Errorf("a chunk of %d bytes at %d, of %d", c[1], c[0], n)
			}
		}
		if sum != n {
			t.Errorf("chunks of %d bytes in all, of %d", sum, n)
		}
	}
}
