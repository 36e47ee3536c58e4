// Package imaging decodes pictures and turns them into samples on the CPU,
// thousands a second.
//
//	d := imaging.NewDecoder(imaging.Options{})
//	defer d.Close()
//
//	t, err := imaging.ParseTransform("rrc:224,flip", 224)
//	dst := make([]byte, d.Bytes(t)) // 224 x 224 x 3
//	err = d.DecodeTransformed(ctx, dst, jpegBytes, t, key)
//
// A picture is rows of red, green and blue bytes without padding (HWC, uint8),
// or, if [Options] say so, of 16-bit samples, of grey, or both. This is what
// travels to the device, which turns it into normalised floats in NCHW.
//
// # Transforms
//
// A [Transform] says which part of a picture is taken, how it is scaled, and
// whether it is mirrored: [CenterCrop], [Stretch] or [RandomResizedCrop], refined
// by its methods, or parsed from text by [ParseTransform]. They are torchvision's
// transforms, with the same bytes where nothing is random. A [Jitter] of colours
// is only carried and drawn here; the device applies it to floats.
//
// Everything random depends on a 64-bit key alone, such as a hash of seed, epoch
// and sample. [Transform.Plan] makes a [Plan] from the key and the size of the
// picture; the plan holds everything else, so a device that gets it can do the
// work instead.
//
// # Decoding
//
// A [Decoder] reads JPEG, PNG and WebP and recognises them by content. JPEGs are
// decoded by libjpeg-turbo if its library libturbojpeg is installed, three to
// five times as fast as image/jpeg. image/jpeg is used otherwise, for CMYK, and
// for the rare file that is intact but makes the library warn. [JPEGDecoder]
// names the one in use. PINION_LIB_TURBOJPEG names another library file, or
// "off". A photo that is cut short or corrupt fails with [ErrDamaged], even where
// a viewer would show the rest in grey. Sizes are checked before memory is
// allocated.
//
// With libjpeg-turbo the bytes are Pillow's. image/jpeg differs in the last bits,
// and at edges of colour, because [Decoder.Decode] then repeats chroma samples
// instead of interpolating them; lossy WebP does too. PNG and lossless WebP are
// exact. Alpha is dropped, as by Pillow's convert("RGB").
//
// # 16 bits, and grey
//
// Depth maps, X-rays, and images from microscopes and satellites have 16-bit
// samples, often in one channel; here only PNGs do. With [Options.DType] U16 their
// samples are exact, and 8-bit samples are multiplied by 257, so that 255 becomes
// 65535. With U8, the default, 16-bit samples keep their high byte. Pillow does
// the same for pictures with colour or alpha; of 16-bit grey its convert("RGB")
// makes white of everything above 255 of 65535, which nobody wants.
//
// With [Options.Channels] 1, colours become grey before anything is resized, by
// the formula of Pillow's convert("L") (ITU-R BT.601):
//
//	(19595*R + 38470*G + 7471*B + 32768) >> 16
//
// of 8-bit samples, or of 16-bit samples if DType is U16. Grey pictures keep
// every bit.
//
// 16-bit samples are resized as in Pillow's mode I;16 since version 11.0: float64
// sums, unrounded weights, each pass rounded to nearest. Pillow has no 16-bit
// RGB; here each channel is what it would be alone. Where bicubic overshoots
// 65535 the result is 65535, while Pillow's low byte wraps around. This code is
// portable and has no assembly: it takes 10 times (grey) to 25 times (RGB) as
// long as the vector code for bytes, but less than decoding the PNG.
//
// # Masks
//
// The filter [Nearest] copies pixels unchanged, for pictures whose values are
// classes. [Options.Indexes] gives the numbers that a PNG stores: palette indexes,
// or grey values. With the key of the same visit, a mask gets the same crop and
// mirroring as its picture.
//
// # Orientation
//
// Pictures are turned upright as their EXIF data says, in all three formats, as
// by Pillow's ImageOps.exif_transpose; [Options.IgnoreOrientation] leaves them
// as stored. Orientations that are only in XMP, or only in the text chunks of a
// PNG ("Raw profile type exif"), are not read. A crop is planned for the upright
// picture and taken from where it lies in the stored one; only the result is
// turned. The bytes are those of turning first: weights are computed for the
// upright picture, and a picture stored on its side is resized along its columns
// first. Only chroma that a Go decoder left subsampled (see below) may differ by
// one.
//
// # Resizing
//
// A [Resizer] scales with Pillow's antialiased filters [Bilinear] and [Bicubic], or
// with [Nearest], to the same bytes, which is what a network trained with
// torchvision transforms expects. Only the crop is resized; rows and columns
// outside it are not even converted to RGB. Mirroring is free: the weights are
// mirrored. With AVX2 or AVX-512, vector code gives the same bytes; the build tag
// noasm leaves it out.
//
// [Decoder.DecodeTransformed] takes a shortcut where a Go decoder leaves YCbCr
// planes with subsampled chroma: it resizes luma and chroma separately, each from
// the resolution it is stored in, and converts the small result. Chroma is
// interpolated between the centres of its samples, as libjpeg-turbo does. A
// 500x375 photo cropped to 224x224 then differs from Pillow's by 0.25 of a byte
// step on average, nearly always by 0 or 1, and by more than 2 in 0.1 % of its
// bytes, next to pixels clipped to 0 or 255. Decoding to RGB first differs by 0.15,
// but by more than 2 in 0.8 %, along edges of colour. At a fifth of the size and
// below, decoding first would be the closer one (0.06 against 0.4).
//
// # Scaled decode
//
// libjpeg-turbo can decode at 1/2, 1/4 and 1/8 of the size, for less work.
// [Options.ScaledDecode] allows it where the crop still has at least twice as
// many pixels on each side as the result. It is off by default, so that every
// byte is Pillow's. On photos of 500x375 to 2000x1500, cropped to 28 to 224
// pixels, it took 13 % to 36 % less time and differed by 0.2 to 0.5 of a byte
// step on average, and by 9 at most.
//
// # Memory
//
// Decoders and resizers keep their buffers and tables of weights, and belong to
// one goroutine each. After the first few images an image costs no allocation,
// unless one of Go's decoders has to decode it. [Options].MaxBytes limits what
// one image may take, and all large images of a process share a limit.
package imaging
