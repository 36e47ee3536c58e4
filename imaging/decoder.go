package imaging

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Options configures a [Decoder]. The zero value works.
type Options struct {
	// MaxPixels is the largest width x height that is decoded; larger images
	// fail with [ErrTooLarge] before memory for them is allocated. A decoder
	// takes 3 bytes for each pixel of a JPEG with libturbojpeg (twice that
	// again while a progressive one is decoded), up to 8 in other formats, and
	// up to 24 for a progressive JPEG that libturbojpeg does not decode, such as
	// one of CMYK; and 3 more while it turns one upright.
	// Pictures of more than 20 million pixels are decoded one at a time, in the
	// whole process. Default 100 million.
	MaxPixels int
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
	ignoreOrientation, scaled bool
	closed                    bool
	alone                     bool // holds huge
	turbo                     turboHandle
	image                     Image // decoded by libturbojpeg, before resizing or turning
	reader                    bytes.Reader
	resizer                   Resizer

	decodeTime, resizeTime time.Duration
}

// NewDecoder makes a decoder. [Decoder.Close] frees it.
func NewDecoder(opts Options) *Decoder {
	d := &Decoder{
		maxPixels:         opts.MaxPixels,
		ignoreOrientation: opts.IgnoreOrientation,
		scaled:            opts.ScaledDecode,
		turbo:             turboHandle{api: turbo()},
	}
	if d.maxPixels <= 0 {
		d.maxPixels = defaultMaxPixels
	}
	return d
}

// MaxPixels returns the largest width x height that is decoded, see [Options].
func (d *Decoder) MaxPixels() int { return d.maxPixels }

// Close frees the decoder's memory, some of which the Go runtime does not
// know. It may be called again.
func (d *Decoder) Close() {
	if d.closed {
		return
	}
	d.turbo.close()
	*d = Decoder{closed: true}
}

// Decode decodes a JPEG, PNG or WebP into m and reuses m.Pix where it is
// large enough. The format is told by content. Alpha is dropped, not blended,
// as in Pillow, and the picture is turned upright as EXIF says, unless
// [Options.IgnoreOrientation] is set. It fails with [ErrFormat], [ErrTooLarge]
// or [ErrDamaged], and then m's content is undefined.
func (d *Decoder) Decode(m *Image, data []byte) error {
	defer d.settle()
	src, err := d.inspect(data)
	if err != nil {
		return err
	}
	into := m
	if src.orientation != Upright {
		into = &d.image
		defer d.trim()
	}
	if err := d.decode(into, &src, data); err != nil {
		return err
	}
	if _, packed := src.rows.(*packedRows); !packed || into != m {
		src.upright(m)
	}
	return nil
}

// DecodeTransformed decodes an image as [Decoder.Decode] does and makes a
// sample of it: dst is HWC RGB bytes, exactly [Transform.Bytes] of them. key
// belongs to the visit of the sample, see [Transform.Plan]. It fails with
// [ErrArgument] too. After an error dst's content is undefined.
//
// The result is that of Decode, then [Resizer.Resize], but for pictures that a
// Go decoder leaves as YCbCr with subsampled chroma: JPEGs without
// libturbojpeg, lossy WebP. Their planes are resized before they become RGB,
// with chroma interpolated, which is faster and closer to Pillow where colours
// meet; see the package's page. [Options.ScaledDecode] changes it as well.
func (d *Decoder) DecodeTransformed(dst, data []byte, t Transform, key uint64) error {
	if err := t.Check(); err != nil {
		return err
	}
	if len(dst) != t.Bytes() {
		return fmt.Errorf("%w: a destination of %d bytes for %v, want %d", ErrArgument, len(dst), t, t.Bytes())
	}
	defer d.settle()
	defer d.trim()
	start := time.Now()
	src, err := d.inspect(data)
	if err != nil {
		return err
	}
	width, height := src.orientation.Size(src.width, src.height)
	plan := t.Plan(width, height, key)
	if d.scaled && src.turbo {
		src.shrink = plan.shrink()
	}
	err = d.decode(&d.image, &src, data)
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

// picture is an image in a file and then, decoded, rows that may still have to
// be converted to RGB. Sizes are as it is stored.
type picture struct {
	rows
	format        format
	turbo         bool // libturbojpeg decodes it
	width, height int
	shrink        int // log2 of how much smaller it is decoded
	orientation   Orientation
}

// inspect reads what the file says of its picture.
func (d *Decoder) inspect(data []byte) (src picture, err error) {
	if d.closed {
		return src, ErrClosed
	}
	if src.format, err = sniff(data); err != nil {
		return src, err
	}
	src.orientation = Upright
	if !d.ignoreOrientation {
		src.orientation = orientationOf(src.format, data)
	}
	if src.format == formatJPEG && d.turbo.api != nil {
		if src.turbo, err = d.turbo.header(data); err != nil {
			return src, err
		}
		src.width, src.height = int(d.turbo.width), int(d.turbo.height)
	}
	if !src.turbo {
		if src.width, src.height, err = d.sizeGo(src.format, data); err != nil {
			return src, err
		}
	}
	return src, d.checkSize(src.format, src.width, src.height)
}

// decode gives src its rows: in m if libturbojpeg can decode it, else in new
// memory.
func (d *Decoder) decode(m *Image, src *picture, data []byte) error {
	if src.turbo {
		width, height := shrunk(src.width, src.shrink), shrunk(src.height, src.shrink)
		m.reshape(width, height)
		src.rows = (*packedRows)(m)
		err := d.turbo.decode(m.Pix, data, width, height)
		if !errors.Is(err, errDoubtful) {
			return err
		}
		// image/jpeg reads past harmless oddities and fails on damage.
		src.shrink = 0
		width, height, err = d.sizeGo(src.format, data)
		if err != nil {
			return err
		}
		if width != src.width || height != src.height {
			return fmt.Errorf("%w: JPEG of %dx%d and of %dx%d pixels", ErrDamaged, src.width, src.height, width, height)
		}
	}
	return d.decodeGo(src, data)
}

// trim forgets a picture buffer that is too large to keep.
func (d *Decoder) trim() {
	if cap(d.image.Pix) > keepBytes {
		d.image = Image{}
	}
}

func (d *Decoder) checkSize(f format, width, height int) error {
	switch {
	case width < 1 || height < 1:
		return fmt.Errorf("%w: %s of %dx%d pixels", ErrDamaged, f, width, height)
	case width > maxSide || height > maxSide:
		return fmt.Errorf("%w: %s of %dx%d pixels, sides may have %d", ErrTooLarge, f, width, height, maxSide)
	case int64(width)*int64(height) > int64(d.maxPixels):
		return fmt.Errorf("%w: %s of %dx%d = %d pixels, the limit is %d", ErrTooLarge, f, width, height, int64(width)*int64(height), d.maxPixels)
	case width*height > hugePixels && !d.alone:
		huge.Lock()
		d.alone = true
	}
	return nil
}

// huge is held by the decoder that has a picture of more than hugePixels in
// memory: such a picture takes up to 24 bytes a pixel, and one for every worker
// could be more than the machine has.
var huge sync.Mutex

const hugePixels = 20_000_000

// settle ends what checkSize began, when the picture is done with.
func (d *Decoder) settle() {
	if d.alone {
		d.alone = false
		huge.Unlock()
	}
}
