package kernels

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// Set is the kernels of one device. Its methods are safe for concurrent use.
type Set struct {
	dev device.Device

	caller  device.Caller            // where kernels are Go functions; else nil,
	module  device.Module            // and where they are compiled ones, this
	kernels map[string]device.Kernel // and these

	multiprocessors int // of the device; 0 where that is unknown

	mu     sync.RWMutex // held for reading while work is queued
	closed bool
}

// Load prepares the kernels of dev, which must stay open for longer than the
// Set. It fails with [device.ErrNotSupported] when dev is neither a
// [device.Launcher] nor a [device.Caller], and with the driver's error when
// the device code does not load.
func Load(dev device.Device) (*Set, error) {
	if launcher, ok := device.As[device.Launcher](dev); ok {
		return loadModule(dev, launcher)
	}
	if caller, ok := device.As[device.Caller](dev); ok {
		return &Set{dev: dev, caller: caller}, nil
	}
	return nil, fmt.Errorf("kernels: %w: it runs neither compiled kernels nor Go functions", device.ErrNotSupported)
}

// Close unloads compiled kernels; for that it waits for all queued work of the
// device, and returns its error. Later calls fail with [device.ErrClosed]; a
// second Close does nothing.
func (k *Set) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	if k.module == nil {
		return nil
	}
	err := k.dev.Synchronize()
	if errors.Is(err, device.ErrClosed) {
		return nil // the module went with the device
	}
	return errors.Join(err, k.module.Close())
}

// job is one checked call, ready to be queued in either way.
type job interface {
	launch(k *Set, s device.Stream) error
	call(c device.Caller, s device.Stream) error
}

// enqueue queues j; nil is no work.
func (k *Set) enqueue(s device.Stream, j job) error {
	if s == nil {
		return fmt.Errorf("kernels: %w: no stream", device.ErrArgument)
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	switch {
	case k.closed:
		return fmt.Errorf("kernels: %w", device.ErrClosed)
	case j == nil:
		return nil
	case k.module != nil:
		return j.launch(k, s)
	}
	return j.call(k.caller, s)
}
