package devicetest

import (
	"bytes"
	"math"
	"regexp"
	"strings"

	"github.com/pinion-gpu/pinion/device"
)

func testInfo(f *fixture) {
	info := f.dev.Info()
	if info.ID == "" || info.Name == "" || info.TotalBytes <= 0 {
		f.Errorf("incomplete: %+v", info)
	}
	if kind, _, _ := strings.Cut(info.ID, ":"); kind != info.Backend {
		f.Errorf("ID %q is not of backend %q", info.ID, info.Backend)
	}
	if again := f.dev.Info(); again != info {
		f.Errorf("changed from %+v to %+v", info, again)
	}
	m, err := f.dev.Memory()
	f.ok(err)
	if m.TotalBytes != info.TotalBytes || m.FreeBytes < 0 || m.FreeBytes > m.TotalBytes {
		f.Errorf("memory %+v of a device with %d bytes", m, info.TotalBytes)
	}
}

// Allocations are aligned and do not overlap.
func testAlloc(f *fixture) {
	sizes := []int64{1, 2, 255, 256, 257, 511, 513, 4095, 4097, 65537, 1<<20 + 1, 3, 2 << 20}
	var ptrs []device.Ptr
	for i, n := range sizes {
		p := f.alloc(n)
		if p == 0 || p%256 != 0 {
			f.Fatalf("Alloc(%d) = %#x, want a multiple of 256", n, p)
		}
		f.upload(p, unique(n, byte(i)))
		ptrs = append(ptrs, p)
	}
	for i, n := range sizes {
		if !bytes.Equal(f.download(ptrs[i], n), unique(n, byte(i))) {
			f.Errorf("allocation %d of %d bytes shares memory with another", i, n)
		}
	}
	for _, p := range ptrs {
		f.ok(f.dev.Free(p))
	}
}

func testAllocArguments(f *fixture) {
	for _, n := range []int64{0, -1, math.MinInt64} {
		_, err := f.dev.Alloc(n)
		f.fails("Alloc of no bytes", err, device.ErrArgument)
	}
}

// aSize is a number with a unit of memory.
var aSize = regexp.MustCompile(`\d(\.\d+)? ?(bytes|B|[KMGT]iB)`)

func testOutOfMemory(f *fixture) {
	for _, n := range []int64{f.dev.Info().TotalBytes + 1, math.MaxInt64 - 1, math.MaxInt64} {
		p, err := f.dev.Alloc(n)
		f.fails("Alloc of more than all", err, device.ErrOutOfMemory)
		if err != nil && !aSize.MatchString(err.Error()) {
			f.Errorf("no sizes in %q", err)
		}
		if p != 0 {
			f.Errorf("Alloc(%d) = %#x beside an error", n, p)
		}
	}
	p := f.alloc(1 << 10) // the device is none the worse for it
	f.upload(p, unique(1<<10, 1))
	f.ok(f.dev.Free(p))
}

// smallDevice skips the test on a device that should not be filled, and
// returns its size.
func (f *fixture) smallDevice() int64 {
	f.Helper()
	total := f.dev.Info().TotalBytes
	if total > small {
		f.Skipf("%d bytes are too many to fill", total)
	}
	return total
}

func testExhaustion(f *fixture) {
	total := f.smallDevice()
	n := total / 16
	for range 3 {
		var ptrs []device.Ptr
		for {
			p, err := f.dev.Alloc(n)
			if err != nil {
				f.fails("Alloc when full", err, device.ErrOutOfMemory)
				break
			}
			if ptrs = append(ptrs, p); len(ptrs) > 16 {
				f.Fatalf("%d bytes in %d allocations on a device of %d", n*17, len(ptrs), total)
			}
		}
		if len(ptrs) < 8 {
			f.Errorf("full after %d of 16 allocations", len(ptrs))
		}
		for _, p := range ptrs {
			f.ok(f.dev.Free(p))
		}
		f.ok(f.dev.Free(f.alloc(total / 2)))
	}
}

func testFreeBytes(f *fixture) {
	f.smallDevice()
	free := func() int64 {
		f.Helper()
		m, err := f.dev.Memory()
		f.ok(err)
		return m.FreeBytes
	}
	before := free()
	const n = 4<<20 + 1
	p, q := f.alloc(n), f.alloc(n)
	if now := free(); now > before-2*n {
		f.Errorf("%d bytes free before and %d after allocating 2 x %d", before, now, n)
	}
	f.ok(f.dev.Free(p))
	if now := free(); now > before-n || now <= before-2*n {
		f.Errorf("%d bytes free before and %d with one of 2 x %d freed", before, now, n)
	}
	f.ok(f.dev.Free(q))
	if now := free(); now != before {
		f.Errorf("%d bytes free before and %d after all", before, now)
	}
}

func testFreeBadPointer(f *fixture) {
	const n = 4096
	p, gone := f.alloc(n), f.alloc(n)
	want := unique(n, 1)
	f.upload(p, want)
	f.ok(f.dev.Free(gone))
	for _, c := range []struct {
		what string
		p    device.Ptr
	}{
		{"zero", 0},
		{"garbage", 0xdead_beef_0000},
		{"the last address", math.MaxUint64},
		{"an interior address", p.Add(256)},
		{"an odd address", p.Add(1)},
		{"a freed address", gone},
	} {
		f.fails("Free of "+c.what, f.dev.Free(c.p), device.ErrPointer)
	}
	if !bytes.Equal(f.download(p, n), want) {
		f.Error("a failed Free changed live memory")
	}
	f.ok(f.dev.Free(p))
	f.fails("the second Free", f.dev.Free(p), device.ErrPointer)
}

// Free waits for queued work: what the work reads is still there, although
// somebody else asks for memory at the same time.
func testFreeWhileQueued(f *fixture) {
	const n = 2 << 20
	want := unique(n, 1)
	s, other := f.stream(), f.stream()
	copies := f.alloc(4 * n)
	for range 4 {
		p := f.alloc(n)
		f.upload(p, want)
		release, _ := f.delay(s)
		for i := range int64(4) {
			f.ok(s.CopyD2D(copies.Add(i*n), p, n))
		}
		freed := async(func() error { return f.dev.Free(p) })
		reused := async(func() error {
			q, err := f.dev.Alloc(n)
			if err != nil {
				return err
			}
			if err := other.Memset(q, 0xEE, n); err != nil {
				return err
			}
			return f.dev.Free(q)
		})
		release()
		f.arrives("Free", freed)
		f.arrives("Alloc beside Free", reused)
		f.ok(s.Synchronize())
		if !bytes.Equal(f.download(copies, 4*n), bytes.Repeat(want, 4)) {
			f.Fatal("memory changed under a queued copy when it was freed")
		}
	}
}

// Closing a device gives back all of its memory, even while another device
// shares the hardware.
func testCloseFrees(f *fixture) {
	f.smallDevice()
	second := f.open()
	before, err := f.dev.Memory()
	f.ok(err)
	_, err = second.Alloc(3 << 20)
	f.ok(err)
	if m, ok := device.As[device.Manager](second); ok && m.CanManage() {
		_, _, err := m.AllocManaged(3 << 20)
		f.ok(err)
	}
	if m, ok := device.As[device.Mapper](second); ok && m.CanReserve() {
		unit, err := m.Granularity()
		f.ok(err)
		p, err := m.Reserve(unit)
		f.ok(err)
		mapped, err := m.CreateChunk(unit)
		f.ok(err)
		_, err = m.CreateChunk(unit)
		f.ok(err)
		f.ok(m.Map(p, []device.Chunk{mapped}, unit))
	}
	s, err := second.NewStream()
	f.ok(err)
	_, err = second.NewEvent(0)
	f.ok(err)
	f.ok(s.Synchronize())
	f.ok(second.Close())
	f.ok(second.Close())
	after, err := f.dev.Memory()
	f.ok(err)
	if after != before {
		f.Errorf("memory was %+v, and is %+v after a device with allocations was closed", before, after)
	}
}
