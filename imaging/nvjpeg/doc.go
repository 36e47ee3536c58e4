// Package nvjpeg decodes JPEGs in batches on a CUDA device, with NVIDIA's
// library nvJPEG, which is loaded at run time. GPUs with JPEG engines (A100,
// H100, H200, Ada and newer) leave their multiprocessors free for other work
// and give, within a step of a byte, the pixels of libjpeg-turbo; others decode
// with kernels. PINION_LIB_NVJPEG chooses another file, or "off".
//
//	d, err := nvjpeg.Open(dev, nvjpeg.Options{})
//	if err != nil { … } // device.ErrNotSupported: no CUDA device, or no nvJPEG
//	defer d.Close()
//
//	j, err := nvjpeg.Parse(file) // in the goroutines that read files
//	if err != nil || !d.Supports(j.Header) { … } // leave it to the CPU
//
//	err = d.Decode(stream, []nvjpeg.Picture{{JPEG: j, Dst: pixels, Pitch: 3 * j.Width}})
//	// Work queued on the stream from here on sees the pixels.
//
// # What is decoded
//
// Sequential JPEGs of 8 bits, grey or YCbCr, whatever made them; see
// [Decoder.Supports]. Progressive ones, CMYK and RGB, 12 bits and arithmetic
// codes are not: package imaging decodes them on the CPU. [Decoder.Decode]
// refuses them one by one with a [RefusedError], and decodes the rest of the
// batch.
//
// Whether the bits of a picture are right is known only to those who decode
// them, and the device does not tell. [Parse] finds a file that is cut short,
// segments and tables that are out of order, and missing markers, and so keeps
// malformed files, which some versions of the library stumble over, away from
// it. What it cannot find are bits that went wrong between two markers: such a
// picture comes out wrong without an error, where package imaging fails with
// [imaging.ErrDamaged]. Use that for data that may be damaged in this way.
//
// # Order
//
// Decode takes a stream, and what is queued behind it waits for the pixels.
// But the engines start at once, whatever the stream still has to do; so
// Decode waits for the stream first, and is best given one that has little
// else to do. It keeps its goroutine, and a processor, for most of the time
// that the device decodes. One decoder keeps all engines busy: two beside each
// other decode less than one. A batch of 16 photos is worth it, one of 64 or
// more gives the full rate; kernels want 256.
package nvjpeg
