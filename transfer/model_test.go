package transfer

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// emptyCache gives the test a cache directory of its own.
func emptyCache(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir) // Linux
	t.Setenv("HOME", dir)           // macOS
	t.Setenv("LocalAppData", dir)   // Windows
	return dir
}

// named is the host backend under another name, behind a link or not.
type named struct {
	device.Wrapper
	change func(*device.Info)
}

func (n named) Info() device.Info {
	info := n.Device.Info()
	info.Integrated = false
	if n.change != nil {
		n.change(&info)
	}
	return info
}

func openNamed(t testing.TB, change func(*device.Info)) named {
	t.Helper()
	dev := devicetest.Open(t)
	if _, ok := device.As[device.Pinner](dev); !ok {
		t.Skip("the device pins no memory")
	}
	return named{device.Wrapper{Device: dev}, change}
}

// someModel is a model of a few paths, of random rates.
func someModel(r *rand.Rand) *linkmodel.Model {
	m := &linkmodel.Model{Version: linkmodel.Version}
	for _, toHost := range []bool{false, true} {
		for _, copiers := range []int{0, 1, 2, 4, 8} {
			p := linkmodel.Path{Path: "staged", ToHost: toHost, Copiers: copiers, PastCaches: copiers > 0 && r.IntN(2) == 0}
			if copiers == 0 {
				p.Path = "plain"
			}
			latency, rate := 1e-6*math.Pow(50, r.Float64()), 8e9*float64(max(copiers, 1))*r.Float64()
			for n := int64(16 << 10); n <= 256<<20; n *= 4 {
				p.Curve = append(p.Curve, linkmodel.Point{Bytes: n, Seconds: latency + float64(n)/rate})
			}
			m.Paths = append(m.Paths, p)
		}
	}
	return m
}

// An engine finds the model of its device, and works by rules of thumb where
// there is none.
func TestEngineModel(t *testing.T) {
	emptyCache(t)
	dev := openNamed(t, nil)
	thumb, err := New(dev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer thumb.Close()
	if thumb.choices != nil || thumb.options.Model != nil || thumb.plan(defaultStageAbove+1, false).Copiers == 0 || thumb.plan(defaultStageAbove, true).Copiers != 0 {
		t.Error("the engine does not work by rules of thumb")
	}
	for _, n := range []int64{1, 1 << 20, 1 << 40, math.MaxInt64} {
		if p := thumb.stagedPlan(n, false); p.Copiers != thumb.options.Copiers || p.Most != defaultSlotBytes {
			t.Errorf("by rules of thumb: %+v for %d bytes", p, n)
		}
	}
	want := someModel(rand.New(rand.NewPCG(1, 2)))
	want.Machine = linkmodel.MachineOf(dev)
	if _, err := want.Save(dev); err != nil {
		t.Fatal(err)
	}
	e, err := New(dev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if e.choices == nil || !reflect.DeepEqual(e.options.Model, want) {
		t.Error("a new engine does not work by the model")
	}
}

// An engine says what it works by.
func TestEngineSaysItsModel(t *testing.T) {
	emptyCache(t)
	dev := openNamed(t, nil)
	m := someModel(rand.New(rand.NewPCG(1, 2)))
	m.Machine, m.MeasuredAt = linkmodel.MachineOf(dev), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	check := func(what string, dev device.Device, o Options, source ModelSource, text string) {
		t.Helper()
		e, err := New(dev, o)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		info := e.Model()
		if info.Source != source || (info.Model == nil) != (source == ModelRules) || !strings.Contains(info.String(), text) {
			t.Errorf("%s: %q, %+v; want %s, and %q", what, info, info, source, text)
		}
	}
	check("no file", dev, Options{}, ModelRules, "does not exist")
	check("the caller's", dev, Options{Model: m}, ModelOption, "the caller's measured 2026-01-02T03:04:05Z")
	check("an empty one", dev, Options{Model: &linkmodel.Model{}}, ModelRules, "rules of thumb")
	check("no link", openNamed(t, func(i *device.Info) { i.Integrated = true }), Options{}, ModelRules, "no link")
	path, err := m.Save(dev)
	if err != nil {
		t.Fatal(err)
	}
	check("a file", dev, Options{}, ModelFile, path)
}

// What pinned and pageable copies are expected to take is what the model says.
func TestEstimate(t *testing.T) {
	line := func(latency, rate float64) linkmodel.Curve {
		return linkmodel.Curve{{Bytes: 1 << 20, Seconds: latency + float64(1<<20)/rate}, {Bytes: 256 << 20, Seconds: latency + float64(256<<20)/rate}}
	}
	m := &linkmodel.Model{
		Paths: []linkmodel.Path{
			{Path: "plain", Curve: line(1e-5, 8e9)},
			{Path: "plain", ToHost: true, Curve: line(1e-5, 1e9)},
			{Path: "staged", Copiers: 4, Curve: line(1e-3, 40e9)}, // pays for large chunks
		},
		Pinned: []linkmodel.Path{{Path: "pinned", Curve: line(1e-5, 50e9)}},
	}
	e, err := New(openNamed(t, nil), Options{Model: m, Copiers: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, c := range []struct {
		n              int64
		pinned, toHost bool
		want           float64
	}{
		{2 << 20, false, false, 1e-5 + float64(2<<20)/8e9},
		{128 << 20, false, false, 1e-3 + float64(128<<20)/40e9},
		{128 << 20, false, true, 1e-5 + float64(128<<20)/1e9},
		{128 << 20, true, false, 1e-5 + float64(128<<20)/50e9},
		{128 << 20, true, true, 0}, // nothing was measured
	} {
		if got := e.Estimate(c.n, c.pinned, c.toHost).Seconds(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d bytes, pinned %t, to host %t: %v s, want %v", c.n, c.pinned, c.toHost, got, c.want)
		}
	}
}

// Whose word counts: the device's, the caller's, the model's, rules of thumb.
func TestEnginePlan(t *testing.T) {
	emptyCache(t)
	always := &linkmodel.Model{Paths: []linkmodel.Path{{Path: "staged", Copiers: 2, Curve: linkmodel.Curve{{Bytes: 100, Seconds: 1e-9}, {Bytes: 200, Seconds: 2e-9}}}}}
	never := &linkmodel.Model{Paths: []linkmodel.Path{{Path: "plain", Curve: linkmodel.Curve{{Bytes: 1, Seconds: 1e-9}, {Bytes: 2, Seconds: 2e-9}}}}}
	integrated := func(i *device.Info) { i.Integrated = true }
	const mib = 1 << 20
	for _, c := range []struct {
		name   string
		change func(*device.Info)
		o      Options
		n      int64
		want   int // copiers
	}{
		{"thumb, small", nil, Options{Copiers: 3}, mib, 0},
		{"thumb, large", nil, Options{Copiers: 3}, mib + 1, 3},
		{"user, small", nil, Options{Copiers: 3, StageAbove: 100}, 100, 0},
		{"user, large", nil, Options{Copiers: 3, StageAbove: 100}, 101, 3},
		{"model, staged", nil, Options{Copiers: 3, Model: always}, 100, 2},
		{"model, plain", nil, Options{Copiers: 3, Model: never}, 100 * mib, 0},
		{"nothing is never staged", nil, Options{Copiers: 3, Model: always}, 0, 0},
		{"a model without paths", nil, Options{Copiers: 3, Model: &linkmodel.Model{}}, 2 * mib, 3},
		{"too many copiers for the model", nil, Options{Copiers: 1, Model: always}, 2 * mib, 0},
		{"the user turns the model off", nil, Options{Copiers: 3, StageAbove: 100, Model: never}, 101, 3},
		{"and on the other side", nil, Options{Copiers: 3, StageAbove: 100, Model: always}, 100, 0},
		{"integrated", integrated, Options{Copiers: 3}, 1 << 40, 0},
		{"integrated, with a model", integrated, Options{Copiers: 3, Model: always}, 1 << 40, 0},
		{"integrated, the user insists", integrated, Options{Copiers: 3, StageAbove: 100}, 101, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := New(openNamed(t, c.change), c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			p := e.plan(c.n, false)
			if p.Copiers != c.want || p.Most > e.options.SlotBytes || p.Most == 0 && p.Copiers > 0 {
				t.Errorf("%+v, want %d copiers", p, c.want)
			}
		})
	}
}

// What a model says it would do is what an engine with default options does,
// in the time that the path's curve promises.
func TestModelChoice(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		m := someModel(r)
		e, err := New(openNamed(t, nil), Options{Model: m})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for range 50 {
			n, toHost := 1+r.Int64N(1<<(1+r.IntN(40))), r.IntN(2) == 0
			got, p := m.Choice(n, toHost), e.plan(n, toHost)
			if got.Copiers != p.Copiers || got.PastCaches != p.PastCaches || (got.Path == "staged") != (p.Copiers > 0) {
				t.Fatalf("%d bytes, to host %t: %+v, the engine does %+v", n, toHost, got, p.Staging)
			}
			for _, path := range m.Paths {
				if path.ToHost == toHost && path.Copiers == got.Copiers && path.PastCaches == got.PastCaches && path.Curve.At(n) != got.Seconds {
					t.Fatalf("%d bytes, to host %t: %+v, the curve says %v s", n, toHost, got, path.Curve.At(n))
				}
			}
		}
	}
	if c := (&linkmodel.Model{}).Choice(-1, true); c != (linkmodel.Choice{Path: "plain"}) {
		t.Errorf("no model, no bytes: %+v", c)
	}
}

// A model that the caller made up is checked as one from a file is.
func TestOptionsModel(t *testing.T) {
	emptyCache(t)
	dev := openNamed(t, nil)
	for _, m := range []*linkmodel.Model{
		{Paths: []linkmodel.Path{{Copiers: -1}}},
		{Paths: []linkmodel.Path{{Copiers: math.MaxInt, Curve: linkmodel.Curve{{Bytes: 1, Seconds: 1}}}}},
		{Paths: []linkmodel.Path{{Curve: linkmodel.Curve{{Bytes: 0, Seconds: 1}}}}},
		{Paths: []linkmodel.Path{{Curve: linkmodel.Curve{{Bytes: 1, Seconds: math.NaN()}}}}},
		{Paths: []linkmodel.Path{{Curve: linkmodel.Curve{{Bytes: 1, Seconds: math.Inf(1)}}}}},
		{Batches: []linkmodel.Batch{{CallSeconds: math.NaN()}}},
		{Batches: []linkmodel.Batch{{Block: linkmodel.Curve{{Bytes: 1, Seconds: math.Inf(1)}}}}},
	} {
		e, err := New(dev, Options{Model: m})
		if e != nil || !errors.Is(err, device.ErrArgument) {
			t.Errorf("%+v: %v, want %q", m, err, device.ErrArgument)
		}
	}
}
