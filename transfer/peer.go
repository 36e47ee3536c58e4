package transfer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
)

// PeerCopy describes a copy from the memory of another device, of whichever
// backend, to that of the engine's device.
type PeerCopy struct {
	Dst   device.Ptr    // in the engine's device
	From  device.Device // the other device
	Src   device.Ptr    // in From
	Bytes int64

	// Staged sends the bytes through pinned memory even where the devices
	// reach each other.
	Staged bool

	// After and On delay the copy as they do a [Copy]; the call returns when it is
	// done. They may belong to either device.
	After device.Event
	On    device.Stream

	// Progress, if set, is called with the bytes copied so far, from the
	// goroutine that called, the last time with done == total.
	Progress func(done, total int64)
}

// PeerAccess reports whether [Engine.Peer] sends bytes straight from from to
// the engine's device, over NVLink or PCIe, and not through host memory.
func (e *Engine) PeerAccess(from device.Device) bool {
	return e.can.peers != nil && from != nil && e.can.peers.PeerAccess(from)
}

// Peer carries out c and returns when it is done: straight where the devices
// have access to each other, and otherwise through a ring of pinned slots,
// both links at work at once. When ctx ends first, Peer stops at the next
// chunk and returns ctx's error.
func (e *Engine) Peer(ctx context.Context, c PeerCopy) (err error) {
	if c.From == nil || c.Bytes < 0 ||
		uint64(c.Src) > math.MaxUint64-uint64(c.Bytes) || uint64(c.Dst) > math.MaxUint64-uint64(c.Bytes) {
		return fmt.Errorf("transfer: peer: %w: %d bytes from %#x to %#x", device.ErrArgument, c.Bytes, uint64(c.Src), uint64(c.Dst))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.pinner == nil && !e.PeerAccess(c.From) {
		return fmt.Errorf("transfer: peer: %w: %s can neither reach %s nor pin memory to stage through",
			device.ErrNotSupported, e.dev.Info().ID, c.From.Info().ID)
	}
	on := c.On
	if on != nil && device.Same(on.Device(), c.From) {
		if err := awaitOther(ctx, on); err != nil {
			return err
		}
		on = nil
	}
	if err := e.await(ctx, on, c.After); err != nil {
		return err
	}
	b, err := e.bridges.get(e.dev, c.From)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done { // an error, or Progress panicked
			err = errors.Join(err, b.settle())
		}
		e.bridges.put(b)
	}()
	straight := !c.Staged && e.PeerAccess(c.From)
	w := wayStaged
	if straight {
		w = wayPeer
	}
	t := e.begin(peerToDevice, w, c.Bytes)
	defer func() { t.end(ctx, c.Bytes, err) }()
	if straight {
		err = b.straight(ctx, e.can.peers, c)
	} else {
		err = b.staged(ctx, c)
	}
	done = err == nil
	return err
}

func (c *PeerCopy) report(done int64) {
	if c.Progress != nil {
		c.Progress(done, c.Bytes)
	}
}
