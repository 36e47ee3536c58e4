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
