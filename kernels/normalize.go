package kernels

import (
	"fmt"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// Normalize names the operands of [Set.Normalize].
type Normalize struct {
	// Dst has room for N x C x H x W elements of DType.
	Dst device.Ptr
	// DType is F32, F16, BF16, or the type of Src for samples as they are.
	DType dtype.DType
	// Src has N x H x W x C samples: pixels with their channels side by side.
	Src device.Ptr
	// SrcType is the type of a sample: U8 or U16. 0 is U8.
	SrcType dtype.DType

	N int // images, 0 or more
	C int // channels, 1 to 4
	H int // height in pixels, 0 or more
	W int // width in pixels, 0 or more

	// Mean and Std have one value a channel, where a sample counts from 0 to 1,
	// the largest of its type. Values are finite and Std is above zero. Empty
	// means 0 and 1, and has to be empty for samples as they are.
	Mean, Std []float64

	// Colours is zero or where a table of N entries lies that
	// [AppendColours] made, [ColourBytes] each; a multiple of 8. The colours
	// of the three channels (RGB) change before all else. A part of the table
	// is overwritten, so calls at the same time need one each.
	Colours device.Ptr

	// Mix is zero or where N float32 lie that [AppendMix] made. Image i
	// becomes mix[i] of itself and the rest of image (i + N/2) mod N, both
	// with their colours changed and normalised, before the only rounding to
	// DType (mixup).
	Mix device.Ptr
}

// sampleTypes are the types of samples.
var sampleTypes = []dtype.DType{dtype.U8, dtype.U16}

// largest is the largest sample of a type, which counts as 1.
func largest(t dtype.DType) float64 { return float64(int(1)<<(8*t.Size()) - 1) }

// normalizeTypes are what samples of a type become.
func normalizeTypes(from dtype.DType) []dtype.DType {
	return []dtype.DType{from, dtype.F16, dtype.BF16, dtype.F32}
}

// Normalize queues the conversion of images from samples in NHWC order to
// elements in NCHW order, with
//
//	dst[n,c,h,w] = (src[n,h,w,c]/largest - Mean[c]) / Std[c]
//
// where largest is 255 for U8 and 65535 for U16. It is computed in float32 as
// src*scale + bias, where scale = 1/(largest*Std[c]) and bias = -Mean[c]/Std[c]
// are rounded once from float64 and product and sum round apart; for F16 and
// BF16 the sum is rounded once more. Samples that stay as they are change
// places only.
//
// With Colours or Mix the samples are float32 from 0 to largest until then, and
// those that keep their type are rounded to nearest. An image whose colours and
// mix change nothing gets the bits that it gets without them.
//
// Three channels of U8 are fastest when Dst and Src are multiples of 16 and an
// image has a multiple of 16 / size-of-DType pixels.
func (k *Set) Normalize(s device.Stream, p Normalize) error {
	j, err := p.check()
	if err != nil {
		return fmt.Errorf("kernels: normalize: %w", err)
	}
	if j.images == 0 || j.pixels == 0 {
		return k.enqueue(s, nil)
	}
	if p.Colours != 0 || p.Mix != 0 {
		return k.enqueue(s, &augmentJob{*j, p.Colours, p.Mix})
	}
	return k.enqueue(s, j)
}

type normalizeJob struct {
	dst, src       device.Ptr
	dt, from       dtype.DType
	images, pixels int64 // pixels of one image
	channels       int
	scale, bias    [4]float32
}

func (p Normalize) check() (*normalizeJob, error) {
	if p.SrcType == 0 {
		p.SrcType = dtype.U8
	}
	switch {
	case !slices.Contains(sampleTypes, p.SrcType):
		return nil, fmt.Errorf("%w: from %v; it goes from %v", device.ErrArgument, p.SrcType, sampleTypes)
	case !slices.Contains(normalizeTypes(p.SrcType), p.DType):
		return nil, fmt.Errorf("%w: from %v to %v; it goes to %v", device.ErrArgument, p.SrcType, p.DType, normalizeTypes(p.SrcType))
	case p.C < 1 || p.C > 4:
		return nil, fmt.Errorf("%w: %d channels; 1 to 4 are possible", device.ErrArgument, p.C)
	case p.N < 0 || p.H < 0 || p.W < 0:
		return nil, fmt.Errorf("%w: %d images of %d x %d pixels", device.ErrArgument, p.N, p.H, p.W)
	}
	j := &normalizeJob{dst: p.Dst, src: p.Src, dt: p.DType, from: p.SrcType, images: int64(p.N), channels: p.C}
	if err := p.affine(j); err != nil {
		return nil, err
	}
	size := int64(p.DType.Size())
	dstBytes, err := product("N, C, H, W and the element's size", int64(p.N), int64(p.C), int64(p.H), int64(p.W), size)
	if err != nil {
		return nil, err
	}
	if dstBytes > 0 {
		j.pixels = int64(p.H) * int64(p.W)
	}
	if p.Colours != 0 && p.C != 3 {
		return nil, fmt.Errorf("%w: colours of %d channels; they are of 3", device.ErrArgument, p.C)
	}
	dst := operand{"Dst", p.Dst, dstBytes, size}
	srcSize := int64(p.SrcType.Size())
	srcBytes, err := product("N, C, H, W and the sample's size", dstBytes/size, srcSize)
	if err != nil {
		return nil, err
	}
	src := operand{"Src", p.Src, srcBytes, srcSize}
	if dstBytes == 0 || p.Colours == 0 && p.Mix == 0 {
		return j, checkOperands(dst, src)
	}
	return j, p.checkTables(dst, src)
}

// affine works out scale and bias.
func (p Normalize) affine(j *normalizeJob) error {
	for _, list := range [][]float64{p.Mean, p.Std} {
		if len(list) != 0 && (len(list) != p.C || p.DType == p.SrcType) {
			return fmt.Errorf("%w: Mean and Std have %d and %d values for %d channels of %v",
				device.ErrArgument, len(p.Mean), len(p.Std), p.C, p.DType)
		}
	}
	for c := range p.C {
		if p.DType == p.SrcType {
			j.scale[c] = 1
			continue
		}
		mean, std := 0.0, 1.0
		if len(p.Mean) != 0 {
			mean = p.Mean[c]
		}
		if len(p.Std) != 0 {
			std = p.Std[c]
		}
		j.scale[c] = float32(1 / (largest(p.SrcType) * std))
		j.bias[c] = float32(-mean / std)
		if !(std > 0) || !finite(std) || !finite(mean) || !finite(float64(j.scale[c])) || !finite(float64(j.bias[c])) {
			return fmt.Errorf("%w: channel %d: mean %g, standard deviation %g", device.ErrArgument, c, mean, std)
		}
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// kernel names the kernel of that name for samples of the job's type.
func (j *normalizeJob) kernel(name string) string { return kernelFrom(name, j.from) }

func kernelFrom(name string, from dtype.DType) string {
	if from == dtype.U8 {
		return name
	}
	return name + "_from_" + from.String()
}

func (j *normalizeJob) launch(k *Set, s device.Stream) error {
	var args device.Args
	args.Ptr(j.dst).Ptr(j.src).Int64(j.images).Int64(j.pixels)

	name, channels, each := j.kernel("normalize_"+j.dt.String()), 4, int64(1)
	if group := int64(16 / j.dt.Size()); j.from == dtype.U8 && j.channels == 3 && j.pixels%group == 0 && j.dst%16 == 0 && int64(j.src)%group == 0 {
		name, channels, each = "normalize3_"+j.dt.String(), 3, group
	} else {
		args.Int32(int32(j.channels))
	}
	for _, v := range j.scale[:channels] {
		args.Float32(v)
	}
	for _, v := range j.bias[:channels] {
		args.Float32(v)
	}
	return k.kernels[name].Launch(s, device.Grid{
		BlocksX: blocksFor(j.pixels/each, threads),
		BlocksY: int(min(j.images, mostBlocksY)),
		Threads: threads,
	}, &args)
}
