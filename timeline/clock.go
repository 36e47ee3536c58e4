package timeline

import (
	"errors"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// A device tells only how long after another an event was passed. So an anchor is
// recorded from time to time: an event of which it is known when it was passed by the
// host's clock, to within the time that recording and waiting for it took. Work is
// measured from the anchor that was the newest when it was queued.
//
// Clocks drift apart: two that differ by 50 parts in a million do so by 12 µs in a
// quarter of a second, and CUDA gives the time between two events as a float32, which
// has steps of 60 µs after a quarter of an hour. Hence new anchors.
const (
	anchorEvery = 250 * time.Millisecond
	anchorTries = 4
	anchorGood  = 20 * time.Microsecond // nothing closer is looked for
)

// drift is how fast clocks are thought to part, one in so many.
const drift = 20_000

// anchor is an event that was passed at a known time.
type anchor struct {
	event device.Event
	at    int64 // by the host's clock: the middle of what it may be
	error int64 // half of that
}

// worse reports whether a is known less well than an older anchor is now. The host may
// have had something else to do meanwhile.
func (a *anchor) worse(old *anchor) bool { return a.error > old.error+(a.at-old.at)/drift }

// clock makes anchors of one device. One goroutine at a time makes them.
type clock struct {
	stream device.Stream
	dev    device.Device
	now    func() int64

	mu    sync.Mutex
	spare []device.Event
}

func newClock(dev device.Device, now func() int64) (*clock, error) {
	s, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	return &clock{stream: s, dev: dev, now: now}, nil
}

// make records an anchor: of a few, the one that is known best.
func (c *clock) make() (best *anchor, err error) {
	for range anchorTries {
		e, err := c.event()
		if err != nil {
			return best, err
		}
		before := c.now()
		err = errors.Join(c.stream.Record(e), e.Synchronize())
		after := c.now()
		if err != nil {
			c.reuse(e)
			return best, err
		}
		a := &anchor{event: e, at: before + (after-before)/2, error: (after - before + 1) / 2}
		if best != nil && best.error <= a.error {
			c.reuse(e)
			continue
		}
		if best != nil {
			c.reuse(best.event)
		}
		best = a
		if 2*best.error <= int64(anchorGood) {
			break
		}
	}
	return best, nil
}

func (c *clock) event() (device.Event, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.spare); n > 0 {
		e := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return e, nil
	}
	return c.dev.NewEvent(0)
}

// reuse takes back the event of an anchor that nothing is measured from any more.
func (c *clock) reuse(e device.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spare = append(c.spare, e)
}

func (c *clock) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := []error{c.stream.Close()}
	for _, e := range c.spare {
		errs = append(errs, e.Close())
	}
	c.spare = nil
	return errors.Join(errs...)
}
