// Package imaging decodes and resizes pictures on the CPU, for workers that
// do it thousands of times a second.
//
//	d := imaging.NewDecoder(imaging.Options{})
//	defer d.Close()
//
//	g := imaging.CenterCrop(224)
//	dst := make([]byte, g.Bytes()) // 224 x 224 x 3
//	err := d.DecodeResized(dst, jpegBytes, g)
//
// A picture is rows of red, green and blue bytes without padding: HWC, uint8.
// That is what travels to the device; normalised floats in NCHW are made
// there.
//
// # Decoding
//
// A [Decoder] reads JPEG, PNG and WebP and tells them by content. JPEGs are
// decoded by libjpeg-turbo when its library libturbojpeg is installed, three
// to five times as fast as image/jpeg, which is used otherwise and for CMYK;
// [JPEGDecoder] says which one it is. PINION_LIB_TURBOJPEG chooses another
// file, or "off". A photo that is cut short or corrupt fails with
// [ErrDamaged] even where a viewer would show the rest of it in grey. Size is
// checked before memory is allocated.
//
// With libjpeg-turbo the bytes are those that Pillow decodes. image/jpeg
// differs in the last bits, and at edges of colour, since [Decoder.Decode]
// then repeats chroma and does not interpolate it; so does lossy WebP. PNG
// and lossless WebP are exact. Transparency is dropped as by Pillow's
// convert("RGB"), and EXIF rotation is not applied.
//
// # Resizing
//
// A [Resizer] scales with the antialiased bilinear filter of Pillow and gives
// the same bytes, which a network trained with torchvision transforms
// expects. A [Geometry] says what becomes of the size: [CenterCrop] or
// [Stretch]. A crop is resized alone: rows and columns outside are not even
// converted to RGB. Processors with AVX2 do several pixels at a time, with
// the same bytes; the build tag noasm leaves that out.
//
// [Decoder.DecodeResized] takes a shortcut where a Go decoder leaves planes
// of YCbCr with subsampled chroma: it resizes luma and chroma separately,
// straight from the resolution that each is stored in, and converts the small
// result. Chroma is interpolated between the centres of its samples, as
// libjpeg-turbo does. A photo of 500x375 cropped to 224x224 then differs from
// Pillow's by 0.25 steps of a byte in the mean, nearly always by 0 or 1, and
// by more than 2 in 0.1 % of its bytes: beside pixels that are clipped to 0
// or 255. Decoding first differs by 0.15, but by more than 2 in 0.8 %, along
// edges of colour. At a fifth of the size and below it would be the closer
// one in all (0.06 against 0.4).
//
// # Memory
//
// Decoders and resizers keep their buffers and filters and belong to one
// goroutine each. After the first images an image costs no allocation, unless
// one of Go's decoders has to decode it.
package imaging
