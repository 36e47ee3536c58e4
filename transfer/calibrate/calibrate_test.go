package calibrate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/calibrate"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// quick is the least that measures every path.
var quick = calibrate.Options{MaxBytes: 1 << 20, Repeats: 1}

// cacheIn gives the test a cache directory of its own.
func cacheIn(t *testing.T, dir string) {
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, dir)
	}
}

// calibrates skips the test where not enough memory can be pinned for it.
func (f *fixture) calibrates() *full {
	f.Helper()
	f.NeedsPinned(int64(runtime.GOMAXPROCS(0))*8<<20 + 2<<20)
	return f.Full()
}

// left checks that a calibration gave everything back.
func (f *fixture) left(before device.Memory) {
	f.Helper()
	after, err := f.Dev.Memory()
	f.OK(err)
	if after != before {
		f.Errorf("%+v before, %+v after", before, after)
	}
	if opened, pinned := f.Dev.Opened.Load(), f.Dev.PinnedNow.Load(); opened != 0 || pinned != 0 {
		f.Errorf("%d streams and events open, %d bytes pinned", opened, pinned)
	}
}

func TestCalibrate(t *testing.T) {
	cacheIn(t, t.TempDir())
	f := open(t)
	dev := f.calibrates()
	before, err := dev.Memory()
	f.OK(err)
	o := quick
	next, last := 0, 0
	o.Progress = func(step, steps int, what string) {
		if step == 0 {
			next = 0 // copies of many blocks are counted anew
		}
		if step != next || step >= steps || what == "" {
			t.Errorf("step %d of %d, %q, after %d", step, steps, what, next-1)
		}
		next, last = step+1, steps
	}
	m, err := calibrate.Run(ctx, dev, o)
	f.OK(err)
	f.left(before)
	if next != last || last == 0 {
		t.Errorf("%d steps of %d were reported", next, last)
	}

	type key struct {
		path   string
		toHost bool
	}
	seen := map[key]int{}
	copiers := 0
	for _, p := range append(m.Paths, m.Pinned...) {
		seen[key{p.Path, p.ToHost}]++
		if p.Path == "staged" && (p.Copiers < 1 || p.Copiers > runtime.GOMAXPROCS(0)) || p.Path != "staged" && p.Copiers != 0 {
			t.Errorf("path %s with %d copiers", p.Path, p.Copiers)
		}
		if p.Copiers > 0 && p.Copiers < copiers {
			t.Errorf("%d copiers after %d", p.Copiers, copiers)
		}
		copiers = max(copiers, p.Copiers)
		if len(p.Curve) == 0 || p.Curve[len(p.Curve)-1].Bytes != 1<<20 {
			t.Errorf("path %s, %d copiers: %v", p.Path, p.Copiers, p.Curve)
		}
		for _, at := range p.Curve {
			if !(at.Seconds > 0 && at.Seconds < 60) {
				t.Errorf("path %s: %v", p.Path, at)
			}
		}
	}
	for _, path := range []string{"plain", "staged", "pinned"} {
		for _, toHost := range []bool{false, true} {
			n := seen[key{path, toHost}]
			if n == 0 || path != "staged" && n != 1 {
				t.Errorf("%d times path %s, to host %t", n, path, toHost)
			}
		}
	}
	batches := map[string]bool{}
	for _, b := range m.Batches {
		batches[string(b.Path)+" "+b.Direction] = true
		if s := b.Seconds(100, 1<<20); !(s > 0) || math.IsInf(s, 0) || b.CallSeconds < 0 || len(b.Block) == 0 {
			t.Errorf("%+v", b)
		}
	}
	for _, path := range []transfer.BatchPath{transfer.BatchKernel, transfer.BatchDriver, transfer.BatchLoop, transfer.BatchBox} {
		for _, d := range []string{"h2d", "d2h", "d2d"} {
			if !batches[string(path)+" "+d] {
				t.Errorf("path %s, %s was not measured", path, d)
			}
		}
	}

	// It can be kept, and an engine works by it.
	_, err = m.Save(dev)
	f.OK(err)
	loaded, err := linkmodel.Load(dev)
	f.OK(err)
	if !reflect.DeepEqual(loaded, m) {
		t.Errorf("saved %+v, loaded %+v", m, loaded)
	}
	f.Works(f.EngineOn(dev, transfer.Options{Model: m}))
}

// Sizes that leave hardly anything to measure still give a model.
func TestCalibrateSmall(t *testing.T) {
	for _, most := range []int64{1, 100_001} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			f := open(t)
			dev := f.calibrates()
			m, err := calibrate.Run(ctx, dev, calibrate.Options{MaxBytes: most, Repeats: 1})
			f.OK(err)
			f.Works(f.EngineOn(dev, transfer.Options{Model: m}))
		})
	}
}

// A context that ends stops a calibration at the next step.
func TestCalibrateCancelled(t *testing.T) {
	f := open(t)
	dev := f.calibrates()
	memory, err := dev.Memory()
	f.OK(err)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = calibrate.Run(ended, dev, quick)
	f.Fails("cancelled before", err, context.Canceled)
	f.left(memory)
	for _, phase := range []string{"paths", "batches"} {
		for _, after := range []int{0, 1, 7, 20} {
			ctx, cancel := context.WithCancel(ctx)
			phases, steps, late := 0, 0, 0
			o := quick
			o.Progress = func(step, _ int, _ string) {
				if step == 0 {
					phases++
				}
				switch {
				case ctx.Err() != nil:
					late++
				case (phase == "paths" || phases == 2) && step >= after:
					cancel()
				}
				steps++
			}
			_, err := calibrate.Run(ctx, dev, o)
			f.Fails("cancelled in the midst", err, context.Canceled)
			if late > 0 {
				t.Errorf("%s, step %d: %d steps after it was cancelled", phase, after, late)
			}
			f.left(memory)
			cancel()
		}
	}
}

// Whatever fails, a calibration says so and leaves nothing behind.
func TestCalibrateFails(t *testing.T) {
	broken := errors.New("broken on purpose")
	count := func(n int64, err error) func() error {
		var calls atomic.Int64
		return func() error {
			if calls.Add(1) > n {
				return err
			}
			return nil
		}
	}
	type failure struct {
		name string
		set  func(*full)
		o    calibrate.Options
		want error
	}
	cases := []failure{
		{"negative size", nil, calibrate.Options{MaxBytes: -1}, device.ErrArgument},
		{"negative repeats", nil, calibrate.Options{Repeats: -1}, device.ErrArgument},
		{"more than the device has", nil, calibrate.Options{MaxBytes: 1 << 60, Repeats: 1}, device.ErrOutOfMemory},
		{"all there is", nil, calibrate.Options{MaxBytes: math.MaxInt64, Repeats: 1}, device.ErrOutOfMemory},
		{"no pinned memory", func(d *full) { d.OnPin(count(0, device.ErrPinLimit)) }, quick, device.ErrPinLimit},
		{"none for staging", func(d *full) { d.OnPin(count(1, device.ErrPinLimit)) }, quick, device.ErrPinLimit},
		{"pinning breaks", func(d *full) { d.OnPin(count(0, broken)) }, quick, broken},
		{"kernels break", func(d *full) { d.OnCall(func() error { return broken }) }, quick, broken},
	}
	for _, n := range []int64{0, 1, 2, 3, 4, 8, 9} {
		cases = append(cases, failure{fmt.Sprintf("stream or event %d", n), func(d *full) { d.OnMake(count(n, broken)) }, quick, broken})
	}
	for _, n := range []int64{0, 1, 10, 300} {
		fail := count(n, broken)
		cases = append(cases, failure{fmt.Sprintf("copy %d", n), func(d *full) {
			d.OnCopy(func([]byte, device.Ptr, bool) error { return fail() })
		}, quick, broken})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := open(t)
			dev := f.calibrates()
			memory, err := dev.Memory()
			f.OK(err)
			if c.set != nil {
				c.set(dev)
			}
			err = f.Within("Calibrate", func() error {
				m, err := calibrate.Run(ctx, dev, c.o)
				if m != nil {
					t.Error("a model of a calibration that failed")
				}
				return err
			})
			f.Fails("Calibrate", err, c.want)
			f.left(memory)
		})
	}
}

// unpinned is a device that pins nothing.
type unpinned struct{ device.Device }

func (unpinned) Info() device.Info { return device.Info{ID: "plain:0"} }

func TestCalibrateNotSupported(t *testing.T) {
	f := open(t)
	for _, dev := range []device.Device{f.Dev.Device, unpinned{f.Dev.Device}} {
		if info := dev.Info(); !info.Integrated && info.ID != "plain:0" {
			continue // a device behind a link
		}
		m, err := calibrate.Run(ctx, dev, quick)
		if m != nil || !errors.Is(err, device.ErrNotSupported) {
			t.Errorf("%s: %v, want %q", dev.Info().ID, err, device.ErrNotSupported)
		}
	}
}

// The first call measures and saves, later ones load.
func TestModelOf(t *testing.T) {
	dir := t.TempDir()
	cacheIn(t, dir)
	f := open(t)
	dev := f.calibrates()
	steps := 0
	o := quick
	o.Progress = func(int, int, string) { steps++ }
	first, measured, err := calibrate.LoadOrRun(ctx, dev, o)
	f.OK(err)
	if !measured || steps == 0 || first == nil {
		t.Fatalf("measured %t in %d steps", measured, steps)
	}
	steps = 0
	again, measured, err := calibrate.LoadOrRun(ctx, dev, o)
	f.OK(err)
	if measured || steps != 0 || !reflect.DeepEqual(again, first) {
		t.Errorf("measured again: %t, in %d steps; %+v, %+v", measured, steps, again, first)
	}
	// What cannot be read is measured anew.
	path, err := linkmodel.File(dev)
	f.OK(err)
	f.OK(os.WriteFile(path, []byte("{"), 0o600))
	_, measured, err = calibrate.LoadOrRun(ctx, dev, o)
	f.OK(err)
	if !measured {
		t.Error("a broken file was loaded")
	}
	_, measured, err = calibrate.LoadOrRun(ctx, dev, o)
	f.OK(err)
	if measured {
		t.Error("the new file was not loaded")
	}
	// What cannot be saved is returned with the error.
	file := filepath.Join(dir, "file")
	f.OK(os.WriteFile(file, nil, 0o600))
	cacheIn(t, file)
	m, measured, err := calibrate.LoadOrRun(ctx, dev, o)
	if m == nil || !measured || err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("saved below a file: %v, measured %t, model %t", err, measured, m != nil)
	}
	// What cannot be measured is not.
	ended, cancel := context.WithCancel(ctx)
	cancel()
	m, measured, err = calibrate.LoadOrRun(ended, dev, o)
	if m != nil || measured || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v, measured %t, model %t", err, measured, m != nil)
	}
}
