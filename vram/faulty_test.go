package vram

import (
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/device"
)

// faulty is a device whose calls fail when they are told to.
type faulty struct {
	device.Device
	device.Mapper
	mapErr, unmapErr, relErr, eventErr error
	createLeft                         int
	events                             int
	freeErr                            error
}

func (f *faulty) Map(p device.Ptr, c []device.Chunk, n int64) error {
	if f.mapErr != nil {
		return f.mapErr
	}
	return f.Mapper.Map(p, c, n)
}
func (f *faulty) Unmap(p device.Ptr, n int64) error {
	if f.unmapErr != nil {
		return f.unmapErr
	}
	return f.Mapper.Unmap(p, n)
}
func (f *faulty) ReleaseChunk(c device.Chunk) error {
	if f.relErr != nil {
		return f.relErr
	}
	return f.Mapper.ReleaseChunk(c)
}
func (f *faulty) CreateChunk(n int64) (device.Chunk, error) {
	if f.createLeft--; f.createLeft < 0 {
		return 0, errBoom
	}
	return f.Mapper.CreateChunk(n)
}
func (f *faulty) Free(p device.Ptr) error {
	if f.freeErr != nil {
		return f.freeErr
	}
	return f.Device.Free(p)
}

func (f *faulty) NewEvent(x device.EventFlags) (device.Event, error) {
	if f.eventErr != nil {
		return nil, f.eventErr
	}
	f.events++
	return f.Device.NewEvent(x)
}

var errBoom = errors.New("boom")

func newFaulty(t *testing.T, name string) *faulty {
	dev := openHost(t, name)
	return &faulty{Device: dev, Mapper: dev.(device.Mapper), createLeft: 1 << 30}
}

// TestBooks: after a call of the device has failed, in the middle of whatever,
// the books are right and nothing is lost.
func TestBooks(t *testing.T) {
	f := newFaulty(t, "host:64MiB")
	p, err := New(f, Options{ChunkBytes: 2 * mb, Limits: map[Purpose]int64{KVCache: 16 * mb}})
	must(t, err)
	s := newStream(t, f.Device)
	var live []Block
	use := Use{Purpose: KVCache, Stream: s}
	check := func(what string) {
		t.Helper()
		p.still(func() {})
		p.verify(t)
		var sum int64
		for _, b := range live {
			sum += b.b.bytes
		}
		if got := p.limited[KVCache].used.Load(); got != sum {
			t.Errorf("%s: limit used %d, live %d", what, got, sum)
		}
	}
	live = append(live, alloc(t, p, 3*mb, use))
	check("first")
	f.mapErr = errBoom
	_, err = p.Alloc(ctx, 5*mb, use)
	if !errors.Is(err, errBoom) {
		t.Errorf("map: %v", err)
	}
	check("map")
	f.mapErr = nil
	f.createLeft = 1
	_, err = p.Alloc(ctx, 9*mb, use)
	if !errors.Is(err, errBoom) {
		t.Errorf("create: %v", err)
	}
	check("create")
	f.createLeft = 1 << 30
	live = append(live, alloc(t, p, 5*mb, use))
	must(t, live[0].Free())
	live = live[1:]
	must(t, s.Synchronize())
	f.unmapErr = errBoom
	_, err = p.Trim()
	if !errors.Is(err, errBoom) {
		t.Errorf("trim: %v", err)
	}
	check("unmap")
	f.unmapErr = nil
	f.relErr = errBoom
	_, err = p.Trim()
	if !errors.Is(err, errBoom) {
		t.Errorf("release: %v", err)
	}
	check("release")
	f.relErr = nil
	f.eventErr = errBoom
	must(t, live[0].Free())
	live = nil
	_, err = p.Trim() // without an event there is no telling whether it is idle
	must(t, err)
	check("event")
	f.eventErr = nil
	_, err = p.Trim()
	must(t, err)
	if p.Reserved() != 0 {
		t.Errorf("reserved %d", p.Reserved())
	}
	must(t, p.Close())
}
