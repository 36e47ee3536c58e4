package tune

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/sampler"
)

// made is a dataset of made-up samples that take that long to read.
type made struct {
	n    int
	spec dataset.Spec
	slow time.Duration
	fail error
}

func (m *made) Len() int                           { return m.n }
func (m *made) Spec() dataset.Spec                 { return m.spec }
func (m *made) Name(int) string                    { return "made" }
func (m *made) Label(int) int32                    { return -1 }
func (m *made) NewReader() (dataset.Reader, error) { return reader{m}, nil }

type reader struct{ m *made }

func (r reader) Read(_ context.Context, v dataset.Visit, _ []byte) error {
	start := time.Now()
	time.Sleep(r.m.slow)
	if v.Timing != nil {
		v.Timing.Read += time.Since(start)
	}
	return r.m.fail
}

func (r reader) Close() error { return nil }

func rows(n int, slow time.Duration) *made {
	return &made{n: n, spec: dataset.Spec{Shape: []int{64}, DType: dtype.F32}, slow: slow}
}

// rowBytes is what a sample of rows takes: its elements and a label.
const rowBytes = 64*4 + 4

// small is a quick search.
func small() Options {
	return Options{
		Budget: 200 * time.Millisecond,
		Space:  Space{Workers: []int{1, 8}, Batch: []int{16}, Prefetch: []int{1, 4}},
	}
}

func TestFeed(t *testing.T) {
	before := runtime.NumGoroutine()
	dev := open(t)
	// Waiting readers: eight are eight times as fast.
	r, err := Feed(context.Background(), dev, rows(1000, time.Millisecond), small())
	ok(t, err)
	if r.Best.Workers != 8 || r.Best.Pin || r.PinnedBytes != 0 || r.Limit.Name != LimitDisk {
		t.Errorf("%+v", r)
	}
	if want := int64(r.Best.Prefetch+1) * 16 * rowBytes; r.HostBytes != want || r.DeviceBytes != 3*16*rowBytes {
		t.Errorf("%+v, want %d bytes of host memory", r.Memory, want)
	}
	memory, err := dev.Memory()
	ok(t, err)
	if memory.FreeBytes != memory.TotalBytes {
		t.Errorf("%d bytes of device memory are still taken", memory.TotalBytes-memory.FreeBytes)
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before+1 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before+1 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

// With a step, what the device waits decides. (Which setting that gives is the
// machine's to say; the searches of made-up pipelines check it.)
func TestFeedSteps(t *testing.T) {
	o := small()
	o.StepTime = 10 * time.Millisecond
	r, err := Feed(context.Background(), open(t), rows(1000, 0), o)
	ok(t, err)
	if r.Fed != (r.DeviceWait < mostWait) || r.StepSeconds < 0.01 || r.Fed && r.Limit.Name != LimitDevice {
		t.Errorf("%v, fed %v, a step of %g s, wait %g", r.Best, r.Fed, r.StepSeconds, r.DeviceWait)
	}
	steps := 0
	o.StepTime, o.Step = 0, func(_ context.Context, b *loader.Batch) error {
		steps++
		time.Sleep(5 * time.Millisecond)
		return nil
	}
	r, err = Feed(context.Background(), open(t), rows(1000, 0), o)
	ok(t, err)
	if steps == 0 || r.StepSeconds < 0.005 {
		t.Errorf("%v after %d steps, of %g s", r.Best, steps, r.StepSeconds)
	}
	broken := errors.New("broken")
	o.Step = func(context.Context, *loader.Batch) error { return broken }
	if _, err = Feed(context.Background(), open(t), rows(1000, 0), o); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}

// Batches that are too large for the device are refused, and others chosen.
func TestFeedMemory(t *testing.T) {
	dev, err := device.Open("host:1MiB")
	ok(t, err)
	defer dev.Close()
	o := small()
	o.Space.Batch = []int{64, 1024, 2048} // of 260 bytes, three times in device memory
	r, err := Feed(context.Background(), dev, rows(10000, 0), o)
	ok(t, err)
	refused := 0
	for _, row := range r.Settings {
		if row.Refused == "" {
			continue
		}
		refused++
		if row.Batch != 2048 || !strings.Contains(row.Refused, "1597440 bytes of device memory asked") {
			t.Errorf("%v: %s", row.Setting, row.Refused)
		}
	}
	if refused != 4 || r.Best.Batch == 2048 {
		t.Errorf("%d refused, %v chosen", refused, r.Best)
	}
	// So is memory that was free when it was predicted and is gone by then.
	o.Space = o.space(dev)
	f := &feed{dev: dev, ds: rows(10000, 0), o: o}
	ok(t, f.weigh())
	set := Setting{Workers: 1, Batch: 1024, Prefetch: 1}
	f.device /= 100
	_, err = f.Need(set)
	ok(t, err)
	p, err := dev.Alloc(900 << 10)
	ok(t, err)
	defer dev.Free(p)
	if _, err := f.Try(context.Background(), set, Run{For: time.Millisecond}); !errors.Is(err, ErrDoesNotFit) || !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("%v, want %v", err, ErrDoesNotFit)
	}
}

// A batch larger than an epoch, or more read ahead than can be counted, is
// refused for what it is.
func TestFeedOddSpaces(t *testing.T) {
	few, deep := small(), small()
	few.Loader.DropLast, few.Space.Batch = true, []int{8, 64}
	deep.Space.Prefetch = []int{1, math.MaxInt}
	for say, c := range map[string]struct {
		o   Options
		odd func(Setting) bool
	}{
		"20 samples make no batch of 64":                 {few, func(s Setting) bool { return s.Batch == 64 }},
		"9223372036854775807 bytes of host memory asked": {deep, func(s Setting) bool { return s.Prefetch == math.MaxInt }},
	} {
		r, err := Feed(context.Background(), open(t), rows(20, 0), c.o)
		ok(t, err)
		refused := 0
		for _, row := range r.Settings {
			if row.Refused != "" {
				refused++
			}
			if odd := c.odd(row.Setting); odd != (row.Refused != "") || odd && !strings.Contains(row.Refused, say) {
				t.Errorf("%v: %q, want %q", row.Setting, row.Refused, say)
			}
		}
		if refused == 0 {
			t.Errorf("none refused, want %q", say)
		}
	}
}

func TestFeedErrors(t *testing.T) {
	dev := open(t)
	bad := rows(100, 0)
	bad.fail = errors.New("cannot read this one")
	if _, err := Feed(context.Background(), dev, bad, small()); !errors.Is(err, bad.fail) {
		t.Errorf("%v, want %v", err, bad.fail)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Feed(ctx, dev, rows(100, 0), small()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	slow := rows(100, time.Second)
	start := time.Now()
	if _, err := Feed(ctx, dev, slow, small()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v after %v, want %v", err, time.Since(start), context.DeadlineExceeded)
	}
	o := small()
	o.StepTime, o.Space.Batch = time.Millisecond, []int{8, 16}
	for _, o := range []Options{o, {StepTime: -1}, {StepTime: time.Hour}, {StepTime: 2 * time.Second, Budget: time.Second}, {StepTime: 1, Step: func(context.Context, *loader.Batch) error { return nil }}} {
		if _, err := Feed(context.Background(), dev, rows(100, 0), o); !errors.Is(err, device.ErrArgument) {
			t.Errorf("%v, want %v", err, device.ErrArgument)
		}
	}
}

func TestWorkerCounts(t *testing.T) {
	for n, want := range map[int][]int{1: {1, 2}, 2: {1, 2, 4}, 4: {1, 2, 3, 4, 8}, 6: {1, 2, 4, 6, 12}, 16: {1, 2, 4, 8, 12, 16, 32}} {
		if got := workerCounts(n); !slices.Equal(got, want) {
			t.Errorf("%d processors: %v, want %v", n, got, want)
		}
	}
}

// What is kept is found again, for the same machine, dataset and options only.
func TestKeep(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dev, ds, o := open(t), rows(1000, 0), small()
	if _, err := Load(dev, ds, o); !errors.Is(err, ErrNoResult) {
		t.Errorf("%v, want %v", err, ErrNoResult)
	}
	r := find(t, newFake("decode", 1), grid, SearchOptions{})
	path, err := r.Keep(dev, ds, o)
	ok(t, err)
	again, err := Load(dev, ds, o)
	ok(t, err)
	if again.Best != r.Best || !again.At.Equal(r.At) || len(again.Settings) != len(r.Settings) || again.Model.Rate(r.Best) != r.Model.Rate(r.Best) {
		t.Errorf("%+v is not %+v", again, r)
	}
	if same, err := device.Open("host"); err != nil {
		t.Error(err)
	} else if _, err := Load(same, ds, o); !errors.Is(err, ErrNoResult) {
		t.Errorf("a device of another capacity: %v, want %v", err, ErrNoResult)
	} else {
		ok(t, same.Close())
	}
	other := small()
	other.Loader.DType = dtype.F16
	step := small()
	step.StepTime = time.Second
	for _, c := range []struct {
		ds *made
		o  Options
	}{{rows(1001, 0), o}, {ds, other}, {ds, step}, {ds, Options{}}} {
		if _, err := Load(dev, c.ds, c.o); !errors.Is(err, ErrNoResult) {
			t.Errorf("%+v: %v, want %v", c, err, ErrNoResult)
		}
	}
	for _, text := range []string{"", "{}", `{"version":1}`, strings.Repeat(" ", 2<<20), "null"} {
		ok(t, os.WriteFile(path, []byte(text), 0o644))
		if _, err := Load(dev, ds, o); !errors.Is(err, ErrNoResult) {
			t.Errorf("%.20q: %v, want %v", text, err, ErrNoResult)
		}
	}
	o.Exhaustive = true
	if _, err := r.Keep(dev, ds, o); !errors.Is(err, device.ErrArgument) {
		t.Errorf("%v, want %v", err, device.ErrArgument)
	}
}

// Whatever changes how a loader works, or what is asked, is another search.
func TestKeepOptions(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dev, ds := open(t), rows(1000, 0)
	_, err := find(t, newFake("decode", 1), grid, SearchOptions{}).Keep(dev, ds, small())
	ok(t, err)
	order, err := sampler.NewSequential(1000)
	ok(t, err)
	for name, c := range map[string]struct {
		change func(o *Options)
		found  bool
	}{
		"the same":       {func(*Options) {}, true},
		"other seed":     {func(o *Options) { o.Loader.Seed, o.Seed = 7, 7 }, true},
		"ignored":        {func(o *Options) { o.Loader.Batch, o.Loader.Workers, o.Loader.Epochs = 3, 5, 9 }, true},
		"step":           {func(o *Options) { o.Step = func(context.Context, *loader.Batch) error { return nil } }, false},
		"exhaustive":     {func(o *Options) { o.Exhaustive = true }, false},
		"sampler":        {func(o *Options) { o.Loader.Sampler = order }, false},
		"drop last":      {func(o *Options) { o.Loader.DropLast = true }, false},
		"unordered":      {func(o *Options) { o.Loader.Unordered = true }, false},
		"world":          {func(o *Options) { o.Loader.World = 2 }, false},
		"mask":           {func(o *Options) { o.Loader.Mask = true }, false},
		"pad to":         {func(o *Options) { o.Loader.PadTo = 99 }, false},
		"on error":       {func(o *Options) { o.Loader.OnError = loader.Skip }, false},
		"sample timeout": {func(o *Options) { o.Loader.SampleTimeout = time.Second }, false},
		"mean":           {func(o *Options) { o.Loader.Mean = []float64{0.5} }, false},
	} {
		o := small()
		c.change(&o)
		if _, err := Load(dev, ds, o); c.found && err != nil || !c.found && !errors.Is(err, ErrNoResult) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Datasets of one size are told apart by the names and sizes of their files.
func TestIdentify(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.bin")
	ok(t, os.WriteFile(file, make([]byte, 400), 0o644))
	ds, err := dataset.OpenRaw(file, dataset.Spec{Shape: []int{10}, DType: dtype.F32}, dataset.RawOptions{})
	ok(t, err)
	defer ds.Close()
	id := identify(ds)
	if id.Samples != 10 || id.Bytes != 4000 || len(id.Names) != 10 {
		t.Errorf("%+v", id)
	}
}

// One name in two folders is two datasets.
func TestIdentifyElsewhere(t *testing.T) {
	var seen []identity
	for range 2 {
		t.Chdir(t.TempDir())
		ok(t, os.WriteFile("a.bin", make([]byte, 400), 0o644))
		ds, err := dataset.OpenRaw("a.bin", dataset.Spec{Shape: []int{10}, DType: dtype.F32}, dataset.RawOptions{})
		ok(t, err)
		seen = append(seen, identify(ds))
		ok(t, ds.Close())
	}
	if reflect.DeepEqual(seen[0], seen[1]) {
		t.Errorf("%+v twice", seen[0])
	}
}
