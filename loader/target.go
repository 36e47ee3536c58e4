package loader

import (
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/loader/internal/read"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
)

// Target is one of [Options].Targets for the samples of a batch, in device
// memory. It lives as long as the batch.
type Target struct {
	Data  device.Ptr  // of each sample in turn, from a multiple of 16 bytes on
	DType dtype.DType // of the elements: the dataset's own
	Shape []int       // the number of samples first, then the dataset's shape
	Bytes int64       // size of Data

	// Lengths is the length of axis 0 of each sample, if samples differ in it and
	// are padded with zeros to Shape[1], the longest of the batch; else nil.
	// DeviceLengths is the same in device memory, an i32 a sample; else 0.
	Lengths       []int32
	DeviceLengths device.Ptr
}

// targetsIn returns the targets of j as they lie in d.
func targetsIn(d *deviceBuffer, j *read.Job, t slab.Tail) []Target {
	if len(j.Targets) == 0 {
		return nil
	}
	list := make([]Target, len(j.Targets))
	n, lengths := len(j.Indexes), d.raw+device.Ptr(t.TargetLengths)
	for k := range list {
		b := &j.Targets[k]
		list[k] = Target{
			Data: d.raw + device.Ptr(b.At), DType: b.Source.Spec.DType,
			Shape: b.Source.Shape(n, b.Rows), Bytes: int64(n * b.Stride()), Lengths: b.Lengths,
		}
		if b.Lengths != nil {
			list[k].DeviceLengths = lengths
			lengths += device.Ptr(4 * n)
		}
	}
	return list
}
