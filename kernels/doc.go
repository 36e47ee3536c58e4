// Package kernels holds the functions that Pinion runs on a device, each
// written twice: in CUDA (kernels.cu and what it includes) for devices that launch kernels, and in
// Go for devices whose kernels are Go functions. The two give the same bytes
// for the same arguments, bit for bit, so that what is tested on one holds on
// the other.
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
//   - [Set.Normalize] turns images as samples of 8 or 16 bits (NHWC) into planes
//     of normalised floats (NCHW), or of the same samples; on the way it can
//     change the colours of each image ([Colour]) and mix images (mixup).
//   - [Set.Cast] converts elements from one type to another.
//   - [Set.Fill] repeats an element.
//   - [Set.Gather] and [Set.Scatter] move blocks from and to places that an
//     index names.
//   - [Set.CopySpans] makes many copies of any length, which a list in memory
//     of the device names.
//
// # Order and memory
//
// A call checks its arguments and queues the work on the stream; it has not
// run when the call returns. The memory that it names must live until the work
// is done, and is any that the device can address: its own, or page-locked
// host memory by its mapped address (see [device.Pinner]). Ranges that are
// read and written must not overlap. Addresses have to be multiples of their
// element's size and of nothing more, but multiples of 16 are fastest.
//
// No elements is no work: it is no error, and addresses may then be zero.
// Arguments that no device could accept fail with [device.ErrArgument], and
// nothing is queued.
//
// # Tables
//
// What differs from image to image lies in a table in memory of the device,
// which the caller uploads on the same stream. The types and functions that
// make tables check them, so a mistake is an error before anything runs.
// Tables that were made in another way can at worst give other colours, but a
// table of [Set.Resample] or [Set.CopySpans] holds addresses.
//
// # Rounding
//
// Every conversion rounds once, to nearest with ties to even. Floats beyond
// the largest finite value become infinite, integers saturate. A NaN becomes
// the positive quiet NaN without payload (0x7e00 in F16, 0x7fc0 in BF16,
// 0x7fc00000 in F32, 0x7ff8000000000000 in F64) and 0 in integers. Products
// and sums round apart, never fused.
//
// # The device code
//
// kernels.ptx, compiled from kernels.cu by ptx.sh, is embedded. It needs
// compute capability 7.5 and a driver that knows PTX ISA 7.0 (CUDA 11.0).
package kernels
