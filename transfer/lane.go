package transfer

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// lanes copy straight from the caller's memory.
type lanes struct {
	dev device.Device

	mu     sync.Mutex
	idle   []*lane
	busy   int
	closed bool
	empty  sync.Cond // signalled when busy drops to zero
}

// lane is a stream for one copy at a time, with an event for each part in
// flight.
type lane struct {
	stream device.Stream
	events [2]device.Event

	lists *lists // nil until a kernel copies rows
}

// partBytes is how much of a straight copy is queued at once: large enough
// that the engine never runs dry, small enough that a cancelled context stops
// it within milliseconds.
const partBytes = 64 << 20

func (l *lanes) copy(ctx context.Context, c Copy) error {
	return l.use(c.Host, func(ln *lane) error { return ln.copy(ctx, c) })
}

// use runs fn with a lane of its own. When it returns, nothing that fn queued
// uses host any more.
func (l *lanes) use(host []byte, fn func(*lane) error) (err error) {
	ln, err := l.get()
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done { // an error, or progress panicked
			if syncErr := ln.stream.Synchronize(); syncErr != nil {
				err = errors.Join(err, syncErr)
			}
		}
		runtime.KeepAlive(host) // the driver may use it to the end
		l.leave(ln)
	}()
	err = fn(ln)
	done = err == nil
	return err
}

func (ln *lane) copy(ctx context.Context, c Copy) error {
	total := int64(len(c.Host))
	if total <= partBytes {
		if err := c.queue(ln.stream, c.Host, 0); err != nil {
			return err
		}
		if err := ln.stream.Synchronize(); err != nil {
			return err
		}
		c.report(total)
		return nil
	}
	// Two parts are in flight: while one is waited for, the next is queued.
	var waited int64
	wait := func(part int64) error {
		if err := ln.events[part%2].Synchronize(); err != nil {
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
		if err := c.queue(ln.stream, c.Host[offset:min(offset+partBytes, total)], offset); err != nil {
			return err
		}
		if err := ln.stream.Record(ln.events[part%2]); err != nil {
			return err
		}
	}
	if err := wait(parts - 2); err != nil {
		return err
	}
	if err := ln.events[(parts-1)%2].Synchronize(); err != nil {
		return err
	}
	c.report(total)
	return nil
}

func (l *lanes) get() (*lane, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, errClosed
	}
	l.busy++
	if n := len(l.idle); n > 0 {
		ln := l.idle[n-1]
		l.idle = l.idle[:n-1]
		l.mu.Unlock()
		return ln, nil
	}
	l.mu.Unlock()
	ln, err := l.make()
	if err != nil {
		l.leave(nil)
	}
	return ln, err
}

func (l *lanes) make() (*lane, error) {
	stream, err := l.dev.NewStream()
	if err != nil {
		return nil, err
	}
	ln := &lane{stream: stream}
	for i := range ln.events {
		if ln.events[i], err = l.dev.NewEvent(device.EventNoTiming); err != nil {
			return nil, errors.Join(err, ln.close())
		}
	}
	return ln, nil
}

// leave ends one use; ln, if any, becomes idle.
func (l *lanes) leave(ln *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln != nil {
		l.idle = append(l.idle, ln)
	}
	l.busy--
	if l.busy == 0 && l.closed {
		l.empty.Broadcast()
	}
}

func (l *lanes) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.empty.L == nil {
		l.empty.L = &l.mu
	}
	for l.busy > 0 {
		l.empty.Wait()
	}
	var errs []error
	for _, ln := range l.idle {
		errs = append(errs, ln.close(), ln.lists.close(l.dev))
	}
	l.idle = nil
	return errors.Join(errs...)
}

func (ln *lane) close() error {
	errs := []error{ln.stream.Close()}
	for _, e := range ln.events {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	return errors.Join(errs...)
}
