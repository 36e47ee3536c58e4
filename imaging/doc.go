// Package imaging makes samples of pictures on the CPU, for workers that do it
// thousands of times a second.
//
//	d := imaging.NewDecoder(imaging.Options{})
//	defer d.Close()
//
//	t, err := imaging.ParseTransform("rrc:224,flip", 224)
//	dst := make([]byte, t.Bytes()) // 224 x 224 x 3
//	err = d.DecodeTransformed(dst, jpegBytes, t, key)
//
// A picture is rows of red, green and blue bytes without padding: HWC, uint8;
// or if [Options] ask for it, samples of 16 bits, grey, or both. That is what
// travels to the device; normalised floats in NCHW are made there.
//
// # Transforms
//
// A [Transform] says which part of a picture is taken, how it is scaled, and
// whether it is mirrored: [CenterCrop], [Stretch] or [RandomResizedCrop], with
// more set by its methods, or as text by [ParseTransform]. They are those of
// torchvision, with the same bytes where nothing is random. A [Jitter] of
// colours is only carried and drawn here: it is applied to floats, on the
// device.
//
// What is random depends on a key of 64 bits and on nothing else: a hash of
// seed, epoch and sample, say. [Transform.Plan] makes a [Plan] of key and
// size: the boxes and numbers of one visit. It is the same on every machine,
// so a device that gets the plan can do the work instead.
//
// # Decoding
//
// A [Decoder] reads JPEG, PNG and WebP and tells them by content. JPEGs are
// decoded by libjpeg-turbo when its library libturbojpeg is installed, three to
// five times as fast as image/jpeg, which is used otherwise, for CMYK, and for
// the rare file that is whole but of which the library warns; [JPEGDecoder]
// says which one it is. PINION_LIB_TURBOJPEG chooses another file, or "off". A
// photo that is cut short or corrupt fails with [ErrDamaged] even where a
// viewer would show the rest of it in grey. Size is checked before memory is
// allocated.
//
// With libjpeg-turbo the bytes are those that Pillow decodes. image/jpeg
// differs in the last bits, and at edges of colour, since [Decoder.Decode]
// then repeats chroma and does not interpolate it; so does lossy WebP. PNG
// and lossless WebP are exact. Transparency is dropped as by Pillow's
// convert("RGB").
//
// # 16 bits, and grey
//
// Depth maps, X-rays and pictures of microscopes and satellites have samples of
// 16 bits, and often one channel. PNG alone has them here. With
// [Options.DType] U16 their samples are exact; those of 8 bits become 257 times
// as much, so that 65535 is what 255 was. With U8, the default, samples of 16
// bits keep their high byte. Pillow does the same for those in colour or with
// transparency; of a grey one its convert("RGB") makes white of everything
// above 255 of 65535, which nobody wants.
//
// With [Options.Channels] 1 colours become grey before anything is resized, by
// the formula of Pillow's convert("L"), which is that of ITU-R BT.601:
//
//	(19595*R + 38470*G + 7471*B + 32768) >> 16
//
// of samples of 8 bits, or of those of 16 if DType is U16. Grey stays what it
// is, bit for bit.
//
// Samples of 16 bits are resized as in Pillow's mode I;16 since version 11.0:
// sums of float64 with weights that are not rounded, each pass rounded to
// nearest. Pillow has no RGB of 16 bits; here each channel is what it would be
// alone. What bicubic makes of more than 65535 is 65535, where in Pillow the
// low byte wraps round. This is portable code without assembly: it takes some
// 10 (grey) to 25 times (RGB) as long as the vector code for bytes, but less
// than decoding the PNG.
//
// # Masks
//
// The filter [Nearest] takes pixels as they are, for pictures whose values are
// classes, and [Options.Indexes] the numbers that a PNG stores: the indexes of its
// palette, or its grey. With the key of the visit, a mask gets the box and the
// mirroring of its picture.
//
// # Orientation
//
// Pictures are turned upright as their EXIF data says, in all three formats, as
// by Pillow's ImageOps.exif_transpose; [Options.IgnoreOrientation] leaves them
// as they are. Orientations that only XMP notes, or only the text chunks of a
// PNG ("Raw profile type exif"), are not read. A transform plans its crop for
// the upright picture, takes it from where it lies in the stored one, and turns
// nothing but the result. The bytes are those of turning first: weights are
// computed for the upright picture, and one that lies on its side is resized
// along its columns first. Only chroma that a Go decoder left coarse (see
// below) may come out one step different.
//
// # Resizing
//
// A [Resizer] scales with Pillow's antialiased filters, [Bilinear] and
// [Bicubic], or by [Nearest], and gives the same bytes, which a network trained with
// torchvision transforms expects. A crop is resized alone: rows and columns
// outside are not even converted to RGB. A mirrored result costs nothing
// more: the weights are mirrored. Processors with AVX2 or AVX-512 do several
// pixels at a time, with the same bytes; the build tag noasm leaves that out.
//
// [Decoder.DecodeTransformed] takes a shortcut where a Go decoder leaves
// planes of YCbCr with subsampled chroma: it resizes luma and chroma
// separately, straight from the resolution that each is stored in, and
// converts the small result. Chroma is interpolated between the centres of its
// samples, as libjpeg-turbo does. A photo of 500x375 cropped to 224x224 then
// differs from Pillow's by 0.25 steps of a byte in the mean, nearly always by
// 0 or 1, and by more than 2 in 0.1 % of its bytes: beside pixels that are
// clipped to 0 or 255. Decoding first differs by 0.15, but by more than 2 in
// 0.8 %, along edges of colour. At a fifth of the size and below it would be
// the closer one in all (0.06 against 0.4).
//
// # Scaled decode
//
// libjpeg-turbo can decode at 1/2, 1/4 and 1/8 of the size, for less work.
// [Options.ScaledDecode] allows it where the crop still has at least twice as
// many pixels on each side as the result. It is off by default, for then every
// byte is Pillow's. Photos of 500x375 to 2000x1500, cropped to 28 to 224
// pixels, took 13 % to 36 % less time with it and differed by 0.2 to 0.5 steps
// of a byte in the mean and by 9 at most.
//
// # Memory
//
// Decoders and resizers keep their buffers and tables of weights and belong to
// one goroutine each. After the first images an image costs no allocation,
// unless one of Go's decoders has to decode it. [Options].MaxBytes bounds what
// an image may take, and all large ones of a process share a limit.
package imaging
