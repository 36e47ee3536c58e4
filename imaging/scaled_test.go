package imaging

import (
	"bytes"
	"context"
	"encoding/binary"
	"image"
	"image/draw"
	"image/jpeg"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/imaging/internal/turbojpeg"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
)

// mosaic is a JPEG of n x n sample photos side by side: a large picture with
// as much detail to the pixel as a small one.
func mosaic(t testing.TB, n int) []byte {
	t.Helper()
	var all *image.RGBA
	for i := range n * n {
		data, err := samplephotos.Photo(i + 1)
		if err != nil {
			t.Fatal(err)
		}
		tile, err := jpeg.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		b := tile.Bounds()
		if all == nil {
			all = image.NewRGBA(image.Rect(0, 0, n*b.Dx(), n*b.Dy()))
		}
		draw.Draw(all, b.Add(image.Pt(i%n*b.Dx(), i/n*b.Dy())), tile, image.Point{}, draw.Src)
	}
	var buf bytes.Buffer
	if err := jpeg.Encode(&buf, all, &jpeg.Options{Quality: 90}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestScaledDecode: pictures that are decoded smaller differ little, and the
// others not at all.
func TestScaledDecode(t *testing.T) {
	if !turbojpeg.Available() {
		t.Skip("libturbojpeg is not installed")
	}
	full, scaled := NewDecoder(Options{}), NewDecoder(Options{ScaledDecode: true})
	defer full.Close()
	defer scaled.Close()
	for _, n := range []int{1, 4} {
		data := mosaic(t, n)
		for _, tr := range []Transform{
			CenterCrop(28), CenterCrop(64), CenterCrop(90), CenterCrop(224),
			CenterCrop(90).WithFilter(Bicubic), RandomResizedCrop(32).WithFlip(0.5), Stretch(50, 20),
		} {
			for key := range uint64(3) {
				want, got := make([]byte, tr.Bytes()), make([]byte, tr.Bytes())
				if err := full.DecodeTransformed(context.Background(), want, data, tr, key); err != nil {
					t.Fatal(err)
				}
				if err := scaled.DecodeTransformed(context.Background(), got, data, tr, key); err != nil {
					t.Fatal(err)
				}
				shrink := tr.Plan(n*500, n*375, key).shrink()
				d := compare(got, want)
				t.Logf("%dx%d, %v at 1/%d: %+v", n*500, n*375, tr, 1<<shrink, d)
				if (shrink == 0) != (d.mean == 0) || d.mean > 0.7 || d.most > 12 {
					t.Errorf("%dx%d, %v at 1/%d: %+v", n*500, n*375, tr, 1<<shrink, d)
				}
			}
		}
	}
}

func TestPlanShrink(t *testing.T) {
	axis := func(length, full int) Axis { return Axis{Length: length, Full: full, N: full} }
	for _, c := range []struct{ x, y, full, want int }{
		{399, 800, 100, 0}, {400, 400, 100, 1}, {800, 799, 100, 1}, {800, 800, 100, 2},
		{1599, 1600, 100, 2}, {1600, 1600, 100, 3}, {60000, 60000, 100, 3}, {50, 50, 100, 0},
	} {
		if got := (Plan{X: axis(c.x, c.full), Y: axis(c.y, c.full)}).shrink(); got != c.want {
			t.Errorf("%dx%d to %d: shrunk by 2^%d, want 2^%d", c.x, c.y, c.full, got, c.want)
		}
	}
}

// TestScaledDecodeIsInPlace: a crop of a ramp is where it was, to a fraction
// of a pixel, however the picture lies. Sizes are odd, so that the last pixels
// of the smaller picture stand for fewer.
func TestScaledDecodeIsInPlace(t *testing.T) {
	if !turbojpeg.Available() {
		t.Skip("libturbojpeg is not installed")
	}
	const width, height = 1013, 1019
	ramp := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		x, y := i%width, i/width
		ramp.Pix[4*i], ramp.Pix[4*i+1], ramp.Pix[4*i+2], ramp.Pix[4*i+3] = byte(x/4), byte(y/4), byte(255-x/4), 255
	}
	var buf bytes.Buffer
	if err := jpeg.Encode(&buf, ramp, &jpeg.Options{Quality: 98}); err != nil {
		t.Fatal(err)
	}
	full, scaled := NewDecoder(Options{}), NewDecoder(Options{ScaledDecode: true})
	defer full.Close()
	defer scaled.Close()
	tr := RandomResizedCrop(24).WithScale(0.05, 1)
	shrunk := map[int]int{}
	for o := Upright; o <= TurnedRight; o++ {
		data := jpegWithEXIF(buf.Bytes(), tiff(binary.BigEndian, uint16(o)))
		for key := range uint64(6) {
			want, got := make([]byte, tr.Bytes()), make([]byte, tr.Bytes())
			if err := full.DecodeTransformed(context.Background(), want, data, tr, key); err != nil {
				t.Fatal(err)
			}
			if err := scaled.DecodeTransformed(context.Background(), got, data, tr, key); err != nil {
				t.Fatal(err)
			}
			// A step is four pixels. Red grows to the right and blue to the left:
			// what is half of their difference off is off to one side. Decoding at 1/4 and
			// 1/8 also makes colours a quarter of a step brighter.
			var off [3]float64
			for i := range got {
				off[i%3] += 3 * float64(int(got[i])-int(want[i])) / float64(len(got))
			}
			if pixels := 2 * (off[0] - off[2]); math.Abs(pixels) > 0.9 {
				t.Errorf("orientation %d, key %d: off by %.2f pixels", o, key, pixels)
			}
			if d := compare(got, want); d.most > 2 {
				t.Errorf("orientation %d, key %d: %+v", o, key, d)
			}
			shrunk[tr.Plan(width, height, key).shrink()]++
		}
	}
	if len(shrunk) < 2 || shrunk[0] > 0 {
		t.Errorf("pictures were decoded at %v", shrunk)
	}
}
