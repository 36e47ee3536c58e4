package memory

import (
	"bytes"
	"math"
	"math/rand/v2"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// manager returns the device as a [device.Manager], or skips the test.
func manager(f *fixture.F) device.Manager {
	f.Helper()
	m, ok := device.As[device.Manager](f.Dev)
	if !ok || !m.CanManage() {
		f.Skip("the device has no managed memory")
	}
	return m
}

// onRequest is manager for tests of what only memory that migrates by pages, or
// not at all, can do.
func onRequest(f *fixture.F) device.Manager {
	f.Helper()
	m := manager(f)
	if m.Migration() == device.WholeMigration {
		p, _ := managed(f, m, 4096)
		f.Fails("Prefetch of what migrates as a whole", m.Prefetch(f.Stream(), p, 4096, device.OnDevice), device.ErrNotSupported)
		f.Fails("Advise about what migrates as a whole", m.Advise(p, 4096, device.Advice{}), device.ErrNotSupported)
		f.Skip("the device's managed memory migrates as a whole")
	}
	return m
}

// managed allocates managed memory.
func managed(f *fixture.F, m device.Manager, n int64) (device.Ptr, []byte) {
	f.Helper()
	p, b, err := m.AllocManaged(n, device.ManagedOptions{})
	f.OK(err)
	if int64(len(b)) != n || p == 0 {
		f.Fatalf("%d bytes at %#x, asked for %d", len(b), p, n)
	}
	return p, b
}

// Managed memory is the same from both sides, and is device memory.
func testManaged(f *fixture.F) {
	m := manager(f)
	for _, n := range []int64{0, -1} {
		for _, o := range []device.ManagedOptions{{}, {Oversubscribe: true}} {
			_, _, err := m.AllocManaged(n, o)
			f.Fails("AllocManaged of no bytes", err, device.ErrArgument)
		}
	}
	const n = 1<<20 + 1
	p, b := managed(f, m, n)
	s := f.Stream()
	mem := f.Alloc(n)
	want := fixture.Unique(n, 1)
	copy(b, want)
	f.OK(s.CopyD2D(mem, p, n))
	f.OK(s.Memset(p, 5, n-1))
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(mem, n), want) {
		f.Error("the device did not see what the host wrote")
	}
	if !bytes.Equal(b[:n-1], bytes.Repeat([]byte{5}, n-1)) || b[n-1] != want[n-1] {
		f.Error("the host does not see what the device wrote")
	}
	f.Fails("Free of an interior address", f.Dev.Free(p.Add(256)), device.ErrPointer)
	f.OK(f.Dev.Free(p))
	f.Fails("the second Free", f.Dev.Free(p), device.ErrPointer)
	managed(f, m, 4096) // left to Close
}

// Wherever pages are sent, they hold what they held.
func testManagedPrefetch(f *fixture.F) {
	m := onRequest(f)
	const n = 3<<20 + 5
	p, b := managed(f, m, n)
	s := f.Stream()
	mem := f.Alloc(n)
	want := fixture.Unique(n, 2)
	copy(b, want)
	f.OK(m.Prefetch(s, p, n, device.OnDevice))
	f.OK(s.CopyD2D(mem, p, n))
	f.OK(m.Prefetch(s, p, n, device.OnHost))
	f.OK(m.Prefetch(s, p.Add(1<<20), 1<<20, device.OnDevice)) // a part of it
	f.OK(s.Memset(p.Add(1<<20), 7, 4096))
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(mem, n), want) {
		f.Error("the device did not see what the host wrote")
	}
	copy(want[1<<20:], bytes.Repeat([]byte{7}, 4096))
	if !bytes.Equal(b, want) {
		f.Error("the host does not see what was there, and what the device wrote")
	}
	f.Fails("Prefetch of nowhere", m.Prefetch(s, 0, n, device.OnDevice), device.ErrPointer)
	f.Fails("Prefetch on no stream", m.Prefetch(nil, p, n, device.OnDevice), device.ErrArgument)
	f.Fails("Prefetch of nothing", m.Prefetch(s, p, 0, device.OnDevice), device.ErrArgument)
	f.Fails("Prefetch to anywhere", m.Prefetch(s, p, n, device.Anywhere), device.ErrArgument)
	f.Fails("Prefetch to another device", m.Prefetch(s, p, n, device.OnAnother), device.ErrArgument)
}

// What was advised holds until other advice replaces it, and changes no bytes.
func testManagedAdvice(f *fixture.F) {
	m := onRequest(f)
	const n = 1 << 20
	p, b := managed(f, m, n)
	want := fixture.Unique(n, 3)
	copy(b, want)
	s := f.Stream()
	mem := f.Alloc(n)
	for _, a := range []device.Advice{
		{},
		{ReadMostly: true},
		{Preferred: device.OnHost, DeviceReads: true},
		{Preferred: device.OnDevice, HostReads: true},
		{HostReads: true, DeviceReads: true},
		{ReadMostly: true, Preferred: device.OnDevice, HostReads: true, DeviceReads: true},
		{},
	} {
		f.OK(m.Advise(p, n, a))
		for _, bytes := range []int64{n, n / 2} {
			r, err := m.Residency(p, bytes)
			f.OK(err)
			if m.Migration() == device.NoMigration {
				a = device.Advice{}
			}
			if r.Advice != a {
				f.Errorf("advised %+v, holds %+v", a, r.Advice)
			}
		}
		f.OK(s.CopyD2D(mem, p, n))
		f.OK(s.Synchronize())
		if !bytes.Equal(f.Download(mem, n), want) || !bytes.Equal(b, want) {
			f.Fatalf("advice %+v changed what is there", a)
		}
	}
	f.Fails("advice about nowhere", m.Advise(0, n, device.Advice{ReadMostly: true}), device.ErrPointer)
	f.Fails("advice about nothing", m.Advise(p, 0, device.Advice{}), device.ErrArgument)
	f.Fails("advice to be on another device", m.Advise(p, n, device.Advice{Preferred: device.OnAnother}), device.ErrArgument)
	f.Fails("advice to be nowhere known", m.Advise(p, n, device.Advice{Preferred: 17}), device.ErrArgument)
}

// Residency tells where pages were sent and what the host can touch. What is on
// the device it should not be able to, but a stand-in for a driver has only one
// memory; package cuda tests that.
func testManagedResidency(f *fixture.F) {
	m := onRequest(f)
	const n = 4 << 20
	p, b := managed(f, m, n)
	s := f.Stream()
	look := func(what string, at, bytes, least int64, prefetched device.Place) {
		f.Helper()
		r, err := m.Residency(p.Add(at), bytes)
		f.OK(err)
		if m.Migration() == device.NoMigration {
			least, prefetched = bytes, device.Anywhere
		}
		if r.HostBytes != -1 && (r.HostBytes < least || r.HostBytes > bytes) {
			f.Errorf("%s: the host can touch %d bytes, want %d to %d", what, r.HostBytes, least, bytes)
		}
		if r.Prefetched != prefetched || r.Advice != (device.Advice{}) {
			f.Errorf("%s: %+v, want it prefetched to %v and not advised", what, r, prefetched)
		}
	}
	fixture.Scramble(b, 4)
	look("written by the host", 0, n, n, device.Anywhere)
	f.OK(m.Prefetch(s, p, n, device.OnDevice))
	f.OK(s.Synchronize())
	look("prefetched to the device", 0, n, 0, device.OnDevice)
	f.OK(m.Prefetch(s, p, n, device.OnHost))
	f.OK(s.Synchronize())
	look("prefetched to the host", 0, n, n, device.OnHost)
	look("a part of it", 1<<20+1, 1<<20, 1<<20, device.OnHost)

	for _, c := range []struct {
		what  string
		p     device.Ptr
		bytes int64
		want  error
	}{
		{"nowhere", 0, n, device.ErrPointer},
		{"nothing", p, 0, device.ErrArgument},
		{"less than nothing", p, -1, device.ErrArgument},
	} {
		_, err := m.Residency(c.p, c.bytes)
		f.Fails("residency of "+c.what, err, c.want)
	}
	f.OK(f.Dev.Free(p))
	_, err := m.Residency(p, n)
	f.Fails("residency of what was freed", err, device.ErrPointer)
}

// More managed memory than there is room for is refused, with the numbers,
// unless it is asked for. Nothing is touched here: to oversubscribe a device in
// earnest may bring the machine to a halt.
func testManagedRoom(f *fixture.F) {
	m := manager(f)
	memory, err := f.Dev.Memory()
	f.OK(err)
	refused := func(what string, n int64) {
		f.Helper()
		p, _, err := m.AllocManaged(n, device.ManagedOptions{})
		f.Fails(what, err, device.ErrOutOfMemory)
		if err == nil {
			f.OK(f.Dev.Free(p))
		}
	}
	refused("more than the device has", memory.TotalBytes+1)
	refused("more than is free", memory.FreeBytes+1)
	refused("more than anything has", math.MaxInt64)

	const part = 8 << 20
	p, _ := managed(f, m, part)
	q, _ := managed(f, m, part)
	refused("more than is left beside managed memory", memory.FreeBytes-part)
	f.OK(f.Dev.Free(p))
	f.OK(f.Dev.Free(q))

	if f.Dev.Info().TotalBytes > fixture.Small {
		return
	}
	mem := f.Alloc(part)
	refused("more than is left beside other memory", memory.FreeBytes-part+1)
	p, _, err = m.AllocManaged(memory.FreeBytes, device.ManagedOptions{Oversubscribe: true})
	f.OK(err)
	f.OK(f.Dev.Free(p))
	f.OK(f.Dev.Free(mem))
	after, err := f.Dev.Memory()
	f.OK(err)
	if after != memory {
		f.Errorf("memory was %+v, and is %+v when all is free again", memory, after)
	}
}

// Whatever host and device write in turn, and wherever pages are sent and
// advised to be, everybody sees what a plain slice would have.
func testManagedRandom(f *fixture.F) {
	m := onRequest(f)
	const n = 2<<20 + 77
	p, b := managed(f, m, n)
	other := f.Alloc(n)
	model := make([]byte, n) // of managed memory
	apart := make([]byte, n) // of other
	f.Upload(other, apart)
	clear(b)
	s := f.Stream()
	random := rand.New(rand.NewPCG(14, 3))
	part := func() (at, size int64) {
		at = random.Int64N(n)
		return at, 1 + random.Int64N(min(n-at, 1<<(random.IntN(20)+1)))
	}
	for range 400 {
		at, size := part()
		end, to := at+size, random.Int64N(n-size+1)
		switch random.IntN(7) {
		case 0: // the host writes
			f.OK(s.Synchronize())
			fixture.Scramble(b[at:end], byte(random.Uint32()))
			copy(model[at:end], b[at:end])
		case 1: // the device writes
			value := byte(random.Uint32())
			f.OK(s.Memset(p.Add(at), value, size))
			copy(model[at:end], bytes.Repeat([]byte{value}, int(size)))
		case 2:
			f.OK(s.CopyD2D(p.Add(at), other.Add(to), size))
			copy(model[at:end], apart[to:])
		case 3: // the device reads
			f.OK(s.CopyD2D(other.Add(to), p.Add(at), size))
			copy(apart[to:to+size], model[at:])
		case 4:
			f.OK(m.Prefetch(s, p.Add(at), size, []device.Place{device.OnHost, device.OnDevice}[random.IntN(2)]))
		case 5:
			f.OK(m.Advise(p.Add(at), size, device.Advice{
				ReadMostly: random.IntN(2) == 0, Preferred: device.Place(random.IntN(3)),
				HostReads: random.IntN(2) == 0, DeviceReads: random.IntN(2) == 0,
			}))
		case 6: // the host reads
			f.OK(s.Synchronize())
			if !bytes.Equal(b[at:end], model[at:end]) {
				f.Fatalf("%d bytes at %d are not what was written there", size, at)
			}
			if r, err := m.Residency(p.Add(at), size); err != nil || r.HostBytes > size {
				f.Fatalf("residency of %d bytes at %d: %+v, %v", size, at, r, err)
			}
		}
	}
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(other, n), apart) || !bytes.Equal(f.Download(p, n), model) || !bytes.Equal(b, model) {
		f.Error("in the end, memory is not what was written there")
	}
}
