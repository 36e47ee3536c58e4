package procbench

import (
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// way is a copy between host memory of a process and its device memory.
type way struct {
	host   []byte
	staged bool
	toHost bool
}

// copy copies once, and makes first what that needs.
func (c *child) copy(w way) error {
	if err := c.ready(w.staged); err != nil {
		return err
	}
	if w.staged {
		return c.engine.Do(c.ctx, transfer.Copy{Host: w.host, Device: c.ptr, ToHost: w.toHost})
	}
	var err error
	if w.toHost {
		err = c.stream.CopyD2H(w.host, c.ptr)
	} else {
		err = c.stream.CopyH2D(c.ptr, w.host)
	}
	if err != nil {
		return err
	}
	return c.stream.Synchronize()
}

// ready makes what copies need and is not there yet.
func (c *child) ready(staged bool) (err error) {
	if c.ptr == 0 {
		if c.ptr, err = c.dev.Alloc(c.size); err != nil {
			return fmt.Errorf("%d bytes of device memory are needed in each process (see --size): %w", c.size, err)
		}
		c.later(func() error { return c.dev.Free(c.ptr) })
	}
	switch {
	case staged && c.engine == nil:
		// Without a bound of its own: an engine takes only what its rings need.
		if c.rings, err = pinned.NewPool(c.dev, pinned.Options{Budget: 1 << 40}); err != nil {
			return err
		}
		c.later(c.rings.Close)
		if c.engine, err = transfer.New(c.dev, transfer.Options{Pool: c.rings, StageAbove: 1}); err != nil {
			return err
		}
		c.later(c.engine.Close)
	case !staged && c.stream == nil:
		if c.stream, err = c.dev.NewStream(); err != nil {
			return err
		}
		c.later(c.stream.Close)
	}
	return nil
}

// first times a copy with all that it needs, and checks its bytes. A copy to
// the device comes before the one back.
func (c *child) first(w way) (reply, error) {
	if w.toHost {
		clear(w.host)
	}
	start := time.Now()
	if err := c.copy(w); err != nil {
		return reply{}, err
	}
	took := time.Since(start)
	return reply{Took: took}, c.verify(w)
}

// verify checks that a copy has arrived.
func (c *child) verify(w way) error {
	// Where nothing can be pinned an engine copies plainly, and says nothing.
	if w.staged && c.rings.Stats().ActiveBytes == 0 {
		return fmt.Errorf("no memory could be pinned to stage in: %w", device.ErrPinLimit)
	}
	if w.toHost {
		return newPattern(c.seed).next(w.host)
	}
	if err := c.ready(false); err != nil {
		return err
	}
	p := newPattern(c.seed)
	back := make([]byte, min(c.size, 4*compareBytes))
	for at := int64(0); at < c.size; at += int64(len(back)) {
		part := back[:min(int64(len(back)), c.size-at)]
		clear(part)
		if err := c.readBack(part, at); err != nil {
			return err
		}
		if err := p.next(part); err != nil {
			return err
		}
	}
	return nil
}

// readBack reads device memory the plain way.
func (c *child) readBack(part []byte, at int64) error {
	if err := c.stream.CopyD2H(part, c.ptr.Add(at)); err != nil {
		return err
	}
	return c.stream.Synchronize()
}

// check copies there and back once, with the destinations wiped, and compares.
func (c *child) check(w way) error {
	if err := c.ready(false); err != nil {
		return err
	}
	if err := errors.Join(c.stream.Memset(c.ptr, 0, c.size), c.stream.Synchronize()); err != nil {
		return err
	}
	for _, toHost := range directions {
		w.toHost = toHost
		if _, err := c.first(w); err != nil {
			return fmt.Errorf("%s: %w", direction(toHost), err)
		}
	}
	return nil
}

// around is how long a process copies at least before and after a copy that it
// times together with others: longer than the others take to be told.
const around = 2 * time.Millisecond

// timed copies once to warm up and then times a copy; together with others it
// surrounds the timed one.
func (c *child) timed(w way, together bool) (rep reply, err error) {
	surround := func() error {
		for start := time.Now(); ; {
			if err := c.copy(w); err != nil {
				return err
			}
			rep.Copies++
			if !together || time.Since(start) >= around {
				return nil
			}
		}
	}
	rep.Begin = time.Now().UnixNano()
	if err := surround(); err != nil {
		return rep, err
	}
	start := time.Now()
	if err := c.copy(w); err != nil {
		return rep, err
	}
	rep.Took, rep.Start = max(time.Since(start), 1), start.UnixNano()
	rep.Copies++
	if together {
		if err := surround(); err != nil {
			return rep, err
		}
	}
	rep.End = max(time.Now().UnixNano(), rep.Begin+1)
	return rep, nil
}
