package imaging

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// reference is Pillow's algorithm in its plainest form: both passes over the
// whole picture, then the crop.
func reference(src *Image, g Geometry) []byte {
	ax, ay := g.axes(src.Width, src.Height)
	pass := func(pix []byte, w, h int, a axis, horizontal bool) []byte {
		outW, outH := w, h
		if horizontal {
			outW = a.out
		} else {
			outH = a.out
		}
		out := make([]byte, outW*outH*3)
		scale := float64(a.in) / float64(a.out)
		support := math.Max(scale, 1)
		for i := range a.out {
			center := float64((float64(i) + 0.5) * scale)
			lo := max(int(center-support+0.5), 0)
			hi := min(int(center+support+0.5), a.in)
			weights := make([]float64, hi-lo)
			sum := 0.0
			for j := range weights {
				weights[j] = math.Max(0, 1-math.Abs(float64((float64(lo+j)-center+0.5)*(1/support))))
				sum += weights[j]
			}
			fixed := make([]int, hi-lo)
			for j := range weights {
				fixed[j] = int(0.5 + float64(weights[j]/sum*(1<<22)))
			}
			across := outH
			if !horizontal {
				across = outW
			}
			for o := range across {
				for c := range 3 {
					acc := 1 << 21
					for j, k := range fixed {
						at := (o*w+lo+j)*3 + c
						if !horizontal {
							at = ((lo+j)*w+o)*3 + c
						}
						acc += k * int(pix[at])
					}
					at := (o*outW+i)*3 + c
					if !horizontal {
						at = (i*outW+o)*3 + c
					}
					out[at] = byte(max(0, min(255, acc>>22)))
				}
			}
		}
		return out
	}
	pix := pass(src.Pix, src.Width, src.Height, ax, true)
	pix = pass(pix, ax.out, src.Height, ay, false)
	var out []byte
	for y := ay.first; y < ay.first+ay.n; y++ {
		out = append(out, pix[(y*ax.out+ax.first)*3:][:ax.n*3]...)
	}
	return out
}

func randomImage(rng *rand.Rand, width, height int) *Image {
	m := &Image{Width: width, Height: height, Pix: make([]byte, width*height*3)}
	for i := range m.Pix {
		m.Pix[i] = byte(rng.Uint32())
	}
	if rng.IntN(4) == 0 { // extremes, where rounding could overflow
		for i := range m.Pix {
			m.Pix[i] = 255
		}
	}
	return m
}

func TestResizeMatchesReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var r Resizer
	for range 400 {
		src := randomImage(rng, 1+rng.IntN(60), 1+rng.IntN(60))
		g := Stretch(1+rng.IntN(70), 1+rng.IntN(70))
		if rng.IntN(2) == 0 {
			g = CenterCrop(1 + rng.IntN(70))
		}
		dst := make([]byte, g.Bytes())
		if err := r.Resize(dst, src, g); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst, reference(src, g)) {
			t.Fatalf("%dx%d to %v differs from the reference", src.Width, src.Height, g)
		}
	}
}

func BenchmarkResize(b *testing.B) {
	for _, c := range []struct {
		name          string
		width, height int
		g             Geometry
	}{
		{"500x375/crop224", 500, 375, CenterCrop(224)},
		{"500x375/stretch224", 500, 375, Stretch(224, 224)},
		{"1920x1080/crop224", 1920, 1080, CenterCrop(224)},
		{"160x120/crop224", 160, 120, CenterCrop(224)},
	} {
		b.Run(c.name, func(b *testing.B) {
			src := randomImage(rand.New(rand.NewPCG(1, 3)), c.width, c.height)
			dst := make([]byte, c.g.Bytes())
			var r Resizer
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Resize(dst, src, c.g); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
