package transfer

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// streamPool holds the streams that copy straight from the caller's memory.
type streamPool struct {
	dev device.Device

	mu     sync.Mutex
	idle   []*copyStream
	parked []*copyStream // that describe work on others' streams; the oldest first
	busy   int
	closed bool
	empty  sync.Cond // signalled when busy drops to zero
}

// copyStream is a stream for one copy at a time, with an event for each part in
// flight.
type copyStream struct {
	stream device.Stream
	events [rowsInFlight]device.Event // a plain copy takes two

	lists *lists // nil until a kernel copies rows
}

// partBytes is how much of a straight copy is queued at once: large enough
// that the engine never runs dry, small enough that a cancelled context stops
// it within milliseconds.
const partBytes = 64 << 20

func (p *streamPool) copy(ctx context.Context, c Copy) error {
	return p.use(c.Host, func(s *copyStream) error {
		if c.After != nil {
			if err := s.stream.Wait(c.After); err != nil {
				return err
			}
		}
		return s.copy(ctx, c)
	})
}

// use runs fn with a stream of its own. When it returns, nothing that fn queued
// uses host any more.
func (p *streamPool) use(host []byte, fn func(*copyStream) error) (err error) {
	s, err := p.get()
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done { // an error, or progress panicked
			err = errors.Join(err, s.synchronize())
		}
		runtime.KeepAlive(host) // the driver may use it to the end
		p.leave(s)
	}()
	err = fn(s)
	done = err == nil
	return err
}

// synchronize waits for all that was queued for s.
func (s *copyStream) synchronize() error {
	errs := []error{s.stream.Synchronize()}
	if s.lists != nil {
		for _, stream := range s.lists.streams {
			errs = append(errs, stream.Synchronize())
		}
	}
	return errors.Join(errs...)
}

func (s *copyStream) copy(ctx context.Context, c Copy) error {
	total, staged := int64(len(c.Host)), c.staged()
	if total <= partBytes {
		if err := staged.Queue(s.stream, c.Host, 0); err != nil {
			return err
		}
		if err := s.stream.Synchronize(); err != nil {
			return err
		}
		c.report(total)
		return nil
	}
	// Two parts are in flight: while one is waited for, the next is queued.
	var waited int64
	wait := func(part int64) error {
		if err := s.events[part%2].Synchronize(); err != nil {
			return err
		}
		waited = min((part+1)*partBytes, total)
		c.report(waited)
		return ctx.Err()
	}
	parts := (total + partBytes - 1) / partBytes
	for part := range parts {
		if part >= 2 {
			if err := wait(part - 2); err != nil {
				return err
			}
		}
		offset := part * partBytes
		if err := staged.Queue(s.stream, c.Host[offset:min(offset+partBytes, total)], offset); err != nil {
			return err
		}
		if err := s.stream.Record(s.events[part%2]); err != nil {
			return err
		}
	}
	if err := wait(parts - 2); err != nil {
		return err
	}
	if err := s.events[(parts-1)%2].Synchronize(); err != nil {
		return err
	}
	c.report(total)
	return nil
}

func (p *streamPool) get() (*copyStream, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	p.busy++
	if n := len(p.idle); n > 0 {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	s, err := p.make()
	if err != nil {
		p.leave(nil)
	}
	return s, err
}

// mostParked is how many batches may be queued before the next one waits for
// the oldest.
const mostParked = 16

// getParked is get for work on a stream of somebody else's: it takes one that
// was used for such work before, if that is done. Where there are many, it waits
// for the oldest.
func (p *streamPool) getParked(ctx context.Context) (*copyStream, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	if len(p.parked) == 0 || len(p.parked) < mostParked && !p.parked[0].done() {
		p.mu.Unlock()
		return p.get()
	}
	p.busy++
	s := p.parked[0]
	p.parked = slices.Delete(p.parked, 0, 1)
	p.mu.Unlock()
	if err := s.settle(ctx); err != nil {
		p.park(s)
		return nil, err
	}
	return s, nil
}

// park is leave for a stream that getParked gave.
func (p *streamPool) park(s *copyStream) {
	p.mu.Lock()
	p.parked = append(p.parked, s)
	p.mu.Unlock()
	p.leave(nil)
}

// done reports whether the work behind the marks of s is over.
func (s *copyStream) done() bool {
	for _, e := range s.events {
		if done, _ := e.Done(); !done {
			return false
		}
	}
	return true
}

// settle waits for the work behind the marks of s, at most until ctx ends.
// Errors of that work are not those of the next.
func (s *copyStream) settle(ctx context.Context) error {
	for _, e := range s.events {
		if err := device.Wait(ctx, e); err != nil && (err == ctx.Err() || errors.Is(err, device.ErrClosed)) {
			return err
		}
	}
	return nil
}

func (p *streamPool) make() (*copyStream, error) {
	stream, err := p.dev.NewStream()
	if err != nil {
		return nil, err
	}
	device.Label(stream, "transfer plain")
	s := &copyStream{stream: stream}
	for i := range s.events {
		if s.events[i], err = p.dev.NewEvent(device.EventNoTiming); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// leave ends one use; s, if any, becomes idle.
func (p *streamPool) leave(s *copyStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s != nil {
		p.idle = append(p.idle, s)
	}
	p.busy--
	if p.busy == 0 && p.closed {
		p.empty.Broadcast()
	}
}

func (p *streamPool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.empty.L == nil {
		p.empty.L = &p.mu
	}
	for p.busy > 0 {
		p.empty.Wait()
	}
	var errs []error
	for _, s := range append(p.idle, p.parked...) {
		_ = s.settle(context.Background()) // kernels may still read its lists
		errs = append(errs, s.close(), s.lists.close(p.dev))
	}
	p.idle, p.parked = nil, nil
	return errors.Join(errs...)
}

func (s *copyStream) close() error {
	errs := []error{s.stream.Close()}
	for _, e := range s.events {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}
