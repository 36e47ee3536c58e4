package kernels_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/kernels"
)

// augment runs Normalize with the tables that are not nil.
func (f *fixture) augment(p kernels.Normalize, pixels []byte, colours []kernels.Colour, mix []float32, offset int) []byte {
	f.Helper()
	size := sampleType(p).Size()
	src, dst := f.upload(pixels, size*offset), f.result(len(pixels)/size*p.DType.Size(), 8*offset)
	defer src.free()
	defer dst.free()
	p.Src, p.Dst = src.p, dst.p
	if colours != nil {
		table, err := kernels.AppendColours(nil, colours...)
		testkit.OK(f, err)
		for i := range p.N { // what the sums hold before is of no account
			table[len(table)-8*i-3] = poison
		}
		at := f.upload(table, 8*(offset%3))
		defer at.free()
		p.Colours = at.p
	}
	if mix != nil {
		table, err := kernels.AppendMix(nil, mix...)
		testkit.OK(f, err)
		at := f.upload(table, 4*(offset%3))
		defer at.free()
		p.Mix = at.p
	}
	testkit.OK(f, f.set.Normalize(f.stream, p))
	if !bytes.Equal(src.download(), pixels) {
		f.Fatal("the source changed")
	}
	return dst.download()
}

// orders are all there are.
func orders() (list [][4]uint8) {
	for code := range 256 {
		order := [4]uint8{uint8(code & 3), uint8(code >> 2 & 3), uint8(code >> 4 & 3), uint8(code >> 6)}
		sorted := order
		if slices.Sort(sorted[:]); sorted == [4]uint8{0, 1, 2, 3} {
			list = append(list, order)
		}
	}
	return list
}

// randomColour leaves some of the operations out.
func randomColour(rng *rand.Rand, order [4]uint8) kernels.Colour {
	factor := func(neutral, low, high float32) float32 {
		if rng.IntN(4) == 0 {
			return neutral
		}
		return low + rng.Float32()*(high-low)
	}
	return kernels.Colour{
		Brightness: factor(1, 0, 2), Contrast: factor(1, 0, 2), Saturation: factor(1, 0, 2), Hue: factor(0, -0.5, 0.5),
		Order: order,
	}
}

// coloured is the definition in float64, on values from 0 to 1. The hue turns
// by the distances of the channels from grey: for each channel, HSV says how
// far it lies from the others around the circle.
func coloured(pixels []byte, from dtype.DType, c kernels.Colour) []float64 {
	v := make([]float64, len(pixels)/from.Size())
	for i := range v {
		v[i] = get(from, pixels, i) / largest[from]
	}
	grey := func(p []float64) float64 { return 0.2989*p[0] + 0.587*p[1] + 0.114*p[2] }
	blend := func(ratio float32, other func(p []float64) float64) {
		for i := 0; i < len(v); i += 3 {
			p := v[i : i+3]
			add := (1 - float64(ratio)) * other(p)
			for k := range p {
				p[k] = min(max(float64(ratio)*p[k]+add, 0), 1)
			}
		}
	}
	for _, operation := range c.Order {
		switch operation {
		case kernels.Brightness:
			blend(c.Brightness, func([]float64) float64 { return 0 })
		case kernels.Contrast:
			mean := 0.0
			for i := 0; i < len(v); i += 3 {
				mean += grey(v[i:]) / float64(len(v)/3)
			}
			blend(c.Contrast, func([]float64) float64 { return mean })
		case kernels.Saturation:
			blend(c.Saturation, grey)
		case kernels.Hue:
			for i := 0; i < len(v); i += 3 {
				turnHue(v[i:i+3], float64(c.Hue))
			}
		}
	}
	return v
}

// turnHue goes by the closed form of HSV to RGB: channel n of (5, 3, 1) is
// V - V*S*max(0, min(k, 4-k, 1)) with k = (n + H*6) mod 6.
func turnHue(p []float64, by float64) {
	high, low := slices.Max(p), slices.Min(p)
	if high == low {
		return
	}
	var h float64
	switch high {
	case p[0]:
		h = (p[1] - p[2]) / (high - low)
	case p[1]:
		h = 2 + (p[2]-p[0])/(high-low)
	default:
		h = 4 + (p[0]-p[1])/(high-low)
	}
	h += 6 * by
	for c, n := range []float64{5, 3, 1} {
		k := math.Mod(n+h+12, 6)
		p[c] = high - (high-low)*max(0, min(k, 4-k, 1))
	}
}

func TestColours(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(12, 12))
	if n := len(orders()); n != 24 {
		t.Fatalf("%d orders", n)
	}
	for i, order := range append(orders(), orders()...) {
		from := sampleTypes[i/24]
		p := kernels.Normalize{DType: dtype.F32, SrcType: from, N: 1 + rng.IntN(3), C: 3, H: 1 + rng.IntN(30), W: 1 + rng.IntN(30)}
		image := 3 * p.H * p.W
		pixels := random(rng, p.N*image*from.Size())
		colours := make([]kernels.Colour, p.N)
		for n := range colours {
			colours[n] = randomColour(rng, order)
		}
		got := f.augment(p, pixels, colours, nil, rng.IntN(20))
		for n, c := range colours {
			want := coloured(pixels[n*image*from.Size():][:image*from.Size()], from, c)
			for i, x := range want {
				at := n*image + i%3*p.H*p.W + i/3
				if y := get(dtype.F32, got, at); !(math.Abs(x-y) <= 4e-6) {
					t.Fatalf("%v, %+v: image %d, value %d is %g, want %g", from, c, n, i, y, x)
				}
			}
		}
	}
}

// TestMix goes by the definition, with one rounding after the other.
func TestMix(t *testing.T) {
	for _, from := range sampleTypes {
		t.Run(from.String(), func(t *testing.T) { testMix(t, from) })
	}
}

func testMix(t *testing.T, from dtype.DType) {
	f := open(t)
	rng := rand.New(rand.NewPCG(13, 13))
	f32 := layouts[dtype.F32].round
	for _, dt := range normalizeTypes(from) {
		for round := range 20 {
			p := kernels.Normalize{DType: dt, SrcType: from, N: 1 + rng.IntN(6), C: 1 + rng.IntN(4), H: 1 + rng.IntN(20), W: 1 + rng.IntN(20)}
			if round == 0 && !testing.Short() { // more images than a grid is high
				p.N, p.C, p.H, p.W = 70001, 1, 1, 1
			}
			if dt != from {
				for range p.C {
					p.Mean, p.Std = append(p.Mean, rng.Float64()), append(p.Std, 0.1+rng.Float64())
				}
			}
			pixels := random(rng, p.N*p.C*p.H*p.W*from.Size())
			mix := make([]float32, p.N)
			for i := range mix {
				mix[i] = []float32{0, 1, 0.5, rng.Float32()}[rng.IntN(4)]
			}
			floats := p
			floats.DType = dtype.F32
			plain := normalizeReference(floats, pixels)
			if dt == from { // on the scale of samples
				plain = plain[:0]
				samples := normalizeReference(p, pixels)
				for i := range len(samples) / dt.Size() {
					plain = put(dtype.F32, plain, get(dt, samples, i))
				}
			}
			var want []byte
			image := p.C * p.H * p.W
			for n, lambda := range mix {
				partner := (n + p.N/2) % p.N
				for i := range image {
					x, y := get(dtype.F32, plain, n*image+i), get(dtype.F32, plain, partner*image+i)
					if lambda < 1 {
						x = f32(f32(float64(lambda)*x) + f32(f32(1-float64(lambda))*y))
					}
					want = put(dt, want, x)
				}
			}
			got := f.augment(p, pixels, nil, mix, rng.IntN(20))
			compare(t, fmt.Sprintf("%+v, mix %v", p, mix), dt, got, want)
		}
	}
}

// TestAugmentNothing: tables that change nothing change no bit.
func TestAugmentNothing(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(14, 14))
	for i := range 8 {
		from := sampleTypes[i/4]
		dt := normalizeTypes(from)[i%4]
		p := kernels.Normalize{DType: dt, SrcType: from, N: 2, C: 3, H: 128, W: 86, Mean: []float64{0.485, 0.456, 0.406}, Std: []float64{0.229, 0.224, 0.225}}
		if dt == from {
			p.Mean, p.Std = nil, nil
		}
		pixels := random(rng, p.N*p.C*p.H*p.W*from.Size())
		for i := range 1 << (8 * from.Size()) { // all there are
			copy(pixels[i*from.Size():], put(from, nil, float64(i)))
		}
		same := kernels.Colour{Brightness: 1, Contrast: 1, Saturation: 1, Order: [4]uint8{3, 1, 0, 2}}
		want := normalizeReference(p, pixels)
		compare(t, "colours", dt, f.augment(p, pixels, []kernels.Colour{same, same}, nil, 0), want)
		compare(t, "mix", dt, f.augment(p, pixels, nil, []float32{1, 1}, 0), want)
		compare(t, "both", dt, f.augment(p, pixels, []kernels.Colour{same, same}, []float32{1, 1}, 1), want)
	}
}

// augmentBatch is a batch with colours in all orders and mixing; the last
// images are black, white, and grey.
func augmentBatch(rng *rand.Rand, from, dt dtype.DType, h, w int) (kernels.Normalize, []byte, []kernels.Colour, []float32) {
	p := kernels.Normalize{DType: dt, SrcType: from, N: 27, C: 3, H: h, W: w}
	if dt != from {
		p.Mean, p.Std = []float64{0.485, 0.456, 0.406}, []float64{0.229, 0.224, 0.225}
	}
	image := 3 * h * w * from.Size()
	pixels := random(rng, p.N*image)
	for n, grey := range []byte{0, 255, 77} {
		copy(pixels[(24+n)*image:], bytes.Repeat([]byte{grey}, image))
	}
	var colours []kernels.Colour
	var mix []float32
	for n := range p.N {
		colours = append(colours, randomColour(rng, orders()[n%24]))
		mix = append(mix, []float32{1, rng.Float32()}[rng.IntN(2)])
	}
	return p, pixels, colours, mix
}

// TestAugmentTwins: the device gives the bits of the Go functions.
func TestAugmentTwins(t *testing.T) {
	f, twin := open(t), openDevice(t, "host")
	rng := rand.New(rand.NewPCG(15, 15))
	for _, size := range [][2]int{{1, 1}, {1, 7}, {16, 16}, {33, 31}, {100, 90}} {
		for i := range 8 {
			from := sampleTypes[i/4]
			dt := normalizeTypes(from)[i%4]
			p, pixels, colours, mix := augmentBatch(rng, from, dt, size[0], size[1])
			want := twin.augment(p, pixels, colours, mix, 0)
			compare(t, fmt.Sprintf("%v from %v to %v", size, from, dt), dt, f.augment(p, pixels, colours, mix, rng.IntN(20)), want)
		}
	}
}

// TestAugmentStays pins the bits of all devices and processors.
func TestAugmentStays(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(16, 16))
	for i, want := range []string{"2623e60e07928030", "1331edf1f2dde28b"} {
		from, sum := sampleTypes[i], sha256.New()
		for _, dt := range normalizeTypes(from) {
			p, pixels, colours, mix := augmentBatch(rng, from, dt, 12, 11)
			sum.Write(f.augment(p, pixels, colours, mix, 0))
		}
		if got := fmt.Sprintf("%x", sum.Sum(nil)[:8]); got != want {
			t.Errorf("%v: %s, want %s", from, got, want)
		}
	}
}

// TestAugmentSpoiledTables: what a device finds in tables that nobody checked
// is never an access outside.
func TestAugmentSpoiledTables(t *testing.T) {
	f, twin := open(t), openDevice(t, "host")
	rng := rand.New(rand.NewPCG(17, 17))
	run := func(f *fixture, p kernels.Normalize, pixels, colours, mix []byte) []byte {
		src, dst, c, m := f.upload(pixels, 0), f.result(4*len(pixels), 0), f.upload(colours, 0), f.upload(mix, 0)
		p.Src, p.Dst, p.Colours, p.Mix = src.p, dst.p, c.p, m.p
		testkit.OK(f, f.set.Normalize(f.stream, p))
		out := dst.download()
		for _, b := range []buffer{src, dst, c, m} {
			b.free()
		}
		return out
	}
	for range 20 {
		p := kernels.Normalize{DType: dtype.F32, N: 4, C: 3, H: 5, W: 5}
		pixels, colours, mix := random(rng, 300), random(rng, 4*kernels.ColourBytes), random(rng, 16)
		compare(t, "spoiled", dtype.F32, run(f, p, pixels, colours, mix), run(twin, p, pixels, colours, mix))
	}
}

func TestBadColoursAndMixes(t *testing.T) {
	good := kernels.Colour{Brightness: 1, Contrast: 1, Saturation: 1, Order: [4]uint8{0, 1, 2, 3}}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	type C = kernels.Colour
	for name, change := range map[string]func(c *C){
		"negative":   func(c *C) { c.Brightness = -0.1 },
		"NaN":        func(c *C) { c.Contrast = nan },
		"infinite":   func(c *C) { c.Saturation = inf },
		"hue":        func(c *C) { c.Hue = 0.51 },
		"hue NaN":    func(c *C) { c.Hue = nan },
		"twice":      func(c *C) { c.Order = [4]uint8{0, 1, 1, 3} },
		"no such":    func(c *C) { c.Order = [4]uint8{0, 1, 2, 4} },
		"far beyond": func(c *C) { c.Order = [4]uint8{0, 1, 2, 255} },
	} {
		c := good
		change(&c)
		if b, err := kernels.AppendColours([]byte{1}, good, c); !errors.Is(err, device.ErrArgument) || len(b) != 1 {
			t.Errorf("%s: %v, %d bytes", name, err, len(b))
		}
	}
	for _, lambda := range []float32{-0.1, 1.1, nan, inf} {
		if b, err := kernels.AppendMix([]byte{1}, 1, lambda); !errors.Is(err, device.ErrArgument) || len(b) != 1 {
			t.Errorf("lambda %g: %v, %d bytes", lambda, err, len(b))
		}
	}
	if b, err := kernels.AppendColours(nil, good, good); err != nil || len(b) != 2*kernels.ColourBytes {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// BenchmarkAugment gives the time of a batch of 256 images.
func BenchmarkAugment(b *testing.B) {
	const n, side = 256, 224
	f := open(b)
	rng := rand.New(rand.NewPCG(18, 18))
	p := kernels.Normalize{DType: dtype.F16, N: n, C: 3, H: side, W: side}
	src, dst := f.upload(random(rng, n*side*side*3), 0), f.result(n*side*side*3*2, 0)
	defer src.free()
	defer dst.free()
	p.Src, p.Dst = src.p, dst.p
	all := kernels.Colour{Brightness: 0.9, Contrast: 1.1, Saturation: 0.8, Hue: 0.05, Order: [4]uint8{0, 1, 2, 3}}
	noHue := all
	noHue.Hue = 0
	for _, c := range []struct {
		name   string
		colour *kernels.Colour
		lambda float32
	}{{"plain", nil, 1}, {"mix", nil, 0.7}, {"no hue", &noHue, 1}, {"jitter", &all, 1}, {"jitter and mix", &all, 0.7}} {
		b.Run(c.name, func(b *testing.B) {
			p := p
			if c.colour != nil {
				table, err := kernels.AppendColours(nil, slices.Repeat([]kernels.Colour{*c.colour}, n)...)
				testkit.OK(b, err)
				at := f.upload(table, 0)
				defer at.free()
				p.Colours = at.p
			}
			if c.lambda < 1 {
				table, err := kernels.AppendMix(nil, slices.Repeat([]float32{c.lambda}, n)...)
				testkit.OK(b, err)
				at := f.upload(table, 0)
				defer at.free()
				p.Mix = at.p
			}
			f.timeOnDevice(b, func() error { return f.set.Normalize(f.stream, p) })
		})
	}
}
