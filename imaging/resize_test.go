package imaging

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

// heights are the filters as Pillow defines them, and half of their widths.
var heights = map[Filter]struct {
	support float64
	at      func(x float64) float64
}{
	Bilinear: {1, func(x float64) float64 {
		if x < 0 {
			x = -x
		}
		if x < 1 {
			return 1 - x
		}
		return 0
	}},
	Bicubic: {2, func(x float64) float64 {
		const a = -0.5
		if x < 0 {
			x = -x
		}
		if x < 1 {
			return float64(float64((float64((a+2)*x)-(a+3))*x)*x) + 1
		}
		if x < 2 {
			return float64((float64((float64((x-5)*x)+8)*x) - 4) * a)
		}
		return 0
	}},
	Nearest: {0, func(float64) float64 { return 1 }},
}

// window is the pixels under output i of a filter, and its centre.
func window(f Filter, i, length int, scale float64) (center float64, lo, hi int) {
	if f == Nearest {
		center = float64(scale * 0.5)
		for range i {
			center += scale
		}
		return center, int(center), int(center) + 1
	}
	center = float64((float64(i) + 0.5) * scale)
	support := heights[f].support * math.Max(scale, 1)
	return center, max(int(center-support+0.5), 0), min(int(center+support+0.5), length)
}

// reference is Pillow's algorithm in its plainest form: the box is cut out,
// both passes go over all of it, then the kept part is cut out and mirrored.
func reference(src *Image, p Plan) []byte {
	filter := heights[p.Filter]
	pass := func(pix []byte, w, h int, a Axis, horizontal bool) []byte {
		outW, outH := w, h
		if horizontal {
			outW = a.Full
		} else {
			outH = a.Full
		}
		out := make([]byte, outW*outH*3)
		scale := float64(a.Length) / float64(a.Full)
		widened := math.Max(scale, 1)
		for i := range a.Full {
			center, lo, hi := window(p.Filter, i, a.Length, scale)
			weights := make([]float64, hi-lo)
			sum := 0.0
			for j := range weights {
				weights[j] = filter.at(float64((float64(lo+j) - center + 0.5) * (1 / widened)))
				sum += weights[j]
			}
			fixed := make([]int, hi-lo)
			for j := range weights {
				v := float64(weights[j] / sum * (1 << 22))
				if v < 0 {
					fixed[j] = int(-0.5 + v)
				} else {
					fixed[j] = int(0.5 + v)
				}
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
	var box []byte
	for y := p.Y.Offset; y < p.Y.Offset+p.Y.Length; y++ {
		box = append(box, src.Pix[(y*src.Width+p.X.Offset)*3:][:3*p.X.Length]...)
	}
	pix := pass(box, p.X.Length, p.Y.Length, p.X, true)
	pix = pass(pix, p.X.Full, p.Y.Length, p.Y, false)
	var out []byte
	for y := p.Y.First; y < p.Y.First+p.Y.N; y++ {
		for x := range p.X.N {
			if p.Mirror {
				x = p.X.N - 1 - x
			}
			out = append(out, pix[(y*p.X.Full+p.X.First+x)*3:][:3]...)
		}
	}
	return out
}

// randomPlan is any valid plan for a picture of width x height.
func randomPlan(rng *rand.Rand, width, height, full int) Plan {
	axis := func(size int) Axis {
		a := Axis{Offset: rng.IntN(size), Full: 1 + rng.IntN(full)}
		a.Length = 1 + rng.IntN(size-a.Offset)
		if rng.IntN(8) == 0 {
			a.Full = a.Length
		}
		a.First = rng.IntN(a.Full)
		a.N = 1 + rng.IntN(a.Full-a.First)
		return a
	}
	return Plan{X: axis(width), Y: axis(height), Mirror: rng.IntN(2) == 0, Filter: Filter(rng.IntN(3))}
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
	for range 600 {
		src := randomImage(rng, 1+rng.IntN(60), 1+rng.IntN(60))
		p := randomPlan(rng, src.Width, src.Height, 70)
		dst := make([]byte, p.Bytes())
		if err := r.Resize(dst, src, p); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst, reference(src, p)) {
			t.Fatalf("%dx%d, %+v: differs from the reference", src.Width, src.Height, p)
		}
	}
}

func BenchmarkResize(b *testing.B) {
	for _, c := range []struct {
		name          string
		width, height int
		t             Transform
	}{
		{"500x375/crop224", 500, 375, CenterCrop(224)},
		{"500x375/stretch224", 500, 375, Stretch(224, 224)},
		{"1920x1080/crop224", 1920, 1080, CenterCrop(224)},
		{"160x120/crop224", 160, 120, CenterCrop(224)},
		{"500x375/bicubic224", 500, 375, CenterCrop(224).WithFilter(Bicubic)},
		{"500x375/flip224", 500, 375, CenterCrop(224).WithFlip(1)},
		{"500x375/rrc224", 500, 375, RandomResizedCrop(224)},
	} {
		b.Run(c.name, func(b *testing.B) {
			src := randomImage(rand.New(rand.NewPCG(1, 3)), c.width, c.height)
			dst := make([]byte, c.t.Bytes())
			var r Resizer
			key := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				key++
				if err := r.Resize(dst, src, c.t.Plan(c.width, c.height, key)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
