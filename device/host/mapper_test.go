package host

import (
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/device"
)

// A device may be larger than the machine: only what is written takes memory,
// and it goes back with its chunk.
func TestLargerThanTheMachine(t *testing.T) {
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const total, n = int64(1) << 40, 32 << 20
	d, err := Open(total)
	ok(err)
	defer d.Close()
	if !d.CanReserve() {
		t.Skip("no virtual memory on this system")
	}
	p, err := d.Reserve(2 * total)
	ok(err)
	chunks := make([]device.Chunk, total/n)
	for i := range chunks {
		chunks[i], err = d.CreateChunk(n)
		ok(err)
	}
	ok(d.Map(p, chunks, n))
	if _, err := d.CreateChunk(granularity); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("a chunk beyond the capacity: %v", err)
	}
	if _, err := d.Alloc(1); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("an allocation beyond the capacity: %v", err)
	}
	used := func() int64 {
		t.Helper()
		n, err := d.virtual.store.Used()
		ok(err)
		return n
	}
	s, err := d.NewStream()
	ok(err)
	const piece = 1 << 20
	for _, at := range []int64{0, total/2 - piece/2, total - piece} {
		ok(s.Memset(p.Add(at), 1, piece))
	}
	ok(s.Synchronize())
	if got := used(); got < 3*piece || got > 8*n {
		t.Errorf("%d bytes used where %d were written", got, 3*piece)
	}
	ok(d.Unmap(p, total))
	if got := used(); got < 3*piece {
		t.Errorf("%d bytes used: unmapping lost the content", got)
	}
	for _, c := range chunks {
		ok(d.ReleaseChunk(c))
	}
	if got := used(); got != 0 {
		t.Errorf("%d bytes used after all was released", got)
	}
	if m, err := d.Memory(); err != nil || m.FreeBytes != total {
		t.Errorf("%+v, %v after all was released", m, err)
	}
	again, err := d.CreateChunk(n)
	ok(err)
	if c := d.virtual.chunks[again]; c.offset+c.bytes > d.virtual.end || d.virtual.end != total {
		t.Errorf("a store of %d bytes in use for %d that were: holes are not used again", d.virtual.end, total)
	}
	if again <= chunks[len(chunks)-1] {
		t.Error("a handle was used again")
	}
}

func TestCapacity(t *testing.T) {
	for _, n := range []int64{-1, mostBytes + 1, 1 << 62} {
		if d, err := Open(n); !errors.Is(err, device.ErrArgument) {
			t.Errorf("a capacity of %d bytes: %v, %v", n, d, err)
		}
	}
	d, err := device.Open("host:80GiB")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got := d.Info().TotalBytes; got != 80<<30 {
		t.Errorf("%d bytes", got)
	}
}

// mapped is a device with chunks and room for them.
func mapped(t testing.TB, count int) (*Device, device.Ptr, []device.Chunk) {
	d, err := Open(1 << 40)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if !d.CanReserve() {
		t.Skip("no virtual memory on this system")
	}
	p, err := d.Reserve(int64(count) * granularity)
	if err != nil {
		t.Fatal(err)
	}
	chunks := make([]device.Chunk, count)
	for i := range chunks {
		if chunks[i], err = d.CreateChunk(granularity); err != nil {
			t.Fatal(err)
		}
	}
	return d, p, chunks
}

func TestMapAllocates(t *testing.T) {
	d, p, chunks := mapped(t, 8)
	allocations := testing.AllocsPerRun(100, func() {
		if err := d.Map(p, chunks, granularity); err != nil {
			t.Fatal(err)
		}
		if err := d.Unmap(p, 8*granularity); err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%g allocations for mapping and unmapping", allocations)
	}
}

// BenchmarkMap maps and unmaps chunks one by one, among many others.
func BenchmarkMap(b *testing.B) {
	const count = 20_000
	d, p, chunks := mapped(b, count)
	if err := d.Map(p, chunks, granularity); err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		at := i * 7919 % count
		if err := d.Unmap(p.Add(int64(at)*granularity), granularity); err != nil {
			b.Fatal(err)
		}
		if err := d.Map(p.Add(int64(at)*granularity), chunks[at:at+1], granularity); err != nil {
			b.Fatal(err)
		}
	}
}
