package gomlx

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pkg/errors"
)

// buffer is a tensor in device memory. GoMLX sees it as a copy: a slice of the memory
// itself would outlive it, since GoMLX leaves buffers to the garbage collector.
type buffer struct {
	backend *Backend
	shape   shapes.Shape
	tensor  *step.Tensor // nil where the backend plans only: elements are 0 then
	foreign bool         // steps do not write to the memory, although it was donated

	mu    sync.Mutex
	users int    // steps and copies that work on the memory
	gone  string // why nobody else may; empty while everybody may
}

func (b *Backend) newBuffer(t *step.Tensor) *buffer {
	buf := &buffer{backend: b, shape: fromShape(t.Shape()), tensor: t}
	runtime.AddCleanup(buf, func(t *step.Tensor) { t.Free() }, t)
	return buf
}

// allocate makes a buffer with undefined elements.
func (b *Backend) allocate(shape shapes.Shape) (*buffer, error) {
	s, err := toShape(shape)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	if b.IsFinalized() {
		return nil, errors.WithStack(fmt.Errorf("%s: %w", Name, ErrFinalized))
	}
	if b.onPlan != nil {
		return &buffer{backend: b, shape: fromShape(s)}, nil
	}
	t, err := b.memory.New(s)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	return b.newBuffer(t), nil
}

// Wrap makes a buffer of memory of the backend's device that stays where it is, such as a
// batch of a loader; only if it does not begin at a multiple of 64 bytes is it copied.
// release, which may be nil, is called once, when nothing uses the memory any more: the
// buffer was finalized, or donated to a step that is done, or is garbage. Until then the
// memory must not be freed or written to.
func (b *Backend) Wrap(data device.Ptr, shape shapes.Shape, release func() error) (compute.Buffer, error) {
	s, err := toShape(shape)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	if b.onPlan != nil {
		if release != nil {
			err = release()
		}
		return &buffer{backend: b, shape: fromShape(s)}, errors.WithStack(err)
	}
	t, err := b.memory.Wrap(data, s, release)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	buf := b.newBuffer(t)
	buf.foreign = true
	if data%64 == 0 {
		return buf, nil
	}
	out, err := buf.CopyToDevice(0)
	if err != nil {
		return nil, err
	}
	return out, buf.Finalize()
}

// use begins to work on the memory, and done ends it. A donated buffer is gone for
// others; given says that the step may write to its memory, or keep it.
func (b *buffer) use(donated bool) (given bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.backend.IsFinalized():
		return false, errors.WithStack(fmt.Errorf("%s: %w", Name, ErrFinalized))
	case b.gone != "":
		return false, errors.WithStack(fmt.Errorf("%s: %w: it %s; its shape was %v", Name, ErrGone, b.gone, b.shape))
	}
	b.users++
	if donated {
		b.gone = "was donated to a step"
	}
	return donated && !b.foreign && b.users == 1, nil
}

func (b *buffer) done() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users--
	return b.freeUnused()
}

// Finalize implements [compute.Buffer]. What is gone already may be finalized again.
func (b *buffer) Finalize() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone == "" {
		b.gone = "was finalized"
	}
	return b.freeUnused()
}

func (b *buffer) freeUnused() error {
	if b.gone == "" || b.users > 0 || b.tensor == nil {
		return nil
	}
	return errors.WithStack(b.tensor.Free())
}

// Backend implements [compute.Buffer].
func (b *buffer) Backend() compute.Backend { return b.backend }

// Shape implements [compute.Buffer].
func (b *buffer) Shape() (shapes.Shape, error) { return b.shape, nil }

// DeviceNum implements [compute.Buffer]. There is one device.
func (b *buffer) DeviceNum() (compute.DeviceNum, error) { return 0, nil }

// Data implements [compute.Buffer]: it fails, since buffers are not shared.
func (b *buffer) Data() (flat any, err error) {
	return nil, errors.Wrapf(compute.ErrNotImplemented, "%s: buffers are not shared; there is ToFlatData", Name)
}

// ToFlatData implements [compute.Buffer].
func (b *buffer) ToFlatData(flat any) error {
	if err := checkFlat(flat, b.shape); err != nil {
		return err
	}
	data := dtypes.UnsafeByteSliceFromAny(flat)
	return b.work(func() error {
		if b.tensor == nil {
			clear(data)
			return nil
		}
		return b.tensor.Read(data)
	})
}

// work does something with the buffer's memory.
func (b *buffer) work(do func() error) error {
	if _, err := b.use(false); err != nil {
		return err
	}
	err := do()
	if freeErr := b.done(); err == nil {
		err = freeErr
	}
	return errors.WithStack(err)
}

// CopyToDevice implements [compute.Buffer]. There is one device.
func (b *buffer) CopyToDevice(device compute.DeviceNum) (compute.Buffer, error) {
	if err := onlyDevice(device); err != nil {
		return nil, err
	}
	out, err := b.backend.allocate(b.shape)
	if err != nil {
		return nil, err
	}
	return out, b.work(func() error { return b.backend.copy(out.tensor, b.tensor) })
}

// copy copies between tensors of one shape.
func (b *Backend) copy(dst, src *step.Tensor) error {
	if src == nil || src.Shape().Bytes() == 0 {
		return nil
	}
	n := src.Shape().Bytes()
	if err := b.stream.CopyD2D(dst.Ptr(), src.Ptr(), n); err != nil {
		return err
	}
	return b.stream.Synchronize()
}

func onlyDevice(device compute.DeviceNum) error {
	if device != 0 {
		return errors.WithStack(fmt.Errorf("%s: %w: there is no device %d, only 0", Name, ErrArgument, device))
	}
	return nil
}

// checkFlat fails unless flat is a slice of as many elements as a shape's, of their type.
func checkFlat(flat any, shape shapes.Shape) error {
	t, n, err := flatType(flat)
	if err == nil && (t != shape.DType || n != shape.Size()) {
		err = fmt.Errorf("%w: %d elements of type %v are not those of %v", ErrArgument, n, t, shape)
	}
	return errors.Wrap(err, Name)
}

// BufferFromFlatData implements [compute.DataInterface]. The elements are copied.
func (b *Backend) BufferFromFlatData(device compute.DeviceNum, flat any, shape shapes.Shape) (compute.Buffer, error) {
	if err := onlyDevice(device); err != nil {
		return nil, err
	}
	if err := checkFlat(flat, shape); err != nil {
		return nil, err
	}
	out, err := b.allocate(shape)
	if err != nil {
		return nil, err
	}
	if out.tensor == nil {
		return out, nil
	}
	return out, out.work(func() error { return out.tensor.Write(dtypes.UnsafeByteSliceFromAny(flat)) })
}

// HasSharedBuffers implements [compute.DataInterface].
func (b *Backend) HasSharedBuffers() bool { return false }

// NewSharedBuffer implements [compute.DataInterface]: it fails.
func (b *Backend) NewSharedBuffer(compute.DeviceNum, shapes.Shape) (compute.Buffer, any, error) {
	return nil, nil, errors.Wrapf(compute.ErrNotImplemented, "%s: buffers are not shared; there is BufferFromFlatData", Name)
}
