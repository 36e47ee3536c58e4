package imaging

import (
	"fmt"

	"github.com/pinion-gpu/pinion/dtype"
)

// Image is a picture in host memory: Height rows of Width pixels of Channels
// samples, without padding (HWC). Its owner may reuse it; [Decoder.Decode]
// grows Pix only when its capacity is too small.
type Image struct {
	Pix           []byte
	Width, Height int
	// DType is the type of a sample: U8, or U16 whose bytes are little-endian.
	// 0 is U8.
	DType dtype.DType
	// Channels is 3 for red, green and blue, or 1 for grey. 0 is 3.
	Channels int
}

func (m *Image) check() error {
	p, err := pixelOf(m.DType, m.Channels)
	if err != nil {
		return err
	}
	if m.Width < 1 || m.Height < 1 || m.Width > maxSide || m.Height > maxSide {
		return fmt.Errorf("%w: an image of %dx%d", ErrArgument, m.Width, m.Height)
	}
	if want := int64(m.Width) * int64(m.Height) * int64(p.bytes()); int64(len(m.Pix)) != want {
		return fmt.Errorf("%w: an image of %dx%d has %d bytes, want %d", ErrArgument, m.Width, m.Height, len(m.Pix), want)
	}
	return nil
}

// pixel is what a pixel of a valid image is made of.
func (m *Image) pixel() pixel {
	return pixel{grey: m.Channels == 1, deep: m.DType == dtype.U16}
}

// reshape makes m an image of that size with undefined content.
func (m *Image) reshape(width, height int) {
	n := width * height * m.pixel().bytes()
	if cap(m.Pix) < n {
		m.Pix = make([]byte, n)
	}
	m.Pix, m.Width, m.Height = m.Pix[:n], width, height
}

// pixel is what a pixel is made of. The zero value is three bytes: red, green
// and blue.
type pixel struct {
	grey bool // one sample and not three
	deep bool // samples of 16 bits, little-endian, and not of 8
}

// pixelOf is the pixel of that type and so many channels; 0 stands for the
// default of each.
func pixelOf(d dtype.DType, channels int) (pixel, error) {
	p := pixel{grey: channels == 1, deep: d == dtype.U16}
	if channels != 0 && channels != p.channels() || d != 0 && d != p.dtype() {
		return p, fmt.Errorf("%w: pixels of %d channels of %v; they are 1 or 3 of u8 or u16", ErrArgument, channels, d)
	}
	return p, nil
}

func (p pixel) channels() int {
	if p.grey {
		return 1
	}
	return 3
}

func (p pixel) dtype() dtype.DType {
	if p.deep {
		return dtype.U16
	}
	return dtype.U8
}

func (p pixel) bytes() int {
	if p.deep {
		return 2 * p.channels()
	}
	return p.channels()
}
