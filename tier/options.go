package tier

import (
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/vram"
)

// Options tune a [Store]. The zero value keeps arrays on the device and in host
// memory.
type Options struct {
	// Pool gives the device memory. The store frees some of it when others ask
	// the pool for more than is left. It must outlive the store. Default: a pool
	// of the store's own, of DeviceBytes and a thirty-second and 8 MiB more, for
	// memory in pieces.
	Pool *vram.Pool

	// DeviceBytes is the most device memory that arrays take, in bytes, rounded up
	// to whole pages. An array takes whole pages of every tier. Default:
	// the budget of Pool, or nine tenths of what the device has free.
	DeviceBytes int64

	// HostBytes is the most pinned memory that arrays take, in bytes, on the
	// device's own NUMA node. It is a promise: nothing of it is exceeded, not
	// even for a moment. Default: a quarter of the memory that this process may
	// still use. Negative: none.
	HostBytes int64

	// FarNodes are NUMA nodes whose memory is a tier of its own, and FarBytes
	// the most of it that arrays take, in bytes, on each. Arrays that are only
	// streamed (see [Store.Sequential]) go there first, others when HostBytes is
	// used up. Default: the nodes without processors, which is what CXL memory
	// looks like, with half of their memory.
	FarNodes []int
	FarBytes int64

	// Files are the tier below host memory. An array passes through host memory
	// on its way, so HostBytes has to hold some of the largest. Default: none.
	Files Files

	// WindowBytes is how far the store brings arrays in ahead of their use, in
	// bytes, and how far ahead it writes back what will have to leave. It is
	// taken from DeviceBytes: more hides longer latencies, less leaves more for
	// what stays. A program that runs ahead of the device gets half of it. Range: up to half of DeviceBytes. Default: two of the
	// largest arrays and at least 32 MiB, as far as a sixteenth of DeviceBytes or
	// two arrays go.
	WindowBytes int64

	// WaitLimit is how long a use waits while nothing moves and nobody releases a
	// lease; it then fails with a [*RoomError]. Uses that wait for each other's
	// leases end so, whatever their contexts. Default: 0, until the context ends.
	WaitLimit time.Duration

	// Purpose is what the memory counts as in Pool. Default: vram.Other.
	Purpose vram.Purpose
}

const (
	leastWindow = 32 << 20
	windowOf    = 2 // arrays
)

func (o Options) withDefaults(dev device.Device) (Options, error) {
	if o.DeviceBytes < 0 || o.FarBytes < 0 || o.WindowBytes < 0 || o.WaitLimit < 0 {
		return o, fmt.Errorf("tier: %w: negative option: %d device bytes, %d far bytes, window of %d bytes, wait of %v",
			device.ErrArgument, o.DeviceBytes, o.FarBytes, o.WindowBytes, o.WaitLimit)
	}
	if o.DeviceBytes == 0 && o.Pool != nil {
		o.DeviceBytes = o.Pool.Stats().Budget
	}
	if o.DeviceBytes == 0 {
		m, err := dev.Memory()
		if err != nil {
			return o, fmt.Errorf("tier: %w", err)
		}
		o.DeviceBytes = m.FreeBytes / 10 * 9
	}
	o.DeviceBytes = pagemem.RoundUp(o.DeviceBytes)
	if o.HostBytes == 0 {
		o.HostBytes = max(sysmem.Available()/4, 64<<20)
	}
	o.HostBytes = max(o.HostBytes, 0)
	if o.WindowBytes > o.DeviceBytes/2 {
		return o, fmt.Errorf("tier: %w: a window of %d bytes is more than half of %d", device.ErrArgument, o.WindowBytes, o.DeviceBytes)
	}
	return o, nil
}
