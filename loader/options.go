package loader

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
	"github.com/pinion-gpu/pinion/sampler"
)

// Pinning says whether slabs are page-locked.
type Pinning int

const (
	// PinAuto pins where it pays: not on a device that shares the host's
	// memory, not for a few megabytes in all, and not where the system allows
	// no more locked memory or has little left. [Stats] says why not.
	PinAuto Pinning = iota
	// PinAlways pins, or fails.
	PinAlways
	// PinNever leaves slabs pageable. They are copied through pinned chunks
	// instead, see Copiers.
	PinNever
)

// prefetchBytes is what is read ahead at most by default. More large slabs take
// more memory and are no faster: batches of 48 MiB came at 46.5 GB/s with 2 read
// ahead, at 45.4 with 4 and at 41.7 with 8, since slabs take turns and a cache
// holds all of them or none (run 2026-11-22-h200-3).
const prefetchBytes = 128 << 20

// mostBuffers bounds MaxDeviceBuffers.
const mostBuffers = 1 << 16

// StateAtEnd says what a state means that is taken when the last batch of an
// epoch was delivered and the caller has not gone on: in the body of the loop
// for that batch, or before the next call of Next. Once the loop is over, every
// state begins with the next epoch.
type StateAtEnd int

const (
	// NextEpoch: a loader that resumes begins with the next epoch.
	NextEpoch StateAtEnd = iota
	// EmptyRest: a loader that resumes is at the end of the old epoch. Its first
	// loop over [Loader.Epoch] or [Loader.Rest] has no batches, so that a program
	// still does what it does after each epoch. Next and All begin with the next
	// epoch.
	EmptyRest
)

// Options tune a [Loader]. The zero value works.
type Options struct {
	// Batch is the number of samples in a batch. Default: 64.
	Batch int

	// Targets are datasets whose sample i goes with sample i of the dataset:
	// masks, boxes, rows of tokens. They are as long as it is. A sample and its
	// targets are read by one worker with the same [dataset.Visit], so that
	// transforms which draw the same way crop and mirror them the same way.
	// They arrive in [Batch.Targets] as they were read: not normalised, not
	// mixed, HWC, in their own element type. Labels are those of the dataset. A
	// target that cannot be read makes its sample one that cannot.
	Targets []dataset.Dataset

	// Workers is the number of goroutines that read, decode and resize.
	// Default: GOMAXPROCS. More than can have a sample to read are not started.
	// A batch that is read sooner than handed over is read without them.
	Workers int

	// Prefetch is the number of batches that are read ahead of the one on
	// its way to the device. Default: 4, or as many as fit into 128 MiB, but
	// at least 2: what does not stay in the processor's cache is slower to copy.
	Prefetch int

	// DeviceBuffers is the number of batches in the memory of each device:
	// those the caller holds and those that are being filled. Default: 3.
	DeviceBuffers int

	// MaxDeviceBuffers is up to how many buffers a device gets while the caller
	// holds all of them, in place of [ErrHeld]; they stay until Close. At most
	// 65536. Default: DeviceBuffers, so that no more are made.
	MaxDeviceBuffers int

	// Epochs is the number of passes over the dataset; one that a loop leaves
	// early (see [Loader.All]) does not count. Default: 1.
	Epochs int

	// Shuffle visits the samples of each epoch in an order drawn from Seed
	// and the epoch's number, instead of from first to last. Seed is also what
	// everything random about samples is drawn from.
	Shuffle bool
	Seed    uint64

	// Sampler is an order of samples of the caller's own, in place of Shuffle.
	// Batches is batches of the caller's own; then Batch is the size of the
	// largest. Indices count the dataset's samples, from 0.
	Sampler sampler.Sampler
	Batches sampler.BatchSampler

	// Rank and World share every epoch between the processes of a job: this
	// is one of World, numbered from 0. Positions Rank, Rank+World, … of the
	// order are its part (of Batches, whole batches). Where World does not
	// divide the order, it is padded from its start, or with DropLast, cut.
	// With Batch divided by the number of ranks, all of them together visit
	// the samples that one would, batch for batch. Default: one.
	Rank, World int

	// DropLast leaves out the last batch of an epoch when it is not full.
	DropLast bool

	// Unordered delivers the batches of an epoch as they are complete. Default
	// false: in the order of the sampler, whichever worker is first. What is
	// in a batch is the same either way.
	Unordered bool

	// Resume goes on where another loader was, see [State]. Epochs counts from
	// the first one, not from there.
	Resume *State

	// StateAtEnd says what a state means that is taken between the last batch of
	// an epoch and whatever comes behind it. Default: NextEpoch.
	StateAtEnd StateAtEnd

	// Where samples differ in length (their spec is Ragged), they are padded
	// with Pad to the longest of the batch, or to PadTo if that is set; those
	// that are longer than PadTo cannot be read. Mask adds
	// [Batch.DeviceMask]. Targets that differ in length are padded with zeros,
	// to the longest of the batch.
	Pad   float64
	PadTo int
	Mask  bool

	// DType is the element type on the device. Images (U8 or U16 in HWC order
	// with at most 4 channels) become F32, F16 or BF16 normalised by Mean and
	// Std, or stay as they are; they come out as NCHW in every case. Other
	// samples are cast. Default: F32 for images, else the dataset's own.
	DType dtype.DType

	// Mean and Std normalise images, a value a channel, where a sample counts
	// from 0 to 1, the largest of its type: 255 or 65535. Default: ImageNet's
	// for 3 channels, else 0 and 1. Ignored for images that stay as they are,
	// and for samples that are no images.
	Mean, Std []float64

	// Decode says where pictures are decoded. Default: DecodeAuto.
	Decode DecodePlace

	// Jitter changes the colours of RGB images at random, on the device.
	// Default: the jitter of the transform of a dataset of pictures.
	Jitter imaging.Jitter

	// Mixup is the alpha of mixup (Zhang et al., "mixup: Beyond Empirical Risk
	// Minimization", ICLR 2018), 0 to 4: each image becomes lambda of itself
	// and the rest of its [Batch.Partner], with a lambda of its own drawn from
	// Beta(alpha, alpha); mix the labels by [Batch].Mix. Which samples are a pair
	// does not depend on the number of ranks: with several of them Batch has to be
	// even, and a last batch that is not full is not mixed (its Mix is 1). Default
	// 0: none.
	Mixup float64

	// OnError says what to do about a sample that cannot be read. Default:
	// Fail. Decide, if set, is asked for each of them instead, in the order of
	// the batches, and for those tried in their place. It holds up the batches
	// behind, runs in a goroutine for each device, and must not close the loader.
	OnError ErrorPolicy
	Decide  func(err *SampleError) ErrorPolicy

	// KeepErrors is how many samples that were left out or replaced [Loader.Unread]
	// remembers; -1: all of them. Default: 100.
	KeepErrors int

	// SampleTimeout is how long reading a sample with its targets may take,
	// decoding and functions of a Map included; a sample that takes longer
	// cannot be read, with [ErrTimeout]. The context of the read ends then. What
	// does not heed that is left alone, with memory of its own; it may go on
	// using the dataset. Samples are copied once more for it. Default: no limit.
	SampleTimeout time.Duration

	// Pin says whether host memory is page-locked. PinBudget is the most
	// bytes that may be for each device; unless nothing is to be pinned, it has to
	// hold a batch. Default: PinAuto, and package pinned's budget.
	Pin       Pinning
	PinBudget int64

	// Copiers is the most goroutines that copy a slab which is not pinned, by
	// way of pinned chunks of at most ChunkBytes and a slab, four for each of
	// them (see package transfer). One moves some 8 GB/s, and takes that from the
	// workers. Memory comes out of PinBudget; where that is too little for one
	// copier, and for slabs that are too small to gain by it, the driver
	// copies. Samples that the device decodes are no part of it. Default:
	// GOMAXPROCS, at most 12, or as many as a calibrated model says; 2 MiB, so
	// 8 MiB of pinned memory for each. ChunkBytes of less than 4 KiB are refused.
	Copiers    int
	ChunkBytes int64
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
		{"DeviceBuffers", o.DeviceBuffers}, {"MaxDeviceBuffers", o.MaxDeviceBuffers}, {"Epochs", o.Epochs}, {"Rank", o.Rank}, {"World", o.World},
		{"PadTo", o.PadTo}, {"SampleTimeout", int(o.SampleTimeout)},
		{"PinBudget", int(o.PinBudget)}, {"Copiers", o.Copiers}, {"ChunkBytes", int(o.ChunkBytes)}} {
		if v.n < 0 {
			return o, fmt.Errorf("loader: %w: %s is %d", device.ErrArgument, v.name, v.n)
		}
	}
	// Workers read them later, when the caller may use them for something else.
	o.Mean, o.Std, o.Targets = slices.Clone(o.Mean), slices.Clone(o.Std), slices.Clone(o.Targets)
	if o.ChunkBytes > 0 && o.ChunkBytes < slab.LeastChunk {
		return o, fmt.Errorf("loader: %w: ChunkBytes is %d, want at least %d", device.ErrArgument, o.ChunkBytes, slab.LeastChunk)
	}
	setDefault(&o.Batch, 64)
	setDefault(&o.Workers, runtime.GOMAXPROCS(0))
	setDefault(&o.DeviceBuffers, 3)
	setDefault(&o.MaxDeviceBuffers, o.DeviceBuffers)
	if o.MaxDeviceBuffers < o.DeviceBuffers || o.MaxDeviceBuffers > max(o.DeviceBuffers, mostBuffers) {
		return o, fmt.Errorf("loader: %w: MaxDeviceBuffers is %d, want %d (DeviceBuffers) to %d", device.ErrArgument, o.MaxDeviceBuffers, o.DeviceBuffers, mostBuffers)
	}
	setDefault(&o.Epochs, 1)
	setDefault(&o.KeepErrors, 100)
	setDefault(&o.World, 1)
	if (o.PadTo > 0 || o.Pad != 0) && !spec.Ragged {
		return o, fmt.Errorf("loader: %w: samples of one length (%v) are not padded", device.ErrArgument, spec)
	}
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
	if !slices.Contains([]dtype.DType{spec.DType, dtype.F32, dtype.F16, dtype.BF16}, o.DType) {
		return o, fmt.Errorf("loader: %w: images of %v cannot become %v; want f32, f16, bf16, or %[2]v as they are", device.ErrArgument, spec.DType, o.DType)
	}
	switch {
	case o.DType == spec.DType:
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

// isImage reports whether samples are images: U8 or U16 in HWC order.
func isImage(spec dataset.Spec) bool {
	return (spec.DType == dtype.U8 || spec.DType == dtype.U16) && !spec.Ragged && len(spec.Shape) == 3 && spec.Shape[2] >= 1 && spec.Shape[2] <= 4
}
