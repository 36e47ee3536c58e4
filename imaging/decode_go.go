package imaging

import (
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"strings"

	"github.com/pinion-gpu/pinion/imaging/internal/header"
	"github.com/pinion-gpu/pinion/imaging/internal/turbojpeg"
	"golang.org/x/image/webp"
)

// codecs are the decoders written in Go, which allocate for every image.
var codecs = map[header.Format]struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}{
	header.JPEG: {jpeg.DecodeConfig, jpeg.Decode},
	header.PNG:  {png.DecodeConfig, png.Decode},
	header.WebP: {webp.DecodeConfig, webp.Decode},
}

// inspectGo reads the size and the colours of a picture.
func (d *Decoder) inspectGo(src *picture, data []byte) (err error) {
	defer recovered(src.format, &err)
	defer d.reader.Reset(nil)
	d.reader.Reset(data)
	config, err := codecs[src.format].config(&d.reader)
	if err != nil {
		return codecError(src.format, data, err)
	}
	src.width, src.height, src.model = config.Width, config.Height, config.ColorModel
	return nil
}

// decodeGo gives src, whose size was read, its rows.
func (d *Decoder) decodeGo(src *picture, data []byte) (err error) {
	f := src.format
	defer recovered(f, &err)
	if f == header.JPEG {
		if scans := header.Scans(data); scans > header.MaxScans {
			return fmt.Errorf("%w: %s of %d scans, the limit is %d", ErrTooLarge, f, scans, header.MaxScans)
		}
	}
	defer d.reader.Reset(nil)
	d.reader.Reset(data)
	img, err := codecs[f].decode(&d.reader)
	if err != nil {
		return codecError(f, data, err)
	}
	if b := img.Bounds(); b != image.Rect(0, 0, src.width, src.height) {
		return fmt.Errorf("%w: %s of %v, its header says %dx%d", ErrDamaged, f, b, src.width, src.height)
	}
	src.rows = rowsOf(img, f)
	if src.rows == nil {
		return fmt.Errorf("%w: %s decoded to %T", ErrFormat, f, img)
	}
	return nil
}

// recovered makes an error of a panic: foreign bytes must not take the process
// down through a fault in somebody's decoder.
func recovered(f header.Format, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %s: the decoder panicked: %v", ErrDamaged, f, r)
	}
}

func codecError(f header.Format, data []byte, err error) error {
	var unsupportedJPEG jpeg.UnsupportedError
	var unsupportedPNG png.UnsupportedError
	if errors.As(err, &unsupportedJPEG) && strings.Contains(string(unsupportedJPEG), "subsampling") {
		return fmt.Errorf("%w: JPEG with the sampling factors %s, which image/jpeg does not decode%s", ErrFormat, header.Sampling(data), afterTurbo())
	}
	if errors.As(err, &unsupportedJPEG) || errors.As(err, &unsupportedPNG) {
		return fmt.Errorf("%w: %s: %v", ErrFormat, f, err)
	}
	return fmt.Errorf("%w: %s: %v", ErrDamaged, f, err)
}

// afterTurbo says what libturbojpeg, which is asked first, has to do with it.
func afterTurbo() string {
	if !turbojpeg.Available() {
		return " (libturbojpeg, which was not loaded, decodes most)"
	}
	return ", nor does libturbojpeg"
}

// JPEGDecoder names the JPEG decoder that this process uses: "libturbojpeg
// 2.x (file)", or "image/jpeg (slower than libturbojpeg, which …)" with the
// reason why that library is not used.
func JPEGDecoder() string {
	name, err := turbojpeg.Library()
	if err != nil {
		return fmt.Sprintf("image/jpeg (slower than libturbojpeg, which was not loaded: %v)", err)
	}
	return name
}
