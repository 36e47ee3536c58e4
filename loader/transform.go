package loader

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/kernels"
)

// transform is what happens to a batch on the device.
type transform struct {
	shape       []int // of a sample afterwards
	sampleBytes int64 // of a sample afterwards

	// queue queues the work on n samples; nil when the batch stays as it is.
	queue   func(s device.Stream, dst, src device.Ptr, n int) error
	kernels *kernels.Set
}

func newTransform(dev device.Device, spec dataset.Spec, o Options) (*transform, error) {
	elements := int64(spec.Bytes() / spec.DType.Size())
	t := &transform{shape: spec.Shape, sampleBytes: elements * int64(o.DType.Size())}
	switch {
	case isImage(spec):
		h, w, c := spec.Shape[0], spec.Shape[1], spec.Shape[2]
		t.shape = []int{c, h, w}
		t.queue = func(s device.Stream, dst, src device.Ptr, n int) error {
			return t.kernels.Normalize(s, kernels.Normalize{
				Dst: dst, DType: o.DType, Src: src,
				N: n, C: c, H: h, W: w, Mean: o.Mean, Std: o.Std,
			})
		}
	case spec.DType != o.DType:
		t.queue = func(s device.Stream, dst, src device.Ptr, n int) error {
			return t.kernels.Cast(s, dst, o.DType, src, spec.DType, int64(n)*elements)
		}
	default:
		return t, nil
	}
	var err error
	if t.kernels, err = kernels.Load(dev); err != nil {
		return nil, fmt.Errorf("loader: %w", err)
	}
	// What the kernel does not accept shows now, not with the first batch.
	if err := t.probe(dev); err != nil {
		return nil, errors.Join(fmt.Errorf("loader: %v samples as %v: %w", spec.DType, o.DType, err), t.kernels.Close())
	}
	return t, nil
}

// probe queues no work at all, which checks everything but the operands.
func (t *transform) probe(dev device.Device) error {
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	return t.queue(s, 0, 0, 0)
}

func (t *transform) close() error {
	if t.kernels == nil {
		return nil
	}
	return t.kernels.Close()
}
