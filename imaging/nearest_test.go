package imaging

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
)

// goldenNearest is testdata/nearest.json, which testdata/nearest.py writes.
func goldenNearest(t *testing.T) (g struct {
	Plans []struct {
		Channels, Width, Height int
		Seed                    uint32
		Box, Keep               [4]int // x, y, width, height
		Full                    [2]int
		Mirror                  bool
		SHA256                  string
	}
	Palettes []struct {
		Name      string
		SHA256    string
		Stretch   [2]int
		Stretched string
	}
}) {
	t.Helper()
	if err := json.Unmarshal(readFile(t, "nearest.json"), &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Plans) == 0 || len(g.Palettes) == 0 {
		t.Fatal("no golden data")
	}
	return g
}

func TestNearestEqualsPillow(t *testing.T) {
	var r Resizer
	for _, c := range goldenNearest(t).Plans {
		m := &Image{Width: c.Width, Height: c.Height, Channels: c.Channels, Pix: make([]byte, c.Channels*c.Width*c.Height)}
		for i, seed := 0, c.Seed; i < len(m.Pix); i++ {
			seed = seed*1664525 + 1013904223
			m.Pix[i] = byte(seed >> 24)
		}
		p := Plan{
			X:      Axis{c.Box[0], c.Box[2], c.Full[0], c.Keep[0], c.Keep[2]},
			Y:      Axis{c.Box[1], c.Box[3], c.Full[1], c.Keep[1], c.Keep[3]},
			Mirror: c.Mirror, Filter: Nearest,
		}
		dst := make([]byte, c.Channels*p.X.N*p.Y.N)
		if err := r.Resize(dst, m, p); err != nil {
			t.Fatal(err)
		}
		if sum(dst) != c.SHA256 {
			t.Errorf("%dx%d of %d channels, %+v: differs from Pillow", c.Width, c.Height, c.Channels, p)
		}
	}
}

// Nearest makes no value that was not there, and a mask has the geometry of its
// picture: another filter and other colours change neither box nor mirroring.
func TestFilterKeepsGeometry(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		width, height, key := 1+rng.IntN(600), 1+rng.IntN(600), rng.Uint64()
		picture, err := ParseTransform("rrc:224,flip,jitter,bicubic", 0)
		if err != nil {
			t.Fatal(err)
		}
		mask, err := ParseTransform("rrc:224,flip,nearest", 0)
		if err != nil {
			t.Fatal(err)
		}
		a, b := picture.Plan(width, height, key), mask.Plan(width, height, key)
		if a.Filter != Bicubic || b.Filter != Nearest || mask.Filter() != Nearest {
			t.Fatalf("filters %v and %v", a.Filter, b.Filter)
		}
		a.Filter = b.Filter
		if a != b {
			t.Fatalf("%dx%d, key %#x: %+v of the picture, %+v of the mask", width, height, key, a, b)
		}
	}
}

// A JPEG is never decoded smaller for Nearest, which wants its pixels.
func TestNearestOfScaledDecode(t *testing.T) {
	g := CenterCrop(8).WithFilter(Nearest)
	want, got := make([]byte, g.Bytes()), make([]byte, g.Bytes())
	for o, dst := range map[Options][]byte{{}: want, {ScaledDecode: true}: got} {
		d := NewDecoder(o)
		defer d.Close()
		if err := d.DecodeTransformed(context.Background(), dst, photo(t), g, 0); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) {
		t.Error("the pixels are those of a smaller picture")
	}
}

// Indexes of palettes are those that Pillow has in mode P.
func TestIndexesEqualPillow(t *testing.T) {
	for _, c := range goldenNearest(t).Palettes {
		d := NewDecoder(Options{Indexes: true})
		defer d.Close()
		var m Image
		if err := d.Decode(context.Background(), &m, readFile(t, c.Name)); err != nil {
			t.Fatal(err)
		}
		if m.Channels != 1 || m.DType != dtype.U8 || sum(m.Pix) != c.SHA256 {
			t.Errorf("%s: differs from Pillow: %d channels of %v, %v", c.Name, m.Channels, m.DType, m.Pix)
		}
		g := Stretch(c.Stretch[0], c.Stretch[1]).WithFilter(Bicubic) // which indexes are not resized by
		dst := make([]byte, d.Bytes(g))
		if err := d.DecodeTransformed(context.Background(), dst, readFile(t, c.Name), g, 0); err != nil {
			t.Fatal(err)
		}
		if sum(dst) != c.Stretched {
			t.Errorf("%s, resized: differs from Pillow", c.Name)
		}
	}
}

// numbersPNG is a PNG of numbers of so many bits: of grey, or of a palette that has
// so many colours.
type numbersPNG struct {
	width, height, bits, colours int
	interlaced                   bool
	value                        func(x, y int) int
}

func (p numbersPNG) file() []byte {
	file := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(name string, content []byte) {
		file = binary.BigEndian.AppendUint32(file, uint32(len(content)))
		body := append([]byte(name), content...)
		file = append(file, body...)
		file = binary.BigEndian.AppendUint32(file, crc32.ChecksumIEEE(body))
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(p.width))
	head = binary.BigEndian.AppendUint32(head, uint32(p.height))
	head = append(head, byte(p.bits), 0, 0, 0, 0)
	passes := [][4]int{{0, 0, 1, 1}} // first column and row, and steps
	if p.colours > 0 {
		head[9] = 3
	}
	if p.interlaced {
		head[12] = 1
		passes = [][4]int{{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}
	}
	chunk("IHDR", head)
	if p.colours > 0 {
		chunk("PLTE", bytes.Repeat([]byte{1, 99, 50}, p.colours))
		chunk("tRNS", []byte{7})
	}
	var rows bytes.Buffer
	z := zlib.NewWriter(&rows)
	for _, pass := range passes {
		width := (p.width - pass[0] + pass[2] - 1) / pass[2]
		for y := pass[1]; y < p.height && width > 0; y += pass[3] {
			row := make([]byte, 1+(width*p.bits+7)/8) // behind the filter
			for x := range width {
				if v := p.value(pass[0]+x*pass[2], y); p.bits == 16 {
					binary.BigEndian.PutUint16(row[1+2*x:], uint16(v))
				} else {
					row[1+x*p.bits/8] |= byte(v << (8 - p.bits - x*p.bits%8))
				}
			}
			z.Write(row)
		}
	}
	z.Close()
	chunk("IDAT", rows.Bytes())
	chunk("IEND", nil)
	return file
}

// Of any PNG of numbers, those beyond its palette too, turned in any way and in
// both types, each transform takes the numbers that its plan says.
func TestTransformedIndexes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	terms := []string{"rrc:9,flip", "rrc:40,flip,bicubic,jitter", "center:11,flip", "resize:30,crop:17,flip:1", "stretch:23x5,flip", "stretch:3x50", "rrc:8,scale:0.01,0.02,ratio:5,6"}
	for range 400 {
		p := numbersPNG{width: 1 + rng.IntN(70), height: 1 + rng.IntN(70), bits: 1 << rng.IntN(5), interlaced: rng.IntN(2) == 0}
		if p.bits < 16 && rng.IntN(2) == 0 {
			p.colours = 1 + rng.IntN(1<<p.bits)
		}
		a := rng.IntN(1 << 20)
		p.value = func(x, y int) int { return (x*x*31 + y*977 + x*y*a) % 65521 & (1<<p.bits - 1) }
		o := Orientation(1 + rng.IntN(8))
		file := pngWithEXIF(p.file(), tiff(binary.BigEndian, uint16(o)))
		g, err := ParseTransform(terms[rng.IntN(len(terms))], 0)
		if err != nil {
			t.Fatal(err)
		}
		key := rng.Uint64()
		width, height := o.Size(p.width, p.height)
		plan := g.Plan(width, height, key)
		xs, ys := nearestOf(plan.X), nearestOf(plan.Y)
		if plan.Mirror {
			slices.Reverse(xs)
		}
		var want []int
		for _, y := range ys {
			for _, x := range xs {
				want = append(want, p.value(stored[o](x, y, p.width, p.height)))
			}
		}
		for _, as := range []dtype.DType{dtype.U8, dtype.U16} {
			if p.bits == 16 && as == dtype.U8 {
				continue
			}
			d := NewDecoder(Options{Indexes: true, DType: as})
			m := Image{Width: plan.X.N, Height: plan.Y.N, Channels: 1, DType: as, Pix: make([]byte, d.Bytes(g))}
			if err := d.DecodeTransformed(context.Background(), m.Pix, file, g, key); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(m.samples(), want) {
				t.Fatalf("%+v, orientation %d, %v as %v: %v, want %v", p, o, g, as, m.samples(), want)
			}
			d.Close()
		}
	}
}

// nearestOf is the pixels under the centres of an axis.
func nearestOf(a Axis) (list []int) {
	step := float64(a.Length) / float64(a.Full)
	center := float64(step * 0.5)
	for i := range a.First + a.N {
		if i >= a.First {
			list = append(list, a.Offset+min(int(center), a.Length-1))
		}
		center += step
	}
	return list
}

// Grey values come as they are stored, of any depth and in both types, and
// turned upright.
func TestIndexesOfGrey(t *testing.T) {
	const width, height = 13, 7
	for _, bits := range []int{1, 2, 4, 8, 16} {
		value := func(x, y int) int { return (x*31 + y*977) & (1<<bits - 1) }
		file := numbersPNG{width: width, height: height, bits: bits, value: value}.file()
		turned := pngWithEXIF(file, tiff(binary.BigEndian, uint16(UpsideDown)))
		for _, o := range []Options{{Indexes: true}, {Indexes: true, Channels: 1, DType: dtype.U8}, {Indexes: true, DType: dtype.U16}} {
			d := NewDecoder(o)
			defer d.Close()
			var m, up Image
			err := errors.Join(d.Decode(context.Background(), &m, file), d.Decode(context.Background(), &up, turned))
			if bits == 16 && o.DType != dtype.U16 {
				if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "16 bits") {
					t.Errorf("%d bits as %v: %v", bits, o.DType, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			var want []int
			for y := range height {
				for x := range width {
					want = append(want, value(x, y))
				}
			}
			if !slices.Equal(m.samples(), want) {
				t.Errorf("%d bits, %+v: %v, want %v", bits, o, m.samples(), want)
			}
			slices.Reverse(want)
			if !slices.Equal(up.samples(), want) {
				t.Errorf("%d bits, %+v, turned: %v, want %v", bits, o, up.samples(), want)
			}
		}
	}
}

// What has colours or transparency has no indexes, and there is one of them a
// pixel.
func TestNoIndexes(t *testing.T) {
	d := NewDecoder(Options{Indexes: true})
	defer d.Close()
	colours := image.NewNRGBA(image.Rect(0, 0, 4, 4))
	colours.Set(1, 1, color.NRGBA{200, 10, 0, 255})
	for _, c := range []struct {
		file []byte
		part string
	}{
		{encodePNG(t, colours), "colours"}, {readFile(t, "gray-alpha.png"), "transparency"},
		{readFile(t, "gray.jpg"), "indexes of a JPEG"}, {readFile(t, "lossless.webp"), "indexes of a WebP"},
	} {
		var m Image
		g := Stretch(4, 4)
		for _, err := range []error{d.Decode(context.Background(), &m, c.file), d.DecodeTransformed(context.Background(), make([]byte, 16), c.file, g, 0)} {
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.part) {
				t.Errorf("%v, want %q", err, c.part)
			}
		}
	}
	if err := (Options{Indexes: true, Channels: 3}).Check(); !errors.Is(err, ErrArgument) {
		t.Error(err)
	}
}
