package transfer

import (
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
)

// Memory is a range of host or device memory: one side of a [Batch] or [Box].
// Make it with [Host] or [Device].
type Memory struct {
	host   []byte
	device device.Ptr
	bytes  int64
	onHost bool
}

// Host is host memory, pinned or not.
func Host(b []byte) Memory { return Memory{host: b, bytes: int64(len(b)), onHost: true} }

// Device is n bytes of memory at p of the engine's device.
func Device(p device.Ptr, n int64) Memory { return Memory{device: p, bytes: n} }

func (m Memory) String() string {
	if m.onHost {
		return fmt.Sprintf("%d bytes of host memory", m.bytes)
	}
	return fmt.Sprintf("%d bytes of device memory at %#x", m.bytes, uint64(m.device))
}

func (m Memory) check() error {
	if m.bytes < 0 || !m.onHost && uint64(m.device) > math.MaxUint64-uint64(m.bytes) {
		return fmt.Errorf("%w: %s", device.ErrArgument, m)
	}
	return nil
}

// direction of a copy between two memories.
type direction uint8

const (
	hostToDevice direction = iota
	deviceToHost
	deviceToDevice
	peerToDevice // from another device
	directions   // how many there are
)

func (d direction) String() string { return [...]string{"h2d", "d2h", "d2d", "p2p"}[d] }

// directionOf tells where bytes go from src to dst.
func directionOf(dst, src Memory) (direction, error) {
	if err := dst.check(); err != nil {
		return 0, err
	}
	if err := src.check(); err != nil {
		return 0, err
	}
	switch {
	case dst.onHost && src.onHost:
		return 0, fmt.Errorf("%w: both sides are host memory", device.ErrArgument)
	case dst.onHost:
		return deviceToHost, nil
	case src.onHost:
		return hostToDevice, nil
	}
	return deviceToDevice, nil
}
