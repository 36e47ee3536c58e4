package imaging

import (
	"github.com/pinion-gpu/pinion/imaging/internal/header"
	"image"
	"image/color"
)

// rows is a decoded picture read row by row, so that a resize converts only
// what it needs and no full-size copy is made.
type rows interface {
	// row returns the pixels x0 <= x < x1 of row y: three bytes each, RGB, if
	// the picture's pixels are not others. They lie in scratch, whose length is
	// theirs. Only packedRows and planeRows ignore scratch and return a part of
	// the picture.
	row(y, x0, x1 int, scratch []byte) []byte
}

type packedRows Image

func (m *packedRows) row(y, x0, x1 int, _ []byte) []byte {
	n := (*Image)(m).pixel().bytes()
	return m.Pix[(y*m.Width+x0)*n : (y*m.Width+x1)*n]
}

// rowsOf returns the rows of an image that a decoder made of that format, nil
// for types that none of them makes. The image begins at (0, 0).
func rowsOf(img image.Image, f header.Format) rows {
	switch m := img.(type) {
	case *image.YCbCr:
		return newYCbCrRows(m, f)
	case *image.NYCbCrA:
		return newYCbCrRows(&m.YCbCr, f)
	case *image.Gray:
		return &grayRows{m.Pix, m.Stride, 1}
	case *image.Gray16:
		return &gray16Rows{grayRows{m.Pix, m.Stride, 2}}
	case *image.RGBA: // opaque: only made for files without alpha
		return &rgbaRows{m.Pix, m.Stride}
	case *image.NRGBA:
		return &rgbaRows{m.Pix, m.Stride}
	case *image.RGBA64:
		return &rgba64Rows{m.Pix, m.Stride}
	case *image.NRGBA64:
		return &rgba64Rows{m.Pix, m.Stride}
	case *image.Paletted:
		return newPalettedRows(m)
	case *image.CMYK:
		return &cmykRows{m.Pix, m.Stride}
	}
	return nil
}

// grayRows has size bytes per pixel, of which the first is the highest.
type grayRows struct {
	pix          []byte
	stride, size int
}

func (m *grayRows) row(y, x0, x1 int, dst []byte) []byte {
	src := m.pix[y*m.stride+x0*m.size:]
	for x := range x1 - x0 {
		v := src[x*m.size]
		out := (*[3]byte)(dst[3*x:])
		out[0], out[1], out[2] = v, v, v
	}
	return dst
}

type rgbaRows struct {
	pix    []byte
	stride int
}

func (m *rgbaRows) row(y, x0, x1 int, dst []byte) []byte {
	src := m.pix[y*m.stride+4*x0:]
	for x := range x1 - x0 {
		in, out := (*[4]byte)(src[4*x:]), (*[3]byte)(dst[3*x:])
		out[0], out[1], out[2] = in[0], in[1], in[2]
	}
	return dst
}

// rgba64Rows keeps the high bytes.
type rgba64Rows struct {
	pix    []byte
	stride int
}

func (m *rgba64Rows) row(y, x0, x1 int, dst []byte) []byte {
	src := m.pix[y*m.stride+8*x0:]
	for x := range x1 - x0 {
		in, out := (*[8]byte)(src[8*x:]), (*[3]byte)(dst[3*x:])
		out[0], out[1], out[2] = in[0], in[2], in[4]
	}
	return dst
}

type palettedRows struct {
	pix     []byte
	stride  int
	palette [256][3]byte
}

func newPalettedRows(m *image.Paletted) *palettedRows {
	p := &palettedRows{pix: m.Pix, stride: m.Stride}
	for i, c := range m.Palette[:min(len(m.Palette), 256)] {
		// A palette with transparency holds NRGBA: its colours stay as the
		// file has them.
		n := color.NRGBAModel.Convert(c).(color.NRGBA)
		p.palette[i] = [3]byte{n.R, n.G, n.B}
	}
	return p
}

func (m *palettedRows) row(y, x0, x1 int, dst []byte) []byte {
	src := m.pix[y*m.stride+x0:]
	for x := range x1 - x0 {
		*(*[3]byte)(dst[3*x:]) = m.palette[src[x]]
	}
	return dst
}

type cmykRows struct {
	pix    []byte
	stride int
}

// row converts as Pillow does: ink and black multiply.
func (m *cmykRows) row(y, x0, x1 int, dst []byte) []byte {
	src := m.pix[y*m.stride+4*x0:]
	for x := range x1 - x0 {
		in, out := (*[4]byte)(src[4*x:]), (*[3]byte)(dst[3*x:])
		white := 255 - uint32(in[3])
		for c := range out {
			ink := uint32(in[c])*white + 128
			out[c] = byte(white - (ink+ink>>8)>>8)
		}
	}
	return dst
}
