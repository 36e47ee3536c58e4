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

// prefetchBytes is the most that is read ahead by default. More large slabs take
// more memory and are no faster: batches of 48 MiB came at 46.5 GB/s with 2 read
// ahead, at 45.4 with 4 and at 41.7 with 8, since slabs take turns and a cache
// holds all of them or none (run 2026-11-22-h200-3).
const prefetchBytes = 128 << 20

// mostBuffers bounds MaxDeviceBuffers.
const mostBuffers = 1 << 16

// StateAtEnd is the meaning of a state that is taken after the last batch of an
// epoch was delivered and before the caller goes on: in the loop's body for that
// batch, or before the next call of Next. Once the loop is over, every state
// begins with the next epoch.
type StateAtEnd int

const (
	// NextEpoch: a loader that resumes begins with the next epoch.
	NextEpoch StateAtEnd = iota
	// EmptyRest: a loader that resumes is at the end of the old epoch. Its first
	// loop over [Loader.Epoch] or [Loader.Rest] has no batches, so a program does
	// what it does after each epoch. Next and All begin with the next epoch.
	EmptyRest
)

// Options tune a [Loader]. The zero value works.
type Options struct {
	// Batch is the number of samples in a batch; AutoBatch: as many as there is
	// room for. Default: 64.
	Batch int

	// Targets are datasets whose sample i goes with sample i of the dataset:
	// masks, boxes, rows of tokens. All have the same length. One worker reads a
	// sample and its targets, with the same [dataset.Visit], so transforms that
	// draw in the same way crop and mirror them alike. Targets arrive in
	// [Batch.Targets] as they were read: not normalised, not mixed, HWC, in their
	// own element type. Labels are those of the dataset. If a target cannot be
	// read, neither can its sample.
	Targets []dataset.Dataset

	// Workers is the number of goroutines that read, decode and resize. No more
	// are started than can have a sample to read. Batches that take less time to
	// read than to hand over are read without them. Default: GOMAXPROCS.
	Workers int

	// Prefetch is the number of batches to read ahead of the one on its way to
	// the device. Default: 4, or as many as fit into 128 MiB (what falls out of
	// the processor's cache is slower to copy), but at least 2.
	Prefetch int

	// DeviceBuffers is the number of batches in the memory of each device:
	// those that the caller holds and those that are being filled. Default: 3.
	DeviceBuffers int

	// MaxDeviceBuffers is how many buffers a device may have. While the caller
	// holds all of them, Next makes another instead of failing with [ErrHeld];
	// it stays until Close. At most 65536. Default: DeviceBuffers.
	MaxDeviceBuffers int

	// DeviceBudget is the most memory, in bytes, that the buffers may take on each
	// device. Default: all that is free there.
	DeviceBudget int64

	// Epochs is the number of passes over the dataset. An epoch that a loop
	// leaves early (see [Loader.All]) does not count. Default: 1.
	Epochs int

	// Shuffle visits the samples of each epoch in an order drawn from Seed and
	// the number of the epoch. Default: from first to last. Everything random
	// about samples is drawn from Seed, too.
	Shuffle bool
	Seed    uint64

	// Sampler is the caller's own order of samples, instead of Shuffle. Batches
	// is the caller's own batches; Batch is then the size of the largest. Indices
	// count the samples of the dataset, from 0.
	Sampler sampler.Sampler
	Batches sampler.BatchSampler

	// Rank and World share every epoch among the processes of a job: this one
	// is number Rank of World, counted from 0. It gets positions Rank,
	// Rank+World, … of the order (of Batches, whole batches). If World does not
	// divide the order, it is padded from its start, or cut with DropLast. With
	// Batch divided by the number of ranks, all ranks together visit the samples
	// that one would, batch for batch. Default: one.
	Rank, World int

	// DropLast leaves out the last batch of an epoch if it is not full. That it
	// leaves out everything is an error.
	DropLast bool

	// Unordered delivers the batches of an epoch as they become complete.
	// Default: in the order of the sampler, whichever worker is first. Each batch
	// holds the same samples either way.
	Unordered bool

	// Resume goes on where another loader was, see [State]. Epochs still counts
	// from the first one.
	Resume *State

	// StateAtEnd is the meaning of a state that is taken between the last batch of
	// an epoch and whatever comes after it. Default: NextEpoch.
	StateAtEnd StateAtEnd

	// Samples that differ in length (their spec is Ragged) are padded with Pad
	// to the longest of the batch, or to PadTo if that is set; samples longer
	// than PadTo cannot be read. Mask adds [Batch.DeviceMask]. Targets that differ
	// in length are padded with zeros, to the longest of the batch.
	Pad   float64
	PadTo int
	Mask  bool

	// DType is the element type on the device. Images (U8 or U16 in HWC order
	// with at most 4 channels) become F32, F16 or BF16, normalised by Mean and
	// Std, or keep their type; they come out as NCHW in every case. Other samples
	// are cast. Default: F32 for images, else the dataset's own.
	DType dtype.DType

	// Mean and Std normalise images, one value a channel, on a scale on which the
	// largest value of the samples' type (255 or 65535) is 1. Default: ImageNet's
	// for 3 channels, else 0 and 1. Images that keep their type and samples that
	// are not images ignore them.
	Mean, Std []float64

	// Decode says where pictures are decoded. Default: DecodeAuto.
	Decode DecodePlace

	// CPUShare is the part of the pictures that workers decode although the
	// device would, from 0 to 1: for processors that are idle while the device
	// decodes. Which pictures follows from Seed. AutoShare: as many as helps.
	// Default: 0.
	CPUShare float64

	// Jitter changes the colours of RGB images at random, on the device.
	// Default: the jitter of the dataset's transform, if it has one.
	Jitter imaging.Jitter

	// Mixup is the alpha of mixup (Zhang et al., "mixup: Beyond Empirical Risk
	// Minimization", ICLR 2018), 0 to 4: each image becomes lambda times itself
	// plus 1-lambda times its [Batch.Partner], with a lambda of its own drawn from
	// Beta(alpha, alpha); mix the labels by [Batch].Mix. Which samples are a pair
	// does not depend on the number of ranks: with several, Batch has to be even.
	// A last batch that is not full is not mixed (its Mix is 1). Default: 0, none.
	Mixup float64

	// OnError says what to do about a sample that cannot be read. Default: Fail.
	//
	// Decide, if set, chooses for each of them instead, also for samples that
	// were tried in place of others. The loader calls it in the order of the
	// batches, from one goroutine for each device. Later batches wait for it. It
	// must not close the loader.
	OnError ErrorPolicy
	Decide  func(err *SampleError) ErrorPolicy

	// KeepErrors is how many of the samples that were left out or replaced
	// [Loader.Unread] lists; -1: all of them. Default: 100.
	KeepErrors int

	// SampleTimeout is how long it may take to read a sample with its targets,
	// including decoding and the functions of a Map. After that the context of
	// the read ends and the sample cannot be read, with [ErrTimeout]. A read that
	// ignores its context is left alone, with memory of its own; it may go on
	// using the dataset. A time limit costs one more copy of each sample.
	// Default: no limit.
	SampleTimeout time.Duration

	// Pin says whether host memory is page-locked. PinBudget is the most
	// bytes that may be, for each device; it has to hold a batch, unless nothing
	// is to be pinned. Default: PinAuto, and package pinned's budget.
	Pin       Pinning
	PinBudget int64

	// Copiers is the most goroutines that copy slabs which are not pinned. Each
	// has four pinned chunks of ChunkBytes, or of a slab if that is smaller (see
	// package transfer), which count towards PinBudget. Each moves some 8 GB/s,
	// and takes that from the workers. The driver copies slabs that are too small
	// to gain from this, and all of them if the budget is too small for one
	// copier. Samples that the device decodes are not copied this way. Default:
	// GOMAXPROCS, at most 12, or as many as a calibrated model says; 2 MiB, which
	// makes 8 MiB of pinned memory for each copier. The least is 4 KiB.
	Copiers    int
	ChunkBytes int64
}

var (
	imageNetMean = []float64{0.485, 0.456, 0.406}
	imageNetStd  = []float64{0.229, 0.224, 0.225}
)

// withDefaults checks o and fills it in for samples of that kind.
func (o Options) withDefaults(spec dataset.Spec) (Options, error) {
	if o.Batch == AutoBatch {
		if err := o.resolveAuto(); err != nil {
			return o, err
		}
	}
	for _, v := range []struct {
		name string
		n    int
	}{{"Batch", o.Batch}, {"Workers", o.Workers}, {"Prefetch", o.Prefetch},
		{"DeviceBuffers", o.DeviceBuffers}, {"MaxDeviceBuffers", o.MaxDeviceBuffers}, {"Epochs", o.Epochs}, {"Rank", o.Rank}, {"World", o.World},
		{"PadTo", o.PadTo}, {"SampleTimeout", int(o.SampleTimeout)},
		{"PinBudget", int(o.PinBudget)}, {"DeviceBudget", int(o.DeviceBudget)}, {"Copiers", o.Copiers}, {"ChunkBytes", int(o.ChunkBytes)}} {
		if v.n < 0 && !(v.name == "Batch" && v.n == AutoBatch) {
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

// resolveAuto refuses AutoBatch where it makes no sense, and takes the size from
// a state that is resumed.
func (o *Options) resolveAuto() error {
	switch {
	case o.Batches != nil:
		return fmt.Errorf("loader: %w: Batches have sizes of their own, so Batch has to be that of the largest, and not AutoBatch", device.ErrArgument)
	case o.World > 1:
		return fmt.Errorf("loader: %w: with AutoBatch each of %d ranks would have batches of another size; give them one", device.ErrArgument, o.World)
	case o.Resume != nil:
		o.Batch = o.Resume.GlobalBatch
	}
	return nil
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
