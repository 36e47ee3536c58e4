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
	spec        dataset.Spec
	image       bool
	rowBytes    int64 // of a row of a sample afterwards
	sampleBytes int64 // of the longest sample afterwards

	// queue queues the work on a batch; nil if it stays as it is.
	queue   func(s device.Stream, w work) error
	kernels *kernels.Set
}

// work is the operands of a transform.
type work struct {
	dst, src     device.Ptr
	n, rows      int        // samples, and rows of each
	colours, mix device.Ptr // tables of what becomes of each image; or 0
}

func newTransform(dev device.Device, spec dataset.Spec, rows int, o Options) (*transform, error) {
	t := &transform{spec: spec, image: isImage(spec)}
	row := int64(spec.RowBytes() / spec.DType.Size()) // elements
	t.rowBytes = row * int64(o.DType.Size())
	t.sampleBytes = t.rowBytes * int64(rows)
	switch {
	case t.image:
		h, w, c := spec.Shape[0], spec.Shape[1], spec.Shape[2]
		t.queue = func(s device.Stream, b work) error {
			return t.kernels.Normalize(s, kernels.Normalize{
				Dst: b.dst, DType: o.DType, Src: b.src, SrcType: spec.DType,
				N: b.n, C: c, H: h, W: w, Mean: o.Mean, Std: o.Std,
				Colours: b.colours, Mix: b.mix,
			})
		}
	case spec.DType != o.DType:
		t.queue = func(s device.Stream, b work) error {
			return t.kernels.Cast(s, b.dst, o.DType, b.src, spec.DType, int64(b.n)*int64(b.rows)*row)
		}
	default:
		return t, nil
	}
	var err error
	if t.kernels, err = kernels.Load(dev); err != nil {
		return nil, fmt.Errorf("loader: %w", err)
	}
	// If the kernel does not accept this, say so now and not with the first batch.
	if err := t.probe(dev); err != nil {
		return nil, errors.Join(fmt.Errorf("loader: %v samples as %v: %w", spec.DType, o.DType, err), t.kernels.Close())
	}
	return t, nil
}

// batchShape is the shape of n samples of rows each afterwards.
func (t *transform) batchShape(n, rows int) []int {
	s := t.spec.Shape
	switch {
	case t.image:
		return []int{n, s[2], s[0], s[1]}
	case t.spec.Ragged:
		return append([]int{n, rows}, s[1:]...)
	}
	return append([]int{n}, s...)
}

// probe queues work on nothing, which checks everything but the operands.
func (t *transform) probe(dev device.Device) error {
	s, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	return t.queue(s, work{})
}

func (t *transform) close() error {
	if t.kernels == nil {
		return nil
	}
	return t.kernels.Close()
}
