package imaging

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"github.com/pinion-gpu/pinion/imaging/internal/header"
	"hash/crc32"
	"image"
	"math/rand/v2"
	"slices"
	"testing"
)

// stored tells, for every orientation, which stored pixel is the upright
// picture's pixel (x, y). w and h are the stored size.
var stored = map[Orientation]func(x, y, w, h int) (int, int){
	Upright:     func(x, y, w, h int) (int, int) { return x, y },
	Mirrored:    func(x, y, w, h int) (int, int) { return w - 1 - x, y },
	UpsideDown:  func(x, y, w, h int) (int, int) { return w - 1 - x, h - 1 - y },
	Flipped:     func(x, y, w, h int) (int, int) { return x, h - 1 - y },
	Transposed:  func(x, y, w, h int) (int, int) { return y, x },
	TurnedLeft:  func(x, y, w, h int) (int, int) { return y, h - 1 - x },
	Transversed: func(x, y, w, h int) (int, int) { return w - 1 - y, h - 1 - x },
	TurnedRight: func(x, y, w, h int) (int, int) { return w - 1 - y, x },
}

// turned is the upright copy of a picture.
func turned(m *Image, o Orientation) *Image {
	var up Image
	up.reshape(o.Size(m.Width, m.Height))
	for y := range up.Height {
		for x := range up.Width {
			sx, sy := stored[o](x, y, m.Width, m.Height)
			copy(up.Pix[3*(y*up.Width+x):][:3], m.Pix[3*(sy*m.Width+sx):])
		}
	}
	return &up
}

// tiff is EXIF data of one directory with an orientation, between two other
// tags.
func tiff(order binary.AppendByteOrder, o uint16) []byte {
	b := []byte("II*\x00")
	if order == binary.AppendByteOrder(binary.BigEndian) {
		b = []byte("MM\x00*")
	}
	b = order.AppendUint32(b, 8)
	b = order.AppendUint16(b, 3)
	for _, entry := range [][2]uint16{{0x0100, 1}, {0x0112, o}, {0x0128, 2}} {
		b = order.AppendUint16(b, entry[0])
		b = order.AppendUint16(b, 3)
		b = order.AppendUint32(b, 1)
		b = order.AppendUint16(b, entry[1])
		b = append(b, 0, 0)
	}
	return append(b, 0, 0, 0, 0)
}

var exifName = []byte("Exif\x00\x00")

// jpegWithEXIF puts the data where cameras do, but after another segment.
func jpegWithEXIF(data, exif []byte) []byte {
	body := append(bytes.Clone(exifName), exif...)
	other := []byte{0xff, 0xe5, 0, 4, 1, 2}
	segment := binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(body)+2))
	return slices.Concat(data[:2], other, segment, body, data[2:])
}

func pngWithEXIF(data, exif []byte) []byte {
	chunk := append([]byte("eXIf"), exif...)
	whole := binary.BigEndian.AppendUint32(nil, uint32(len(exif)))
	whole = append(whole, chunk...)
	whole = binary.BigEndian.AppendUint32(whole, crc32.ChecksumIEEE(chunk))
	const afterHeader = 8 + 25
	return slices.Concat(data[:afterHeader], whole, data[afterHeader:])
}

// webpWithEXIF takes a simple WebP of the size that is given.
func webpWithEXIF(data, exif []byte, width, height int) []byte {
	body := []byte("WEBPVP8X\x0a\x00\x00\x00\x08\x00\x00\x00")
	body = append(body, byte(width-1), 0, 0, byte(height-1), 0, 0)
	body = append(body, data[12:]...)
	body = append(body, "EXIF"...)
	body = binary.LittleEndian.AppendUint32(body, uint32(len(exif)))
	body = append(body, exif...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

func TestOrientationOf(t *testing.T) {
	jpg, png, webp := readFile(t, "420.jpg"), readFile(t, "rgb.png"), readFile(t, "lossless.webp")
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for value := range uint16(10) {
			want := Orientation(value)
			if value < 1 || value > 8 {
				want = Upright
			}
			exif := tiff(order, value)
			for name, data := range map[string][]byte{
				"JPEG":           jpegWithEXIF(jpg, exif),
				"PNG":            pngWithEXIF(png, exif),
				"WebP":           webpWithEXIF(webp, exif, 37, 29),
				"WebP with name": webpWithEXIF(webp, append(bytes.Clone(exifName), exif...), 37, 29),
			} {
				if got := OrientationOf(data); got != want {
					t.Errorf("%s, %v, %d: %d", name, order, value, got)
				}
			}
		}
	}
	for name, wide := range map[string]string{ // of 32 bits, which Pillow reads, too
		"little": "II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x04\x00\x01\x00\x00\x00\x06\x00\x00\x00",
		"big":    "MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x04\x00\x00\x00\x01\x00\x00\x00\x06",
	} {
		if got := OrientationOf(jpegWithEXIF(jpg, []byte(wide))); got != TurnedLeft {
			t.Errorf("a long number, %s endian: %d", name, got)
		}
	}
	filled := jpegWithEXIF(jpg, tiff(binary.BigEndian, 6))
	filled = slices.Concat(filled[:2], []byte{0xff, 0xff}, filled[2:])
	if got := OrientationOf(filled); got != TurnedLeft {
		t.Errorf("JPEG with bytes that fill up: %d", got)
	}
	for name, data := range map[string][]byte{
		"no EXIF":         jpg,
		"nothing":         nil,
		"text":            []byte("text"),
		"empty EXIF":      jpegWithEXIF(jpg, nil),
		"cut directory":   jpegWithEXIF(jpg, tiff(binary.LittleEndian, 6)[:20]),
		"far directory":   jpegWithEXIF(jpg, []byte("II*\x00\xff\xff\xff\xff....")),
		"another version": jpegWithEXIF(jpg, []byte("II+\x00\x08\x00\x00\x00....")),
		"cut segment":     jpegWithEXIF(jpg, tiff(binary.LittleEndian, 6))[:40],
		"huge chunk":      pngWithEXIF(png[:33], nil)[:36],
	} {
		if got := OrientationOf(data); got != Upright {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func FuzzOrientation(f *testing.F) {
	exif := tiff(binary.BigEndian, 6)
	f.Add(jpegWithEXIF(readFile(f, "420.jpg"), exif))
	f.Add(pngWithEXIF(readFile(f, "rgb.png"), exif))
	f.Add(webpWithEXIF(readFile(f, "lossless.webp"), exif, 37, 29))
	f.Fuzz(func(t *testing.T, data []byte) {
		if o := OrientationOf(data); o < Upright || o > TurnedRight {
			t.Errorf("orientation %d", o)
		}
	})
}

// TestOrientations: the result is that of turning the picture first, byte for
// byte.
func TestOrientations(t *testing.T) {
	decoders(t, func(t *testing.T, newDecoder func(Options) *Decoder) {
		d, ignoring := newDecoder(Options{}), newDecoder(Options{IgnoreOrientation: true})
		transforms := []Transform{
			CenterCrop(17), CenterCrop(29), CenterCrop(60), Stretch(9, 40), Stretch(37, 29), Stretch(29, 37),
			CenterCrop(20).WithFlip(1), RandomResizedCrop(16).WithFlip(0.5), RandomResizedCrop(40).WithFilter(Bicubic), RandomResizedCrop(30).WithFlip(0.5).WithFilter(Nearest),
		}
		for o := Upright; o <= TurnedRight; o++ {
			exif := tiff(binary.LittleEndian, uint16(o))
			files := map[string][]byte{"PNG": pngWithEXIF(readFile(t, "rgb.png"), exif), "grey": pngWithEXIF(readFile(t, "gray.png"), exif)}
			if d.turbo != nil {
				files["JPEG"] = jpegWithEXIF(readFile(t, "420.jpg"), exif)
			}
			for name, data := range files {
				var as, up Image
				if err := ignoring.Decode(context.Background(), &as, data); err != nil {
					t.Fatal(err)
				}
				if err := d.Decode(context.Background(), &up, data); err != nil {
					t.Fatal(err)
				}
				want := turned(&as, o)
				if up.Width != want.Width || up.Height != want.Height || !bytes.Equal(up.Pix, want.Pix) {
					t.Fatalf("%s, orientation %d: decoded wrongly", name, o)
				}
				for key, tr := range transforms {
					plan := tr.Plan(want.Width, want.Height, uint64(key))
					got := make([]byte, tr.Bytes())
					if err := d.DecodeTransformed(context.Background(), got, data, tr, uint64(key)); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got, reference(want, plan)) {
						t.Errorf("%s, orientation %d, %v: differs from turning first", name, o, tr)
					}
				}
			}
		}
	})
}

// TestOrientationsOfPlanes: planes of coarse chroma give what turned planes
// give, but for the order in which some fractions are added.
func TestOrientationsOfPlanes(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	ratios := map[image.YCbCrSubsampleRatio]image.YCbCrSubsampleRatio{ // stored upright, and on its side
		image.YCbCrSubsampleRatio420: image.YCbCrSubsampleRatio420,
		image.YCbCrSubsampleRatio422: image.YCbCrSubsampleRatio440,
		image.YCbCrSubsampleRatio440: image.YCbCrSubsampleRatio422,
	}
	const width, height = 38, 26 // even, so that no sample is for one pixel
	var r Resizer
	for ratio, side := range ratios {
		as := image.NewYCbCr(image.Rect(0, 0, width, height), ratio)
		for _, pix := range [][]byte{as.Y, as.Cb, as.Cr} {
			fillRandom(rng, pix)
		}
		for o := Upright; o <= TurnedRight; o++ {
			w, h := o.Size(width, height)
			upRatio := ratio
			if o.transposed() {
				upRatio = side
			}
			up := image.NewYCbCr(image.Rect(0, 0, w, h), upRatio)
			for y := range h {
				for x := range w {
					sx, sy := stored[o](x, y, width, height)
					c := as.COffset(sx, sy)
					up.Y[up.YOffset(x, y)] = as.Y[as.YOffset(sx, sy)]
					up.Cb[up.COffset(x, y)], up.Cr[up.COffset(x, y)] = as.Cb[c], as.Cr[c]
				}
			}
			for range 10 {
				p := randomPlan(rng, w, h, 50)
				got, want := make([]byte, p.Bytes()), make([]byte, p.Bytes())
				r.resize(got, &picture{rows: newYCbCrRows(as, header.JPEG), width: width, height: height, orientation: o}, p)
				r.resize(want, &picture{rows: newYCbCrRows(up, header.JPEG), width: w, height: h, orientation: Upright}, p)
				if d := compare(got, want); d.most > 2 || d.mean > 0.01 {
					t.Fatalf("%v, orientation %d, %+v: differs from turned planes: %+v", ratio, o, p, d)
				}
			}
		}
	}
}

func ExampleOrientation_Size() {
	fmt.Println(TurnedLeft.Size(4000, 3000))
	// Output: 3000 4000
}
