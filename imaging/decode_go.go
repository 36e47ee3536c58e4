package imaging

import (
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/webp"
)

// codecs are the decoders written in Go, which allocate for every image.
var codecs = map[format]struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}{
	formatJPEG: {jpeg.DecodeConfig, jpeg.Decode},
	formatPNG:  {png.DecodeConfig, png.Decode},
	formatWebP: {webp.DecodeConfig, webp.Decode},
}

func (d *Decoder) decodeGo(f format, data []byte) (p picture, err error) {
	// Foreign bytes must not take the process down through a fault in
	// somebody's decoder.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %s: the decoder panicked: %v", ErrDamaged, f, r)
		}
	}()
	defer d.reader.Reset(nil)

	codec := codecs[f]
	d.reader.Reset(data)
	config, err := codec.config(&d.reader)
	if err != nil {
		return picture{}, codecError(f, err)
	}
	if err := d.checkSize(f, config.Width, config.Height); err != nil {
		return picture{}, err
	}
	d.reader.Reset(data)
	img, err := codec.decode(&d.reader)
	if err != nil {
		return picture{}, codecError(f, err)
	}
	if b := img.Bounds(); b != image.Rect(0, 0, config.Width, config.Height) {
		return picture{}, fmt.Errorf("%w: %s of %v, its header says %dx%d", ErrDamaged, f, b, config.Width, config.Height)
	}
	src := rowsOf(img, f)
	if src == nil {
		return picture{}, fmt.Errorf("%w: %s decoded to %T", ErrFormat, f, img)
	}
	return picture{src, config.Width, config.Height}, nil
}

func codecError(f format, err error) error {
	var unsupportedJPEG jpeg.UnsupportedError
	var unsupportedPNG png.UnsupportedError
	if errors.As(err, &unsupportedJPEG) || errors.As(err, &unsupportedPNG) {
		return fmt.Errorf("%w: %s: %v", ErrFormat, f, err)
	}
	return fmt.Errorf("%w: %s: %v", ErrDamaged, f, err)
}
