package timeline

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/internal/spans"
)

// Wrap returns a device that does what dev does, and records it: copies, kernels and
// memory being set, with the times at which the device did them, and the memory that
// is allocated. Use it in place of dev, and close it in its place. It has all the
// abilities of dev ([device.As]). When the recording is over, it costs next to
// nothing; and Wrap then returns dev, as it does for a device that it has returned.
//
// A program that uses dev beside it goes unrecorded there.
func (r *Recording) Wrap(dev device.Device) device.Device {
	if own, ok := device.As[*wrapped](dev); dev == nil || ok && own.r == r || !r.on.Load() {
		return dev
	}
	d := &wrapped{Wrapper: device.Wrapper{Device: dev}, r: r, id: dev.Info().ID, streams: map[*stream]struct{}{}}
	d.calls = r.rowOf(probe.Row{Group: callsTo(d.id), Name: "calls"})
	r.clock(d.id, 0)
	d.memory = r.row(d.id, "allocated from the device")
	for i, name := range callNames {
		d.names[i] = r.name(name)
	}
	d.outer = d.layers(dev)
	d.open()
	r.list.Lock()
	defer r.list.Unlock()
	r.list.devices = append(r.list.devices, d)
	return d.outer
}

// wrapped is a device that records.
type wrapped struct {
	device.Wrapper
	r      *Recording
	id     string
	outer  device.Device // what Wrap returned
	calls  *row          // of the calls
	memory int32         // row of the counter
	names  [callKinds]int32

	capturer device.Capturer // nil: the device has none
	captures atomic.Int64    // how many there are now

	anchor atomic.Pointer[anchor] // the newest; nil: nothing is timed
	made   atomic.Int64           // marks

	mu        sync.Mutex
	streams   map[*stream]struct{}
	numbers   []bool // taken by streams without a label
	ranges    spans.Set
	allocated int64
	closed    bool

	collecting sync.Mutex // held by who looks at events
	clock      *clock     // nil: there is none
	anchors    []*anchor  // older ones, in their order, from which work is measured
	landed     []record   // room for those of a stream
}

// Calls that have the same name each time.
const (
	callH2D = iota
	callD2H
	callD2D
	callP2P
	callMemset
	callAlloc
	callFree
	callWait
	callBatch
	callBox
	callPrefetch
	callNative
	callGraph
	callKinds
)

var callNames = [callKinds]string{
	"copy h2d", "copy d2h", "copy d2d", "copy p2p", "memset", "allocate", "free", "synchronize",
	"batch of copies", "copy of a box", "prefetch", "vendor's library", "graph",
}

// open makes what timing takes. Without it calls are recorded all the same.
func (d *wrapped) open() {
	c, err := newClock(d.Device, d.r.now)
	if err != nil {
		return
	}
	a, err := c.make()
	if err != nil {
		_ = c.close()
		return
	}
	d.clock = c
	d.anchor.Store(a)
	d.r.clock(d.id, a.error)
}

// host records a call that queues no work.
func (d *wrapped) host(start int64, name int32, bytes int64) {
	if start >= 0 && d.r.on.Load() {
		d.calls.put(record{kind: kindSpan, row: d.calls.id, name: name, start: start, end: d.r.now(), bytes: bytes})
	}
}

// start is the time now, or -1 when nothing is recorded.
func (d *wrapped) start() int64 {
	if !d.r.on.Load() {
		return -1
	}
	return d.r.now()
}

// Alloc implements [device.Device].
func (d *wrapped) Alloc(n int64) (device.Ptr, error) {
	start := d.start()
	p, err := d.Device.Alloc(n)
	if err == nil {
		d.host(start, d.names[callAlloc], n)
		d.holds(p, n)
		d.amount(n)
	}
	return p, err
}

// Free implements [device.Device].
func (d *wrapped) Free(p device.Ptr) error {
	d.mu.Lock()
	n, known := d.ranges.Remove(uint64(p)) // first: another may have the address at once
	d.mu.Unlock()
	start := d.start()
	err := d.Device.Free(p)
	switch {
	case err != nil && known:
		d.holds(p, n)
	case err == nil:
		d.host(start, d.names[callFree], n)
		d.amount(-n)
	}
	return err
}

// holds notes that n bytes at p are the device's.
func (d *wrapped) holds(p device.Ptr, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ranges.Insert(uint64(p), n)
}

// amount counts memory that came from the device, or went back.
func (d *wrapped) amount(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.allocated += n
	if d.r.on.Load() {
		now := d.r.now()
		d.r.put(record{kind: kindCounter, row: d.memory, start: now, end: now, bytes: d.allocated})
	}
}

// engine is that of a copy between two addresses: pinned memory that is mapped for the
// device is not in its ranges.
func (d *wrapped) engine(dst, src device.Ptr) Engine {
	d.mu.Lock()
	defer d.mu.Unlock()
	to, from := d.ranges.Overlaps(uint64(dst), 1), d.ranges.Overlaps(uint64(src), 1)
	switch {
	case to && !from:
		return H2D
	case from && !to:
		return D2H
	}
	return D2D
}

// Synchronize implements [device.Device].
func (d *wrapped) Synchronize() error {
	start := d.start()
	err := d.Device.Synchronize()
	d.host(start, d.names[callWait], 0)
	return err
}

// Close implements [device.Device].
func (d *wrapped) Close() error {
	d.mu.Lock()
	closed := d.closed
	d.closed = true
	d.mu.Unlock()
	if closed {
		return d.Device.Close()
	}
	d.finish(nil)
	err := d.Device.Close()
	d.r.forget(d)
	return err
}

func (r *Recording) forget(d *wrapped) {
	r.list.Lock()
	defer r.list.Unlock()
	r.list.devices = slices.DeleteFunc(r.list.devices, func(x *wrapped) bool { return x == d })
}

// NewStream implements [device.Device].
func (d *wrapped) NewStream() (device.Stream, error) {
	s, err := d.Device.NewStream()
	if err != nil {
		return nil, err
	}
	return d.wrapStream(s), nil
}

func (d *wrapped) wrapStream(inner device.Stream) *stream {
	s := &stream{StreamWrapper: device.StreamWrapper{Stream: inner}, d: d, marks: marks{d: d}}
	d.mu.Lock()
	d.streams[s] = struct{}{}
	if s.number = slices.Index(d.numbers, false); s.number < 0 {
		s.number = len(d.numbers)
		d.numbers = append(d.numbers, false)
	}
	d.numbers[s.number] = true
	d.mu.Unlock()
	s.lane.Store(d.r.row(d.id, fmt.Sprintf("stream %d", s.number+1)))
	if d.r.others != nil && d.r.on.Load() {
		d.r.others.leaveOut(d.Device, d.id, inner)
	}
	return s
}

// forget ends what is known of a stream that is closed.
func (d *wrapped) forget(s *stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.streams[s]; ok {
		delete(d.streams, s)
		d.numbers[s.number] = false
	}
}
