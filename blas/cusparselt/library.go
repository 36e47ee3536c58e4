package cusparselt

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// Library is cuSPARSELt for one device. Its methods, and those of its plans, are safe for
// concurrent use.
type Library struct {
	native  device.Native
	ranges  device.RangeChecker
	version int

	mu     sync.Mutex
	handle objects // nil when closed
	plans  map[blas.Gemm]*Plan
}

// Open makes a Library for dev. It fails with [device.ErrNotSupported] when dev is not a
// CUDA device or cuSPARSELt is not installed.
func Open(dev device.Device) (*Library, error) {
	native, isNative := device.As[device.Native](dev)
	ranges, canCheck := device.As[device.RangeChecker](dev)
	if !isNative || !canCheck || native.API() != device.CUDA {
		return nil, fmt.Errorf("cusparselt: %w: %s is not a CUDA device", device.ErrNotSupported, dev.Info().ID)
	}
	version, err := library()
	if err != nil {
		return nil, err
	}
	l := &Library{native: native, ranges: ranges, version: version, plans: map[blas.Gemm]*Plan{}}
	l.handle, err = newObjects(1)
	if err == nil {
		err = native.WithContext(func() error { return check("cusparseLtInit", api.init.Call(l.handle.at(0))) })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cusparselt: %w", err), l.handle.free())
	}
	return l, nil
}

// Version is the library's name and version.
func (l *Library) Version() string { return "cuSPARSELt " + dl.VersionText(l.version) }

// Close lets go of the library's memory. Its plans do not run afterwards. A second Close
// does nothing.
func (l *Library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handle == nil {
		return nil
	}
	err := l.native.WithContext(func() error {
		var errs []error
		for _, p := range l.plans {
			errs = append(errs, p.destroy())
		}
		return errors.Join(append(errs, check("cusparseLtDestroy", api.destroy.Call(l.handle.at(0))))...)
	})
	err = errors.Join(err, l.handle.free())
	l.handle = nil
	clear(l.plans)
	return err
}

// objects are some of the library's, in memory that the garbage collector leaves alone.
type objects []byte

func newObjects(n int64) (objects, error) {
	b, err := pagemem.Map(n * objectBytes)
	return objects(b), err
}

// at is the address of one.
func (o objects) at(i int) uintptr { return uintptr(unsafe.Pointer(&o[i*objectBytes])) }

func (o objects) free() error {
	if o == nil {
		return nil
	}
	return pagemem.Unmap(o)
}
