package step

import (
	"fmt"
	"sync"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
)

// Allocator gives out device memory: a device, or a pool on one.
type Allocator interface {
	Alloc(n int64) (device.Ptr, error)
	Free(p device.Ptr) error
}

// Memory makes tensors on a device, and copies them there and back. Its methods are
// safe for concurrent use.
type Memory struct {
	dev   device.Device
	alloc Allocator
	copy  device.Stream
}

// OpenMemory makes a Memory. alloc is where it takes memory from; nil for the device
// itself. Close it when its tensors are freed.
func OpenMemory(dev device.Device, alloc Allocator) (*Memory, error) {
	s, err := dev.NewStream()
	if err != nil {
		return nil, err
	}
	device.Label(s, "tensors")
	if alloc == nil {
		alloc = dev
	}
	return &Memory{dev: dev, alloc: alloc, copy: s}, nil
}

// Device is where the tensors lie.
func (m *Memory) Device() device.Device { return m.dev }

// Close gives back what the Memory holds itself, which are no tensors.
func (m *Memory) Close() error { return m.copy.Close() }

// New makes a tensor of undefined content. Free it, unless a step takes it as donated.
func (m *Memory) New(s graph.Shape) (*Tensor, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("step: tensor: %w: %w", ErrArgument, err)
	}
	t := &Tensor{memory: m, shape: graph.MakeShape(s.Type, s.Dims...)}
	if n := s.Bytes(); n > 0 {
		p, err := m.alloc.Alloc(n)
		if err != nil {
			return nil, fmt.Errorf("step: tensor %v: %w", s, err)
		}
		t.ptr = p
		t.free = func() error { return m.alloc.Free(p) }
	}
	return t, nil
}

// Put makes a tensor with the given elements, as [Graph.Constant] takes them. They are
// copied when it returns.
func (m *Memory) Put(data []byte, s graph.Shape) (*Tensor, error) {
	t, err := m.New(s)
	if err != nil {
		return nil, err
	}
	if err := t.Write(data); err != nil {
		return nil, keepFirst(err, t.Free())
	}
	return t, nil
}

// tensorAlign is what kernels expect addresses to be multiples of, in bytes.
const tensorAlign = 64

// Wrap makes a tensor of memory that is somebody else's, such as a batch's. To be read by
// a step, it has to begin at a multiple of 64 bytes. free is called when the tensor is freed, or a step has used it as donated;
// it may be nil.
func (m *Memory) Wrap(p device.Ptr, s graph.Shape, free func() error) (*Tensor, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("step: tensor: %w: %w", ErrArgument, err)
	}
	if s.Bytes() > 0 && p == 0 {
		return nil, fmt.Errorf("step: tensor %v: %w: it has no address", s, ErrArgument)
	}
	return &Tensor{memory: m, shape: graph.MakeShape(s.Type, s.Dims...), ptr: p, free: free}, nil
}

// Tensor is elements of a shape in device memory.
type Tensor struct {
	memory *Memory
	shape  graph.Shape

	mu   sync.Mutex
	ptr  device.Ptr
	free func() error
	gone bool
}

// Shape is the shape of the tensor.
func (t *Tensor) Shape() graph.Shape { return t.shape }

// Ptr is where the elements lie: 0 if there are none, or after Free.
func (t *Tensor) Ptr() device.Ptr {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ptr
}

// Freed reports whether the tensor was freed, or donated to a step.
func (t *Tensor) Freed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gone
}

// Free gives the memory back. A second Free does nothing. No step may be using it.
func (t *Tensor) Free() error {
	_, free := t.take()
	if free == nil {
		return nil
	}
	return free()
}

// take makes the memory the caller's.
func (t *Tensor) take() (device.Ptr, func() error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, free := t.ptr, t.free
	t.ptr, t.free, t.gone = 0, nil, true
	return p, free
}

// Read copies the elements to dst, which has as many bytes.
func (t *Tensor) Read(dst []byte) error {
	return t.move(len(dst), func(s device.Stream, p device.Ptr) error { return s.CopyD2H(dst, p) })
}

// Write copies the elements from src, which has as many bytes.
func (t *Tensor) Write(src []byte) error {
	return t.move(len(src), func(s device.Stream, p device.Ptr) error { return s.CopyH2D(p, src) })
}

func (t *Tensor) move(n int, copy func(device.Stream, device.Ptr) error) error {
	if t.Freed() {
		return fmt.Errorf("step: tensor %v: %w: its memory was freed or donated", t.shape, ErrArgument)
	}
	if int64(n) != t.shape.Bytes() {
		return fmt.Errorf("step: tensor %v: %w: %d bytes instead of %d", t.shape, ErrArgument, n, t.shape.Bytes())
	}
	if n == 0 {
		return nil
	}
	if err := copy(t.memory.copy, t.Ptr()); err != nil {
		return err
	}
	return t.memory.copy.Synchronize()
}

func keepFirst(err error, others ...error) error {
	for _, e := range others {
		if err == nil {
			err = e
		}
	}
	return err
}
