package imaging

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"image"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging/internal/turbojpeg"
)

// pixelsGolden is testdata/pixels.json, which testdata/pixels.py writes.
type pixelsGolden struct {
	Deep []struct {
		Width, Height, Low, High int
		Seed                     uint32
		Stretch                  [2]int
		Filter, SHA256           string
	}
	Grey []struct {
		Width, Height int
		Seed          uint32
		Crop          int
		SHA256        string
	}
	Files []struct {
		Name, Stored, Upright, Cropped string
		Crop                           int
	}
	Converted []struct{ Name, SHA256 string }
}

func loadPixels(t *testing.T) (g pixelsGolden) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, "pixels.json"), &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Deep) == 0 || len(g.Grey) == 0 || len(g.Files) == 0 || len(g.Converted) == 0 {
		t.Fatal("no golden data")
	}
	return g
}

func TestDeepResizeEqualsPillow(t *testing.T) {
	var r Resizer
	for _, c := range loadPixels(t).Deep {
		src := &Image{Width: c.Width, Height: c.Height, DType: dtype.U16, Channels: 1}
		seed := c.Seed
		for range c.Width * c.Height {
			seed = seed*1664525 + 1013904223
			src.Pix = binary.LittleEndian.AppendUint16(src.Pix, uint16(c.Low+int(seed>>16)*(c.High-c.Low)/65535))
		}
		g := Stretch(c.Stretch[0], c.Stretch[1])
		if c.Filter == "bicubic" {
			g = g.WithFilter(Bicubic)
		}
		dst := make([]byte, 2*c.Stretch[0]*c.Stretch[1])
		if err := r.Resize(dst, src, g.Plan(c.Width, c.Height, 0)); err != nil {
			t.Fatal(err)
		}
		if sum(dst) != c.SHA256 {
			t.Errorf("%dx%d of %d to %d, %v: differs from Pillow", c.Width, c.Height, c.Low, c.High, g)
		}
	}
}

func TestGreyEqualsPillow(t *testing.T) {
	d := NewDecoder(Options{Channels: 1})
	defer d.Close()
	golden := loadPixels(t)
	for _, c := range golden.Grey {
		m := noise(c.Width, c.Height, c.Seed)
		nrgba := image.NewNRGBA(image.Rect(0, 0, c.Width, c.Height))
		for i := range c.Width * c.Height {
			copy(nrgba.Pix[4*i:], append(m.Pix[3*i:3*i+3:3*i+3], 255))
		}
		g := CenterCrop(c.Crop)
		dst := make([]byte, d.Bytes(g))
		if err := d.DecodeTransformed(context.Background(), dst, encodePNG(t, nrgba), g, 0); err != nil {
			t.Fatal(err)
		}
		if sum(dst) != c.SHA256 {
			t.Errorf("%dx%d to %v: differs from Pillow", c.Width, c.Height, g)
		}
	}
	var m Image
	for _, c := range golden.Converted {
		if err := d.Decode(context.Background(), &m, readFile(t, c.Name)); err != nil {
			t.Fatal(err)
		}
		if m.DType != dtype.U8 || m.Channels != 1 || len(m.Pix) != m.Width*m.Height {
			t.Errorf("%s: %d bytes for %dx%d of %d %v", c.Name, len(m.Pix), m.Width, m.Height, m.Channels, m.DType)
		}
		if jpeg := bytes.HasSuffix([]byte(c.Name), []byte(".jpg")); sum(m.Pix) != c.SHA256 && !(jpeg && !turbojpeg.Available()) {
			t.Errorf("%s: differs from Pillow", c.Name)
		}
	}
}

func TestDeepFilesEqualPillow(t *testing.T) {
	upright := NewDecoder(Options{DType: dtype.U16, Channels: 1})
	defer upright.Close()
	stored := NewDecoder(Options{DType: dtype.U16, Channels: 1, IgnoreOrientation: true})
	defer stored.Close()
	for _, c := range loadPixels(t).Files {
		data := readFile(t, c.Name)
		var m Image
		for d, want := range map[*Decoder]string{stored: c.Stored, upright: c.Upright} {
			if err := d.Decode(context.Background(), &m, data); err != nil {
				t.Fatal(err)
			}
			if sum(m.Pix) != want {
				t.Errorf("%s: %dx%d differs from Pillow", c.Name, m.Width, m.Height)
			}
		}
		g := CenterCrop(c.Crop)
		dst := make([]byte, upright.Bytes(g))
		if err := upright.DecodeTransformed(context.Background(), dst, data, g, 0); err != nil {
			t.Fatal(err)
		}
		if sum(dst) != c.Cropped {
			t.Errorf("%s, %v: differs from Pillow", c.Name, g)
		}
	}
}
