package cuda

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// captures counts the captures of this process that [Device.Capture] has begun. Its lock
// is held for reading by calls of the driver on a whole context, which would end those
// captures, and for writing as one begins.
var captures struct {
	sync.RWMutex
	now atomic.Int64
}

// CanCapture implements [device.Capturer].
func (d *Device) CanCapture() bool {
	for _, f := range []dl.Func{api.streamBeginCapture, api.streamEndCapture, api.streamIsCapturing, api.graphInstantiate,
		api.graphLaunch, api.graphDestroy, api.graphExecDestroy} {
		if !f.Ok() {
			return false
		}
	}
	return true
}

// Capturing implements [device.Capturer].
func (d *Device) Capturing(s device.Stream) bool {
	cs, ok := streamOf(s)
	if !ok || cs.hold() != nil {
		return false
	}
	defer cs.release()
	return cs.isCapturing()
}

// isCapturing asks the driver. The caller holds the stream open.
func (s *stream) isCapturing() bool {
	if !api.streamIsCapturing.Ok() {
		return false
	}
	word := words.Get().(*[2]uint64)
	defer words.Put(word)
	word[0] = captureNone
	r := s.dev.call(func() uintptr {
		return api.streamIsCapturing.Call4(s.handle, uintptr(unsafe.Pointer(word)), 0, 0)
	})
	return r == 0 && uint32(word[0]) != captureNone
}

// recording reports whether the stream takes part in a capture of [Device.Capture]. It
// costs next to nothing where there is none.
func (s *stream) recording() bool { return captures.now.Load() > 0 && s.isCapturing() }

// refuse fails when the stream is being captured, which the call that asks would end.
func (s *stream) refuse(call string) error {
	if s.recording() {
		return fmt.Errorf("cuda: %w: %s on a stream that is being captured", device.ErrCapturing, call)
	}
	return nil
}

// Capture implements [device.Capturer]. The mode is the relaxed one, so that calls which
// allocate are allowed meanwhile. The thread is the caller's own for as long: its context
// is current.
func (d *Device) Capture(s device.Stream, fn func() error) (device.Graph, error) {
	if !d.CanCapture() {
		return nil, fmt.Errorf("cuda: capture: %w: the driver is for CUDA %s, 11.4 is needed", device.ErrNotSupported, d.info.DriverVersion)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cs, err := d.begin(s)
	if err != nil {
		return nil, err
	}
	defer captures.now.Add(-1)
	ended := false
	defer func() {
		if !ended { // fn panics
			_, _ = d.end(cs, false)
		}
	}()
	err = fn()
	ended = true
	g, endErr := d.end(cs, err == nil)
	if err != nil {
		return nil, err
	}
	if endErr != nil {
		return nil, endErr
	}
	return g, nil
}

// begin begins a capture of s.
func (d *Device) begin(s device.Stream) (*stream, error) {
	cs, err := d.enterStream(s)
	if err != nil {
		return nil, err
	}
	defer cs.leave()
	captures.Lock()
	defer captures.Unlock()
	if cs.isCapturing() {
		return nil, fmt.Errorf("cuda: %w: the stream is being captured already", device.ErrCapturing)
	}
	if r := api.streamBeginCapture.Call4(cs.handle, captureRelaxed, 0, 0); r != 0 {
		return nil, check("cuStreamBeginCapture", r)
	}
	captures.now.Add(1)
	return cs, nil
}

// end ends a capture, and makes a graph of it if it is wanted.
func (d *Device) end(s *stream, wanted bool) (*graph, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	var recorded uintptr
	err := check("cuStreamEndCapture", api.streamEndCapture.Call(s.handle, uintptr(unsafe.Pointer(&recorded))))
	if recorded != 0 {
		defer api.graphDestroy.Call(recorded)
	}
	if err != nil {
		return nil, fmt.Errorf("cuda: capture: %w", err)
	}
	if !wanted {
		return nil, nil
	}
	g := &graph{dev: d}
	if err := check("cuGraphInstantiate", api.graphInstantiate.Call(uintptr(unsafe.Pointer(&g.handle)), recorded, 0)); err != nil {
		return nil, fmt.Errorf("cuda: capture: %w", err)
	}
	if api.graphUpload.Ok() {
		if r := api.graphUpload.Call4(g.handle, s.handle, 0, 0); r != 0 {
			api.graphExecDestroy.Call(g.handle)
			return nil, fmt.Errorf("cuda: capture: %w", check("cuGraphUpload", r))
		}
	}
	d.owned.Lock()
	d.graphs[g] = struct{}{}
	d.owned.Unlock()
	return g, nil
}

// graph is an executable graph. The driver wants calls for one to follow each other.
type graph struct {
	dev    *Device
	handle uintptr

	mu     sync.Mutex
	closed bool
}

// Launch implements [device.Graph].
func (g *graph) Launch(s device.Stream) error {
	cs, ok := streamOf(s)
	if !ok || cs.dev != g.dev {
		return fmt.Errorf("cuda: %w: the stream belongs to another device", device.ErrArgument)
	}
	if err := cs.hold(); err != nil {
		return err
	}
	defer cs.release()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed
	}
	if err := cs.refuse("launch of a graph"); err != nil {
		return err
	}
	if r := g.dev.call(func() uintptr { return api.graphLaunch.Call4(g.handle, cs.handle, 0, 0) }); r != 0 {
		return check("cuGraphLaunch", r)
	}
	return nil
}

// Close implements [device.Graph].
func (g *graph) Close() error {
	if err := g.dev.enter(); err != nil {
		return closedWith(err)
	}
	defer g.dev.leave()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	g.dev.owned.Lock()
	delete(g.dev.graphs, g)
	g.dev.owned.Unlock()
	return check("cuGraphExecDestroy", api.graphExecDestroy.Call(g.handle))
}

// synchronize waits for the context, on a thread that has entered. The driver refuses that
// while a stream of it is being captured, and ends the capture; then the device's streams
// are waited for one by one.
func (d *Device) synchronize() error {
	captures.RLock()
	defer captures.RUnlock()
	if captures.now.Load() == 0 {
		return check("cuCtxSynchronize", api.ctxSynchronize.Call())
	}
	d.owned.Lock()
	var all []*stream
	for s := range d.streams {
		all = append(all, s)
	}
	d.owned.Unlock()
	var first error
	for _, s := range all {
		if !s.gate.enter() {
			continue
		}
		if !s.isCapturing() {
			if err := check("cuStreamSynchronize", api.streamSynchronize.Call4(s.handle, 0, 0, 0)); first == nil {
				first = err
			}
		}
		s.gate.leave()
	}
	return first
}

var _ device.Capturer = (*Device)(nil)
