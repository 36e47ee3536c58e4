package imaging

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging/internal/turbojpeg"
)

// everyPixel is what pixels can be.
var everyPixel = []pixel{{}, {grey: true}, {deep: true}, {grey: true, deep: true}}

func (p pixel) options() Options { return Options{DType: p.dtype(), Channels: p.channels()} }

// samples are those of an image, as numbers.
func (m *Image) samples() []int {
	var list []int
	for i := 0; i < len(m.Pix); i += m.pixel().dtype().Size() {
		if m.pixel().deep {
			list = append(list, int(binary.LittleEndian.Uint16(m.Pix[i:])))
		} else {
			list = append(list, int(m.Pix[i]))
		}
	}
	return list
}

// deepReference is resizing of 16 bits in its plainest form: see reference.
func deepReference(src *Image, p Plan) []byte {
	filter, channels := heights[p.Filter], src.pixel().channels()
	pass := func(in []int, w, h int, a Axis, horizontal bool) []int {
		outW, outH := w, a.Full
		if horizontal {
			outW, outH = a.Full, h
		}
		out := make([]int, outW*outH*channels)
		scale := float64(a.Length) / float64(a.Full)
		widened := math.Max(scale, 1)
		for y := range outH {
			for x := range outW {
				i := y
				if horizontal {
					i = x
				}
				center, lo, hi := window(p.Filter, i, a.Length, scale)
				total := 0.0
				for j := lo; j < hi; j++ {
					total += filter.at(float64((float64(j) - center + 0.5) * (1 / widened)))
				}
				for c := range channels {
					sum := 0.0
					for j := lo; j < hi; j++ {
						at := (j*w+x)*channels + c
						if horizontal {
							at = (y*w+j)*channels + c
						}
						weight := filter.at(float64((float64(j)-center+0.5)*(1/widened))) / total
						sum += float64(float64(in[at]) * weight)
					}
					out[(y*outW+x)*channels+c] = int(max(0, min(65535, math.Floor(sum+0.5))))
				}
			}
		}
		return out
	}
	all, box := src.samples(), []int(nil)
	for y := p.Y.Offset; y < p.Y.Offset+p.Y.Length; y++ {
		box = append(box, all[(y*src.Width+p.X.Offset)*channels:][:p.X.Length*channels]...)
	}
	scaled := pass(box, p.X.Length, p.Y.Length, p.X, true)
	scaled = pass(scaled, p.X.Full, p.Y.Length, p.Y, false)
	var out []byte
	for y := p.Y.First; y < p.Y.First+p.Y.N; y++ {
		for x := range p.X.N {
			if p.Mirror {
				x = p.X.N - 1 - x
			}
			for _, v := range scaled[(y*p.X.Full+p.X.First+x)*channels:][:channels] {
				out = binary.LittleEndian.AppendUint16(out, uint16(v))
			}
		}
	}
	return out
}

// spread is a grey image as one of RGB.
func spread(m *Image) *Image {
	out := &Image{Width: m.Width, Height: m.Height}
	for _, v := range m.Pix {
		out.Pix = append(out.Pix, v, v, v)
	}
	return out
}

// pixelReference is the result of a plan for an image of any pixels.
func pixelReference(src *Image, p Plan) []byte {
	switch {
	case src.pixel().deep:
		return deepReference(src, p)
	case src.pixel().grey:
		var out []byte
		for i, v := range reference(spread(src), p) {
			if i%3 == 0 {
				out = append(out, v)
			}
		}
		return out
	}
	return reference(src, p)
}

func randomPixels(rng *rand.Rand, p pixel, width, height int) *Image {
	m := &Image{Width: width, Height: height, DType: p.dtype(), Channels: p.channels()}
	m.Pix = make([]byte, width*height*p.bytes())
	fillRandom(rng, m.Pix)
	if rng.IntN(4) == 0 { // black and white, where bicubic overshoots
		for i := 0; i < len(m.Pix); i += p.dtype().Size() {
			v := byte(rng.IntN(2) * 255)
			m.Pix[i], m.Pix[i+p.dtype().Size()-1] = v, v
		}
	}
	return m
}

func TestResizePixels(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 62))
	var r Resizer
	for range 800 {
		p := everyPixel[rng.IntN(len(everyPixel))]
		src := randomPixels(rng, p, 1+rng.IntN(50), 1+rng.IntN(50))
		plan := randomPlan(rng, src.Width, src.Height, 60)
		dst := make([]byte, plan.X.N*plan.Y.N*p.bytes())
		if err := r.Resize(dst, src, plan); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst, pixelReference(src, plan)) {
			t.Fatalf("%dx%d of %v, %+v: differs from the reference", src.Width, src.Height, p, plan)
		}
	}
}

// TestDeepDecode: samples of 16 bits are exact, those of 8 are 257 times as
// much, transparency is dropped, and grey is a sum of the colours.
func TestDeepDecode(t *testing.T) {
	rng := rand.New(rand.NewPCG(63, 64))
	bounds := image.Rect(0, 0, 23, 11)
	gray16, nrgba64, rgba64 := image.NewGray16(bounds), image.NewNRGBA64(bounds), image.NewRGBA64(bounds)
	gray, nrgba := image.NewGray(bounds), image.NewNRGBA(bounds)
	paletted := image.NewPaletted(bounds, color.Palette{color.NRGBA{0, 0, 0, 255}, color.NRGBA{1, 2, 3, 200}, color.NRGBA{255, 128, 7, 255}})
	for _, pix := range [][]byte{gray16.Pix, nrgba64.Pix, rgba64.Pix, gray.Pix, nrgba.Pix} {
		fillRandom(rng, pix)
	}
	for i := range paletted.Pix {
		paletted.Pix[i] = byte(rng.IntN(3))
	}
	for i := 0; i < len(rgba64.Pix); i += 8 {
		rgba64.Pix[i+6], rgba64.Pix[i+7] = 255, 255
	}
	for _, src := range []image.Image{gray16, nrgba64, rgba64, gray, nrgba, paletted} {
		var rgb, grey []int
		for y := range bounds.Dy() {
			for x := range bounds.Dx() {
				var c [3]int
				switch v := src.At(x, y).(type) {
				case color.Gray16:
					c = [3]int{int(v.Y), int(v.Y), int(v.Y)}
				case color.Gray:
					c = [3]int{257 * int(v.Y), 257 * int(v.Y), 257 * int(v.Y)}
				case color.NRGBA64:
					c = [3]int{int(v.R), int(v.G), int(v.B)}
				case color.RGBA64:
					c = [3]int{int(v.R), int(v.G), int(v.B)}
				case color.NRGBA:
					c = [3]int{257 * int(v.R), 257 * int(v.G), 257 * int(v.B)}
				}
				rgb = append(rgb, c[:]...)
				grey = append(grey, (c[0]*19595+c[1]*38470+c[2]*7471+32768)/65536)
			}
		}
		for p, want := range map[pixel][]int{{deep: true}: rgb, {deep: true, grey: true}: grey} {
			d := NewDecoder(p.options())
			m := Image{DType: dtype.U8, Channels: 7} // what was there does not matter
			if err := d.Decode(context.Background(), &m, encodePNG(t, src)); err != nil {
				t.Fatal(err)
			}
			if got := m.samples(); m.pixel() != p || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%T as %v: %v, want %v", src, p, got, want)
			}
			d.Close()
		}
	}
}

// TestDecodePixels: what is made in one step is what the steps make one by one,
// for every orientation, size and kind of file.
func TestDecodePixels(t *testing.T) {
	rng := rand.New(rand.NewPCG(65, 66))
	deep := image.NewNRGBA64(image.Rect(0, 0, 37, 29))
	fillRandom(rng, deep.Pix)
	decoders(t, func(t *testing.T, newDecoder func(Options) *Decoder) {
		for o := Upright; o <= TurnedRight; o++ {
			exif := tiff(binary.LittleEndian, uint16(o))
			for name, data := range map[string][]byte{
				"16 bits": pngWithEXIF(encodePNG(t, deep), exif), "8 bits": pngWithEXIF(readFile(t, "rgb.png"), exif),
				"JPEG": jpegWithEXIF(readFile(t, "420.jpg"), exif), "WebP": webpWithEXIF(readFile(t, "lossy.webp"), exif, 37, 29),
			} {
				for _, p := range everyPixel[1:] {
					d, ignoring := newDecoder(p.options()), newDecoder(Options{DType: p.dtype(), Channels: p.channels(), IgnoreOrientation: true})
					var as, up Image
					if err := errors.Join(ignoring.Decode(context.Background(), &as, data), d.Decode(context.Background(), &up, data)); err != nil {
						t.Fatal(err)
					}
					w, h := o.Size(as.Width, as.Height)
					n := p.bytes()
					for y := range h {
						for x := range w {
							sx, sy := stored[o](x, y, as.Width, as.Height)
							if !bytes.Equal(up.Pix[n*(y*w+x):][:n], as.Pix[n*(sy*as.Width+sx):][:n]) {
								t.Fatalf("%s as %v, orientation %d: pixel %d,%d is another one", name, p, o, x, y)
							}
						}
					}
					for key, g := range []Transform{
						CenterCrop(17), CenterCrop(29), Stretch(9, 40), Stretch(37, 29).WithFlip(1),
						RandomResizedCrop(16).WithFlip(0.5), RandomResizedCrop(40).WithFilter(Bicubic), RandomResizedCrop(30).WithFlip(0.5).WithFilter(Nearest),
					} {
						got := make([]byte, d.Bytes(g))
						if err := d.DecodeTransformed(context.Background(), got, data, g, uint64(key)); err != nil {
							t.Fatal(err)
						}
						if !bytes.Equal(got, pixelReference(&up, g.Plan(w, h, uint64(key)))) {
							t.Errorf("%s as %v, orientation %d, %v: differs from the steps", name, p, o, g)
						}
					}
				}
			}
		}
	})
}

// A grey PNG is the grey of its RGB, whole and in a sample.
func TestGreyOfGrey(t *testing.T) {
	rgb, grey := NewDecoder(Options{}), NewDecoder(Options{Channels: 1})
	defer rgb.Close()
	defer grey.Close()
	var m, colours Image
	if err := errors.Join(grey.Decode(context.Background(), &m, readFile(t, "gray.png")), rgb.Decode(context.Background(), &colours, readFile(t, "gray.png"))); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(spread(&m).Pix, colours.Pix) {
		t.Error("grey is not that of RGB")
	}
}

func TestPixelArguments(t *testing.T) {
	g := CenterCrop(4)
	for _, o := range []Options{{Channels: 2}, {Channels: 4}, {Channels: -1}, {DType: dtype.F32}, {DType: dtype.I16, Channels: 1}} {
		d := NewDecoder(o)
		var m Image
		for what, err := range map[string]error{
			"Check": o.Check(), "Decode": d.Decode(context.Background(), &m, photo(t)),
			"DecodeTransformed": d.DecodeTransformed(context.Background(), make([]byte, d.Bytes(g)), photo(t), g, 0),
			"Resize":            new(Resizer).Resize(make([]byte, 48), &Image{Pix: make([]byte, 48), Width: 4, Height: 4, DType: o.DType, Channels: o.Channels}, g.Plan(4, 4, 0)),
		} {
			if !errors.Is(err, ErrArgument) {
				t.Errorf("%s of %+v: %v", what, o, err)
			}
		}
		d.Close()
	}
	for _, p := range everyPixel {
		d := NewDecoder(p.options())
		for _, n := range []int{d.Bytes(g) - 1, d.Bytes(g) + 1} {
			if err := d.DecodeTransformed(context.Background(), make([]byte, n), photo(t), g, 0); !errors.Is(err, ErrArgument) {
				t.Errorf("%d bytes of %v: %v", n, p, err)
			}
		}
		d.Close()
		if err := d.DecodeTransformed(context.Background(), make([]byte, d.Bytes(g)), photo(t), g, 0); !errors.Is(err, ErrClosed) {
			t.Errorf("%v after Close: %v", p, err)
		}
	}
}

// What the result takes counts too.
func TestMaxBytesOfPixels(t *testing.T) {
	deep := encodePNG(t, image.NewNRGBA64(image.Rect(0, 0, 40, 30)))
	for _, p := range everyPixel {
		need := int64(8+p.bytes()) * 40 * 30
		for _, limit := range []int64{need - 1, need} {
			o := p.options()
			o.MaxBytes = limit
			d := NewDecoder(o)
			var m Image
			if err := d.Decode(context.Background(), &m, deep); errors.Is(err, ErrTooLarge) != (limit < need) {
				t.Errorf("%v with %d bytes of %d: %v", p, limit, need, err)
			}
			d.Close()
		}
	}
}

// Pixels of every kind take no new memory for each picture, and the picture is
// not held.
func TestPixelsReuseMemory(t *testing.T) {
	if !turbojpeg.Available() {
		t.Skip("libturbojpeg is not installed")
	}
	jpg, g := photo(t), CenterCrop(224)
	for _, p := range everyPixel {
		d := NewDecoder(p.options())
		defer d.Close()
		dst := make([]byte, d.Bytes(g))
		if allocs := testing.AllocsPerRun(10, func() {
			if err := d.DecodeTransformed(context.Background(), dst, jpg, g, 0); err != nil {
				t.Fatal(err)
			}
		}); allocs > 4 {
			t.Errorf("%v: %v allocations for an image", p, allocs)
		}
		if d.grey.rows != nil || d.deep.rows != nil {
			t.Errorf("%v: the picture is still there", p)
		}
	}
}

// FuzzDecodePixels: whatever the bytes, pixels of other kinds come with the
// same size, or fail as those of RGB bytes do.
func FuzzDecodePixels(f *testing.F) {
	for _, name := range []string{"deep-6.png", "rgba.png", "gray-alpha.png", "palette-transparent.png", "indexes-2.png", "bits.png", "lossy-alpha.webp", "gray.jpg", "cmyk.jpg"} {
		f.Add(readFile(f, name))
	}
	const limit = 10_000
	g := RandomResizedCrop(9).WithFilter(Bicubic)
	f.Fuzz(func(t *testing.T, data []byte) {
		var want Image
		var wantErr error
		for _, p := range everyPixel {
			o := p.options()
			o.MaxPixels = limit
			d := NewDecoder(o)
			defer d.Close()
			var m Image
			err := d.Decode(context.Background(), &m, data)
			resized := d.DecodeTransformed(context.Background(), make([]byte, d.Bytes(g)), data, g, 1)
			if (err == nil) != (resized == nil) {
				t.Errorf("%v: Decode: %v, DecodeTransformed: %v", p, err, resized)
			}
			if p == (pixel{}) {
				want, wantErr = m, err
				continue
			}
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%v: %v, of RGB %v", p, err, wantErr)
			}
			if err == nil && (m.Width != want.Width || m.Height != want.Height || len(m.Pix) != m.Width*m.Height*p.bytes()) {
				t.Errorf("%v: %dx%d, %d bytes; of RGB %dx%d", p, m.Width, m.Height, len(m.Pix), want.Width, want.Height)
			}
		}
		for _, deep := range []dtype.DType{dtype.U8, dtype.U16} {
			d := NewDecoder(Options{Indexes: true, DType: deep, MaxPixels: limit})
			defer d.Close()
			var m Image
			err := d.Decode(context.Background(), &m, data)
			resized := d.DecodeTransformed(context.Background(), make([]byte, d.Bytes(g)), data, g, 1)
			if (err == nil) != (resized == nil) || err == nil && (wantErr != nil || m.Width != want.Width || m.Height != want.Height) {
				t.Errorf("indexes: Decode: %v, DecodeTransformed: %v; of RGB %v", err, resized, wantErr)
			}
		}
	})
}

func BenchmarkDeep(b *testing.B) {
	rng := rand.New(rand.NewPCG(67, 68))
	for _, p := range everyPixel {
		b.Run(fmt.Sprintf("%dx%v", p.channels(), p.dtype()), func(b *testing.B) {
			src, t := randomPixels(rng, p, 500, 375), CenterCrop(224)
			dst := make([]byte, 224*224*p.bytes())
			var r Resizer
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Resize(dst, src, t.Plan(500, 375, 0)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
