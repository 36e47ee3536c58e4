package vram

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// faulty is a device whose calls fail when they are told to.
type faulty struct {
	device.Wrapper
	device.Mapper
	mapErr, unmapErr, eventErr          error
	createLeft, releaseLeft, streamLeft int // how many succeed
	events                              int
	streams                             []device.Stream
	freeErr                             error
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
	if f.releaseLeft--; f.releaseLeft < 0 {
		return errBoom
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

func (f *faulty) NewStream() (device.Stream, error) {
	if f.streamLeft--; f.streamLeft < 0 {
		return nil, errBoom
	}
	s, err := f.Device.NewStream()
	f.streams = append(f.streams, s)
	return s, err
}

var errBoom = errors.New("boom")

func newFaulty(t *testing.T, name string) *faulty {
	dev := openHost(t, name)
	const any = 1 << 30
	return &faulty{Wrapper: device.Wrapper{Device: dev}, Mapper: devicetest.As[device.Mapper](t, dev),
		createLeft: any, releaseLeft: any, streamLeft: any}
}

// TestBooks: after a call of the device has failed, in the middle of whatever,
// the books are right and nothing is lost.
func TestBooks(t *testing.T) {
	f := newFaulty(t, "host:64MiB")
	p := newPool(t, f, Options{ChunkBytes: 2 * mb, Limits: map[Purpose]int64{KVCache: 16 * mb}})
	s := newStream(t, f.Device)
	var live []Block
	use := Use{Purpose: KVCache, Stream: s}
	check := func(what string) {
		t.Helper()
		p.freeze(func() {})
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
	_, err := p.Alloc(ctx, 5*mb, use)
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
	testkit.OK(t, live[0].Free())
	live = live[1:]
	testkit.OK(t, s.Synchronize())
	f.unmapErr = errBoom
	_, err = p.Trim()
	if !errors.Is(err, errBoom) {
		t.Errorf("trim: %v", err)
	}
	check("unmap")
	f.unmapErr = nil
	f.releaseLeft = 0
	_, err = p.Trim()
	if !errors.Is(err, errBoom) {
		t.Errorf("release: %v", err)
	}
	check("release")
	f.releaseLeft = 1 << 30
	f.eventErr = errBoom
	testkit.OK(t, live[0].Free())
	live = nil
	_, err = p.Trim() // without an event there is no telling whether it is idle
	testkit.OK(t, err)
	check("event")
	f.eventErr = nil
	_, err = p.Trim()
	testkit.OK(t, err)
	if p.Reserved() != 0 {
		t.Errorf("reserved %d", p.Reserved())
	}
	testkit.OK(t, p.Close())
}

// TestTrimPartly: what was given back before a call failed counts.
func TestTrimPartly(t *testing.T) {
	exact(t)
	f := newFaulty(t, "host:64MiB")
	p := newPool(t, f, Options{ChunkBytes: 2 * mb})
	testkit.OK(t, alloc(t, p, 8*mb, Use{}).Free())
	for left, want := range []int64{0, 2 * mb, 4 * mb} {
		before := p.Reserved()
		f.releaseLeft = left
		freed, err := p.Trim()
		if !errors.Is(err, errBoom) || freed != want || p.Reserved() != before-want {
			t.Errorf("with %d releases: %d bytes freed of %d, %v", left, freed, before, err)
		}
	}
	f.releaseLeft = 1 << 30
	testkit.OK(t, p.Close())
}

// TestNewFails: what New has made when it fails is closed.
func TestNewFails(t *testing.T) {
	for n := range 2 {
		f := newFaulty(t, "host:64MiB")
		f.streamLeft = n
		if _, err := New(f, Options{Source: SourceDriver}); !errors.Is(err, errBoom) {
			t.Errorf("after %d streams: %v", n, err)
		}
		for _, s := range f.streams {
			if err := s.Synchronize(); !errors.Is(err, device.ErrClosed) {
				t.Errorf("a stream was left open: %v", err)
			}
		}
	}
}

// TestFreeWaits: where no event can be had, Free waits for the streams that use
// the block, and tells what their work failed with. Meanwhile the pool goes on.
func TestFreeWaits(t *testing.T) {
	exact(t)
	for _, source := range []Source{SourceChunks, SourceSegments, SourceDriver} {
		f := newFaulty(t, "host:64MiB")
		p := newPool(t, f, Options{Source: source})
		user := newStream(t, f.Device)
		b := alloc(t, p, 4*mb, Use{})
		testkit.OK(t, b.RecordStream(user))
		failed := errors.New("bad kernel")
		release := make(chan struct{})
		testkit.OK(t, devicetest.As[device.Caller](t, f.Device).Call(user, func() error { <-release; return failed }))
		f.eventErr = errBoom
		freed := make(chan error, 1)
		go func() { freed <- b.Free() }()
		for b.b.live() {
			runtime.Gosched()
		}
		for n := range int64(20) { // one of them at the latest meets a Free that waits
			testkit.OK(t, alloc(t, p, (n+1)*mb, Use{}).Free())
			time.Sleep(time.Millisecond)
		}
		select {
		case err := <-freed:
			t.Fatalf("%v: Free did not wait: %v", source, err)
		default:
		}
		if s := p.Stats(); source != SourceDriver && s.Active.Current != 4*mb {
			t.Errorf("%v: %d bytes active while Free waits", source, s.Active.Current)
		}
		close(release)
		if err := <-freed; !errors.Is(err, failed) {
			t.Errorf("%v: %v, want the error of the work", source, err)
		}
		if s := p.Stats(); s.Active.Current != 0 {
			t.Errorf("%v: %d bytes active at the end", source, s.Active.Current)
		}
		testkit.OK(t, p.Close())
	}
}

// TestFreeWaitsBehindClose: a Free that waits meets a closed pool.
func TestFreeWaitsBehindClose(t *testing.T) {
	exact(t)
	for _, source := range []Source{SourceChunks, SourceDriver} {
		f := newFaulty(t, "host:64MiB")
		p := newPool(t, f, Options{Source: source})
		user := newStream(t, f.Device)
		b := alloc(t, p, 4*mb, Use{})
		testkit.OK(t, b.RecordStream(user))
		release := hold(t, f.Device, user)
		f.eventErr = errBoom
		done := make(chan error, 2)
		go func() { done <- b.Free() }()
		for b.b.live() {
			runtime.Gosched()
		}
		time.Sleep(20 * time.Millisecond) // it waits, most likely
		go func() { done <- p.Close() }()
		time.AfterFunc(20*time.Millisecond, release)
		for range 2 {
			if err := <-done; err != nil && !errors.Is(err, ErrClosed) {
				t.Errorf("%v: %v", source, err)
			}
		}
		if m, err := f.Memory(); err != nil || m.FreeBytes != m.TotalBytes {
			t.Errorf("%v: %+v after Close, %v", source, m, err)
		}
	}
}

// TestHeldStream: a stream that is held up, however often it is looked at, takes
// few events, and all that was freed on it is had once it goes on.
func TestHeldStream(t *testing.T) {
	exact(t)
	f := newFaulty(t, "host:64MiB")
	p := newPool(t, f, Options{ChunkBytes: 2 * mb})
	one, other := newStream(t, f.Device), newStream(t, f.Device)
	release := hold(t, f.Device, one)
	for range 5 * maxMarks {
		testkit.OK(t, alloc(t, p, 8*mb, Use{Stream: one}).Free())
		_, err := p.Trim()
		testkit.OK(t, err)
	}
	if f.events > maxMarks+1 {
		t.Errorf("%d events", f.events)
	}
	time.AfterFunc(20*time.Millisecond, release)
	testkit.OK(t, alloc(t, p, 64*mb, Use{Stream: other}).Free()) // which waits for it
	testkit.OK(t, p.Close())
}

// TestHeldStreamCloses: also if the stream is closed then.
func TestHeldStreamCloses(t *testing.T) {
	exact(t)
	f := newFaulty(t, "host:64MiB")
	p := newPool(t, f, Options{ChunkBytes: 2 * mb})
	one, err := f.Device.NewStream()
	testkit.OK(t, err)
	release := hold(t, f.Device, one)
	for range 2 * maxMarks {
		testkit.OK(t, alloc(t, p, 8*mb, Use{Stream: one}).Free())
		_, err := p.Trim()
		testkit.OK(t, err)
	}
	release()
	testkit.OK(t, one.Close())
	_, err = p.Trim()
	testkit.OK(t, err)
	if p.Reserved() != 0 {
		t.Errorf("%d bytes reserved", p.Reserved())
	}
	testkit.OK(t, p.Close())
}

// TestUnmapLater: a chunk that moved stays mapped where it was. If it cannot be
// unmapped there, no call fails that does not need that, and Trim tells; once it can,
// everything is given back.
func TestUnmapLater(t *testing.T) {
	exact(t)
	f := newFaulty(t, "host:16GiB")
	p := newPool(t, f, Options{Caches: 1})
	var list []Block
	for range 16 {
		list = append(list, alloc(t, p, 64*mb, Use{}))
	}
	for i := 0; i < len(list); i += 2 {
		testkit.OK(t, list[i].Free())
	}
	f.unmapErr = errBoom
	before := p.Stats()
	large := alloc(t, p, 450*mb, Use{}) // of chunks that lie apart
	if calls := p.Stats().Calls; calls.Map == before.Calls.Map || calls.Create != before.Calls.Create {
		t.Errorf("%+v before, %+v after: want chunks that moved", before.Calls, calls)
	}
	p.verify(t)
	for i := 1; i < len(list); i += 2 {
		testkit.OK(t, list[i].Free())
		p.verify(t)
	}
	if n := p.Stats().Calls.Unmap; n != before.Calls.Unmap {
		t.Errorf("%d chunks were unmapped", n-before.Calls.Unmap)
	}
	if _, err := p.Trim(); !errors.Is(err, errBoom) {
		t.Errorf("Trim: %v", err)
	}
	p.verify(t)
	f.unmapErr = nil
	testkit.OK(t, large.Free())
	if n := p.Stats().Calls.Unmap; n == before.Calls.Unmap {
		t.Error("a free unmapped nothing")
	}
	p.verify(t)
	testkit.Must(p.Trim())(t)
	if s := p.Stats(); s.Reserved.Current != 0 || s.Calls.Map != s.Calls.Unmap {
		t.Errorf("%d bytes reserved after Trim, %+v", s.Reserved.Current, s.Calls)
	}
	testkit.OK(t, p.Close())
}
