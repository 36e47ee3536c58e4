package staging

import (
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/ntcopy"
)

// Payload is what a stager moves: a number of bytes, between some place on the
// host's side and the device, that can be cut into chunks. Chunks are moved in
// any order and by several goroutines at once.
type Payload interface {
	// Load prepares the chunk of n bytes at offset in a slot of at least that
	// size and returns the part of the slot that holds it. On the way to the
	// device it fills it.
	Load(slot []byte, offset, n int64) ([]byte, error)

	// Queue queues the transfer between a chunk in its slot and the device.
	Queue(s device.Stream, staged []byte, offset int64) error

	// Store delivers a chunk whose transfer is done. On the way to the device
	// there is nothing left to do.
	Store(staged []byte, offset int64) error
}

// Copy is a copy between host memory and the device.
type Copy struct {
	Host   []byte
	Device device.Ptr
	ToHost bool
}

// Queue queues a part of the copy on s, by way of host.
func (c *Copy) Queue(s device.Stream, host []byte, offset int64) error {
	if c.ToHost {
		return s.CopyD2H(host, c.Device.Add(offset))
	}
	return s.CopyH2D(c.Device.Add(offset), host)
}

// memory is the payload of a plain copy of host memory.
type memory struct {
	Copy
	pastCaches bool // how the processor copies
}

func (c *memory) Load(slot []byte, offset, n int64) ([]byte, error) {
	staged := slot[:n]
	if !c.ToHost {
		c.move(staged, c.Host[offset:])
	}
	return staged, nil
}

func (c *memory) Store(staged []byte, offset int64) error {
	if c.ToHost {
		c.move(c.Host[offset:], staged)
	}
	return nil
}

func (c *memory) move(dst, src []byte) {
	if c.pastCaches {
		ntcopy.Copy(dst, src)
	} else {
		copy(dst, src)
	}
}
