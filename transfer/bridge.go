package transfer

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
)

// bridges are the ways from other devices that an engine has made.
type bridges struct {
	mu     sync.Mutex
	idle   []*bridge
	busy   sync.WaitGroup
	closed bool
}

// bridge is a stream on each of two devices and, once it is needed, a ring of
// pinned slots between them. One copy at a time uses it.
type bridge struct {
	from, to device.Device
	out, in  device.Stream // on from, on to
	pool     *pinned.Pool
	slots    []bridgeSlot
}

type bridgeSlot struct {
	buffer  *pinned.Buffer
	out, in device.Event // the chunk has come from the one, has gone to the other
}

// A chunk of 4 MiB takes a hundred times as long as the calls that move it.
const (
	bridgeSlots     = 4
	bridgeSlotBytes = 4 << 20
)

func (l *bridges) get(to, from device.Device) (*bridge, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, errClosed
	}
	l.busy.Add(1)
	for i, b := range l.idle {
		if device.Same(b.from, from) {
			l.idle = append(l.idle[:i], l.idle[i+1:]...)
			l.mu.Unlock()
			return b, nil
		}
	}
	gone := l.gone()
	l.mu.Unlock()
	b := &bridge{from: from, to: to}
	err := gone.close()
	if err == nil {
		b.out, err = from.NewStream()
	}
	if err == nil {
		b.in, err = to.NewStream()
	}
	if err != nil {
		err = errors.Join(err, b.close())
		l.busy.Done()
		return nil, err
	}
	device.Label(b.out, "transfer to a peer")
	device.Label(b.in, "transfer from a peer")
	return b, nil
}

// gone takes the bridges out of idle whose other device was closed: nobody
// will ask for them again. The caller holds mu.
func (l *bridges) gone() *bridges {
	var gone bridges
	l.idle = slices.DeleteFunc(l.idle, func(b *bridge) bool {
		closed := errors.Is(b.out.Synchronize(), device.ErrClosed)
		if closed {
			gone.idle = append(gone.idle, b)
		}
		return closed
	})
	return &gone
}

func (l *bridges) put(b *bridge) {
	l.mu.Lock()
	l.idle = append(l.idle, b)
	l.mu.Unlock()
	l.busy.Done()
}

func (l *bridges) close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.busy.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, b := range l.idle {
		errs = append(errs, b.close())
	}
	l.idle = nil
	return errors.Join(errs...)
}

// settle waits until nothing is under way.
func (b *bridge) settle() error {
	return errors.Join(b.out.Synchronize(), b.in.Synchronize())
}

func (b *bridge) close() error {
	var errs []error
	for _, s := range []device.Stream{b.out, b.in} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	for _, s := range b.slots {
		for _, e := range []device.Event{s.out, s.in} {
			if e != nil {
				errs = append(errs, e.Close())
			}
		}
		if s.buffer != nil {
			errs = append(errs, s.buffer.Free())
		}
	}
	if b.pool != nil {
		errs = append(errs, b.pool.Close())
	}
	return errors.Join(errs...)
}

// straightBytes is what is queued at once between devices that reach each
// other: over NVLink a millisecond, which a context can wait.
const straightBytes = int64(256 << 20)

// straight copies between devices that reach each other.
func (b *bridge) straight(ctx context.Context, to device.PeerCopier, c PeerCopy) error {
	if c.Bytes == 0 {
		c.report(0)
	}
	for at := int64(0); at < c.Bytes; {
		n := min(straightBytes, c.Bytes-at)
		if err := to.CopyPeer(b.in, c.Dst.Add(at), c.From, c.Src.Add(at), n); err != nil {
			return err
		}
		// One part takes a millisecond and the wait some microseconds.
		if err := b.in.Synchronize(); err != nil {
			return err
		}
		at += n
		c.report(at)
		if at < c.Bytes {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare makes the slots.
func (b *bridge) prepare() (err error) {
	if b.slots != nil {
		return nil
	}
	if b.pool == nil {
		if b.pool, err = pinned.NewPool(b.to, pinned.Options{
			Name: "bridge", Budget: bridgeSlots * pagemem.RoundUp(bridgeSlotBytes),
			Flags: device.PinPortable, // for both devices
		}); err != nil {
			return err
		}
	}
	slots := make([]bridgeSlot, bridgeSlots)
	defer func() {
		if err == nil {
			b.slots = slots
			return
		}
		half := bridge{slots: slots}
		err = errors.Join(err, half.close())
	}()
	for i := range slots {
		if slots[i].buffer, err = b.pool.Alloc(context.Background(), bridgeSlotBytes); err != nil {
			return err
		}
		if slots[i].out, err = b.from.NewEvent(device.EventNoTiming); err != nil {
			return err
		}
		if slots[i].in, err = b.to.NewEvent(device.EventNoTiming); err != nil {
			return err
		}
	}
	return nil
}

// staged copies through the slots. While a chunk leaves the one device, the
// chunks before it go to the other.
func (b *bridge) staged(ctx context.Context, c PeerCopy) error {
	if err := b.prepare(); err != nil {
		return err
	}
	chunks := (c.Bytes + bridgeSlotBytes - 1) / bridgeSlotBytes
	part := func(k int64) (at int64, staged []byte) {
		at = k * bridgeSlotBytes
		return at, b.slots[k%bridgeSlots].buffer.Bytes()[:min(bridgeSlotBytes, c.Bytes-at)]
	}
	forward := func(k int64) error { // chunk k is on its way to the slot
		s := &b.slots[k%bridgeSlots]
		if err := s.out.Synchronize(); err != nil {
			return err
		}
		at, staged := part(k)
		if err := b.in.CopyH2D(c.Dst.Add(at), staged); err != nil {
			return err
		}
		return b.in.Record(s.in)
	}
	for k := range chunks {
		s := &b.slots[k%bridgeSlots]
		if k >= bridgeSlots {
			if err := s.in.Synchronize(); err != nil {
				return err
			}
			c.report((k - bridgeSlots + 1) * bridgeSlotBytes)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		at, staged := part(k)
		if err := b.out.CopyD2H(staged, c.Src.Add(at)); err != nil {
			return err
		}
		if err := b.out.Record(s.out); err != nil {
			return err
		}
		if k > 0 {
			if err := forward(k - 1); err != nil {
				return err
			}
		}
	}
	if chunks > 0 {
		if err := forward(chunks - 1); err != nil {
			return err
		}
	}
	if err := b.in.Synchronize(); err != nil {
		return err
	}
	c.report(c.Bytes)
	return nil
}
