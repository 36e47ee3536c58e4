package host

import (
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/spans"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/internal/virtmem"
)

// granularity is that of GPUs, so that what is planned in chunks comes out
// alike here.
const granularity = pagemem.HugePage

// virtual is the state of the Mapper. The device's mu guards it.
type virtual struct {
	reserved spans.Set
	mapped   spans.Set         // one span for each chunk in its place
	backing  map[uint64]*chunk // by the start of such a span
	chunks   map[device.Chunk]*chunk
	serial   device.Chunk // the newest handle: none is used twice

	store *virtmem.Store // made with the first chunk
	end   int64          // of what was ever used of the store
	holes map[int64][]int64
}

// chunk is a piece of the store.
type chunk struct {
	offset, bytes int64
	mappings      int
	released      bool
}

// CanReserve implements [device.Mapper]: on Linux.
func (d *Device) CanReserve() bool { return virtmem.Supported() }

// Granularity implements [device.Mapper].
func (d *Device) Granularity() (int64, error) { return granularity, d.mapper() }

// mapper checks that the device has virtual memory and is open.
func (d *Device) mapper() error {
	if !d.CanReserve() {
		return fmt.Errorf("host: virtual memory: %w", device.ErrNotSupported)
	}
	return d.open()
}

// sized is mapper for calls with a size.
func (d *Device) sized(call string, n int64) error {
	if n <= 0 || n%granularity != 0 {
		return fmt.Errorf("host: %s: %w: %d bytes are not a multiple of %d", call, device.ErrArgument, n, int64(granularity))
	}
	return d.mapper()
}

// Reserve implements [device.Mapper].
func (d *Device) Reserve(n int64) (device.Ptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.sized("reserve", n); err != nil {
		return 0, err
	}
	b, err := virtmem.Reserve(n)
	if err != nil {
		return 0, fmt.Errorf("host: reserve: %w: %s of address space: %v", device.ErrOutOfMemory, units.Bytes(n), err)
	}
	p := address(b)
	d.virtual.reserved.Insert(uint64(p), n)
	return p, nil
}

// Unreserve implements [device.Mapper]. It waits for queued work, which might
// otherwise run into somebody else's memory.
func (d *Device) Unreserve(p device.Ptr, n int64) error {
	if _, err := d.drain(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.sized("unreserve", n); err != nil {
		return err
	}
	v := &d.virtual
	if span, ok := v.reserved.Find(uint64(p), n); !ok || span.Start != uint64(p) || span.Bytes != n {
		return fmt.Errorf("host: unreserve: %w: %d bytes at %#x are not a reservation", device.ErrArgument, n, uint64(p))
	}
	if v.mapped.Overlaps(uint64(p), n) {
		return fmt.Errorf("host: unreserve: %w: chunks are mapped in %d bytes at %#x", device.ErrArgument, n, uint64(p))
	}
	if err := virtmem.Release(memory(p, n)); err != nil {
		return fmt.Errorf("host: unreserve: %w", err)
	}
	v.reserved.Remove(uint64(p))
	return nil
}

// CreateChunk implements [device.Mapper].
func (d *Device) CreateChunk(n int64) (device.Chunk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.sized("create chunk", n); err != nil {
		return 0, err
	}
	if n > d.free() {
		return 0, d.full(n)
	}
	v := &d.virtual
	if v.store == nil {
		store, err := virtmem.NewStore("pinion-device")
		if err != nil {
			return 0, fmt.Errorf("host: create chunk: %w: the system refused: %v", device.ErrOutOfMemory, err)
		}
		*v = virtual{
			reserved: v.reserved,
			backing:  map[uint64]*chunk{},
			chunks:   map[device.Chunk]*chunk{},
			store:    store,
			holes:    map[int64][]int64{},
		}
	}
	offset, err := v.take(n)
	if err != nil {
		return 0, err
	}
	d.used += n
	v.serial++
	v.chunks[v.serial] = &chunk{offset: offset, bytes: n}
	return v.serial, nil
}

// take finds room for n bytes in the store. A hole is used again for chunks of
// its own size only: the store is so large that nothing has to be merged.
func (v *virtual) take(n int64) (offset int64, err error) {
	if holes := v.holes[n]; len(holes) > 0 {
		last := len(holes) - 1
		v.holes[n] = holes[:last]
		return holes[last], nil
	}
	if n > virtmem.StoreBytes-v.end {
		return 0, fmt.Errorf("host: create chunk: %w: no room for %d bytes more in a store of %d",
			device.ErrOutOfMemory, n, int64(virtmem.StoreBytes))
	}
	v.end += n
	return v.end - n, nil
}

// ReleaseChunk implements [device.Mapper].
func (d *Device) ReleaseChunk(handle device.Chunk) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mapper(); err != nil {
		return err
	}
	c, ok := d.virtual.chunks[handle]
	if !ok {
		return fmt.Errorf("host: release chunk: %w: %d is not a chunk", device.ErrArgument, uint64(handle))
	}
	delete(d.virtual.chunks, handle)
	c.released = true
	return d.discard(c)
}

// discard gives the memory of a chunk back that is released and mapped
// nowhere.
func (d *Device) discard(c *chunk) error {
	if !c.released || c.mappings > 0 {
		return nil
	}
	d.used -= c.bytes
	if err := d.virtual.store.Discard(c.offset, c.bytes); err != nil {
		return fmt.Errorf("host: release chunk: %w", err)
	}
	d.virtual.holes[c.bytes] = append(d.virtual.holes[c.bytes], c.offset)
	return nil
}

// Map implements [device.Mapper].
func (d *Device) Map(p device.Ptr, chunks []device.Chunk, n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.sized("map", n); err != nil || len(chunks) == 0 {
		return err
	}
	v := &d.virtual
	if int64(len(chunks)) > math.MaxInt64/n {
		return fmt.Errorf("host: map: %w: %d chunks of %d bytes", device.ErrArgument, len(chunks), n)
	}
	all := int64(len(chunks)) * n
	if _, ok := v.reserved.Find(uint64(p), all); !ok || p%granularity != 0 || v.mapped.Overlaps(uint64(p), all) {
		return fmt.Errorf("host: map: %w: %d bytes at %#x are not free room in a reservation, or not at a multiple of %d",
			device.ErrArgument, all, uint64(p), int64(granularity))
	}
	for i, handle := range chunks {
		if c, ok := v.chunks[handle]; !ok || c.bytes != n {
			return fmt.Errorf("host: map: %w: chunk %d of %d has not %d bytes", device.ErrArgument, i, len(chunks), n)
		}
	}
	for i, next := 0, 0; i < len(chunks); i = next {
		// Neighbours in the store go by one call.
		offset := v.chunks[chunks[i]].offset
		for next = i + 1; next < len(chunks) && v.chunks[chunks[next]].offset == offset+int64(next-i)*n; {
			next++
		}
		if err := v.store.Map(memory(p.Add(int64(i)*n), int64(next-i)*n), offset); err != nil {
			virtmem.Unmap(memory(p, int64(next)*n))
			return fmt.Errorf("host: map: %w: %d chunks of %d bytes at %#x (each may take one of the process's mappings, sysctl vm.max_map_count): %v",
				device.ErrOutOfMemory, len(chunks), n, uint64(p), err)
		}
	}
	for i, handle := range chunks {
		c, at := v.chunks[handle], uint64(p)+uint64(i)*uint64(n)
		v.mapped.Insert(at, n)
		v.backing[at] = c
		c.mappings++
	}
	return nil
}

// Unmap implements [device.Mapper]. It waits for nothing: queued work that
// still comes is a fault, which is its stream's error.
func (d *Device) Unmap(p device.Ptr, n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.sized("unmap", n); err != nil {
		return err
	}
	v := &d.virtual
	if !v.mapped.Tiles(uint64(p), n) {
		return fmt.Errorf("host: unmap: %w: %d bytes at %#x are not whole mappings without a gap",
			device.ErrArgument, n, uint64(p))
	}
	if err := virtmem.Unmap(memory(p, n)); err != nil {
		return fmt.Errorf("host: unmap: %w", err)
	}
	var failed error
	for span := range v.mapped.In(uint64(p), n) {
		c := v.backing[span.Start]
		delete(v.backing, span.Start)
		c.mappings--
		if err := d.discard(c); err != nil {
			failed = err
		}
	}
	v.mapped.RemoveIn(uint64(p), n)
	return failed
}

// close gives everything back.
func (v *virtual) close() (errs []error) {
	for _, span := range v.reserved.All() {
		errs = append(errs, virtmem.Release(memory(device.Ptr(span.Start), span.Bytes)))
	}
	if v.store != nil {
		errs = append(errs, v.store.Close())
	}
	*v = virtual{}
	return errs
}

var _ device.Mapper = (*Device)(nil)
