package conformance

import (
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// use is one call on something that may be closed.
type use struct {
	what string
	call func() error
}

func allClosed(f *fixture.F, of string, uses []use) {
	f.Helper()
	for _, u := range uses {
		f.Fails(u.what+" of a closed "+of, u.call(), device.ErrClosed)
	}
}

func streamUses(s device.Stream, e device.Event, p device.Ptr) []use {
	b := make([]byte, 16)
	return []use{
		{"CopyH2D", func() error { return s.CopyH2D(p, b) }},
		{"CopyD2H", func() error { return s.CopyD2H(b, p) }},
		{"CopyD2D", func() error { return s.CopyD2D(p.Add(16), p, 16) }},
		{"Memset", func() error { return s.Memset(p, 0, 16) }},
		{"Record", func() error { return s.Record(e) }},
		{"Wait", func() error { return s.Wait(e) }},
		{"Synchronize", s.Synchronize},
	}
}

func eventUses(e, live device.Event, s device.Stream) []use {
	return []use{
		{"Done", func() error { _, err := e.Done(); return err }},
		{"Synchronize", e.Synchronize},
		{"Since", func() error { _, err := e.Since(live); return err }},
		{"Since (as the start)", func() error { _, err := live.Since(e); return err }},
		{"Record", func() error { return s.Record(e) }},
		{"Wait", func() error { return s.Wait(e) }},
	}
}

// deviceUses are the calls on the device and on its capabilities. b is page
// memory.
func deviceUses(dev device.Device, s device.Stream, p device.Ptr, b []byte) []use {
	uses := []use{
		{"Memory", func() error { _, err := dev.Memory(); return err }},
		{"Alloc", func() error { _, err := dev.Alloc(16); return err }},
		{"Free", func() error { return dev.Free(p) }},
		{"NewStream", func() error { _, err := dev.NewStream(); return err }},
		{"NewEvent", func() error { _, err := dev.NewEvent(0); return err }},
		{"Synchronize", dev.Synchronize},
	}
	if c, ok := device.As[device.Caller](dev); ok {
		uses = append(uses,
			use{"Call", func() error { return c.Call(s, func() error { return nil }) }},
			use{"Bytes", func() error { _, err := c.Bytes(p, 1); return err }})
	}
	if c, ok := device.As[device.Pinner](dev); ok {
		uses = append(uses,
			use{"Pin", func() error { return c.Pin(b, 0) }},
			use{"Unpin", func() error { return c.Unpin(b) }},
			use{"Mapped", func() error { _, err := c.Mapped(b); return err }})
	}
	if c, ok := device.As[device.HostAllocator](dev); ok {
		uses = append(uses,
			use{"AllocHost", func() error { _, err := c.AllocHost(4096, 0); return err }},
			use{"FreeHost", func() error { return c.FreeHost(b) }})
	}
	if c, ok := device.As[device.Manager](dev); ok {
		uses = append(uses,
			use{"AllocManaged", func() error { _, _, err := c.AllocManaged(4096, device.ManagedOptions{}); return err }},
			use{"Prefetch", func() error { return c.Prefetch(s, p, 1, device.OnDevice) }},
			use{"Advise", func() error { return c.Advise(p, 1, device.Advice{}) }},
			use{"Residency", func() error { _, err := c.Residency(p, 1); return err }})
	}
	if c, ok := device.As[device.BatchCopier](dev); ok && c.CanCopyBatch() {
		spans := []device.Span{{Dst: p, Src: p.Add(16), Bytes: 16}}
		uses = append(uses,
			use{"CopyBatch", func() error { return c.CopyBatch(s, spans) }},
			use{"CopyBatch of nothing", func() error { return c.CopyBatch(s, nil) }})
	}
	if c, ok := device.As[device.BoxCopier](dev); ok {
		box := device.Box{
			Dst: p, Src: p.Add(32), RowBytes: 4, Rows: 2, Planes: 2,
			DstRowStride: 8, SrcRowStride: 8, DstPlaneStride: 16, SrcPlaneStride: 16,
		}
		uses = append(uses,
			use{"CopyBox", func() error { return c.CopyBox(s, box) }},
			use{"CopyBox of nothing", func() error { return c.CopyBox(s, device.Box{}) }})
	}
	if c, ok := device.As[device.PeerCopier](dev); ok {
		uses = append(uses, use{"CopyPeer", func() error { return c.CopyPeer(s, p, dev, p.Add(16), 16) }})
	}
	if c, ok := device.As[device.Mapper](dev); ok && c.CanReserve() {
		uses = append(uses,
			use{"Reserve", func() error { _, err := c.Reserve(64 << 20); return err }},
			use{"Unreserve", func() error { return c.Unreserve(p, 64<<20) }},
			use{"CreateChunk", func() error { _, err := c.CreateChunk(64 << 20); return err }},
			use{"ReleaseChunk", func() error { return c.ReleaseChunk(1) }},
			use{"Map", func() error { return c.Map(p, []device.Chunk{1}, 64<<20) }},
			use{"Unmap", func() error { return c.Unmap(p, 64<<20) }})
	}
	if c, ok := device.As[device.StreamAllocator](dev); ok && c.CanAllocAsync() {
		uses = append(uses,
			use{"AllocAsync", func() error { _, err := c.AllocAsync(s, 16); return err }},
			use{"FreeAsync", func() error { return c.FreeAsync(s, p) }},
			use{"SetReleaseThreshold", func() error { return c.SetReleaseThreshold(0) }},
			use{"TrimPool", func() error { return c.TrimPool(0) }})
	}
	if c, ok := device.As[device.Launcher](dev); ok {
		uses = append(uses, use{"LoadModule", func() error { _, err := c.LoadModule([]byte{0}); return err }})
	}
	return uses
}

func testClosedStream(f *fixture.F) {
	s, other := f.Stream(), f.Stream()
	e, p := f.Event(0), f.Alloc(64)
	f.OK(s.Memset(p, 1, 64))
	f.OK(s.Close())
	f.OK(s.Close())
	allClosed(f, "stream", streamUses(s, e, p))
	if c, ok := device.As[device.Caller](f.Dev); ok {
		f.Fails("Call on a closed stream", c.Call(s, func() error { return nil }), device.ErrClosed)
	}
	if !device.Same(s.Device(), f.Dev) {
		f.Error("a closed stream forgot its device")
	}
	f.OK(other.Memset(p, 2, 64))
	f.OK(other.Synchronize())
}

func testClosedEvent(f *fixture.F) {
	s := f.Stream()
	e, live := f.Event(0), f.Event(0)
	f.OK(s.Record(e))
	f.OK(s.Record(live))
	f.OK(s.Synchronize())
	f.OK(e.Close())
	f.OK(e.Close())
	allClosed(f, "event", eventUses(e, live, s))
	f.OK(s.Synchronize())
}

func testClosedDevice(f *fixture.F) {
	b := f.Pages(4096)
	s, closed := f.Stream(), f.Stream()
	e, live := f.Event(0), f.Event(0)
	p := f.Alloc(64)
	info := f.Dev.Info()
	f.OK(closed.Close())
	f.OK(s.Record(e))
	f.OK(s.Record(live))
	if f.Dev.Closed() {
		f.Error("closed before it is")
	}
	f.OK(f.Dev.Close())
	f.OK(f.Dev.Close())
	if !f.Dev.Closed() {
		f.Error("closed, and says it is not")
	}
	allClosed(f, "device", deviceUses(f.Dev, s, p, b))
	allClosed(f, "device, stream", streamUses(s, e, p))
	allClosed(f, "device, event", eventUses(e, live, s))
	if now := f.Dev.Info(); now != info {
		f.Errorf("Info of a closed device is %+v, was %+v", now, info)
	}
	if p, ok := device.As[device.Pinner](f.Dev); ok && p.Pinned(b) {
		f.Error("memory is pinned for a closed device")
	}
	f.OK(s.Close())
	f.OK(closed.Close())
	f.OK(e.Close())
}
