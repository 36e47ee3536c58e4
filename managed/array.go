package managed

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// Element is what an array is made of: numbers, which host and device lay out
// alike.
type Element interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Options say how an array is made. The zero value works.
type Options struct {
	// Advice says how the array will be used. Default: none.
	Advice device.Advice

	// Oversubscribe allows an array for which the device has no room beside all
	// else: see [device.ManagedOptions]. Default: such an array is refused.
	Oversubscribe bool
}

// Array is an array of managed memory. All its methods are safe for concurrent
// use; its elements are memory like any other.
type Array[T Element] struct {
	dev     device.Device
	manager device.Manager

	mu   sync.RWMutex // held for writing by Free
	ptr  device.Ptr   // 0: freed
	data []T
	raw  int64 // bytes
}

// New makes an array of n > 0 elements on dev. Their values are undefined. It
// fails with [device.ErrNotSupported] on a device without managed memory, and with
// [device.ErrOutOfMemory] where there is no room. Free it before dev is closed.
func New[T Element](dev device.Device, n int, o Options) (*Array[T], error) {
	var element T
	size := int64(unsafe.Sizeof(element))
	if n <= 0 || int64(n) > math.MaxInt64/size {
		return nil, fmt.Errorf("managed: %w: %d elements of %d bytes", device.ErrArgument, n, size)
	}
	if err := o.Advice.Check(); err != nil {
		return nil, fmt.Errorf("managed: %w", err)
	}
	manager, ok := device.As[device.Manager](dev)
	if !ok {
		return nil, fmt.Errorf("managed: %s has no managed memory: %w", dev.Info().ID, device.ErrNotSupported)
	}
	p, raw, err := manager.AllocManaged(int64(n)*size, device.ManagedOptions{Oversubscribe: o.Oversubscribe})
	if err != nil {
		return nil, fmt.Errorf("managed: %d elements of %d bytes: %w", n, size, err)
	}
	a := &Array[T]{dev: dev, manager: manager, ptr: p, raw: int64(len(raw)),
		data: unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(raw))), n)}
	if o.Advice != (device.Advice{}) {
		if err := a.Advise(o.Advice); err != nil {
			return nil, errors.Join(err, a.Free())
		}
	}
	return a, nil
}

// Len is the number of elements.
func (a *Array[T]) Len() int { return int(a.raw) / int(unsafe.Sizeof(*new(T))) }

// Bytes is the size of the array.
func (a *Array[T]) Bytes() int64 { return a.raw }

// Slice is the array as the host sees it. It must not be touched after Free: it
// is not memory of the Go heap, and what it was may be somebody else's by then.
// Slice fails with [device.ErrClosed] after Free.
func (a *Array[T]) Slice() ([]T, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.data, a.live()
}

// Ptr is the array's address on the device. It fails with [device.ErrClosed]
// after Free.
func (a *Array[T]) Ptr() (device.Ptr, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.ptr, a.live()
}

// Prefetch queues the migration of the array to device.OnDevice or
// device.OnHost. Where pages do not migrate on request it does nothing.
func (a *Array[T]) Prefetch(s device.Stream, to device.Place) error {
	return a.hint(func() error { return a.manager.Prefetch(s, a.ptr, a.raw, to) })
}

// Advise says how the array will be used, in place of what was said before. Where
// pages do not migrate on request it does nothing.
func (a *Array[T]) Advise(advice device.Advice) error {
	return a.hint(func() error { return a.manager.Advise(a.ptr, a.raw, advice) })
}

// hint calls what not every device can do while the array is held.
func (a *Array[T]) hint(call func() error) error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if err := a.live(); err != nil {
		return err
	}
	if a.manager.Migration() == device.WholeMigration {
		return nil
	}
	return call()
}

// Residency reports what is known of where the array is.
func (a *Array[T]) Residency() (device.Residency, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if err := a.live(); err != nil {
		return device.Residency{}, err
	}
	return a.manager.Residency(a.ptr, a.raw)
}

// live fails after Free. The caller holds mu.
func (a *Array[T]) live() error {
	if a.ptr == 0 {
		return errFreed
	}
	return nil
}

var errFreed = fmt.Errorf("managed: %w: the array was freed", device.ErrClosed)

// Free waits for queued work and gives the memory back. A second Free does
// nothing.
func (a *Array[T]) Free() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ptr == 0 {
		return nil
	}
	p := a.ptr
	a.ptr, a.data = 0, nil
	return a.dev.Free(p)
}
