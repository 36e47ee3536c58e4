package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// await waits on the host until a copy that has no queue of its own may begin:
// until after is passed, and all that is queued on on so far is done. Either
// may be nil.
func (e *Engine) await(ctx context.Context, on device.Stream, after device.Event) error {
	if after != nil {
		if err := device.Wait(ctx, after); err != nil {
			return before(ctx, err)
		}
	}
	if on == nil {
		return nil
	}
	mark, err := e.marks.get(e.dev)
	if err != nil {
		return err
	}
	err = waitBehind(ctx, on, mark)
	e.marks.put(mark)
	return before(ctx, err)
}

// awaitOther is await for a stream of another device, which a copy comes from.
func awaitOther(ctx context.Context, on device.Stream) error {
	mark, err := on.Device().NewEvent(markFlags)
	if err != nil {
		return before(ctx, err)
	}
	defer mark.Close()
	return before(ctx, waitBehind(ctx, on, mark))
}

// waitBehind waits for all that is queued on s, by a mark of its device.
func waitBehind(ctx context.Context, s device.Stream, mark device.Event) error {
	if err := s.Record(mark); err != nil {
		return err
	}
	return device.Wait(ctx, mark)
}

// before says that an error is not the copy's own.
func before(ctx context.Context, err error) error {
	if err == nil || err == ctx.Err() {
		return err
	}
	return fmt.Errorf("transfer: the work that the copy waits for: %w", err)
}

// queue puts a copy on the stream that it is ordered by.
func (e *Engine) queue(c Copy) error {
	if e.closed.Load() {
		return errClosed
	}
	if c.After != nil {
		if err := c.On.Wait(c.After); err != nil {
			return err
		}
	}
	staged := c.staged()
	return staged.Queue(c.On, c.Host, 0)
}

// Nobody knows how long the work before a mark takes: who waits may sleep.
const markFlags = device.EventNoTiming | device.EventBlockingSync

// marks are events of the engine's own for the streams of others.
type marks struct {
	mu     sync.Mutex
	idle   []device.Event
	closed bool
}

func (m *marks) get(dev device.Device) (device.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	if n := len(m.idle); n > 0 {
		mark := m.idle[n-1]
		m.idle = m.idle[:n-1]
		return mark, nil
	}
	return dev.NewEvent(markFlags)
}

// put takes a mark back. It may be one that is not passed yet: the next who
// records it gives it a new meaning.
func (m *marks) put(mark device.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		mark.Close()
		return
	}
	m.idle = append(m.idle, mark)
}

func (m *marks) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	var errs []error
	for _, mark := range m.idle {
		errs = append(errs, mark.Close())
	}
	m.idle = nil
	return errors.Join(errs...)
}
