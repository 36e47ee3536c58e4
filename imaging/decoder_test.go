package imaging

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/imaging/internal/header"
	"github.com/pinion-gpu/pinion/imaging/internal/turbojpeg"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
)

func photo(t testing.TB) []byte {
	t.Helper()
	data, err := samplephotos.Photo(1)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func encodePNG(t testing.TB, m image.Image) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := png.Encode(&buf, m); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestDecodeTransformed: the crop that is computed alone is the crop of the whole.
// TestPlanes tests what is resized as YCbCr.
func TestDecodeTransformed(t *testing.T) {
	decoders(t, func(t *testing.T, newDecoder func(Options) *Decoder) {
		d := newDecoder(Options{})
		var r Resizer
		files := [][]byte{photo(t)}
		for _, c := range loadGolden(t).Files {
			files = append(files, readFile(t, c.Name))
		}
		exact := 0
		for i, data := range files {
			var m Image
			src, err := d.inspect(data)
			if err == nil {
				err = d.decode(context.Background(), &m, &src, data)
			}
			if err != nil {
				t.Fatal(err)
			}
			if planes, ok := src.rows.(*ycbcrRows); ok && planes.coarse() {
				continue
			}
			exact++
			if err := d.Decode(context.Background(), &m, data); err != nil {
				t.Fatal(err)
			}
			for _, g := range []Transform{CenterCrop(1), CenterCrop(17), CenterCrop(29), CenterCrop(60), Stretch(9, 40), Stretch(37, 29)} {
				got, want := make([]byte, g.Bytes()), make([]byte, g.Bytes())
				if err := d.DecodeTransformed(context.Background(), got, data, g, 0); err != nil {
					t.Fatal(err)
				}
				if err := r.Resize(want, &m, g.Plan(m.Width, m.Height, 0)); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("file %d, %v: differs from decoding, then resizing", i, g)
				}
			}
		}
		if exact < 8 {
			t.Errorf("%d files were compared", exact)
		}
		if decode, resize := d.Elapsed(); decode <= 0 || resize <= 0 {
			t.Errorf("took %v and %v", decode, resize)
		}
	})
}

// TestConversions compares every way of making RGB rows with package color.
func TestConversions(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const width, height = 13, 7
	bounds := image.Rect(0, 0, width, height)
	random := func(pix []byte) {
		for i := range pix {
			pix[i] = byte(rng.Uint32())
		}
	}
	images := map[string]image.Image{}
	for _, ratio := range []image.YCbCrSubsampleRatio{
		image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420,
		image.YCbCrSubsampleRatio440, image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410,
	} {
		m := image.NewYCbCr(bounds, ratio)
		random(m.Y)
		random(m.Cb)
		random(m.Cr)
		images[ratio.String()] = m
	}
	gray, gray16 := image.NewGray(bounds), image.NewGray16(bounds)
	nrgba, nrgba64 := image.NewNRGBA(bounds), image.NewNRGBA64(bounds)
	paletted := image.NewPaletted(bounds, color.Palette{color.Black, color.NRGBA{1, 2, 3, 200}, color.White})
	cmyk := image.NewCMYK(bounds)
	for _, pix := range [][]byte{gray.Pix, gray16.Pix, nrgba.Pix, nrgba64.Pix, cmyk.Pix} {
		random(pix)
	}
	for i := range paletted.Pix {
		paletted.Pix[i] = byte(rng.IntN(3))
	}
	images["gray"], images["gray16"], images["nrgba"] = gray, gray16, nrgba
	images["nrgba64"], images["paletted"], images["cmyk"] = nrgba64, paletted, cmyk

	for name, m := range images {
		src := rowsOf(m, header.JPEG)
		for y := range height {
			x0 := rng.IntN(width)
			x1 := x0 + 1 + rng.IntN(width-x0)
			row := src.row(y, x0, x1, make([]byte, 3*(x1-x0)))
			for x := x0; x < x1; x++ {
				var want [3]byte
				switch c := m.At(x, y).(type) {
				case color.NRGBA:
					want = [3]byte{c.R, c.G, c.B}
				case color.NRGBA64:
					want = [3]byte{byte(c.R >> 8), byte(c.G >> 8), byte(c.B >> 8)}
				default:
					r, g, b, _ := c.RGBA()
					want = [3]byte{byte(r >> 8), byte(g >> 8), byte(b >> 8)}
				}
				got := row[3*(x-x0):][:3]
				for i := range want {
					// Formulas for YCbCr and CMYK differ in rounding.
					if diff := int(got[i]) - int(want[i]); diff < -1 || diff > 1 {
						t.Fatalf("%s: pixel %d,%d of %d to %d is %v, want %v", name, x, y, x0, x1, got, want)
					}
				}
			}
		}
	}
	if rowsOf(image.NewAlpha(bounds), header.PNG) != nil {
		t.Error("rows of an image type that no decoder makes")
	}
}

func Test16BitPNG(t *testing.T) {
	d := NewDecoder(Options{})
	defer d.Close()
	var m Image
	for _, src := range []image.Image{
		&image.NRGBA64{Pix: []byte{10, 99, 20, 99, 30, 99, 1, 0}, Stride: 8, Rect: image.Rect(0, 0, 1, 1)},
		&image.RGBA64{Pix: []byte{10, 99, 20, 99, 30, 99, 255, 255}, Stride: 8, Rect: image.Rect(0, 0, 1, 1)},
	} {
		if err := d.Decode(context.Background(), &m, encodePNG(t, src)); err != nil || !bytes.Equal(m.Pix, []byte{10, 20, 30}) {
			t.Errorf("%T: %v, %v", src, m.Pix, err)
		}
	}
	gray := &image.Gray16{Pix: []byte{77, 99}, Stride: 2, Rect: image.Rect(0, 0, 1, 1)}
	if err := d.Decode(context.Background(), &m, encodePNG(t, gray)); err != nil || !bytes.Equal(m.Pix, []byte{77, 77, 77}) {
		t.Errorf("gray: %v, %v", m.Pix, err)
	}
}

// hugePNG is a header that promises width x height pixels.
func hugePNG(width, height uint32) []byte {
	chunk := make([]byte, 0, 25)
	chunk = append(chunk, "IHDR"...)
	chunk = binary.BigEndian.AppendUint32(chunk, width)
	chunk = binary.BigEndian.AppendUint32(chunk, height)
	chunk = append(chunk, 8, 2, 0, 0, 0)
	data := binary.BigEndian.AppendUint32([]byte("\x89PNG\r\n\x1a\n"), 13)
	data = append(data, chunk...)
	return binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(chunk))
}

// resizedJPEG writes another size into the header of a JPEG.
func resizedJPEG(data []byte, width, height uint16) []byte {
	data = bytes.Clone(data)
	sof := bytes.Index(data, []byte{0xff, 0xc0})
	binary.BigEndian.PutUint16(data[sof+5:], height)
	binary.BigEndian.PutUint16(data[sof+7:], width)
	return data
}

func TestDecodeErrors(t *testing.T) {
	jpg, png, webp := photo(t), readFile(t, "rgb.png"), readFile(t, "lossy.webp")
	corrupt := bytes.Clone(jpg)
	for i := len(corrupt) / 2; i < len(corrupt)-2; i++ {
		corrupt[i] = 0xff
	}
	animated := []byte("RIFF\x20\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	tests := []struct {
		name string
		data []byte
		err  error
		text string
	}{
		{"nothing", nil, ErrFormat, "0 bytes"},
		{"text", []byte("not an image, but words"), ErrFormat, `23 bytes that begin with "not an i"`},
		{"short text", []byte("x"), ErrFormat, `1 bytes that begin with "x"`},
		{"gif", []byte("GIF89a......"), ErrFormat, "GIF89a"},
		{"animated webp", animated, ErrFormat, "animated"},
		{"jpeg magic", jpg[:4], ErrDamaged, "JPEG"},
		{"jpeg half", jpg[:len(jpg)/2], ErrDamaged, "JPEG"},
		{"jpeg without its last bytes", jpg[:len(jpg)-20], ErrDamaged, "JPEG"},
		{"jpeg corrupt", corrupt, ErrDamaged, "JPEG"},
		{"jpeg of no pixels", resizedJPEG(jpg, 0, 0), ErrDamaged, "JPEG"},
		{"jpeg too large", resizedJPEG(jpg, 5000, 3000), ErrTooLarge, "5000x3000 = 15000000 pixels, the limit is 300000"},
		{"png magic", png[:8], ErrDamaged, "PNG"},
		{"png half", png[:len(png)/2], ErrDamaged, "PNG"},
		{"png too large", hugePNG(20000, 20000), ErrTooLarge, "20000x20000 = 400000000 pixels"},
		{"png too wide", hugePNG(70000, 1), ErrTooLarge, "sides may have 65535"},
		{"png of no pixels", hugePNG(0, 4), ErrDamaged, "PNG"},
		{"webp half", webp[:len(webp)/2], ErrDamaged, "WebP"},
		{"webp magic", webp[:12], ErrDamaged, "WebP"},
	}
	decoders(t, func(t *testing.T, newDecoder func(Options) *Decoder) {
		d := newDecoder(Options{MaxPixels: 300_000})
		g := CenterCrop(8)
		dst := make([]byte, g.Bytes())
		var m Image
		for _, c := range tests {
			if err := d.Decode(context.Background(), &m, c.data); !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("Decode %s: %v", c.name, err)
			}
			if err := d.DecodeTransformed(context.Background(), dst, c.data, g, 0); !errors.Is(err, c.err) {
				t.Errorf("DecodeTransformed %s: %v", c.name, err)
			}
			// A failure leaves nothing behind.
			if err := d.DecodeTransformed(context.Background(), dst, jpg, g, 0); err != nil {
				t.Fatalf("after %s: %v", c.name, err)
			}
		}
	})
}

func TestArguments(t *testing.T) {
	d := NewDecoder(Options{})
	jpg := photo(t)
	for _, g := range []Transform{{}, CenterCrop(0), CenterCrop(-1), Stretch(5, 0), Stretch(maxSide+1, 1)} {
		if err := d.DecodeTransformed(context.Background(), nil, jpg, g, 0); !errors.Is(err, ErrArgument) {
			t.Errorf("%v: %v", g, err)
		}
	}
	if err := d.DecodeTransformed(context.Background(), make([]byte, 47), jpg, CenterCrop(4), 0); !errors.Is(err, ErrArgument) {
		t.Errorf("short destination: %v", err)
	}
	var r Resizer
	for _, m := range []Image{{}, {Width: -1, Height: -1}, {Width: 2, Height: 2, Pix: make([]byte, 11)}} {
		if err := r.Resize(make([]byte, 48), &m, CenterCrop(4).Plan(m.Width, m.Height, 0)); !errors.Is(err, ErrArgument) {
			t.Errorf("image of %dx%d: %v", m.Width, m.Height, err)
		}
	}
	d.Close()
	d.Close()
	if err := d.Decode(context.Background(), new(Image), jpg); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestNoAllocationsAfterWarmUp(t *testing.T) {
	if !turbojpeg.Available() {
		t.Skip("libturbojpeg is not installed")
	}
	d := NewDecoder(Options{})
	defer d.Close()
	jpg, g := photo(t), CenterCrop(224)
	dst := make([]byte, g.Bytes())
	allocs := testing.AllocsPerRun(20, func() {
		if err := d.DecodeTransformed(context.Background(), dst, jpg, g, 0); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%v allocations", allocs)
	if allocs > 4 { // what the calls into the library may cost
		t.Errorf("%v allocations for an image", allocs)
	}
}

func TestLargePictureIsNotKept(t *testing.T) {
	d := NewDecoder(Options{})
	defer d.Close()
	d.image.reshape(6000, 5000)
	if err := d.DecodeTransformed(context.Background(), make([]byte, 12), photo(t), CenterCrop(2), 0); err != nil {
		t.Fatal(err)
	}
	if cap(d.image.Pix) > keepBytes {
		t.Errorf("kept %d bytes", cap(d.image.Pix))
	}
}
