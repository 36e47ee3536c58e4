package imaging

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"github.com/pinion-gpu/pinion/imaging/internal/header"
	"github.com/pinion-gpu/pinion/imaging/internal/turbojpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// golden is testdata/pillow.json, which testdata/pillow.py writes.
type golden struct {
	Resizes []struct {
		Width, Height int
		Seed          uint32
		Crop          int
		Stretch       []int
		SHA256        string
	}
	Plans []struct {
		Width, Height int
		Seed          uint32
		Box, Keep     [4]int // x, y, width, height
		Full          [2]int
		Filter        string
		Mirror        bool
		SHA256        string
	}
	Oriented []struct {
		Name   string
		Crop   int
		SHA256 string
	}
	Files []struct {
		Name          string
		Width, Height int
		SHA256        string
	}
}

func loadGolden(t *testing.T) golden {
	t.Helper()
	var g golden
	text := readFile(t, "pillow.json")
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Resizes) == 0 || len(g.Plans) == 0 || len(g.Oriented) == 0 || len(g.Files) == 0 {
		t.Fatal("no golden data")
	}
	return g
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func sum(pix []byte) string {
	s := sha256.Sum256(pix)
	return hex.EncodeToString(s[:])
}

// noise is the generator of pillow.py.
func noise(width, height int, seed uint32) *Image {
	m := &Image{Width: width, Height: height, Pix: make([]byte, 3*width*height)}
	for i := range m.Pix {
		seed = seed*1664525 + 1013904223
		m.Pix[i] = byte(seed >> 24)
	}
	return m
}

func TestResizeEqualsPillow(t *testing.T) {
	var r Resizer
	for _, c := range loadGolden(t).Resizes {
		g := CenterCrop(c.Crop)
		if c.Stretch != nil {
			g = Stretch(c.Stretch[0], c.Stretch[1])
		}
		dst := make([]byte, g.Bytes())
		if err := r.Resize(dst, noise(c.Width, c.Height, c.Seed), g.Plan(c.Width, c.Height, 0)); err != nil {
			t.Fatal(err)
		}
		if sum(dst) != c.SHA256 {
			t.Errorf("%dx%d to %v differs from Pillow", c.Width, c.Height, g)
		}
	}
}

func TestPlansEqualPillow(t *testing.T) {
	var r Resizer
	for _, c := range loadGolden(t).Plans {
		p := Plan{
			X:      Axis{c.Box[0], c.Box[2], c.Full[0], c.Keep[0], c.Keep[2]},
			Y:      Axis{c.Box[1], c.Box[3], c.Full[1], c.Keep[1], c.Keep[3]},
			Mirror: c.Mirror,
		}
		if c.Filter == "bicubic" {
			p.Filter = Bicubic
		}
		dst := make([]byte, p.Bytes())
		if err := r.Resize(dst, noise(c.Width, c.Height, c.Seed), p); err != nil {
			t.Fatal(err)
		}
		if sum(dst) != c.SHA256 {
			t.Errorf("%dx%d, %+v: differs from Pillow", c.Width, c.Height, p)
		}
	}
}

func TestOrientationsEqualPillow(t *testing.T) {
	d := NewDecoder(Options{})
	defer d.Close()
	for _, c := range loadGolden(t).Oriented {
		tr := CenterCrop(c.Crop)
		dst := make([]byte, tr.Bytes())
		if err := d.DecodeTransformed(context.Background(), dst, readFile(t, c.Name), tr, 0); err != nil {
			t.Fatal(err)
		}
		if sum(dst) != c.SHA256 {
			t.Errorf("%s: differs from Pillow", c.Name)
		}
	}
}

// decoders runs a test with each JPEG decoder of this machine.
func decoders(t *testing.T, test func(t *testing.T, newDecoder func(Options) *Decoder)) {
	t.Run("go", func(t *testing.T) {
		test(t, func(o Options) *Decoder {
			d := NewDecoder(o)
			d.turbo = nil
			t.Cleanup(d.Close)
			return d
		})
	})
	t.Run("turbojpeg", func(t *testing.T) {
		if !turbojpeg.Available() {
			t.Skip("libturbojpeg is not installed")
		}
		test(t, func(o Options) *Decoder {
			d := NewDecoder(o)
			t.Cleanup(d.Close)
			return d
		})
	})
}

func TestDecodeEqualsPillow(t *testing.T) {
	decoders(t, func(t *testing.T, newDecoder func(Options) *Decoder) {
		d := newDecoder(Options{})
		turbo := d.turbo != nil
		var m Image
		for _, c := range loadGolden(t).Files {
			if err := d.Decode(context.Background(), &m, readFile(t, c.Name)); err != nil {
				t.Errorf("%s: %v", c.Name, err)
				continue
			}
			if m.Width != c.Width || m.Height != c.Height || len(m.Pix) != 3*c.Width*c.Height {
				t.Errorf("%s: %dx%d, %d bytes", c.Name, m.Width, m.Height, len(m.Pix))
				continue
			}
			// The library makes the very bytes of Pillow, which uses it too.
			// Go's decoders round differently and repeat chroma samples.
			jpeg := strings.HasSuffix(c.Name, ".jpg")
			if jpeg && !turbo || c.Name == "cmyk.jpg" || strings.HasPrefix(c.Name, "lossy") {
				checkClose(t, c.Name, m.Pix)
			} else if sum(m.Pix) != c.SHA256 {
				t.Errorf("%s: differs from Pillow", c.Name)
			}
		}
	})
}

// checkClose compares with the pixels that pillow.py left beside the file:
// closely in brightness, with room for repeated chroma samples in colour.
func checkClose(t *testing.T, name string, pix []byte) {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(readFile(t, name+".png")))
	if err != nil {
		t.Fatal(err)
	}
	src := rowsOf(img, header.PNG)
	width, height := img.Bounds().Dx(), img.Bounds().Dy()
	row := make([]byte, 3*width)
	brightness := func(p []byte) float64 {
		return 0.299*float64(p[0]) + 0.587*float64(p[1]) + 0.114*float64(p[2])
	}
	var luma, color float64
	for y := range height {
		want := src.row(y, 0, width, row)
		got := pix[y*3*width:][:3*width]
		for i := range got {
			color += math.Abs(float64(got[i]) - float64(want[i]))
		}
		for x := range width {
			luma += math.Abs(brightness(got[3*x:]) - brightness(want[3*x:]))
		}
	}
	luma /= float64(width * height)
	color /= float64(3 * width * height)
	if luma > 1 || color > 4 {
		t.Errorf("%s: mean difference to Pillow: brightness %.2f, colours %.2f", name, luma, color)
	}
	t.Logf("%s: brightness %.2f, colours %.2f", name, luma, color)
}
