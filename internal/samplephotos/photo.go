package samplephotos

import (
	"image"
	"image/jpeg"
	"io"
	"math"
	"math/rand/v2"
)

// Width and Height are the size of a photo in pixels.
const (
	Width  = 500
	Height = 375
)

const quality = 90

// scenery is what the photos of a class have in common.
type scenery struct {
	name           string
	sky, ground    tint
	horizon        int // percent of the height
	texture, light int // strength of the fine detail; brightness of the sky
}

// tint is chroma: Cb and Cr, neutral at zero.
type tint struct{ cb, cr int }

var sceneries = []scenery{
	{"beach", tint{22, -14}, tint{-26, 14}, 45, 26, 190},
	{"city", tint{8, -4}, tint{2, 2}, 25, 34, 170},
	{"forest", tint{4, -8}, tint{-20, -14}, 15, 40, 150},
	{"mountain", tint{18, -10}, tint{-4, 4}, 55, 32, 200},
}

// class returns the folder of photo number (from 1).
func class(number int) string { return sceneries[(number-1)%len(sceneries)].name }

// painter makes photos, one after the other, and keeps its memory.
type painter struct {
	img          *image.YCbCr
	luma, chroma relief
	source       *rand.PCG
	rng          *rand.Rand
}

func newPainter() *painter {
	p := &painter{
		img:    image.NewYCbCr(image.Rect(0, 0, Width, Height), image.YCbCrSubsampleRatio420),
		source: rand.NewPCG(0, 0),
	}
	p.rng = rand.New(p.source)
	return p
}

// write paints photo number (from 1) and writes it as JPEG. All arithmetic is
// on integers, so that every machine paints the same pixels.
func (p *painter) write(w io.Writer, number int) error {
	p.source.Seed(uint64(number), 0x70686f746f)
	s := sceneries[(number-1)%len(sceneries)]
	horizon := Height * (s.horizon + p.rng.IntN(15) - 7) / 100

	p.paintLuma(s, horizon)
	p.paintChroma(s, horizon)
	for range 6 + p.rng.IntN(6) {
		p.paintObject()
	}
	p.addNoise()
	return jpeg.Encode(w, p.img, &jpeg.Options{Quality: quality})
}

func (p *painter) paintLuma(s scenery, horizon int) {
	p.luma.grow(p.rng, Width, Height, 70, s.texture)
	slope := p.rng.IntN(41) - 20 // of the light, from left to right
	for y := range Height {
		level, texture := int32(s.light-60*y/Height), int32(3)
		if y >= horizon {
			level, texture = int32(110-40*(y-horizon)/Height), 4
		}
		row := p.img.Y[y*p.img.YStride:][:Width]
		detail := p.luma.row(y)[:Width]
		for x := range row {
			row[x] = clip(level + int32(slope*x)/Width + detail[x]*texture>>4>>fraction)
		}
	}
}

func (p *painter) paintChroma(s scenery, horizon int) {
	const width, height = (Width + 1) / 2, (Height + 1) / 2
	for i, plane := range [][]byte{p.img.Cb, p.img.Cr} {
		p.chroma.grow(p.rng, width, height, 30, 1)
		for y := range height {
			t := s.sky
			if 2*y >= horizon {
				t = s.ground
			}
			level := int32(128 + t.cb)
			if i == 1 {
				level = int32(128 + t.cr)
			}
			row := plane[y*p.img.CStride:][:width]
			detail := p.chroma.row(y)[:width]
			for x := range row {
				row[x] = clip(level + detail[x]>>2>>fraction)
			}
		}
	}
}

// paintObject shifts brightness and colour inside an ellipse: an edge all
// around, the texture of the scene inside.
func (p *painter) paintObject() {
	cx, cy := p.rng.IntN(Width), p.rng.IntN(Height)
	rx, ry := 12+p.rng.IntN(70), 12+p.rng.IntN(60)
	shift := int32(p.rng.IntN(121) - 60)
	cb, cr := int32(p.rng.IntN(61)-30), int32(p.rng.IntN(61)-30)

	for y := max(0, cy-ry); y < min(Height, cy+ry+1); y++ {
		dy := y - cy
		reach := isqrt(rx * rx * (ry*ry - dy*dy) / (ry * ry))
		x0, x1 := max(0, cx-reach), min(Width, cx+reach+1)
		if x0 >= x1 {
			continue
		}
		shade := shift + int32(20*dy/ry)
		row := p.img.Y[y*p.img.YStride:][x0:x1]
		for x := range row {
			row[x] = clip(int32(row[x]) + shade)
		}
		if y%2 == 0 {
			at := y / 2 * p.img.CStride
			for x := at + x0/2; x < at+x1/2; x++ {
				p.img.Cb[x] = clip(int32(p.img.Cb[x]) + cb)
				p.img.Cr[x] = clip(int32(p.img.Cr[x]) + cr)
			}
		}
	}
}

// addNoise is that of a camera's sensor, up to three steps.
func (p *painter) addNoise() {
	for y := range Height {
		row := p.img.Y[y*p.img.YStride:][:Width]
		var bits uint64
		for x := range row {
			if x%16 == 0 {
				bits = p.source.Uint64()
			}
			row[x] = clip(int32(row[x]) + int32(bits&3) - int32(bits>>2&3))
			bits >>= 4
		}
	}
}

func clip(v int32) byte { return byte(max(0, min(255, v))) }

func isqrt(v int) int {
	r := int(math.Sqrt(float64(v)))
	for r*r > v {
		r--
	}
	return r
}
