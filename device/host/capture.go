package host

import (
	"fmt"
	"maps"
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// capture is work that is being recorded, in the order in which it was queued: each
// operation comes after all that it waits for.
type capture struct {
	mu   sync.Mutex
	over bool
	ops  []op
	at   map[*stream]progress // of the streams that take part
}

// progress is how many operations of each stream are before a point in one of them.
type progress map[*stream]int

// add records an operation of a stream.
func (c *capture) add(s *stream, o op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over { // just now
		return errCapturing
	}
	c.ops = append(c.ops, o)
	c.at[s][s]++
	return nil
}

// captured is a mark in a capture.
type captured struct {
	capture *capture
	at      progress
}

// mark returns a mark at the end of what a stream has recorded.
func (c *capture) mark(s *stream) *captured {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &captured{c, maps.Clone(c.at[s])}
}

// waitCaptured makes s wait for a mark in a capture, which it joins. It is nil for an
// event that was recorded outside. The caller holds s.mu.
func (s *stream) waitCaptured(m *captured) error {
	if m == nil || s.capture != nil && s.capture != m.capture {
		return fmt.Errorf("host: %w: waiting for an event that was recorded outside of it", device.ErrCapturing)
	}
	c := m.capture
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return fmt.Errorf("host: %w: the event was recorded in one that has ended", device.ErrCapturing)
	}
	s.capture = c
	at := c.at[s]
	if at == nil {
		at = progress{}
		c.at[s] = at
	}
	for other, n := range m.at {
		at[other] = max(at[other], n)
	}
	return nil
}

// end ends the capture for all streams. It fails when the work of one is not before the
// end of the stream where it began.
func (c *capture) end(origin *stream) (err error) {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	for s, at := range c.at {
		s.mu.Lock()
		s.capture = nil
		s.mu.Unlock()
		if at[s] > c.at[origin][s] {
			err = fmt.Errorf("host: %w: the stream it began on does not wait for the last operation of another that joined it", device.ErrCapturing)
		}
	}
	return err
}

// CanCapture implements [device.Capturer].
func (d *Device) CanCapture() bool { return true }

// Capturing implements [device.Capturer].
func (d *Device) Capturing(s device.Stream) bool {
	hs, ok := streamOf(s)
	return ok && hs.capturing()
}

func (s *stream) capturing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.capture != nil
}

// Capture implements [device.Capturer].
func (d *Device) Capture(s device.Stream, fn func() error) (device.Graph, error) {
	d.mu.RLock()
	hs, err := d.ownStream(s)
	d.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	c := &capture{at: map[*stream]progress{hs: {}}}
	if err := hs.begin(c); err != nil {
		return nil, err
	}
	d.captures.Add(1)
	if err := func() (err error) {
		defer d.captures.Add(-1)
		defer func() { // also if fn panics
			if e := c.end(hs); err == nil {
				err = e
			}
		}()
		return fn()
	}(); err != nil {
		return nil, err
	}
	if err := d.open(); err != nil {
		return nil, err
	}
	g := &graph{dev: d, ops: c.ops}
	g.turned.L = &g.mu
	return g, nil
}

func (s *stream) begin(c *capture) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	s.capture = c
	return nil
}

// graph runs what was recorded one after the other, on the stream that it is launched on.
type graph struct {
	dev *Device
	ops []op

	mu       sync.Mutex
	turned   sync.Cond
	launched uint64
	done     uint64
	closed   bool
}

// Launch implements [device.Graph].
func (g *graph) Launch(s device.Stream) error {
	g.dev.mu.RLock()
	defer g.dev.mu.RUnlock()
	hs, err := g.dev.ownStream(s)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if err := hs.usable(); err != nil {
		return err
	}
	hs.append(op{kind: opGraph, graph: g, mark: g.launched})
	g.launched++
	return nil
}

// replay is a launch, when the stream has come to it.
func (g *graph) replay(launch uint64) (err error) {
	g.mu.Lock()
	for g.done < launch {
		g.turned.Wait()
	}
	g.mu.Unlock()
	for i := range g.ops {
		if e := g.ops[i].run(nil); err == nil {
			err = e
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done++
	g.turned.Broadcast()
	return err
}

// Close implements [device.Graph].
func (g *graph) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	return nil
}

var errCapturing = fmt.Errorf("host: %w: the stream is being captured", device.ErrCapturing)

var _ device.Capturer = (*Device)(nil)
