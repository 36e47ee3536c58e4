package host

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/spans"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Device is a device on ordinary memory.
type Device struct {
	capacity int64
	name     string

	// mu is held for reading while an operation looks up its memory and is
	// queued, and for writing where memory or the list of streams changes:
	// what Free removes under the lock, no later operation can have looked up.
	mu      sync.RWMutex
	closed  atomic.Bool            // set under mu; read without it where locks would nest
	gone    bool                   // closed, and what was queued before has run
	live    spans.Set              // device memory
	async   map[device.Ptr]*stream // what of it AllocAsync gave; not nil: freed there by what is queued
	managed map[device.Ptr]int64   // what of it is managed, and how many bytes were asked for
	used    int64                  // bytes of live, in pages, and of chunks; managed memory may make it more than capacity
	virtual virtual                // device memory of the Mapper
	pinned  spans.Set              // page-locked host memory
	adopted spans.Set              // memory of others
	streams map[*stream]struct{}

	captures atomic.Int64 // how many there are now

	serial uint64  // place in the order in which devices were opened
	guard  *stream // one of streams, that waits for what other devices copy from this one
}

// mostBytes is the largest capacity: half of the addresses that a process has
// on amd64 and arm64.
const mostBytes = 64 << 40

// Open makes a device with that many bytes of memory. Zero means half of what
// this process may still use by its cgroup and the machine.
//
// Memory is taken from the system when it is first written, so a capacity may
// be larger than the machine's memory: what a large GPU would do can be
// replayed on a small machine as long as little of it is written. Writing more
// than there is makes the system kill the process, as writing too much memory
// of any kind does. A capacity of more than 64 TiB, for which there are not
// enough addresses, fails with [device.ErrArgument].
func Open(capacity int64) (*Device, error) {
	if capacity < 0 || capacity > mostBytes {
		return nil, fmt.Errorf("host: %w: a capacity of %s, but a process may use only %s",
			device.ErrArgument, units.Bytes(capacity), units.Bytes(mostBytes))
	}
	id := "host"
	if capacity == 0 {
		if capacity = sysmem.Available() / 2; capacity == 0 {
			capacity = 1 << 30 // the system does not tell
		}
	} else {
		id = "host:" + units.ExactBytes(capacity)
	}
	d := &Device{
		capacity: capacity,
		name:     id,
		async:    map[device.Ptr]*stream{},
		managed:  map[device.Ptr]int64{},
		streams:  map[*stream]struct{}{},
		serial:   opened.Add(1),
	}
	d.guard = d.newStream()
	return d, nil
}

// Info implements [device.Device].
func (d *Device) Info() device.Info {
	return device.Info{
		ID:              d.name,
		Backend:         "host",
		Name:            fmt.Sprintf("host memory (%s/%s, %d CPUs)", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		TotalBytes:      d.capacity,
		Multiprocessors: runtime.GOMAXPROCS(0),
		CopyEngines:     runtime.GOMAXPROCS(0),
		NUMANode:        -1,
		Integrated:      true,
	}
}

// Memory implements [device.Device].
func (d *Device) Memory() (device.Memory, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed.Load() {
		return device.Memory{}, errClosed
	}
	return device.Memory{TotalBytes: d.capacity, FreeBytes: d.free()}, nil
}

// Alloc implements [device.Device]. Memory comes in whole pages.
func (d *Device) Alloc(n int64) (device.Ptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.alloc(n, false)
}

// free is how many bytes may still be allocated.
func (d *Device) free() int64 { return max(0, d.capacity-d.used) }

// alloc is Alloc for a caller that holds mu, beyond the capacity if told to.
func (d *Device) alloc(n int64, beyond bool) (device.Ptr, error) {
	if n <= 0 {
		return 0, fmt.Errorf("host: %w: allocation of %d bytes", device.ErrArgument, n)
	}
	if err := d.open(); err != nil {
		return 0, err
	}
	if !beyond && (n > d.free() || pagemem.RoundUp(n) > d.free()) {
		return 0, d.full(n)
	}
	b, err := pagemem.Map(n)
	if err != nil {
		return 0, fmt.Errorf("host: %w: asked for %s, %s of %s are free, but the system refused: %v",
			device.ErrOutOfMemory, units.Bytes(n), units.Bytes(d.free()), units.Bytes(d.capacity), err)
	}
	pagemem.Huge(b)
	p := address(b)
	d.live.Insert(uint64(p), int64(len(b)))
	d.used += int64(len(b))
	return p, nil
}

// full is the error when n bytes are more than are free.
func (d *Device) full(n int64) error {
	return fmt.Errorf("host: %w: asked for %s, %s of %s are free",
		device.ErrOutOfMemory, units.Bytes(n), units.Bytes(d.free()), units.Bytes(d.capacity))
}

// Free implements [device.Device].
func (d *Device) Free(p device.Ptr) error {
	// Queued functions may still look the memory up, so it stays known until
	// they ran. What others queued meanwhile is waited for once it cannot be
	// looked up any more.
	if _, err := d.drain(); err != nil {
		return err
	}
	d.mu.Lock()
	if d.closed.Load() {
		d.mu.Unlock()
		return errClosed
	}
	var n int64
	ok := d.async[p] == nil
	if ok {
		n, ok = d.live.Remove(uint64(p))
		delete(d.async, p)
		delete(d.managed, p)
	}
	d.mu.Unlock()
	if !ok {
		return fmt.Errorf("host: free: %w: %#x is not the start of an allocation", device.ErrPointer, uint64(p))
	}
	for _, s := range d.snapshot() {
		s.drain()
	}
	if err := pagemem.Unmap(memory(p, n)); err != nil {
		return fmt.Errorf("host: free %d bytes: %w", n, err)
	}
	d.mu.Lock()
	d.used -= n
	d.mu.Unlock()
	return nil
}

// drain waits for what is queued on the streams that are open now, and
// returns them.
func (d *Device) drain() ([]*stream, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	streams := d.snapshot()
	for _, s := range streams {
		s.drain()
	}
	return streams, nil
}

// Synchronize implements [device.Device].
func (d *Device) Synchronize() error {
	streams, err := d.drain()
	errs := []error{err}
	for _, s := range streams {
		errs = append(errs, s.takeError())
	}
	return errors.Join(errs...)
}

// Closed implements [device.Device].
func (d *Device) Closed() bool { return d.closed.Load() }

// Close implements [device.Device]. It reports the errors of work that nobody
// waited for.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed.Load() {
		d.mu.Unlock()
		return nil
	}
	d.closed.Store(true)
	d.mu.Unlock()
	sharers.Delete(d.serial)
	streams := d.snapshot()

	var errs []error
	for _, s := range streams {
		s.drain()
		errs = append(errs, s.takeError())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
	for _, span := range d.pinned.All() {
		errs = append(errs, pagemem.Unlock(memory(device.Ptr(span.Start), span.Bytes)))
	}
	for _, span := range d.live.All() {
		errs = append(errs, pagemem.Unmap(memory(device.Ptr(span.Start), span.Bytes)))
	}
	errs = append(errs, d.virtual.close()...)
	d.pinned, d.live, d.adopted, d.used, d.streams = spans.Set{}, spans.Set{}, spans.Set{}, 0, nil
	return errors.Join(errs...)
}

// snapshot lists the open streams.
func (d *Device) snapshot() []*stream {
	d.mu.RLock()
	defer d.mu.RUnlock()
	list := make([]*stream, 0, len(d.streams))
	for s := range d.streams {
		list = append(list, s)
	}
	return list
}

// resolve returns n bytes of device memory, or of pinned memory, at p, for
// work that is queued now. The caller holds mu.
func (d *Device) resolve(p device.Ptr, n int64) ([]byte, error) {
	if span, ok := d.live.Find(uint64(p), n); ok && n > 0 && d.async[device.Ptr(span.Start)] != nil {
		return nil, fmt.Errorf("host: %w: %d bytes at %#x, which earlier work frees", device.ErrPointer, n, uint64(p))
	}
	return d.find(p, n)
}

// find is resolve for work that was queued earlier.
func (d *Device) find(p device.Ptr, n int64) ([]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("host: %w: %d bytes", device.ErrArgument, n)
	}
	if n == 0 {
		return nil, nil
	}
	if _, ok := d.live.Find(uint64(p), n); ok {
		return memory(p, n), nil
	}
	if _, ok := d.pinned.Find(uint64(p), n); ok || d.virtual.mapped.Covers(uint64(p), n) {
		return memory(p, n), nil
	}
	if _, ok := d.adopted.Find(uint64(p), n); ok {
		return memory(p, n), nil
	}
	return nil, fmt.Errorf("host: %w: %d bytes at %#x", device.ErrPointer, n, uint64(p))
}

// memory views n bytes of mapped memory. The address comes from a mapping
// outside the Go heap, so the collector has no part in it.
func memory(p device.Ptr, n int64) []byte {
	address := uintptr(p)
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&address))), n)
}

func address(b []byte) device.Ptr {
	return device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

var errClosed = fmt.Errorf("host: %w", device.ErrClosed)

var _ device.Device = (*Device)(nil)
