package linkbench

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/units"
)

// ErrMemory: the machine has too little memory for a run of that size.
var ErrMemory = errors.New("not enough host memory")

// available is the host memory that may be used; tests set it.
var available = sysmem.Available

// overhead is host memory that a run takes whatever the size of its copies:
// rings of pinned memory for the copiers, most of all.
const overhead = 256 << 20

// hostBytes is the host memory of a run with copies of size bytes: pageable,
// pinned, and pinned once more to time that.
func hostBytes(info device.Info, size int64) int64 {
	n := 2*size + min(size, mostPinned)
	if info.Integrated { // device memory is host memory
		n += size
	}
	return n + min(overhead, 4*size)
}

// room returns an error unless there is memory for copies of size bytes.
func room(dev device.Device, size int64) error {
	info := dev.Info()
	memory, err := dev.Memory()
	if err != nil {
		return err
	}
	list := size / blockBytes * 8 // of the blocks that a kernel moves
	if size > memory.FreeBytes-list {
		return fmt.Errorf("%w: copies of %s need a little more than that, and %s are free",
			device.ErrOutOfMemory, units.Bytes(size), units.Bytes(memory.FreeBytes))
	}
	// Nothing available means that nothing is known.
	if free := available(); free > 0 && (size > free || hostBytes(info, size) > free) {
		return fmt.Errorf("%w: copies of %s need %s of it, and %s are available",
			ErrMemory, units.Bytes(size), units.Bytes(hostBytes(info, min(size, 1<<60))), units.Bytes(free))
	}
	return nil
}

// chooseSize returns the size of bulk copies: the one asked for, if there is
// room for it, or for 0 the default or the largest half, quarter and so on of it
// that has room, with the reason for that.
func chooseSize(dev device.Device, asked int64) (size int64, reason string, err error) {
	size = asked
	if asked == 0 {
		size = defaultSize
	}
	err = room(dev, size)
	if err == nil {
		return size, "", nil
	}
	if !errors.Is(err, ErrMemory) && !errors.Is(err, device.ErrOutOfMemory) {
		return 0, "", err
	}
	smaller := int64(defaultSize)
	for smaller >= size || smaller >= MinSize && room(dev, smaller) != nil {
		smaller /= 2
	}
	switch {
	case smaller < MinSize:
		return 0, "", err
	case asked != 0:
		return 0, "", fmt.Errorf("%w; --size %s fits", err, units.ExactBytes(smaller))
	}
	return smaller, err.Error(), nil
}
