package imaging

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/imaging/internal/header"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
)

// difference is how two pictures differ, in steps of a byte.
type difference struct {
	mean  float64
	above float64 // the part of bytes that differ by more than 2
	most  int
}

func compare(a, b []byte) (d difference) {
	for i := range a {
		v := int(a[i]) - int(b[i])
		v = max(v, -v)
		d.mean += float64(v)
		d.most = max(d.most, v)
		if v > 2 {
			d.above++
		}
	}
	d.mean /= float64(len(a))
	d.above /= float64(len(a))
	return d
}

func goDecoder(t *testing.T) *Decoder {
	d := NewDecoder(Options{})
	t.Cleanup(d.Close)
	d.turbo = nil
	return d
}

// both decodes a picture with Go: as planes, and first to RGB.
func both(t *testing.T, d *Decoder, data []byte, g Transform) (planes, first []byte) {
	t.Helper()
	planes, first = make([]byte, g.Bytes()), make([]byte, g.Bytes())
	var m Image
	var r Resizer
	if err := d.DecodeTransformed(context.Background(), planes, data, g, 0); err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(context.Background(), &m, data); err != nil {
		t.Fatal(err)
	}
	if err := r.Resize(first, &m, g.Plan(m.Width, m.Height, 0)); err != nil {
		t.Fatal(err)
	}
	return planes, first
}

// TestPlanesAgainstPillow resizes files whose pixels, as Pillow decodes them,
// lie beside them. They have a hard edge of colour, where interpolated chroma
// must come closer than repeated chroma.
func TestPlanesAgainstPillow(t *testing.T) {
	d := goDecoder(t)
	var r Resizer
	for _, c := range loadGolden(t).Files {
		switch c.Name {
		case "420.jpg", "422.jpg", "progressive.jpg", "lossy.webp", "lossy-alpha.webp":
		default:
			continue
		}
		pillow, err := png.Decode(bytes.NewReader(readFile(t, c.Name+".png")))
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range []Transform{CenterCrop(17), CenterCrop(29), CenterCrop(60), Stretch(37, 29)} {
			want := make([]byte, g.Bytes())
			r.resize(want, &picture{rows: rowsOf(pillow, header.PNG), width: c.Width, height: c.Height, orientation: Upright}, g.Plan(c.Width, c.Height, 0))
			planes, first := both(t, d, readFile(t, c.Name), g)
			got, before := compare(planes, want), compare(first, want)
			t.Logf("%s, %v: mean %.2f, most %d; decoded first %.2f, %d", c.Name, g, got.mean, got.most, before.mean, before.most)
			if got.mean > 0.8 || got.most > 4 {
				t.Errorf("%s, %v: mean difference to Pillow %.2f, most %d", c.Name, g, got.mean, got.most)
			}
			if got.mean > before.mean {
				t.Errorf("%s, %v: mean difference to Pillow %.2f, decoded first %.2f", c.Name, g, got.mean, before.mean)
			}
		}
	}
}

// TestPlanes compares photos with what libturbojpeg gives, and with decoding
// first. Each way has its own differences of one step; larger ones are errors
// of colour, which planes have fewer of.
func TestPlanes(t *testing.T) {
	d := goDecoder(t)
	library := NewDecoder(Options{})
	defer library.Close()
	for number := 1; number <= 3; number++ {
		data, err := samplephotos.Photo(number)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range []Transform{CenterCrop(64), CenterCrop(224), CenterCrop(500), Stretch(500, 375), Stretch(224, 300)} {
			planes, first := both(t, d, data, g)
			if got := compare(planes, first); got.mean > 0.6 || got.above > 0.03 {
				t.Errorf("photo %d, %v: differs from decoding first: %+v", number, g, got)
			}
			if library.turbo == nil {
				continue
			}
			want := make([]byte, g.Bytes())
			if err := library.DecodeTransformed(context.Background(), want, data, g, 0); err != nil {
				t.Fatal(err)
			}
			got, before := compare(planes, want), compare(first, want)
			t.Logf("photo %d, %v: %+v; decoded first %+v", number, g, got, before)
			if got.mean > 0.5 || got.most > 40 || got.above > max(0.01, before.above) {
				t.Errorf("photo %d, %v: differs from libturbojpeg: %+v", number, g, got)
			}
			if g.width >= 224 && got.above > before.above/2 {
				t.Errorf("photo %d, %v: differs from libturbojpeg: %+v, decoded first %+v", number, g, got, before)
			}
		}
	}
}

// TestPlanesOfEverySampling: the geometry of chroma is that of luma, at odd
// sizes too. A ramp shows a shift of a fraction of a pixel.
func TestPlanesOfEverySampling(t *testing.T) {
	const slope = 3.0
	ramp := func(x float64) float64 { return 20 + slope*x }
	for _, ratio := range []image.YCbCrSubsampleRatio{
		image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420,
		image.YCbCrSubsampleRatio440, image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410,
	} {
		const width, height = 61, 43
		m := image.NewYCbCr(image.Rect(0, 0, width, height), ratio)
		src := newYCbCrRows(m, header.JPEG).(*ycbcrRows)
		fillPlane := func(p planeRows, shiftX, shiftY int, of func(x, y float64) float64) {
			for i := range p.pix {
				x, y := float64(i%p.stride), float64(i/p.stride)
				middle := func(at float64, shift int) float64 { return (at + 0.5) * float64(int(1)<<shift) }
				p.pix[i] = byte(math.Round(of(middle(x, shiftX), middle(y, shiftY))))
			}
		}
		fillPlane(src.planes[0], 0, 0, func(x, _ float64) float64 { return ramp(x) })
		fillPlane(src.planes[1], src.shiftX, src.shiftY, func(x, _ float64) float64 { return ramp(x) })
		fillPlane(src.planes[2], src.shiftX, src.shiftY, func(_, y float64) float64 { return ramp(y) })

		for _, g := range []Transform{CenterCrop(20), CenterCrop(31), CenterCrop(90), Stretch(50, 17)} {
			var r Resizer
			whole := picture{rows: src, width: width, height: height, orientation: Upright}
			lay := whole.layout(g.Plan(width, height, 0))
			r.resizeYCbCr(make([]byte, g.Bytes()), src, lay)
			ax, ay := lay.x, lay.y
			// Chroma is flat in its outer half samples; stay away from them.
			inside := func(a axis, i int) (at float64, ok bool) {
				scale := float64(a.Length) / float64(a.Full)
				at = (float64(a.First+i) + 0.5) * scale
				return at, at > 5+scale && at < float64(a.Length)-7-scale
			}
			checked := 0
			for i := range ax.N {
				if at, ok := inside(ax, i); ok {
					checked++
					for c := range 2 {
						if got := float64(r.colors[c][0][i]); math.Abs(got-ramp(at)) > 1.3 {
							t.Fatalf("%v, %v, plane %d, column %d is %v, want %.1f", ratio, g, c, i, got, ramp(at))
						}
					}
				}
			}
			// The last row is all that is left of Cr; ask for others too.
			row := make([]byte, ax.N)
			chroma := lay.coarser(src.shiftX, src.shiftY)
			var s scaler
			s.begin(pixel{grey: true}, r.tables.get(chroma.x), r.tables.get(chroma.y), false)
			for i := range ay.N {
				s.row(row, &src.planes[2], i)
				if at, ok := inside(ay, i); ok {
					checked++
					if got := float64(row[ax.N/2]); math.Abs(got-ramp(at)) > 1.3 {
						t.Fatalf("%v, %v, row %d is %v, want %.1f", ratio, g, i, got, ramp(at))
					}
				}
			}
			if checked < 10 {
				t.Errorf("%v, %v: %d places were checked", ratio, g, checked)
			}
		}
	}
}

// TestChromaFilter: one pass does what interpolating to every pixel and the
// filter for pixels do after each other.
func TestChromaFilter(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for range 300 {
		a := axis{size: 1 + rng.IntN(90), shift: rng.IntN(3)}
		a.Length, a.Full = a.size, 1+rng.IntN(90)
		a.N = a.Full
		pixels := a
		pixels.shift = 0
		var joined, plain table
		joined.compute(a)
		plain.compute(pixels)

		plane := make([]byte, a.samples())
		fillRandom(rng, plane)
		got := make([]byte, a.N)
		horizontalPlane(got, plane[joined.lo:joined.hi], &joined)

		unit := float64(int(1) << a.shift)
		full := make([]float64, a.size)
		for x := range full {
			at := min(max((float64(x)+0.5)/unit-0.5, 0), float64(len(plane)-1))
			below := int(at)
			above := min(below+1, len(plane)-1)
			part := at - float64(below)
			full[x] = float64(plane[below])*(1-part) + float64(plane[above])*part
		}
		for i := range got {
			want := 0.0
			for t, w := range plain.weight[i*plain.stride:][:plain.taps] {
				want += full[int(plain.start[i])+t] * float64(w) / (1 << weightBits)
			}
			if math.Abs(float64(got[i])-want) > 0.501 {
				t.Fatalf("%+v: output %d is %d, want %.3f", a, i, got[i], want)
			}
		}
	}
}

func fillRandom(rng *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

func TestPlanesDoNotAllocate(t *testing.T) {
	img, err := jpeg.Decode(bytes.NewReader(photo(t)))
	if err != nil {
		t.Fatal(err)
	}
	src := newYCbCrRows(img.(*image.YCbCr), header.JPEG).(*ycbcrRows)
	g := CenterCrop(224)
	dst := make([]byte, g.Bytes())
	var r Resizer
	whole := &picture{rows: src, width: 500, height: 375, orientation: Upright}
	if n := testing.AllocsPerRun(5, func() { r.resize(dst, whole, g.Plan(500, 375, 0)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
