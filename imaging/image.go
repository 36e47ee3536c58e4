package imaging

import "fmt"

// Image is a picture in host memory: Height rows of Width pixels of three
// bytes, red, green, blue, without padding (HWC, uint8). Its owner may reuse
// it; [Decoder.Decode] grows Pix only when its capacity is too small.
type Image struct {
	Pix           []byte
	Width, Height int
}

func (m *Image) check() error {
	if m.Width < 1 || m.Height < 1 || m.Width > maxSide || m.Height > maxSide {
		return fmt.Errorf("%w: an image of %dx%d", ErrArgument, m.Width, m.Height)
	}
	if want := int64(m.Width) * int64(m.Height) * 3; int64(len(m.Pix)) != want {
		return fmt.Errorf("%w: an image of %dx%d has %d bytes, want %d", ErrArgument, m.Width, m.Height, len(m.Pix), want)
	}
	return nil
}

// reshape makes m an image of that size with undefined content.
func (m *Image) reshape(width, height int) {
	n := width * height * 3
	if cap(m.Pix) < n {
		m.Pix = make([]byte, n)
	}
	m.Pix, m.Width, m.Height = m.Pix[:n], width, height
}
