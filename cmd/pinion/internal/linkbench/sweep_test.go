package linkbench_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
)

// Every path of the machine has a curve over the same sizes, and every size a
// choice.
func TestCurves(t *testing.T) {
	dev := devicetest.Open(t)
	for size, want := range map[int64][]int64{
		16 << 10:  {1 << 10, 4 << 10, 16 << 10},
		64 << 10:  {1 << 10, 4 << 10, 16 << 10, 64 << 10},
		100_001:   {1 << 10, 4 << 10, 16 << 10, 64 << 10, 96 << 10},
		100 << 10: {1 << 10, 4 << 10, 16 << 10, 64 << 10, 96 << 10},
	} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r, err := linkbench.Run(ctx, dev, linkbench.Options{Size: size, Repeats: 2, Copiers: 1, Curves: true})
			if err != nil {
				t.Fatal(err)
			}
			paths := []string{"pageable h2d", "pageable d2h", "staged h2d", "staged d2h", "chosen h2d", "chosen d2h"}
			if r.Skipped == nil {
				paths = append(paths, "pinned h2d", "pinned d2h", "mapped h2d", "mapped d2h")
			}
			var got []string
			for _, c := range r.Curves {
				got = append(got, c.Path+" "+c.Direction)
				checkCurve(t, c, want)
			}
			if r.Skipped == nil && !sameSet(got, paths) {
				t.Errorf("curves %q, want %q", got, paths)
			}
			for _, p := range paths {
				if !slices.Contains(got, p) {
					t.Errorf("curves %q, want %s", got, p)
				}
			}
			checkChoice(t, r, want)
		})
	}
}

func checkCurve(t *testing.T, c linkbench.Curve, sizes []int64) {
	t.Helper()
	var got []int64
	for _, p := range c.Points {
		got = append(got, p.Bytes)
		if p.Least < 0 || p.Least > p.Median || p.Median > p.Most || p.Most > time.Minute {
			t.Errorf("%s %s: %+v: not ordered", c.Path, c.Direction, p)
		}
		if median, least, most := p.Rates(); least > median || median > most {
			t.Errorf("%s %s: %+v: rates not ordered", c.Path, c.Direction, p)
		}
	}
	if !slices.Equal(got, sizes) {
		t.Errorf("%s %s has sizes %v, want %v", c.Path, c.Direction, got, sizes)
	}
}

// checkChoice recomputes each choice from the curves.
func checkChoice(t *testing.T, r *linkbench.Report, sizes []int64) {
	t.Helper()
	if len(r.Choice) != 2*len(sizes) {
		t.Fatalf("%d choices for %d sizes", len(r.Choice), len(sizes))
	}
	at := func(path, direction string, bytes int64) time.Duration {
		for _, c := range r.Curves {
			for _, p := range c.Points {
				if c.Path == path && c.Direction == direction && p.Bytes == bytes {
					return p.Median
				}
			}
		}
		t.Fatalf("no %s %s of %d bytes", path, direction, bytes)
		return 0
	}
	for _, c := range r.Choice {
		best := min(at("pageable", c.Direction, c.Bytes), at("staged", c.Direction, c.Bytes))
		if c.Best != best || at(c.BestPath, c.Direction, c.Bytes) != best || c.Chosen != at("chosen", c.Direction, c.Bytes) {
			t.Errorf("%+v does not match the curves", c)
		}
		if best > 0 && c.Ratio != float64(c.Chosen)/float64(best) {
			t.Errorf("%+v: the ratio is not that of its times", c)
		}
	}
}

// A device that cannot pin has curves of pageable memory only.
func TestCurvesWithoutPinning(t *testing.T) {
	dev := struct{ device.Device }{devicetest.Open(t)}
	r, err := linkbench.Run(ctx, dev, linkbench.Options{Size: 64 << 10, Repeats: 1, Curves: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Curves {
		if c.Path != "pageable" && c.Path != "chosen" {
			t.Errorf("a curve for %s %s", c.Path, c.Direction)
		}
	}
	for _, c := range r.Choice {
		if c.BestPath != "pageable" {
			t.Errorf("%+v: there is no such path", c)
		}
	}
	if len(r.Curves) != 4 || len(r.Choice) != 8 {
		t.Errorf("%d curves, %d choices", len(r.Curves), len(r.Choice))
	}
}

// Without being asked for there are none.
func TestNoCurves(t *testing.T) {
	r, err := linkbench.Run(ctx, devicetest.Open(t), linkbench.Options{Size: 64 << 10, Repeats: 1})
	if err != nil || len(r.Curves) != 0 || len(r.Choice) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
