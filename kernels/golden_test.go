package kernels_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/kernels"
)

// golden is testdata/golden.json, which testdata/golden.py writes.
type golden struct {
	Resamples []struct {
		Width, Height   int
		Seed            uint32
		Orientation     int
		Bicubic, Mirror bool
		X, Y            [5]int // offset, length, out, first, n
		SHA256          string
	}
	Colours []struct {
		Seed    uint32
		Factors [4]float32
		Order   [4]uint8
		Values  []float64 // of 3 x 3 x 4, CHW
	}
}

func loadGolden(t *testing.T) golden {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.json")
	testkit.OK(t, err)
	var g golden
	testkit.OK(t, json.Unmarshal(text, &g))
	if len(g.Resamples) == 0 || len(g.Colours) == 0 {
		t.Fatal("no golden data")
	}
	return g
}

// congruential is the generator of golden.py.
func congruential(n int, seed uint32) []byte {
	b := make([]byte, n)
	for i := range b {
		seed = seed*1664525 + 1013904223
		b[i] = byte(seed >> 24)
	}
	return b
}

func TestResampleEqualsPillow(t *testing.T) {
	f := open(t)
	for _, c := range loadGolden(t).Resamples {
		axis := func(a [5]int) kernels.Axis { return kernels.Axis{Offset: a[0], Length: a[1], Out: a[2], First: a[3]} }
		p := stored{
			kernels.Picture{Pitch: int64(3 * c.Width), Width: c.Width, Height: c.Height, Orientation: c.Orientation,
				X: axis(c.X), Y: axis(c.Y), Mirror: c.Mirror},
			congruential(3*c.Width*c.Height, c.Seed),
		}
		if c.Bicubic {
			p.Filter = kernels.Bicubic
		}
		sum := sha256.Sum256(f.resample([]stored{p}, c.X[4], c.Y[4], 0))
		if hex.EncodeToString(sum[:]) != c.SHA256 {
			t.Errorf("%+v differs from Pillow", p.Picture)
		}
	}
}

func TestColoursEqualTorchvision(t *testing.T) {
	f := open(t)
	for _, c := range loadGolden(t).Colours {
		colour := kernels.Colour{Brightness: c.Factors[0], Contrast: c.Factors[1], Saturation: c.Factors[2], Hue: c.Factors[3], Order: c.Order}
		p := kernels.Normalize{DType: dtype.F32, N: 1, C: 3, H: 3, W: 4}
		got := f.augment(p, congruential(36, c.Seed), []kernels.Colour{colour}, nil, 0)
		for i, want := range c.Values {
			if x := get(dtype.F32, got, i); !(math.Abs(x-want) <= 1e-6) {
				t.Errorf("%+v: value %d is %.9g, want %.9g", colour, i, x, want)
			}
		}
	}
}
