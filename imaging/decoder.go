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
	// again while a progressive one is decoded) and up to 8 in other formats.
	// Pictures of more than 20 million pixels are decoded one at a time, in the
	// whole process. Default 100 million.
	MaxPixels int
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
	maxPixels int
	closed    bool
	alone     bool // holds huge
	turbo     turboHandle
	image     Image // decoded by libturbojpeg, before resizing
	reader    bytes.Reader
	resizer   Resizer

	decodeTime, resizeTime time.Duration
}

// NewDecoder makes a decoder. [Decoder.Close] frees it.
func NewDecoder(opts Options) *Decoder {
	d := &Decoder{maxPixels: opts.MaxPixels, turbo: turboHandle{api: turbo()}}
	if d.maxPixels <= 0 {
		d.maxPixels = defaultMaxPixels
	}
	return d
}

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
// and a rotation noted in EXIF is not applied; both as in Pillow. It fails
// with [ErrFormat], [ErrTooLarge] or [ErrDamaged], and then m's content is
// undefined.
func (d *Decoder) Decode(m *Image, data []byte) error {
	defer d.settle()
	src, err := d.decode(m, data)
	if err != nil {
		return err
	}
	if _, done := src.rows.(*packedRows); done {
		return nil
	}
	m.reshape(src.width, src.height)
	stride := 3 * src.width
	for y := range src.height {
		src.row(y, 0, src.width, m.Pix[y*stride:][:stride])
	}
	return nil
}

// DecodeResized decodes an image as [Decoder.Decode] does and resizes it into
// dst, HWC RGB bytes, exactly [Geometry.Bytes] of them; see [Resizer.Resize].
// It fails with [ErrArgument] too. After an error dst's content is undefined.
//
// The result is that of Decode, then Resize, but for pictures that a Go
// decoder leaves as YCbCr with subsampled chroma: JPEGs without libturbojpeg,
// lossy WebP. Their planes are resized before they become RGB, with chroma
// interpolated, which is faster and closer to Pillow where colours meet; see
// the package's page.
func (d *Decoder) DecodeResized(dst, data []byte, g Geometry) error {
	if err := checkTarget(dst, g); err != nil {
		return err
	}
	defer d.settle()
	start := time.Now()
	src, err := d.decode(&d.image, data)
	decoded := time.Now()
	if err == nil {
		if planes, ok := src.rows.(*ycbcrRows); ok && planes.coarse() {
			d.resizer.resizeYCbCr(dst, planes, src.width, src.height, g)
		} else {
			d.resizer.resize(dst, src, g)
		}
	}
	d.decodeTime, d.resizeTime = decoded.Sub(start), time.Since(decoded)
	if cap(d.image.Pix) > keepBytes {
		d.image = Image{}
	}
	return err
}

// Elapsed tells how the last [Decoder.DecodeResized] spent its time. Where a
// Go decoder did the work, conversion to RGB counts as resize, since only
// what is needed is converted.
func (d *Decoder) Elapsed() (decode, resize time.Duration) {
	return d.decodeTime, d.resizeTime
}

// picture is a decoded image that may still have to be converted to RGB.
type picture struct {
	rows
	width, height int
}

// decode decodes into m if libturbojpeg can, and else into new memory.
func (d *Decoder) decode(m *Image, data []byte) (picture, error) {
	if d.closed {
		return picture{}, ErrClosed
	}
	f, err := sniff(data)
	if err != nil {
		return picture{}, err
	}
	if f == formatJPEG && d.turbo.api != nil {
		able, err := d.turbo.header(data)
		if err != nil {
			return picture{}, err
		}
		if able {
			src, err := d.decodeTurbo(m, data)
			if !errors.Is(err, errDoubtful) {
				return src, err
			}
			// image/jpeg reads past harmless oddities and fails on damage.
		}
	}
	return d.decodeGo(f, data)
}

func (d *Decoder) decodeTurbo(m *Image, data []byte) (picture, error) {
	width, height := int(d.turbo.width), int(d.turbo.height)
	if err := d.checkSize(formatJPEG, width, height); err != nil {
		return picture{}, err
	}
	m.reshape(width, height)
	if err := d.turbo.decode(m.Pix, data); err != nil {
		return picture{}, err
	}
	return picture{(*packedRows)(m), width, height}, nil
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
// memory: such a picture takes up to 8 bytes a pixel, and one for every worker
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
