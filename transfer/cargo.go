package transfer

import (
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/ntcopy"
)

// cargo is what a staged task moves: a number of bytes, between some place on
// the host's side and the device, that can be cut into chunks. Chunks are
// moved in any order and by several goroutines at once.
type cargo interface {
	// load prepares the chunk of n bytes at offset in a slot of at least that
	// size and returns the part of the slot that holds it. On the way to the
	// device it fills it.
	load(slot []byte, offset, n int64) ([]byte, error)

	// queue queues the transfer between a chunk in its slot and the device.
	queue(s device.Stream, staged []byte, offset int64) error

	// store delivers a chunk whose transfer is done. On the way to the device
	// there is nothing left to do.
	store(staged []byte, offset int64) error
}

// memoryCargo is a plain copy of host memory.
type memoryCargo struct {
	Copy
	pastCaches bool // how the processor copies
}

func (c *memoryCargo) load(slot []byte, offset, n int64) ([]byte, error) {
	staged := slot[:n]
	if !c.ToHost {
		c.move(staged, c.Host[offset:])
	}
	return staged, nil
}

func (c *memoryCargo) queue(s device.Stream, staged []byte, offset int64) error {
	return c.Copy.queue(s, staged, offset)
}

func (c *memoryCargo) store(staged []byte, offset int64) error {
	if c.ToHost {
		c.move(c.Host[offset:], staged)
	}
	return nil
}

func (c *memoryCargo) move(dst, src []byte) {
	if c.pastCaches {
		ntcopy.Copy(dst, src)
	} else {
		copy(dst, src)
	}
}
