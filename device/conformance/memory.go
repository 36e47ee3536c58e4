package conformance

import (
	"bytes"
	"math"
	"strings"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

func testInfo(f *fixture.F) {
	info := f.Dev.Info()
	if info.ID == "" || info.Name == "" || info.TotalBytes <= 0 {
		f.Errorf("incomplete: %+v", info)
	}
	if kind, _, _ := strings.Cut(info.ID, ":"); kind != info.Backend {
		f.Errorf("ID %q is not of backend %q", info.ID, info.Backend)
	}
	if again := f.Dev.Info(); again != info {
		f.Errorf("changed from %+v to %+v", info, again)
	}
	m, err := f.Dev.Memory()
	f.OK(err)
	if m.TotalBytes != info.TotalBytes || m.FreeBytes < 0 || m.FreeBytes > m.TotalBytes {
		f.Errorf("memory %+v of a device with %d bytes", m, info.TotalBytes)
	}
}

// Allocations are aligned and do not overlap.
func testAlloc(f *fixture.F) {
	sizes := []int64{1, 2, 255, 256, 257, 511, 513, 4095, 4097, 65537, 1<<20 + 1, 3, 2 << 20}
	var ptrs []device.Ptr
	for i, n := range sizes {
		p := f.Alloc(n)
		if p == 0 || p%256 != 0 {
			f.Fatalf("Alloc(%d) = %#x, want a multiple of 256", n, p)
		}
		f.Upload(p, fixture.Unique(n, byte(i)))
		ptrs = append(ptrs, p)
	}
	for i, n := range sizes {
		if !bytes.Equal(f.Download(ptrs[i], n), fixture.Unique(n, byte(i))) {
			f.Errorf("allocation %d of %d bytes shares memory with another", i, n)
		}
	}
	for _, p := range ptrs {
		f.OK(f.Dev.Free(p))
	}
}

func testAllocArguments(f *fixture.F) {
	for _, n := range []int64{0, -1, math.MinInt64} {
		_, err := f.Dev.Alloc(n)
		f.Fails("Alloc of no bytes", err, device.ErrArgument)
	}
}

func testOutOfMemory(f *fixture.F) {
	for _, n := range []int64{f.Dev.Info().TotalBytes + 1, math.MaxInt64 - 1, math.MaxInt64} {
		p, err := f.Dev.Alloc(n)
		f.Fails("Alloc of more than all", err, device.ErrOutOfMemory)
		if err != nil && !fixture.ASize.MatchString(err.Error()) {
			f.Errorf("no sizes in %q", err)
		}
		if p != 0 {
			f.Errorf("Alloc(%d) = %#x beside an error", n, p)
		}
	}
	p := f.Alloc(1 << 10) // the device is none the worse for it
	f.Upload(p, fixture.Unique(1<<10, 1))
	f.OK(f.Dev.Free(p))
}

func testExhaustion(f *fixture.F) {
	total := f.SmallDevice()
	n := total / 16
	for range 3 {
		var ptrs []device.Ptr
		for {
			p, err := f.Dev.Alloc(n)
			if err != nil {
				f.Fails("Alloc when full", err, device.ErrOutOfMemory)
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
			f.OK(f.Dev.Free(p))
		}
		f.OK(f.Dev.Free(f.Alloc(total / 2)))
	}
}

func testFreeBytes(f *fixture.F) {
	f.SmallDevice()
	free := func() int64 {
		f.Helper()
		m, err := f.Dev.Memory()
		f.OK(err)
		return m.FreeBytes
	}
	before := free()
	const n = 4<<20 + 1
	p, q := f.Alloc(n), f.Alloc(n)
	if now := free(); now > before-2*n {
		f.Errorf("%d bytes free before and %d after allocating 2 x %d", before, now, n)
	}
	f.OK(f.Dev.Free(p))
	if now := free(); now > before-n || now <= before-2*n {
		f.Errorf("%d bytes free before and %d with one of 2 x %d freed", before, now, n)
	}
	f.OK(f.Dev.Free(q))
	if now := free(); now != before {
		f.Errorf("%d bytes free before and %d after all", before, now)
	}
}

func testFreeBadPointer(f *fixture.F) {
	const n = 4096
	p, gone := f.Alloc(n), f.Alloc(n)
	want := fixture.Unique(n, 1)
	f.Upload(p, want)
	f.OK(f.Dev.Free(gone))
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
		f.Fails("Free of "+c.what, f.Dev.Free(c.p), device.ErrPointer)
	}
	if !bytes.Equal(f.Download(p, n), want) {
		f.Error("a failed Free changed live memory")
	}
	f.OK(f.Dev.Free(p))
	f.Fails("the second Free", f.Dev.Free(p), device.ErrPointer)
}

// Free waits for queued work: what the work reads is still there, although
// somebody else asks for memory at the same time.
func testFreeWhileQueued(f *fixture.F) {
	const n = 2 << 20
	want := fixture.Unique(n, 1)
	s, other := f.Stream(), f.Stream()
	copies := f.Alloc(4 * n)
	for range 4 {
		p := f.Alloc(n)
		f.Upload(p, want)
		release, _ := f.Delay(s)
		for i := range int64(4) {
			f.OK(s.CopyD2D(copies.Add(i*n), p, n))
		}
		freed := fixture.Async(func() error { return f.Dev.Free(p) })
		reused := fixture.Async(func() error {
			q, err := f.Dev.Alloc(n)
			if err != nil {
				return err
			}
			if err := other.Memset(q, 0xEE, n); err != nil {
				return err
			}
			return f.Dev.Free(q)
		})
		release()
		f.Arrives("Free", freed)
		f.Arrives("Alloc beside Free", reused)
		f.OK(s.Synchronize())
		if !bytes.Equal(f.Download(copies, 4*n), bytes.Repeat(want, 4)) {
			f.Fatal("memory changed under a queued copy when it was freed")
		}
	}
}

// Closing a device gives back all of its memory, even while another device
// shares the hardware.
func testCloseFrees(f *fixture.F) {
	f.SmallDevice()
	second := f.Open()
	before, err := f.Dev.Memory()
	f.OK(err)
	_, err = second.Alloc(3 << 20)
	f.OK(err)
	if m, ok := device.As[device.Manager](second); ok && m.CanManage() {
		_, _, err := m.AllocManaged(3<<20, device.ManagedOptions{})
		f.OK(err)
	}
	if m, ok := device.As[device.Mapper](second); ok && m.CanReserve() {
		unit, err := m.Granularity()
		f.OK(err)
		p, err := m.Reserve(unit)
		f.OK(err)
		mapped, err := m.CreateChunk(unit)
		f.OK(err)
		_, err = m.CreateChunk(unit)
		f.OK(err)
		f.OK(m.Map(p, []device.Chunk{mapped}, unit))
	}
	s, err := second.NewStream()
	f.OK(err)
	_, err = second.NewEvent(0)
	f.OK(err)
	f.OK(s.Synchronize())
	f.OK(second.Close())
	f.OK(second.Close())
	after, err := f.Dev.Memory()
	f.OK(err)
	if after != before {
		f.Errorf("memory was %+v, and is %+v after a device with allocations was closed", before, after)
	}
}
