package kernels_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/kernels"
)

// stored is a picture as a test has it on the host.
type stored struct {
	kernels.Picture
	pix []byte // Height rows of Pitch bytes, the last one without its padding
}

func noise(rng *rand.Rand, width, height, padding int) stored {
	pitch := 3*width + padding
	return stored{
		kernels.Picture{Pitch: int64(pitch), Width: width, Height: height},
		random(rng, pitch*(height-1)+3*width),
	}
}

// upright returns size and a pixel of a picture as EXIF wants it shown, by the
// words of the standard: where the stored row 0 and column 0 belong.
func (p stored) upright() (width, height int, at func(x, y int) [3]byte) {
	width, height = p.Width, p.Height
	if p.Orientation > 4 {
		width, height = height, width
	}
	return width, height, func(x, y int) [3]byte {
		left, right, top, bottom := x, width-1-x, y, height-1-y
		row, column := top, left
		switch p.Orientation {
		case 2: // row 0 top, column 0 right
			row, column = top, right
		case 3: // bottom, right
			row, column = bottom, right
		case 4: // bottom, left
			row, column = bottom, left
		case 5: // row 0 left, column 0 top
			row, column = left, top
		case 6: // right, top
			row, column = right, top
		case 7: // right, bottom
			row, column = right, bottom
		case 8: // left, bottom
			row, column = left, bottom
		}
		return [3]byte(p.pix[row*int(p.Pitch)+3*column:])
	}
}

// kernelValue is the filters as they are published: a triangle, and Keys'
// "Cubic Convolution Interpolation for Digital Image Processing" (1981).
func kernelValue(f kernels.Filter, x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case f == kernels.Bilinear:
		return max(0, 1-x)
	case x < 1:
		return float64(float64(float64(float64((a+2)*x)-(a+3))*x)*x) + 1
	case x < 2:
		return (float64((float64((x-5)*x)+8)*x) - 4) * a
	}
	return 0
}

// matrix is the weights of an axis, one row of all its pixels for each of n
// outputs: the algorithm of Pillow's Resample.c.
func matrix(a kernels.Axis, n int, f kernels.Filter) [][]float64 {
	scale := float64(a.Length) / float64(a.Out)
	stretch := math.Max(1, scale)
	support := stretch * map[kernels.Filter]float64{kernels.Bilinear: 1, kernels.Bicubic: 2}[f]
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, a.Length)
		center := float64((float64(a.First+i) + 0.5) * scale)
		from, to := int(math.Trunc(center-support+0.5)), int(math.Trunc(center+support+0.5))
		total := 0.0
		for j := max(from, 0); j < min(to, a.Length); j++ {
			rows[i][j] = kernelValue(f, float64((float64(j)-center+0.5)*(1/stretch)))
			total += rows[i][j]
		}
		for j, w := range rows[i] {
			rows[i][j] = math.Trunc(float64(w/total*(1<<22)) + math.Copysign(0.5, w))
		}
	}
	return rows
}

// weigh adds up the values where a row of a matrix is not zero, and rounds.
func weigh(weights []float64, value func(i int) byte) byte {
	sum := float64(1 << 21)
	for i, w := range weights {
		if w != 0 {
			sum += w * float64(value(i)) // integers below 2^53
		}
	}
	return byte(max(0, min(255, math.Floor(sum/(1<<22)))))
}

// resampleReference is the definition, on whole matrices.
func resampleReference(p stored, width, height int) []byte {
	_, _, at := p.upright()
	lines := make([]byte, 0, p.Y.Length*width*3)
	across := matrix(p.X, width, p.Filter)
	for y := range p.Y.Length {
		for x := range width {
			for c := range 3 {
				lines = append(lines, weigh(across[x], func(i int) byte { return at(p.X.Offset+i, p.Y.Offset+y)[c] }))
			}
		}
	}
	out := make([]byte, height*width*3)
	for y, weights := range matrix(p.Y, height, p.Filter) {
		for x := range width {
			to := x
			if p.Mirror {
				to = width - 1 - x
			}
			for c := range 3 {
				out[(y*width+to)*3+c] = weigh(weights, func(i int) byte { return lines[(i*width+x)*3+c] })
			}
		}
	}
	return out
}

// resample runs a batch and returns its samples.
func (f *fixture) resample(pictures []stored, width, height, offset int) []byte {
	f.Helper()
	table, err := kernels.NewResampleTable(width, height)
	testkit.OK(f, err)
	for i := range pictures {
		src := f.upload(pictures[i].pix, (offset+i)%7)
		defer src.free()
		pictures[i].Src = src.p
		testkit.OK(f, table.Add(pictures[i].Picture))
	}
	content := make([]byte, table.DeviceBytes())
	copy(content, table.Bytes())
	at, dst := f.upload(content, 8*(offset%4)), f.result(len(pictures)*width*height*3, offset)
	defer at.free()
	defer dst.free()
	testkit.OK(f, f.set.Resample(f.stream, dst.p, table, at.p))
	if after := at.download(); !bytes.Equal(after[:len(table.Bytes())], table.Bytes()) {
		f.Fatal("the entries changed")
	}
	return dst.download()
}

func (f *fixture) checkResample(what string, pictures []stored, width, height, offset int) {
	f.Helper()
	got := f.resample(pictures, width, height, offset)
	size := width * height * 3
	for i, p := range pictures {
		want := resampleReference(p, width, height)
		for k, x := range got[i*size:][:size] {
			if x != want[k] {
				f.Fatalf("%s: picture %d, %+v, to %d x %d: byte %d (x %d, y %d) is %d, want %d",
					what, i, p.Picture, width, height, k, k/3%width, k/3/width, x, want[k])
			}
		}
	}
}

// whole makes a picture's axes those of a resize to out, without a crop.
func (p stored) whole(outWidth, outHeight int) stored {
	width, height, _ := p.upright()
	p.X = kernels.Axis{Length: width, Out: outWidth}
	p.Y = kernels.Axis{Length: height, Out: outHeight}
	return p
}

func TestResampleScales(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(6, 6))
	for _, c := range []struct{ width, height, outWidth, outHeight int }{
		{1, 1, 224, 224}, {4000, 3, 224, 224}, {3, 4000, 70, 9}, {900, 630, 30, 21}, {500, 375, 224, 168},
		{64, 64, 64, 64}, {1, 50, 1, 1}, {50, 1, 33, 1}, {2, 2, 65, 31}, {1000, 2, 1, 2}, {2, 3000, 2, 1}, {31, 33, 32, 32},
	} {
		for _, filter := range []kernels.Filter{kernels.Bilinear, kernels.Bicubic} {
			p := noise(rng, c.width, c.height, rng.IntN(9)).whole(c.outWidth, c.outHeight)
			p.Filter = filter
			f.checkResample("scale", []stored{p}, c.outWidth, c.outHeight, rng.IntN(20))
		}
	}
}

// TestResampleExtremes: black and white are where bicubic weights overshoot.
func TestResampleExtremes(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(7, 7))
	p := noise(rng, 60, 60, 0).whole(90, 41)
	for i, x := range p.pix {
		p.pix[i] = byte(int8(x) >> 7)
	}
	p.Filter = kernels.Bicubic
	f.checkResample("extremes", []stored{p}, 90, 41, 0)
	for i := range p.pix {
		p.pix[i] = 255
	}
	f.checkResample("white", []stored{p}, 90, 41, 0)
}

func TestResampleBatches(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(8, 8))
	axis := func(side, n int) kernels.Axis {
		a := kernels.Axis{Length: 1 + rng.IntN(side)}
		a.Offset = rng.IntN(side - a.Length + 1)
		a.Out = n + rng.IntN(3)*rng.IntN(30)
		a.First = rng.IntN(a.Out - n + 1)
		return a
	}
	for range 40 {
		width, height := 1+rng.IntN(70), 1+rng.IntN(70)
		pictures := make([]stored, rng.IntN(9))
		for i := range pictures {
			p := noise(rng, 1+rng.IntN(90), 1+rng.IntN(90), rng.IntN(2)*rng.IntN(40))
			p.Orientation = rng.IntN(9)
			w, h, _ := p.upright()
			p.X, p.Y = axis(w, width), axis(h, height)
			p.Mirror = rng.IntN(2) == 1
			p.Filter = kernels.Filter(rng.IntN(2))
			pictures[i] = p
		}
		f.checkResample("batch", pictures, width, height, rng.IntN(20))
	}
}

// TestResampleEqualsImaging: the device does what a plan of package imaging
// says, to the same bytes, for pictures that are stored in any orientation.
func TestResampleEqualsImaging(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(9, 9))
	var resizer imaging.Resizer
	for _, transform := range []imaging.Transform{
		imaging.Stretch(30, 21), imaging.CenterCrop(24), imaging.CenterCrop(40).WithFilter(imaging.Bicubic),
		imaging.RandomResizedCrop(32).WithFlip(0.5), imaging.RandomResizedCrop(17).WithFlip(0.5).WithFilter(imaging.Bicubic),
	} {
		width, height := transform.Size()
		for range 20 {
			p := noise(rng, 1+rng.IntN(120), 1+rng.IntN(120), rng.IntN(5))
			p.Orientation = 1
			plan := transform.Plan(p.Width, p.Height, rng.Uint64())
			p.X, p.Y = axisOf(plan.X), axisOf(plan.Y)
			p.Mirror, p.Filter = plan.Mirror, kernels.Filter(plan.Filter)
			want := make([]byte, plan.Bytes())
			testkit.OK(t, resizer.Resize(want, p.packed(), plan))
			if !bytes.Equal(f.resample([]stored{p}, width, height, 0), want) {
				t.Errorf("%v of %d x %d differs from imaging", transform, p.Width, p.Height)
			}
		}
	}
}

func axisOf(a imaging.Axis) kernels.Axis {
	return kernels.Axis{Offset: a.Offset, Length: a.Length, Out: a.Full, First: a.First}
}

// packed is the picture without what lies between its rows.
func (p stored) packed() *imaging.Image {
	m := &imaging.Image{Width: p.Width, Height: p.Height}
	for y := range p.Height {
		m.Pix = append(m.Pix, p.pix[y*int(p.Pitch):][:3*p.Width]...)
	}
	return m
}

func TestResampleTable(t *testing.T) {
	for _, size := range [][2]int{{0, 4}, {4, 0}, {-1, 4}, {4, 65536}} {
		if _, err := kernels.NewResampleTable(size[0], size[1]); err == nil {
			t.Errorf("samples of %v are possible", size)
		}
	}
	table, err := kernels.NewResampleTable(4, 5)
	testkit.OK(t, err)
	good := kernels.Picture{Src: 1 << 20, Pitch: 30, Width: 10, Height: 8, Orientation: 1,
		X: kernels.Axis{Offset: 2, Length: 8, Out: 6, First: 2}, Y: kernels.Axis{Length: 8, Out: 5}}
	testkit.OK(t, table.Add(good))
	before := table.DeviceBytes()
	type P = kernels.Picture
	for name, change := range map[string]func(p *P){
		"no Src":        func(p *P) { p.Src = 0 },
		"Src wraps":     func(p *P) { p.Src = math.MaxUint64 - 200 },
		"short pitch":   func(p *P) { p.Pitch = 29 },
		"huge pitch":    func(p *P) { p.Pitch = math.MaxInt64 },
		"Width":         func(p *P) { p.Width = 0 },
		"Height":        func(p *P) { p.Height = 65536 },
		"orientation":   func(p *P) { p.Orientation = 9 },
		"orientation-":  func(p *P) { p.Orientation = -1 },
		"filter":        func(p *P) { p.Filter = 2 },
		"empty box":     func(p *P) { p.X.Length = 0 },
		"box before":    func(p *P) { p.X.Offset = -1 },
		"box behind":    func(p *P) { p.Y.Offset = 1 },
		"box wraps":     func(p *P) { p.X.Offset, p.X.Length = math.MaxInt, math.MaxInt },
		"First":         func(p *P) { p.X.First = 3 },
		"First before":  func(p *P) { p.Y.First = -1 },
		"small Out":     func(p *P) { p.Y.Out = 4 },
		"huge Out":      func(p *P) { p.Y.Out = 65536 },
		"turned bounds": func(p *P) { p.Orientation = 6 }, // upright it is 8 wide
	} {
		p := good
		change(&p)
		if err := table.Add(p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if table.Len() != 1 || table.DeviceBytes() != before || len(table.Bytes()) > int(before) {
		t.Errorf("%d pictures, %d bytes of %d after refused ones", table.Len(), len(table.Bytes()), table.DeviceBytes())
	}
	table.Reset()
	if table.Len() != 0 || table.DeviceBytes() != 0 {
		t.Errorf("%d pictures, %d bytes after Reset", table.Len(), table.DeviceBytes())
	}
}

// TestResampleSpoiledTable: a Go function does not believe the device's copy
// of the table.
func TestResampleSpoiledTable(t *testing.T) {
	f := openDevice(t, "host")
	rng := rand.New(rand.NewPCG(10, 10))
	p := noise(rng, 20, 20, 0).whole(8, 8)
	src, dst := f.upload(p.pix, 0), f.result(8*8*3, 0)
	defer src.free()
	defer dst.free()
	p.Src = src.p
	table, err := kernels.NewResampleTable(8, 8)
	testkit.OK(t, err)
	testkit.OK(t, table.Add(p.Picture))
	for i := range len(table.Bytes()) / 4 {
		content := make([]byte, table.DeviceBytes())
		copy(content, table.Bytes())
		copy(content[4*i:], []byte{0xff, 0xff, 0xff, 0x7f})
		at := f.upload(content, 0)
		testkit.OK(t, f.set.Resample(f.stream, dst.p, table, at.p))
		err := f.stream.Synchronize()
		words := i >= 6 && i < 10 // where weights lie is of no use to it
		mirror := 4*i == len(table.Bytes())-4
		if (err == nil) != (words || mirror) {
			t.Errorf("word %d spoiled: %v", i, err)
		}
		at.free()
	}
	testkit.OK(t, f.dev.Synchronize())
}

// BenchmarkResample gives the time of a batch of 256 photos.
func BenchmarkResample(b *testing.B) {
	const n, width, height, side = 256, 500, 375, 224
	f := open(b)
	rng := rand.New(rand.NewPCG(11, 11))
	for _, c := range []struct {
		name        string
		filter      kernels.Filter
		orientation int
	}{{"bilinear", kernels.Bilinear, 1}, {"bicubic", kernels.Bicubic, 1}, {"turned", kernels.Bilinear, 6}} {
		b.Run(c.name, func(b *testing.B) {
			table, err := kernels.NewResampleTable(side, side)
			testkit.OK(b, err)
			pix := random(rng, width*height*3)
			for range n {
				src := f.upload(pix, 0)
				defer src.free()
				p := stored{Picture: kernels.Picture{Src: src.p, Pitch: 3 * width, Width: width, Height: height,
					Orientation: c.orientation, Filter: c.filter}}
				w, h, _ := p.upright()
				p.X = kernels.Axis{Length: w, Out: 299 * w / width, First: (299*w/width - side) / 2}
				p.Y = kernels.Axis{Length: h, Out: 299 * h / width, First: (299*h/width - side) / 2}
				testkit.OK(b, table.Add(p.Picture))
			}
			content := make([]byte, table.DeviceBytes())
			copy(content, table.Bytes())
			at, dst := f.upload(content, 0), f.result(n*side*side*3, 0)
			defer at.free()
			defer dst.free()
			f.timeOnDevice(b, func() error { return f.set.Resample(f.stream, dst.p, table, at.p) })
		})
	}
}
