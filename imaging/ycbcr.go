package imaging

import (
	"github.com/pinion-gpu/pinion/imaging/internal/header"
)

import "image"

// ycbcrRows is the planes Y, Cb and Cr that a Go decoder leaves. Its rows are
// RGB at full size and repeat chroma samples over the pixels they are for,
// where libjpeg-turbo interpolates them: colours at edges differ a little
// from its, brightness does not. A resize takes the planes themselves if
// chroma is coarser than luma.
type ycbcrRows struct {
	planes         [3]planeRows
	shiftX, shiftY int // log2 of pixels per chroma sample
	studio         bool
}

// planeRows is one plane: its rows are of single bytes.
type planeRows struct {
	pix    []byte
	stride int
}

func (p *planeRows) row(y, x0, x1 int, _ []byte) []byte {
	return p.pix[y*p.stride+x0 : y*p.stride+x1]
}

func newYCbCrRows(m *image.YCbCr, f header.Format) rows {
	r := &ycbcrRows{
		planes: [3]planeRows{{m.Y, m.YStride}, {m.Cb, m.CStride}, {m.Cr, m.CStride}},
		// A WebP has the range of video (luma 16 to 235), which image.YCbCr
		// does not tell.
		studio: f == header.WebP,
	}
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio444:
	case image.YCbCrSubsampleRatio422:
		r.shiftX = 1
	case image.YCbCrSubsampleRatio420:
		r.shiftX, r.shiftY = 1, 1
	case image.YCbCrSubsampleRatio440:
		r.shiftY = 1
	case image.YCbCrSubsampleRatio411:
		r.shiftX = 2
	case image.YCbCrSubsampleRatio410:
		r.shiftX, r.shiftY = 2, 1
	default:
		return nil
	}
	return r
}

// coarse reports whether there is less chroma than luma. Where there is not,
// resizing planes would save too little.
func (m *ycbcrRows) coarse() bool { return m.shiftX > 0 || m.shiftY > 0 }

func (m *ycbcrRows) row(y, x0, x1 int, dst []byte) []byte {
	c0, c1 := x0>>m.shiftX, (x1-1)>>m.shiftX+1
	luma := m.planes[0].row(y, x0, x1, nil)
	cb := m.planes[1].row(y>>m.shiftY, c0, c1, nil)
	cr := m.planes[2].row(y>>m.shiftY, c0, c1, nil)
	if m.studio || m.shiftX != 1 {
		for i, v := range luma {
			c := (x0+i)>>m.shiftX - c0
			out := (*[3]byte)(dst[3*i:])
			if m.studio {
				studioRGB(out, v, cb[c], cr[c])
			} else {
				add(out, v, offsets(cb[c], cr[c]))
			}
		}
		return dst
	}

	// Two pixels share a chroma sample; x0 may lie between two that do.
	out := dst
	if x0&1 == 1 {
		add((*[3]byte)(out), luma[0], offsets(cb[0], cr[0]))
		luma, out, cb, cr = luma[1:], out[3:], cb[1:], cr[1:]
	}
	pairs := (len(luma) + 1) / 2
	cb, cr = cb[:pairs], cr[:pairs]
	for i := range len(luma) / 2 {
		o := offsets(cb[i], cr[i])
		two, v := (*[6]byte)(out[6*i:]), (*[2]byte)(luma[2*i:])
		add((*[3]byte)(two[:3]), v[0], o)
		add((*[3]byte)(two[3:]), v[1], o)
	}
	if i := len(luma) - 1; i&1 == 0 {
		add((*[3]byte)(out[3*i:]), luma[i], offsets(cb[pairs-1], cr[pairs-1]))
	}
	return dst
}

// toRGB converts a row whose three components are of one resolution.
func toRGB(dst, luma, cb, cr []byte, studio bool) {
	cb, cr = cb[:len(luma)], cr[:len(luma)]
	if studio {
		for i, v := range luma {
			studioRGB((*[3]byte)(dst[3*i:]), v, cb[i], cr[i])
		}
		return
	}
	for i, v := range luma {
		add((*[3]byte)(dst[3*i:]), v, offsets(cb[i], cr[i]))
	}
}

// offset is what chroma adds to luma.
type offset struct{ r, g, b int32 }

// offsets converts chroma as JFIF defines it, rounded as libjpeg does:
// R = Y + 1.402 Cr, G = Y - 0.34414 Cb - 0.71414 Cr, B = Y + 1.772 Cb.
func offsets(cb, cr byte) offset {
	const (
		crR, cbG, crG, cbB = 91881, 22554, 46802, 116130 // times 1<<16
		round              = 1 << 15
	)
	u, v := int32(cb)-128, int32(cr)-128
	return offset{
		r: (crR*v + round) >> 16,
		g: (round - cbG*u - crG*v) >> 16,
		b: (cbB*u + round) >> 16,
	}
}

func add(out *[3]byte, luma byte, o offset) {
	y := int32(luma)
	out[0] = saturated[uint32(y+o.r)%1024]
	out[1] = saturated[uint32(y+o.g)%1024]
	out[2] = saturated[uint32(y+o.b)%1024]
}

// saturated clips values from -512 to 511 to a byte; the index is the value
// modulo 1024, which needs no bounds check.
var saturated = func() (t [1024]byte) {
	for v := range 512 {
		t[v] = byte(min(v, 255))
	}
	return t
}()

// studioRGB converts video-range YCbCr (ITU-R BT.601) with the coefficients
// and rounding of libwebp: 14 fraction bits, 8 of them dropped before the sum.
func studioRGB(out *[3]byte, y, cb, cr byte) {
	luma, u, v := int32(y)*19077>>8, int32(cb), int32(cr)
	r := luma + v*26149>>8 - 14234
	g := luma - u*6419>>8 - v*13320>>8 + 8708
	b := luma + u*33050>>8 - 17685
	out[0] = byte(max(0, min(255, r>>6)))
	out[1] = byte(max(0, min(255, g>>6)))
	out[2] = byte(max(0, min(255, b>>6)))
}
