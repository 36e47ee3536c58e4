package loader

import (
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// Target is what goes with the samples of a batch, out of one of
// [Options].Targets, in device memory. It lives as long as the batch.
type Target struct {
	Data  device.Ptr  // of each sample in turn, from a multiple of 16 bytes on
	DType dtype.DType // of the elements: the dataset's own
	Shape []int       // the number of samples first, then the dataset's shape
	Bytes int64       // size of Data

	// Lengths is the length of axis 0 of each sample, where samples differ in
	// it and are padded with zeros to Shape[1], the longest of the batch; else
	// nil. DeviceLengths is the same in device memory, an i32 a sample; else 0.
	Lengths       []int32
	DeviceLengths device.Ptr
}

// delivered is the targets of j as they are in d.
func (j *job) delivered(d *deviceBuffer, t tail) []Target {
	if len(j.targets) == 0 {
		return nil
	}
	list := make([]Target, len(j.targets))
	n, lengths := len(j.indexes), d.raw+device.Ptr(t.longs)
	for k := range list {
		b := &j.targets[k]
		list[k] = Target{
			Data: d.raw + device.Ptr(b.at), DType: b.source.spec.DType,
			Shape: b.source.shape(n, b.rows), Bytes: int64(n * b.stride()), Lengths: b.lengths,
		}
		if b.lengths != nil {
			list[k].DeviceLengths = lengths
			lengths += device.Ptr(4 * n)
		}
	}
	return list
}

// raggedTargets is how many targets differ in length.
func (l *Loader) raggedTargets() (n int) {
	for k := range l.targets {
		if l.targets[k].spec.Ragged {
			n++
		}
	}
	return n
}
