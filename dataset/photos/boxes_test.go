package photos

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// numbers are what a reader gives for a visit.
func numbers(t testing.TB, d dataset.Dataset, v dataset.Visit) []float32 {
	t.Helper()
	r, err := d.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := make([]byte, dataset.SampleBytes(d, v.Index))
	if err := r.Read(t.Context(), v, b); err != nil {
		t.Fatal(err)
	}
	list := make([]float32, len(b)/4)
	if _, err := binary.Decode(b, binary.NativeEndian, list); err != nil {
		t.Fatal(err)
	}
	return list
}

func near(a, b []float32, most float64) bool {
	return slices.EqualFunc(a, b, func(a, b float32) bool { return math.Abs(float64(a-b)) <= most })
}

// Boxes are where the pixels are that a mask has of them, in every crop, whatever
// way they are written.
func TestBoxesGoWithMasks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	cut, gone := 0, 0
	for range 300 {
		w, h := 40+rng.IntN(200), 40+rng.IntN(200)
		box := image.Rect(rng.IntN(w), rng.IntN(h), rng.IntN(w), rng.IntN(h))
		box.Max = box.Max.Add(image.Pt(2, 2))
		box = box.Intersect(image.Rect(0, 0, w, h))
		m := image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White})
		for y := box.Min.Y; y < box.Max.Y; y++ {
			for x := box.Min.X; x < box.Max.X; x++ {
				m.SetColorIndex(x, y, 1)
			}
		}
		var file bytes.Buffer
		if err := png.Encode(&file, m); err != nil {
			t.Fatal(err)
		}
		transform := []imaging.Transform{
			imaging.RandomResizedCrop(96).WithFlip(0.5), imaging.CenterCrop(80).WithFlip(0.5), imaging.Stretch(120, 70).WithFlip(0.5),
		}[rng.IntN(3)]
		masks, err := Open(t.Context(), datatest.Folder(t, map[string][]byte{"0.png": file.Bytes()}), Options{Transform: transform, Decode: imaging.Options{Indexes: true}})
		if err != nil {
			t.Fatal(err)
		}
		var frame dataset.Frame
		v := dataset.Visit{Key: rng.Uint64(), Frame: &frame}
		r, err := masks.NewReader()
		if err != nil {
			t.Fatal(err)
		}
		pixels := make([]byte, masks.Spec().Bytes())
		if err := r.Read(t.Context(), v, pixels); err != nil {
			t.Fatal(err)
		}
		r.Close()
		width, height := transform.Size()
		seen := image.Rectangle{}
		for at, v := range pixels {
			if v == 1 {
				seen = seen.Union(image.Rect(at%width, at/width, at%width+1, at/width+1))
			}
		}

		x0, y0, x1, y1 := float32(box.Min.X), float32(box.Min.Y), float32(box.Max.X), float32(box.Max.Y)
		fw, fh := float32(w), float32(h)
		rows := map[BoxOptions][]float32{
			{}:                      {x0, y0, x1, y1},
			{Format: BoxCornerSize}: {x0, y0, x1 - x0, y1 - y0},
			{Format: BoxCenterSize}: {(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0},
			{Normalized: true}:      {x0 / fw, y0 / fh, x1 / fw, y1 / fh},
			{Format: BoxCenterSize, Normalized: true, Column: 1}: {7, (x0 + x1) / 2 / fw, (y0 + y1) / 2 / fh, (x1 - x0) / fw, (y1 - y0) / fh},
		}
		for o, row := range rows {
			d, err := dataset.NewMemoryRaggedOf(append(slices.Clone(row), row...), []int{len(row)}, []int64{0, 2}, dataset.MemoryOptions{})
			if err != nil {
				t.Fatal(err)
			}
			boxes, err := NewBoxes(d, transform, o)
			if err != nil {
				t.Fatal(err)
			}
			all := numbers(t, boxes, v)
			got := all[:len(row)]
			if len(all) != 2*len(row) || !slices.Equal(all[len(row):], got) || o.Column > 0 && got[0] != 7 {
				t.Fatalf("%+v: %v of %v", o, all, row)
			}
			var n [4]float64
			for i := range n {
				n[i] = float64(got[o.Column+i])
			}
			if o.Normalized {
				stretch(&n, float64(width), float64(height))
			}
			o.Format.toCorners(&n)
			// Pixels whose middle lies in the box, and perhaps one of less.
			for i, want := range []int{seen.Min.X, seen.Min.Y, seen.Max.X, seen.Max.Y} {
				if d := n[i] - float64(want); !seen.Empty() && math.Abs(d) > 0.51 {
					t.Fatalf("%v, %+v, %v in %dx%d: %v, the mask has %v", transform, o, box, w, h, n, seen)
				}
			}
			if seen.Empty() && !(n[2]-n[0] < 1 || n[3]-n[1] < 1) {
				t.Fatalf("%v, %+v, %v in %dx%d: %v, the mask has nothing", transform, o, box, w, h, n)
			}
		}
		p := transform.Plan(w, h, v.Key)
		switch a, b := p.Point(float64(x0), float64(y0)); {
		case seen.Empty():
			gone++
		case min(a, b) < 0 || a > float64(width):
			cut++
		}
	}
	if cut < 20 || gone < 10 {
		t.Errorf("%d were cut, %d gone", cut, gone)
	}
}

// One box a sample is a row without an axis for more.
func TestOneBox(t *testing.T) {
	d, err := dataset.NewMemoryOf([]float32{0, 0, 50, 100, 200, 0, 300, 100}, []int{4}, dataset.MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	boxes, err := NewBoxes(d, imaging.CenterCrop(50), BoxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		frame dataset.Frame
		want  []float32
	}{
		{dataset.Frame{Width: 300, Height: 100}, []float32{0, 0, 0, 0}}, // left of the middle
		{dataset.Frame{Width: 400, Height: 100}, []float32{25, 0, 50, 50}},
	} {
		if got := numbers(t, boxes, dataset.Visit{Index: i, Frame: &c.frame}); !near(got, c.want, 1e-6) {
			t.Errorf("box %d: %v, want %v", i, got, c.want)
		}
	}
}

// Boxes that are none, or go with nothing, are errors.
func TestBadBoxes(t *testing.T) {
	memory := func(shape ...int) dataset.Dataset {
		d, err := dataset.NewMemoryOf(make([]float32, 2*dataset.Spec{Shape: shape, DType: dtype.I8}.Bytes()), shape, dataset.MemoryOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	whole, err := dataset.NewMemoryOf([]int32{1, 2, 3, 4}, []int{4}, dataset.MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	row, err := dataset.NewMemoryRaggedOf(make([]float32, 8), nil, []int64{0, 8}, dataset.MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	good := imaging.CenterCrop(8)
	for _, c := range []struct {
		d    dataset.Dataset
		t    imaging.Transform
		o    BoxOptions
		want string
	}{
		{whole, good, BoxOptions{}, "samples of 4 i32, want rows of f32"},
		{row, good, BoxOptions{}, "want rows of f32"},
		{memory(), good, BoxOptions{}, "samples of scalar f32"},
		{memory(2, 2, 4), good, BoxOptions{}, "samples of 2x2x4 f32"},
		{memory(5, 3), good, BoxOptions{}, "four numbers from column 0 on, and rows have 3"},
		{memory(5, 4), good, BoxOptions{Column: 1}, "column 1 on, and rows have 4"},
		{memory(5, 4), good, BoxOptions{Column: -1}, "column -1"},
		{memory(5, 4), good, BoxOptions{Format: 3}, "format 3"},
		{memory(5, 4), imaging.CenterCrop(-1), BoxOptions{}, "sides"},
	} {
		_, err := NewBoxes(c.d, c.t, c.o)
		testkit.WantError(t, c.want, err, dataset.ErrArgument, c.want)
	}
	boxes, err := NewBoxes(memory(5, 4), good, BoxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := boxes.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, f := range []*dataset.Frame{nil, {}} {
		testkit.WantError(t, "no picture", r.Read(t.Context(), dataset.Visit{Frame: f}, make([]byte, 80)), dataset.ErrArgument, boxes.Name(0)+": ")
	}
}
