package loader_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// maskedPhotos is n pictures of different sizes and their masks, in other orders:
// value is what both have at a place.
func maskedPhotos(t testing.TB, n int, value func(x, y int) byte, o photos.Options) (pictures, masks *photos.Images) {
	t.Helper()
	dir := t.TempDir()
	palette := make(color.Palette, 256)
	for i := range palette {
		palette[i] = color.RGBA{byte(7 * i), byte(i >> 3), 99, 255} // not what the photo has
	}
	write := func(name string, m image.Image) {
		var file bytes.Buffer
		testkit.OK(t, png.Encode(&file, m))
		testkit.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testkit.OK(t, os.WriteFile(name, file.Bytes(), 0o644))
	}
	for i := range n {
		photo := image.NewRGBA(image.Rect(0, 0, 60+13*i, 90-5*i))
		mask := image.NewPaletted(photo.Rect, palette)
		for y := range photo.Rect.Dy() {
			for x := range photo.Rect.Dx() {
				v := value(x, y)
				photo.Set(x, y, color.RGBA{v, v, v, 255})
				mask.SetColorIndex(x, y, v)
			}
		}
		write(filepath.Join(dir, "photos", "c", fmt.Sprint(i, ".png")), photo)
		write(filepath.Join(dir, "masks", "c", fmt.Sprint(i, ".png")), mask)
		write(filepath.Join(dir, "masks", "b", fmt.Sprint(i, ".png")), mask) // of no photo
	}
	pictures, err := photos.Open(t.Context(), filepath.Join(dir, "photos"), o)
	testkit.OK(t, err)
	all, err := photos.OpenFolder(t.Context(), filepath.Join(dir, "masks"))
	testkit.OK(t, err)
	matched, err := dataset.Match(pictures.Files, all, nil)
	testkit.OK(t, err)
	o.Decode = imaging.Options{Indexes: true}
	masks, err = photos.New(matched, o)
	testkit.OK(t, err)
	return pictures, masks
}

// masksOf is a mask for each photo, as large as that is upright; one of them is
// a row higher.
func masksOf(t testing.TB, pictures *photos.Images, transform imaging.Transform, higher int) *photos.Images {
	t.Helper()
	dir := t.TempDir()
	d := imaging.NewDecoder(imaging.Options{})
	defer d.Close()
	for i := range pictures.Len() {
		content, err := os.ReadFile(pictures.Name(i))
		testkit.OK(t, err)
		var m imaging.Image
		testkit.OK(t, d.Decode(context.Background(), &m, content))
		if i == higher {
			m.Height++
		}
		mask := image.NewGray(image.Rect(0, 0, m.Width, m.Height))
		for at := range mask.Pix {
			mask.Pix[at] = byte(at%m.Width*7 + at/m.Width*91)
		}
		var file bytes.Buffer
		testkit.OK(t, png.Encode(&file, mask))
		testkit.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("mask-%03d.png", i)), file.Bytes(), 0o644))
	}
	masks, err := photos.Open(t.Context(), dir, photos.Options{Transform: transform, Decode: imaging.Options{Indexes: true}})
	testkit.OK(t, err)
	return masks
}

// A mask is cropped and mirrored as its photo is, in every epoch anew: where both
// have the same numbers they do so afterwards, to the bit with the filter of
// masks, and nearly with the one of pictures and other colours besides.
func TestMasksGoWithPhotos(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	slope := func(x, y int) byte { return byte(x) }
	noise := func(x, y int) byte { return byte(x*x*7 + y*91 + x*y) }
	for _, c := range []struct {
		transform string
		value     func(x, y int) byte
		differ    int // at most
	}{
		{"rrc:24,flip,nearest", noise, 0},
		{"center:24,flip,nearest", noise, 0},
		{"rrc:24,flip", slope, 4},
		{"rrc:24,flip,bicubic,jitter:0,0,0,0.1", slope, 4}, // grey has no hue
	} {
		transform, err := imaging.ParseTransform(c.transform, 0)
		testkit.OK(t, err)
		const n = 7
		pictures, masks := maskedPhotos(t, n, c.value, photos.Options{Transform: transform})
		ld := start(t, dev, pictures, loader.Options{Batch: 3, Epochs: 3, Shuffle: true, DType: dtype.U8, Targets: []dataset.Dataset{masks}})
		s := stream(t, dev)
		seen := map[string]bool{}
		for b, err := range ld.All(t.Context()) {
			testkit.OK(t, err)
			g := use(t, s, b)
			testkit.OK(t, b.Release(s))
			mask := g.targets[0]
			if want := fmt.Sprint([]int{len(g.indexes), 24, 24, 1}); fmt.Sprint(mask.shape) != want || mask.dtype != dtype.U8 {
				t.Fatalf("a mask of %v %v, want %s u8", mask.shape, mask.dtype, want)
			}
			const pixels = 24 * 24
			for slot, i := range g.indexes {
				red, index := g.data[slot*3*pixels:][:pixels], mask.data[slot*pixels:][:pixels]
				for at := range red {
					if d := int(red[at]) - int(index[at]); d > c.differ || -d > c.differ {
						t.Fatalf("%s: sample %d, pixel %d: %d in the photo, %d in the mask", c.transform, i, at, red[at], index[at])
					}
				}
				seen[string(index)] = true
			}
		}
		if len(seen) < n+2 {
			t.Errorf("%s: only %d masks: nothing was random", c.transform, len(seen))
		}
		within(t, "Close", ld.Close)
	}
}

// A device does not resize as masks are: workers do.
func TestNearestIsForWorkers(t *testing.T) {
	dev := open(t, "host:64MiB")
	leavesNothing(t, dev)
	loader.UseStandIn(t, &loader.StandIn{Engine: 7})
	pictures, _ := maskedPhotos(t, 2, func(x, y int) byte { return 0 }, photos.Options{Transform: imaging.CenterCrop(8).WithFilter(imaging.Nearest)})
	refuses(t, dev, pictures, loader.Options{Decode: loader.DecodeGPU}, device.ErrNotSupported, "filter nearest")
	ld := start(t, dev, pictures, loader.Options{})
	if s := ld.Stats(); s.DecodeDevice || !strings.Contains(s.DecodeWhy, "filter nearest") {
		t.Errorf("%t, %q", s.DecodeDevice, s.DecodeWhy)
	}
}
