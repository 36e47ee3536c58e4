// Package kernels holds the functions that Pinion runs on a device. Each is
// written twice: in CUDA (kernels.cu and the files it includes), and in Go for
// devices that call Go functions. Both give the same bits for the same
// arguments, so a test of one holds for the other.
//
//	set, err := kernels.Load(dev)
//	defer set.Close()
//	err = set.Normalize(stream, kernels.Normalize{
//		Dst: batch, DType: dtype.F16, Src: images,
//		N: 64, C: 3, H: 224, W: 224,
//		Mean: []float64{0.485, 0.456, 0.406},
//		Std:  []float64{0.229, 0.224, 0.225},
//	})
//
// # The functions
//
//   - [Set.Resample] makes samples of one size from pictures of many: crop,
//     antialiased resize, EXIF orientation, mirror. A [ResampleTable] says
//     what becomes of each picture.
//   - [Set.Normalize] turns images of 8-bit or 16-bit samples (NHWC) into planes
//     of normalised floats (NCHW), or of the samples as they are. On the way it
//     can jitter the colours of each image ([Colour]) and mix images (mixup).
//   - [Set.Cast] converts elements from one type to another.
//   - [Set.Combine] does arithmetic on the elements of one or two arrays, and
//     [Set.Reduce] makes one value of all elements.
//   - [Set.Fill] repeats an element.
//   - [Set.Gather] and [Set.Scatter] move blocks by index.
//   - [Set.CopySpans] makes many copies of any length, listed in device memory.
//
// # Order and memory
//
// A call checks its arguments, queues the work on the stream and returns before
// it has run. The memory it names must stay allocated until the work is done. It
// may be device memory, or page-locked host memory by its mapped address (see
// [device.Pinner]). Ranges that are read and ranges that are written must not
// overlap. Addresses must be multiples of the element's size; multiples of 16
// are fastest.
//
// Zero elements are no work and no error; addresses may then be zero. Arguments
// that no device could accept fail with [device.ErrArgument], and nothing is
// queued.
//
// # Tables
//
// What differs between images is in a table in device memory, which the caller
// uploads on the same stream. The functions that build tables check them, so a
// mistake is an error before anything runs. A table of colours built some other
// way can only give wrong colours; the tables of [Set.Resample] and
// [Set.CopySpans] hold addresses, and a wrong one can break the device.
//
// # Rounding
//
// Every conversion rounds once, to nearest with ties to even. Floats beyond
// the largest finite value become infinite, integers saturate. A NaN becomes
// the positive quiet NaN without payload (0x7e00 in F16, 0x7fc0 in BF16,
// 0x7fc00000 in F32, 0x7ff8000000000000 in F64) and 0 in integers. Products
// and sums are never fused.
//
// # The device code
//
// kernels.ptx, compiled from kernels.cu by ptx.sh, is embedded. It needs
// compute capability 7.5 and a driver that knows PTX ISA 7.0 (CUDA 11.0).
package kernels
