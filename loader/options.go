package loader

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// Errors that callers can tell apart with [errors.Is].
var (
	// ErrHeld: Next was called while the caller holds every device buffer.
	ErrHeld = errors.New("every device buffer is held by the caller")
	// ErrReleased: a batch was released twice.
	ErrReleased = errors.New("batch released already")
)

// ErrorPolicy says what happens when a sample cannot be read.
type ErrorPolicy int

const (
	// Fail ends the loader with an error that names the sample.
	Fail ErrorPolicy = iota
	// Skip leaves the sample out: its batch is smaller, and it is counted.
	Skip
)

// Pinning says whether slabs are page-locked.
type Pinning int

const (
	// PinAuto pins where it pays: not on a device that shares the host's
	// memory, and not where the system allows no more locked memory. [Stats]
	// says why not.
	PinAuto Pinning = iota
	// PinAlways pins, or fails.
	PinAlways
	// PinNever leaves slabs pageable.
	PinNever
)

// Options tune a [Loader]. The zero value works.
type Options struct {
	// Batch is the number of samples in a batch. Default: 64.
	Batch int

	// Workers is the number of goroutines that read, decode and resize.
	// Default: GOMAXPROCS. More than can have a sample to read are not started.
	Workers int

	// Prefetch is the number of batches that are read ahead of the one on
	// its way to the device. Default: 4.
	Prefetch int

	// DeviceBuffers is the number of batches in device memory: those the
	// caller holds and those that are being filled. Default: 3.
	DeviceBuffers int

	// Epochs is the number of passes over the dataset. Default: 1.
	Epochs int

	// Shuffle visits the samples of each epoch in an order drawn from Seed
	// and the epoch's number, instead of from first to last.
	Shuffle bool
	Seed    uint64

	// DropLast leaves out the last batch of an epoch when it is not full.
	DropLast bool

	// DType is the element type on the device. Images (bytes in HWC order
	// with at most 4 channels) become F32, F16 or BF16 normalised by Mean and
	// Std, or stay U8; they come out as NCHW in every case. Other samples are
	// cast. Default: F32 for images, else the dataset's own.
	DType dtype.DType

	// Mean and Std normalise images, a value a channel, where a byte counts
	// from 0 to 1. Default: ImageNet's for 3 channels, else 0 and 1. Ignored
	// for U8 and for samples that are no images.
	Mean, Std []float64

	// OnError says what to do about a sample that cannot be read. Default:
	// Fail. OnSkip, if set, is called for each sample left out, in order.
	OnError ErrorPolicy
	OnSkip  func(err error)

	// Pin says whether host memory is page-locked. PinBudget is the most
	// bytes that may be. Default: PinAuto, and package pinned's budget.
	Pin       Pinning
	PinBudget int64
}

var (
	imageNetMean = []float64{0.485, 0.456, 0.406}
	imageNetStd  = []float64{0.229, 0.224, 0.225}
)

// withDefaults checks o and fills it in for samples of that kind.
func (o Options) withDefaults(spec dataset.Spec) (Options, error) {
	for _, v := range []struct {
		name string
		n    int
	}{{"Batch", o.Batch}, {"Workers", o.Workers}, {"Prefetch", o.Prefetch},
		{"DeviceBuffers", o.DeviceBuffers}, {"Epochs", o.Epochs}} {
		if v.n < 0 {
			return o, fmt.Errorf("loader: %w: %s is %d", device.ErrArgument, v.name, v.n)
		}
	}
	setDefault(&o.Batch, 64)
	setDefault(&o.Workers, runtime.GOMAXPROCS(0))
	setDefault(&o.Prefetch, 4)
	setDefault(&o.DeviceBuffers, 3)
	setDefault(&o.Epochs, 1)
	image := isImage(spec)
	if o.DType == 0 {
		o.DType = spec.DType
		if image {
			o.DType = dtype.F32
		}
	}
	if !image {
		return o, nil
	}
	if !slices.Contains([]dtype.DType{dtype.U8, dtype.F32, dtype.F16, dtype.BF16}, o.DType) {
		return o, fmt.Errorf("loader: %w: images cannot become %v", device.ErrArgument, o.DType)
	}
	switch {
	case o.DType == dtype.U8:
		o.Mean, o.Std = nil, nil
	case o.Mean == nil && o.Std == nil && spec.Shape[2] == 3:
		o.Mean, o.Std = imageNetMean, imageNetStd
	}
	return o, nil
}

func setDefault(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

// isImage reports whether samples are images: bytes in HWC order.
func isImage(spec dataset.Spec) bool {
	return spec.DType == dtype.U8 && len(spec.Shape) == 3 && spec.Shape[2] >= 1 && spec.Shape[2] <= 4
}
