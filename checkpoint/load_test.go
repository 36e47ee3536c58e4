package checkpoint

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// Whatever the tensors, the files, the options and the limits: every tensor
// that was asked for arrives, at an aligned address, and nothing else.
func TestLoad(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for round := range 60 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			testkit.NoLeaks(t)
			f := open(t, 1+r.IntN(3))
			m := write(t, 1+r.Int64N(400_000), some(r, r.IntN(60))...)
			o := Options{Align: 16 << r.IntN(5)}
			if r.IntN(2) == 0 {
				o.limits = limits{step: 1 + r.Int64N(100_000), small: 1 + r.Int64N(20_000), gap: r.Int64N(2000), group: 1 + r.Int64N(50_000),
					staging: 8 + r.Int64N(50_000), parallel: 1 + r.IntN(4)}
			}
			o.Floats = []dtype.DType{0, 0, dtype.F16, dtype.BF16, dtype.F32, dtype.F64}[r.IntN(6)]
			o.Path = []transfer.FilePath{transfer.FileAuto, transfer.FileCached}[r.IntN(2)]
			kept := func(string) bool { return true }
			if r.IntN(2) == 0 {
				part := fmt.Sprint("part", r.IntN(4))
				kept = func(name string) bool { return strings.Contains(name, part) }
				o.Keep = kept
			}
			if r.IntN(3) == 0 {
				o.Place = func(name string) int { return len(name) * int(m.seeds[name]) % len(f.targets) }
			}
			if r.IntN(3) == 0 {
				pool := testkit.Must(vram.New(f.dev, vram.Options{}))(t)
				defer func() { testkit.OK(t, pool.Close()) }()
				for i := range f.targets {
					f.targets[i].Pool = pool
				}
			}
			calls, last := 0, int64(-1)
			o.Progress = func(done, total int64) {
				calls++
				if done < last || done > total {
					t.Errorf("progress %d after %d of %d", done, last, total)
				}
				last = done
			}
			w, err := Load(t.Context(), m.ck, o, f.targets...)
			testkit.OK(t, err)
			defer func() { testkit.OK(t, w.Close()) }()
			tensors := w.Tensors()
			want, bytes := 0, int64(0)
			for _, x := range m.ck.Tensors() {
				_, found := w.Find(x.Name)
				if found != kept(x.Name) {
					t.Errorf("%q: %v", x.Name, found)
				}
				if !found {
					continue
				}
				if tensors[want].Name != x.Name {
					t.Errorf("tensor %d is %q, want %q", want, tensors[want].Name, x.Name)
				}
				want++
				bytes += x.Bytes
			}
			for _, x := range tensors {
				if uint64(x.Ptr)%uint64(o.Align) != 0 {
					t.Errorf("%q is at %#x", x.Name, uint64(x.Ptr))
				}
				if o.Place != nil && x.Target != o.Place(x.Name) {
					t.Errorf("%q is on target %d", x.Name, x.Target)
				}
				f.check(m, x, o.Floats)
			}
			report := w.Report()
			read := report.CachedBytes + report.DirectBytes + report.MappedBytes
			if len(tensors) != want || report.Tensors != want || report.Bytes != bytes || read < bytes || last != bytes {
				t.Errorf("%d tensors, %+v and %d bytes of progress; want %d and %d", len(tensors), report, last, want, bytes)
			}
		})
	}
}

// Neighbours are read in one go: a file whose tensors all have sizes that are
// multiples of the alignment is one step.
func TestPlan(t *testing.T) {
	m := write(t, 0, tensor("a", safetensors.BF16, 512, 1024), tensor("b", safetensors.BF16, 1024), tensor("c", safetensors.BF16, 1024, 1024),
		tensor("z", safetensors.BF16, 0))
	o := Options{}
	testkit.OK(t, o.check())
	pieces, size := o.layout(m.ck.Tensors())
	steps := o.limits.plan(pieces)
	if len(steps) != 1 || !steps[0].direct || steps[0].bytes != size || size != 2*(512*1024+1024+1024*1024) {
		t.Errorf("%+v of %d bytes", steps, size)
	}
	o.Keep = func(name string) bool { return name != "b" }
	pieces, _ = o.layout(o.kept(m.ck.Tensors()))
	if steps = o.limits.plan(pieces); len(steps) != 2 {
		t.Errorf("without the one in the middle: %+v", steps)
	}
	// Small tensors that do not fall on the alignment are read together.
	var odd []safetensors.Tensor
	for i := range 1000 {
		odd = append(odd, tensor(fmt.Sprint(i), safetensors.F32, 33))
	}
	m = write(t, 0, odd...)
	pieces, _ = o.layout(m.ck.Tensors())
	if steps = o.limits.plan(pieces); len(steps) != 1 || len(steps[0].cuts) != 1000 {
		t.Errorf("%d steps", len(steps))
	}
}

func TestLoadErrors(t *testing.T) {
	testkit.NoLeaks(t)
	f := open(t, 2)
	m := write(t, 0, tensor("a.weight", safetensors.F32, 1000, 100), tensor("b.weight", safetensors.F32, 3))
	for name, c := range map[string]struct {
		o       Options
		targets []Target
		says    string
	}{
		"no target":  {Options{}, nil, "no target"},
		"no engine":  {Options{}, []Target{{}}, "target 0 has no Engine"},
		"alignment":  {Options{Align: 24}, f.targets, "Align is 24"},
		"floats":     {Options{Floats: dtype.U8}, f.targets, "Floats is u8"},
		"place":      {Options{Place: func(string) int { return 2 }}, f.targets, `Place says 2 of "a.weight", and there are 2 targets`},
		"path":       {Options{Path: "sideways"}, f.targets, `unknown path "sideways"`},
		"place, low": {Options{Place: func(string) int { return -1 }}, f.targets, "Place says -1"},
	} {
		_, err := Load(t.Context(), m.ck, c.o, c.targets...)
		testkit.WantError(t, name, err, ErrArgument, c.says)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Load(ended, m.ck, Options{}, f.targets...); err != context.Canceled {
		t.Errorf("%v, want the context's error", err)
	}
	// In the middle.
	ended, cancel = context.WithCancel(t.Context())
	defer cancel()
	o := Options{Progress: func(int64, int64) { cancel() }, limits: limits{step: 1000, small: 1, gap: 1, group: 1, staging: 1000, parallel: 2}}
	if _, err := Load(ended, m.ck, o, f.targets...); err != context.Canceled {
		t.Errorf("%v, want the context's error", err)
	}

	pool := testkit.Must(vram.New(f.dev, vram.Options{Budget: 8 << 20, Limits: map[vram.Purpose]int64{vram.Weights: 100_000}}))(t)
	_, err := Load(t.Context(), m.ck, Options{}, Target{Engine: f.targets[0].Engine, Pool: pool})
	testkit.WantError(t, "pool", err, device.ErrOutOfMemory)
	testkit.OK(t, pool.Close())

	if runtime.GOOS == "windows" { // which does not cut a file that is open
		return
	}
	for name, size := range map[string]int64{"large part": 1000, "small part": m.ck.Files()[0].Header.Bytes + 400_005} {
		testkit.OK(t, os.Truncate(m.ck.Files()[0].Path(), size))
		o := Options{limits: limits{step: 1 << 20, small: 1000, gap: 1, group: 1, staging: 1000, parallel: 1}}
		o.Keep = func(tensor string) bool { return strings.HasPrefix(tensor, "a") == strings.HasPrefix(name, "large") }
		_, err := Load(t.Context(), m.ck, o, f.targets...)
		testkit.WantError(t, name, err, io.ErrUnexpectedEOF, m.ck.Files()[0].Path())
		namedOnce(t, m, err)
	}
	testkit.OK(t, m.ck.Close())
	_, err = Load(t.Context(), m.ck, Options{}, f.targets...)
	testkit.WantError(t, "closed", err, os.ErrClosed)
	namedOnce(t, m, err)
	o = Options{limits: defaultLimits}
	o.limits.small = 1 << 30
	_, err = Load(t.Context(), m.ck, o, f.targets...)
	testkit.WantError(t, "closed, read together", err, os.ErrClosed)
	namedOnce(t, m, err)
}

func namedOnce(t *testing.T, m *model, err error) {
	t.Helper()
	if path := m.ck.Files()[0].Path(); strings.Count(fmt.Sprint(err), path) != 1 {
		t.Errorf("%q names %s %d times", err, path, strings.Count(fmt.Sprint(err), path))
	}
}

// What does not fit is refused before anything is allocated.
func TestLoadTooLarge(t *testing.T) {
	dev := testkit.Must(device.Open("host:1MiB"))(t)
	defer dev.Close()
	f := &fixture{TB: t, dev: dev}
	target := Target{Engine: f.engine(dev)}
	m := write(t, 300_000, tensor("a.weight", safetensors.F32, 50_000), tensor("b.weight", safetensors.F32, 50_000), tensor("c.weight", safetensors.F64, 100_000))
	_, err := Load(t.Context(), m.ck, Options{}, target)
	testkit.WantError(t, "load", err, device.ErrOutOfMemory, "loading 3 tensors needs 1.14 MiB", "has 1 MiB free of 1 MiB")
	if memory := testkit.Must(dev.Memory())(t); memory.FreeBytes != 1<<20 {
		t.Errorf("%d bytes are free", memory.FreeBytes)
	}
	_, err = Load(t.Context(), m.ck, Options{Floats: dtype.F64}, target)
	testkit.WantError(t, "cast", err, device.ErrOutOfMemory, "loading 3 tensors needs 2.10 MiB")
	// Targets on one device share its memory.
	_, err = Load(t.Context(), m.ck, Options{}, target, target)
	testkit.WantError(t, "twice", err, device.ErrOutOfMemory, "loading 2 tensors needs 391 KiB, 1.14 MiB with the other targets on the device", "has 1 MiB free of 1 MiB")
	for _, err := range Stream(t.Context(), m.ck, StreamOptions{}, target, target, target) {
		testkit.WantError(t, "stream, one device", err, device.ErrOutOfMemory, `with 1 buffer of 195 KiB, for layer "a"`, "1.14 MiB with the other")
	}
	second := testkit.Must(device.Open("host:1MiB"))(t)
	defer second.Close()
	w := testkit.Must(Load(t.Context(), m.ck, Options{}, target, Target{Engine: f.engine(second)}))(t)
	testkit.OK(t, w.Close())
	for _, err := range Stream(t.Context(), m.ck, StreamOptions{}, target) {
		testkit.WantError(t, "stream", err, device.ErrOutOfMemory, "2 buffers of 781 KiB", `for layer "c"`, "needs 1.53 MiB")
	}
	for _, err := range Stream(t.Context(), m.ck, StreamOptions{Buffers: 1, Budget: 700_000}, target) {
		testkit.WantError(t, "stream", err, device.ErrOutOfMemory, "the budget is 684 KiB")
	}
	n := 0
	for _, err := range Stream(t.Context(), m.ck, StreamOptions{Buffers: 1, Budget: 800_000}, target) {
		testkit.OK(t, err)
		n++
	}
	if n != 3 {
		t.Errorf("%d layers", n)
	}
	// One layer needs no second buffer.
	o := StreamOptions{Options: Options{Keep: func(name string) bool { return name == "c.weight" }}, Buffers: 64}
	for _, err := range Stream(t.Context(), m.ck, o, target) {
		testkit.OK(t, err)
	}
}

func TestClose(t *testing.T) {
	f := open(t, 1)
	m := write(t, 0, tensor("a", safetensors.F32, 10))
	w := testkit.Must(Load(t.Context(), m.ck, Options{}, f.targets...))(t)
	testkit.OK(t, m.ck.Close()) // the weights do not need it any more
	a, _ := w.Find("a")
	f.check(m, a, 0)
	testkit.OK(t, w.Close())
	testkit.OK(t, w.Close())
	if _, ok := w.Find("b"); ok {
		t.Error("there is a tensor b")
	}
}
