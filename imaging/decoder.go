package imaging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/color"
	"time"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging/internal/header"
	"github.com/pinion-gpu/pinion/imaging/internal/turbojpeg"
)

// Options configures a [Decoder]. The zero value works.
type Options struct {
	// DType is the type of a sample: U8, or U16 (little-endian) for pictures
	// with 16-bit samples. With U16, 8-bit samples are multiplied by 257, so
	// that white is 65535; with U8, 16-bit samples keep their high byte. Default
	// U8.
	DType dtype.DType
	// Channels is 3 for red, green and blue, or 1 for grey. Colours become grey
	// by the formula of Pillow's convert("L"), before anything is resized.
	// Default 3.
	Channels int
	// Indexes takes the numbers that a PNG stores instead of colours, one per
	// pixel: palette indexes, as in the masks of Pascal VOC, or grey values. Grey
	// of 1, 2 or 4 bits is not scaled up to 8. Transforms resize them by
	// [Nearest], whatever their filter. Other pictures fail with [ErrFormat], as
	// do those of 16 bits if DType is U8. Channels is then 1. Default false.
	Indexes bool
	// MaxPixels limits width x height; larger images fail with [ErrTooLarge]
	// before memory for them is allocated. Default 100 million.
	MaxPixels int
	// MaxBytes limits the host memory that decoding one image takes, its pixels
	// included, as its header implies; images that need more fail with
	// [ErrTooLarge] before any is allocated. Default 1 GiB.
	//
	// Per pixel: 3 bytes for a JPEG with libturbojpeg, and up to 6 more if it is
	// progressive or stores its colours one after the other; up to 8 in other
	// formats, twice that for an interlaced PNG; up to 24 for a progressive JPEG
	// that libturbojpeg does not decode, such as CMYK. [Decoder.Decode] needs the
	// memory of the result besides where the image has to be turned upright or
	// converted.
	//
	// Images that take more than 64 MiB wait for each other, so that they take
	// no more than 1 GiB in the whole process, garbage included; one that takes
	// more than that by itself is decoded alone. The end of a context ends the
	// wait.
	MaxBytes int64
	// IgnoreOrientation leaves pictures as they are stored. Default false: they
	// are turned upright, as Pillow's ImageOps.exif_transpose does, and crops
	// are those of the upright picture.
	IgnoreOrientation bool
	// ScaledDecode lets [Decoder.DecodeTransformed] decode a JPEG at 1/2, 1/4
	// or 1/8 of its size where that leaves at least twice as many pixels, on
	// both sides of the crop, as the resize makes of them. Needs libturbojpeg,
	// without which it does nothing. Default false: every picture is decoded at
	// full size, and results are those of Pillow.
	ScaledDecode bool
}

const (
	defaultMaxPixels = 100_000_000
	defaultMaxBytes  = sharedBytes
	// keepBytes is the largest picture buffer that a decoder keeps for the
	// next image, so that one panorama does not cost every worker its memory
	// for good.
	keepBytes = 64 << 20
)

// Decoder decodes and resizes images, one after the other. It keeps its
// buffers: after warm-up an image costs no allocation when libturbojpeg
// decodes it. Each worker has its own; it is not safe for concurrent use.
type Decoder struct {
	maxPixels                 int
	maxBytes                  int64
	pixel                     pixel
	bad                       error // why pixels cannot be as asked for
	ignoreOrientation, scaled bool
	indexes                   bool
	closed                    bool
	reserved                  int64              // of large
	turbo                     *turbojpeg.Decoder // nil: it is not there
	image                     Image              // decoded by libturbojpeg, before resizing or turning
	reader                    bytes.Reader
	resizer                   Resizer
	grey                      greyRows
	deep                      deepRows
	wide                      wideRows

	decodeTime, resizeTime time.Duration
	width, height          int // of the last picture that was transformed, upright
}

// Check fails with [ErrArgument] for a DType or Channels that there cannot be.
func (o Options) Check() error {
	_, err := o.pixel()
	return err
}

// pixel is what pixels are made of.
func (o Options) pixel() (pixel, error) {
	if o.Indexes && o.Channels > 1 {
		return pixel{}, fmt.Errorf("%w: indexes are pixels of 1 channel, not of %d", ErrArgument, o.Channels)
	}
	if o.Indexes {
		o.Channels = 1
	}
	return pixelOf(o.DType, o.Channels)
}

// NewDecoder makes a decoder. [Decoder.Close] frees it. Where [Options.Check]
// fails, every decode does.
func NewDecoder(opts Options) *Decoder {
	d := &Decoder{
		maxPixels:         opts.MaxPixels,
		maxBytes:          opts.MaxBytes,
		ignoreOrientation: opts.IgnoreOrientation,
		scaled:            opts.ScaledDecode,
		indexes:           opts.Indexes,
		turbo:             turbojpeg.New(),
	}
	d.pixel, d.bad = opts.pixel()
	if d.maxPixels <= 0 {
		d.maxPixels = defaultMaxPixels
	}
	if d.maxBytes <= 0 {
		d.maxBytes = defaultMaxBytes
	}
	return d
}

// MaxPixels returns the largest width x height that is decoded, see [Options].
func (d *Decoder) MaxPixels() int { return d.maxPixels }

// Bytes returns the bytes of a sample that t makes: width x height x channels
// x bytes of DType.
func (d *Decoder) Bytes(t Transform) int { return t.width * t.height * d.pixel.bytes() }

// Close frees the decoder's memory, some of which the Go runtime does not
// know. It may be called again.
func (d *Decoder) Close() {
	if d.closed {
		return
	}
	d.turbo.Close()
	*d = Decoder{closed: true, pixel: d.pixel}
}

// Decode decodes a JPEG, PNG or WebP into m, whose pixels become those of
// [Options], and reuses m.Pix where it is large enough. The format is told by
// content. Alpha is dropped, not blended, as in Pillow, and the picture is
// turned upright as EXIF says, unless [Options.IgnoreOrientation] is set. It
// fails with [ErrFormat], [ErrTooLarge] or [ErrDamaged], or with the context's
// error if it ends while a large picture waits for memory, and then m's content
// is undefined.
func (d *Decoder) Decode(ctx context.Context, m *Image, data []byte) error {
	defer d.settle()
	src, err := d.inspect(data)
	if err != nil {
		return err
	}
	inPlace := src.turbo && src.orientation == Upright && src.pixel == (pixel{})
	if !inPlace {
		src.beside = src.pixels() * int64(src.pixel.bytes()) // m itself
	}
	if err := d.reserve(ctx, &src, data); err != nil {
		return err
	}
	m.DType, m.Channels = d.pixel.dtype(), d.pixel.channels()
	into := m
	if !inPlace {
		into = &d.image
		defer d.trim()
	}
	if err := d.decode(ctx, into, &src, data); err != nil {
		return err
	}
	if _, packed := src.rows.(*packedRows); !packed || !inPlace {
		src.upright(m)
	}
	return nil
}

// DecodeTransformed decodes an image as [Decoder.Decode] does and makes a
// sample of it: dst is HWC, exactly [Decoder.Bytes] of it. key belongs to the
// visit of the sample, see [Transform.Plan]. It fails with [ErrArgument] too.
// After an error dst's content is undefined.
//
// The result is that of Decode, then [Resizer.Resize], but for pictures that a
// Go decoder leaves as YCbCr with subsampled chroma: JPEGs without
// libturbojpeg, lossy WebP. Their planes are resized before they become RGB,
// with chroma interpolated, which is faster and closer to Pillow where colours
// meet; see the package's page. [Options.ScaledDecode] changes it as well.
func (d *Decoder) DecodeTransformed(ctx context.Context, dst, data []byte, t Transform, key uint64) error {
	if err := t.Check(); err != nil {
		return err
	}
	if len(dst) != d.Bytes(t) {
		return fmt.Errorf("%w: a destination of %d bytes for %v, want %d", ErrArgument, len(dst), t, d.Bytes(t))
	}
	if d.indexes {
		t = t.WithFilter(Nearest)
	}
	defer d.settle()
	defer d.trim()
	start := time.Now()
	src, err := d.inspect(data)
	if err != nil {
		return err
	}
	if err := d.reserve(ctx, &src, data); err != nil {
		return err
	}
	d.width, d.height = src.orientation.Size(src.width, src.height)
	plan := t.Plan(d.width, d.height, key)
	if d.scaled && src.turbo {
		src.shrink = plan.shrink()
	}
	err = d.decode(ctx, &d.image, &src, data)
	decoded := time.Now()
	if err == nil {
		d.resizer.resize(dst, &src, plan)
	}
	d.decodeTime, d.resizeTime = decoded.Sub(start), time.Since(decoded)
	return err
}

// Elapsed tells how the last [Decoder.DecodeTransformed] spent its time. Where a
// Go decoder did the work, conversion to RGB counts as resize, since only
// what is needed is converted.
func (d *Decoder) Elapsed() (decode, resize time.Duration) {
	return d.decodeTime, d.resizeTime
}

// Source returns the size in pixels, upright, of the picture that the last
// [Decoder.DecodeTransformed] made a sample of.
func (d *Decoder) Source() (width, height int) { return d.width, d.height }

// picture is an image in a file and then, decoded, rows that may still have to
// be converted to its pixels. Sizes are as it is stored.
type picture struct {
	rows
	pixel         pixel
	format        header.Format
	turbo         bool // libturbojpeg decodes it
	width, height int
	shrink        int         // log2 of how much smaller it is decoded
	model         color.Model // where a Go decoder says it
	beside        int64       // bytes of it in memory beside what decoding takes
	orientation   Orientation
}

// inspect reads what the file says of its picture.
func (d *Decoder) inspect(data []byte) (src picture, err error) {
	if d.closed {
		return src, fmt.Errorf("decoder %w", ErrClosed)
	}
	if d.bad != nil {
		return src, d.bad
	}
	src.pixel = d.pixel
	if src.format, err = header.Sniff(data); err != nil {
		return src, err
	}
	if d.indexes && src.format != header.PNG {
		return src, fmt.Errorf("%w: indexes of a %s, want a PNG", ErrFormat, src.format)
	}
	src.orientation = Upright
	if !d.ignoreOrientation {
		src.orientation = Orientation(header.Orientation(src.format, data))
	}
	if src.format == header.JPEG && d.turbo != nil {
		if src.turbo, err = d.turbo.Header(data); err != nil {
			return src, err
		}
		src.width, src.height = d.turbo.Size()
	}
	if !src.turbo {
		if err := d.inspectGo(&src, data); err != nil {
			return src, err
		}
	}
	return src, d.checkSize(src.format, src.width, src.height)
}

// decode gives src its rows. Those of a picture that libturbojpeg can decode
// lie in m, an image of RGB, others in new memory.
func (d *Decoder) decode(ctx context.Context, m *Image, src *picture, data []byte) error {
	err := d.decodeRGB(ctx, m, src, data)
	switch {
	case err != nil:
	case d.indexes:
		return d.stored(src, data)
	case src.pixel.deep:
		d.deep.rows, d.deep.grey = src.rows, src.pixel.grey
		src.rows = &d.deep
	case src.pixel.grey:
		if as, ok := src.rows.(*grayRows); ok { // grey bytes, as they are
			src.rows = &planeRows{as.pix, as.stride}
			return err
		}
		d.grey.rows = src.rows
		src.rows = &d.grey
	}
	return err
}

// decodeRGB is decode for rows of RGB, or of 16 bits.
func (d *Decoder) decodeRGB(ctx context.Context, m *Image, src *picture, data []byte) error {
	if src.turbo {
		width, height := shrunk(src.width, src.shrink), shrunk(src.height, src.shrink)
		m.reshape(width, height)
		src.rows = (*packedRows)(m)
		err := d.turbo.Decode(m.Pix, data, width, height)
		if !errors.Is(err, turbojpeg.ErrDoubtful) {
			return err
		}
		// image/jpeg reads past harmless oddities and fails on damage.
		width, height = src.width, src.height
		if err := d.inspectGo(src, data); err != nil {
			return err
		}
		if width != src.width || height != src.height {
			return fmt.Errorf("%w: JPEG of %dx%d and of %dx%d pixels", ErrDamaged, width, height, src.width, src.height)
		}
		src.turbo, src.shrink = false, 0
		if cap(m.Pix) > keepBytes {
			m.Pix = nil // not to be held while others are waited for
		}
		if m.Pix != nil || m != &d.image { // it has memory, or will have it for the result
			src.beside += src.packedBytes()
		}
		if err := d.reserve(ctx, src, data); err != nil {
			return err
		}
	}
	return d.decodeGo(src, data)
}

// trim forgets the picture, but for a buffer that is not too large to keep.
func (d *Decoder) trim() {
	d.grey.rows, d.deep.rows, d.wide = nil, nil, wideRows{}
	if cap(d.image.Pix) > keepBytes {
		d.image = Image{}
	}
}

func (d *Decoder) checkSize(f header.Format, width, height int) error {
	switch {
	case width < 1 || height < 1:
		return fmt.Errorf("%w: %s of %dx%d pixels", ErrDamaged, f, width, height)
	case width > maxSide || height > maxSide:
		return fmt.Errorf("%w: %s of %dx%d pixels, sides may have %d", ErrTooLarge, f, width, height, maxSide)
	case int64(width)*int64(height) > int64(d.maxPixels):
		return fmt.Errorf("%w: %s of %dx%d = %d pixels, the limit is %d", ErrTooLarge, f, width, height, int64(width)*int64(height), d.maxPixels)
	}
	return nil
}
