package imaging

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// TestDrawsStay: a recorded run must be repeatable with a later version, on
// any machine.
func TestDrawsStay(t *testing.T) {
	tr := RandomResizedCrop(224).WithFlip(0.5)
	j := Jitter{0.4, 0.4, 0.4, 0.1}
	for _, c := range []struct {
		key    uint64
		plan   Plan
		colour Colour
	}{
		{0x0, Plan{X: Axis{140, 288, 224, 0, 224}, Y: Axis{37, 218, 224, 0, 224}, Mirror: true}, Colour{1.3499699, 1.3208809, 0.7735724, -0.019816091, [4]uint8{1, 0, 2, 3}}},
		{0x1, Plan{X: Axis{139, 324, 224, 0, 224}, Y: Axis{29, 283, 224, 0, 224}, Mirror: true}, Colour{1.0643106, 1.1362447, 0.7495773, -0.089614585, [4]uint8{3, 2, 0, 1}}},
		{0x123456789abcdef, Plan{X: Axis{199, 253, 224, 0, 224}, Y: Axis{12, 310, 224, 0, 224}, Mirror: false}, Colour{0.7560218, 1.0947303, 0.7411119, 0.022654032, [4]uint8{3, 2, 1, 0}}}} {
		if got := tr.Plan(500, 375, c.key); got != c.plan {
			t.Errorf("key %#x: plan %+v, want %+v", c.key, got, c.plan)
		}
		if got := j.Draw(c.key); got != c.colour {
			t.Errorf("key %#x: colour %+v, want %+v", c.key, got, c.colour)
		}
	}
}

func TestPlanOfCenterCrop(t *testing.T) {
	for _, c := range []struct {
		t             Transform
		width, height int
		x, y          Axis
	}{
		// torchvision: Resize makes 298 = int(224*500/375) of 500, and
		// CenterCrop begins at round((298-224)/2).
		{CenterCrop(224), 500, 375, Axis{0, 500, 298, 37, 224}, Axis{0, 375, 224, 0, 224}},
		{CenterCrop(224), 375, 500, Axis{0, 375, 224, 0, 224}, Axis{0, 500, 298, 37, 224}},
		{CenterCrop(224).WithShorter(256), 500, 375, Axis{0, 500, 341, 58, 224}, Axis{0, 375, 256, 16, 224}},
		{Stretch(30, 40), 500, 375, Axis{0, 500, 30, 0, 30}, Axis{0, 375, 40, 0, 40}},
	} {
		if p := c.t.Plan(c.width, c.height, 1); p != (Plan{X: c.x, Y: c.y}) {
			t.Errorf("%v of %dx%d: %+v", c.t, c.width, c.height, p)
		}
	}
}

// TestPlansAreValid: whatever the picture and the transform.
func TestPlansAreValid(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	side := func() int { return 1 + rng.IntN(1<<rng.IntN(17))%maxSide }
	for range 20000 {
		size := side()
		tr := []Transform{
			CenterCrop(size),
			CenterCrop(size).WithShorter(size + rng.IntN(maxSide-size+1)),
			Stretch(size, side()),
			RandomResizedCrop(size),
			RandomResizedCrop(size).WithScale(1e-6, 1).WithRatio(0.001, 1000),
			RandomResizedCrop(size).WithScale(1, 1).WithRatio(1000, 1000),
			RandomResizedCrop(size).WithRatio(0.001, 0.001),
		}[rng.IntN(7)].WithFlip(0.5)
		if err := tr.Check(); err != nil {
			t.Fatal(err)
		}
		width, height := side(), side()
		p := tr.Plan(width, height, rng.Uint64())
		if err := p.check(width, height); err != nil {
			t.Fatalf("%v of %dx%d: %v", tr, width, height, err)
		}
		if p.Bytes() != tr.Bytes() {
			t.Fatalf("%v: %d bytes, its plan %d", tr, tr.Bytes(), p.Bytes())
		}
	}
	for _, size := range [][2]int{{0, 5}, {5, 0}, {-1, -1}, {math.MinInt, 7}} {
		for _, tr := range []Transform{CenterCrop(5), Stretch(5, 5), RandomResizedCrop(5), {}} {
			if err := tr.Plan(size[0], size[1], 3).check(size[0], size[1]); !errors.Is(err, ErrArgument) {
				t.Errorf("%v of %v: %v", tr, size, err)
			}
		}
	}
}

// TestRandomResizedCrop: the boxes are spread as torchvision's are.
func TestRandomResizedCrop(t *testing.T) {
	const width, height, n = 4000, 3000, 20000
	tr := RandomResizedCrop(64).WithScale(0.1, 0.5)
	var area, ratio, x, y float64
	for key := range uint64(n) {
		p := tr.Plan(width, height, key)
		part := float64(p.X.Length*p.Y.Length) / (width * height)
		r := float64(p.X.Length) / float64(p.Y.Length)
		if part < 0.099 || part > 0.501 || r < 0.749 || r > 1.335 {
			t.Fatalf("key %d: %+v", key, p)
		}
		area += part / n
		ratio += math.Log(r) / n
		x += float64(p.X.Offset) / float64(width-p.X.Length) / n
		y += float64(p.Y.Offset) / float64(height-p.Y.Length) / n
	}
	// Means of uniform draws; 0.01 is more than five standard errors.
	for name, v := range map[string][2]float64{"area": {area, 0.3}, "log ratio": {ratio, 0}, "x": {x, 0.5}, "y": {y, 0.5}} {
		if math.Abs(v[0]-v[1]) > 0.012 {
			t.Errorf("mean %s is %.4f, want %.4f", name, v[0], v[1])
		}
	}
}

// TestCropFallback: no box of that area and those ratios fits, so the middle
// is taken, as torchvision does.
func TestCropFallback(t *testing.T) {
	for _, c := range []struct {
		width, height int
		lo, hi        float64
		x, y          Axis
	}{
		{1000, 10, 0.75, 1.25, Axis{Offset: 494, Length: 12}, Axis{Length: 10}},
		{10, 1000, 0.75, 1.25, Axis{Length: 10}, Axis{Offset: 493, Length: 13}},
		{1, 3, 4, 4, Axis{Length: 1}, Axis{Offset: 1, Length: 1}},
	} {
		tr := RandomResizedCrop(8).WithScale(1, 1).WithRatio(c.lo, c.hi)
		p := tr.Plan(c.width, c.height, 5)
		c.x.Full, c.x.N, c.y.Full, c.y.N = 8, 8, 8, 8
		if p.X != c.x || p.Y != c.y {
			t.Errorf("%v of %dx%d: %+v", tr, c.width, c.height, p)
		}
	}
}

// TestDrawsAreIndependent: adding a flip or jitter does not move crops, and
// one range of a jitter does not change what others draw.
func TestDrawsAreIndependent(t *testing.T) {
	plain := RandomResizedCrop(64)
	mirrored := 0
	for key := range uint64(2000) {
		p, q := plain.Plan(500, 375, key), plain.WithFlip(0.3).WithJitter(Jitter{Hue: 0.1}).Plan(500, 375, key)
		if p.X != q.X || p.Y != q.Y || p.Mirror {
			t.Fatalf("key %d: %+v and %+v", key, p, q)
		}
		if q.Mirror {
			mirrored++
		}
		a, b := Jitter{Contrast: 0.4}.Draw(key), Jitter{0.3, 0.4, 0.5, 0.1}.Draw(key)
		if a.Contrast != b.Contrast || a.Order != b.Order || a.Brightness != 1 || a.Saturation != 1 || a.Hue != 0 {
			t.Fatalf("key %d: %+v and %+v", key, a, b)
		}
	}
	if mirrored < 540 || mirrored > 660 {
		t.Errorf("%d of 2000 are mirrored, want about 600", mirrored)
	}
}

func TestJitterDraws(t *testing.T) {
	const n = 24000
	j := Jitter{0.4, 2, 0, 0.25}
	orders := map[[4]uint8]int{}
	var brightness, contrast, hue float64
	for key := range uint64(n) {
		c := j.Draw(key)
		if c.Brightness < 0.6 || c.Brightness > 1.4 || c.Contrast < 0 || c.Contrast > 3 || c.Saturation != 1 || c.Hue < -0.25 || c.Hue > 0.25 {
			t.Fatalf("key %d: %+v", key, c)
		}
		brightness += float64(c.Brightness) / n
		contrast += float64(c.Contrast) / n
		hue += float64(c.Hue) / n
		orders[c.Order]++
	}
	if math.Abs(brightness-1) > 0.01 || math.Abs(contrast-1.5) > 0.03 || math.Abs(hue) > 0.006 {
		t.Errorf("means %.4f, %.4f, %.4f", brightness, contrast, hue)
	}
	if len(orders) != 24 {
		t.Errorf("%d orders", len(orders))
	}
	for order, count := range orders {
		if count < 820 || count > 1180 {
			t.Errorf("order %v is there %d times, want about 1000", order, count)
		}
	}
}

func TestLogUniform(t *testing.T) {
	b := bounds{0.75, 4. / 3}
	for _, u := range []float64{0, 0.25, 0.5, 0.9999} {
		got := b.logUniform(uint64(u * (1 << 63) * 2))
		want := 0.75 * math.Pow(16./9, u)
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v, want %v", u, got, want)
		}
	}
}
