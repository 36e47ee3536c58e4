package tune

import (
	"context"
	"errors"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/sampler"
)

// made is a dataset of made-up samples that take that long to read.
type made struct {
	n    int
	spec dataset.Spec
	slow time.Duration
	fail error

	broken int // with fail: only every so many-th sample fails; 0: all

	first atomic.Int64 // how often sample 0 was read
}

func (m *made) Len() int                           { return m.n }
func (m *made) Spec() dataset.Spec                 { return m.spec }
func (m *made) Name(int) string                    { return "made" }
func (m *made) Label(int) int32                    { return -1 }
func (m *made) NewReader() (dataset.Reader, error) { return reader{m}, nil }

type reader struct{ m *made }

func (r reader) Read(_ context.Context, v dataset.Visit, _ []byte) error {
	if v.Index == 0 {
		r.m.first.Add(1)
	}
	start := time.Now()
	time.Sleep(r.m.slow)
	if v.Timing != nil {
		v.Timing.Read += time.Since(start)
	}
	if r.m.broken > 0 && v.Index%r.m.broken != 0 {
		return nil
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
	if r.Best.Workers != 8 || r.Best.Pin || r.PinnedBytes != 0 || r.Limit.Name != LimitRead {
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
	testkit.Eventually(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before+1 })
}

// A trial begins where the one before it ended, in an order that is not shuffled,
// too: else the page cache would have what it reads.
func TestFeedGoesOn(t *testing.T) {
	const many = 1 << 40
	order, err := sampler.NewSequential(many)
	ok(t, err)
	for name, set := range map[string]func(*loader.Options){
		"as they lie": func(*loader.Options) {},
		"a sampler":   func(o *loader.Options) { o.Sampler = order },
		"a rank":      func(o *loader.Options) { o.World = 3 },
		"shuffled":    func(o *loader.Options) { o.Shuffle = true },
	} {
		ds, o := rows(many, 0), small()
		set(&o.Loader)
		r, err := Feed(t.Context(), open(t), ds, o)
		ok(t, err)
		// Once by the first trial, and once where the memory is asked for.
		if n := ds.first.Load(); n > 2 {
			t.Errorf("%s: %d trials began with sample 0 %d times", name, r.Trials, n)
		}
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
		if row.Batch != 2048 || !strings.Contains(row.Refused, "1.52 MiB of device memory needed") {
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

// A device on which no batch of the space fits, nor a single sample, is told in a
// sentence with the numbers.
func TestFeedSmallDevice(t *testing.T) {
	for size, want := range map[string]string{
		"host:64KiB": "none of 4 settings: does not fit: 195 KiB of device memory needed, 64 KiB free",
		"host:1KiB":  "not even one sample (64x64 f32) on host:1KiB: does not fit: 16 KiB of device memory needed, 1 KiB free",
	} {
		dev, err := device.Open(size)
		ok(t, err)
		o, ds := small(), rows(1000, 0)
		if o.Space.Batch = []int{256}; size == "host:1KiB" {
			ds.spec.Shape = []int{64, 64}
		}
		_, err = Feed(t.Context(), dev, ds, o)
		if !errors.Is(err, ErrDoesNotFit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", size, err, want)
		}
		ok(t, dev.Close())
	}
}

// A step that sleeps too long is made up for by the next one: the device's own
// time counts, not the host's.
func TestStandIn(t *testing.T) {
	const step = 20 * time.Millisecond
	d := standIn{step: step}
	gone, cancel := context.WithCancel(t.Context())
	cancel() // the times matter, not the sleep
	now := time.Now()
	start := now
	for range 10 {
		_ = d.use(gone, now, 0)
		now = d.free.Add(5 * time.Millisecond) // the sleep takes too long
	}
	if took := d.free.Sub(start); took != 10*step {
		t.Errorf("10 steps took %v, want %v", took, 10*step)
	}
	// What was waited for counts.
	free := d.free
	_ = d.use(gone, now.Add(7*time.Millisecond), 7*time.Millisecond)
	if took := d.free.Sub(free); took != 27*time.Millisecond {
		t.Errorf("a batch that came 7 ms late kept the device until %v after the last", took)
	}
	// One that comes after all the time there was to make up begins at once.
	now = d.free.Add(time.Second)
	_ = d.use(gone, now, 0)
	if took := d.free.Sub(now); took != step {
		t.Errorf("a late batch took %v, want %v", took, step)
	}
}

// Every option of a loader either belongs to the key of what is kept, or is known
// not to matter. A new one has to be put into either.
func TestKeyIsComplete(t *testing.T) {
	ignored := []string{
		"Batch", "Workers", "Prefetch", "Pin", "Copiers", "ChunkBytes", // searched for
		"Epochs", "Seed", "Resume", "StateAtEnd", "KeepErrors", "MaxDeviceBuffers", // of a run, not of its speed
		"Targets",                      // in a key of their own
		"Sampler", "Batches", "Decide", // code of the caller's: not kept
	}
	key := reflect.TypeFor[loading]()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[loader.Options]()) {
		_, in := key.FieldByName(field.Name)
		if in == slices.Contains(ignored, field.Name) {
			t.Errorf("option %s: in the key %v; put it into loading, or name it here", field.Name, in)
		}
	}
}

// A batch larger than an epoch, more workers than there is room for, or more read
// ahead than can be counted, is refused for what it is.
func TestFeedOddSpaces(t *testing.T) {
	few, deep, many := small(), small(), small()
	few.Loader.DropLast, few.Space.Batch = true, []int{8, 64}
	deep.Space.Prefetch = []int{1, math.MaxInt}
	many.Space.Workers, many.Space.Batch, many.Space.Prefetch = []int{1, 24, 25}, []int{8}, []int{2}
	for say, c := range map[string]struct {
		o   Options
		odd func(Setting) bool
	}{
		"20 samples make no batch of 64":                {few, func(s Setting) bool { return s.Batch == 64 }},
		"25 workers, and 24 samples are read at a time": {many, func(s Setting) bool { return s.Workers == 25 }},
		"8.00 EiB of host memory needed":                {deep, func(s Setting) bool { return s.Prefetch == math.MaxInt }},
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

// Behind a link copiers and chunks are looked for, where slabs are large enough
// to be staged; what is chosen stages, and takes what was predicted.
func TestFeedStaging(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // no model of the link
	dev := devicetest.OpenDiscrete(t, 64<<20)
	images := &made{n: 100, spec: dataset.Spec{Shape: []int{64 << 10}, DType: dtype.U8}}
	const sample = 64<<10 + 4
	o := Options{Budget: 200 * time.Millisecond, Space: Space{
		Workers: []int{1, 4}, Batch: []int{8, 32, 48}, Prefetch: []int{1, 2},
		Copiers: []int{1, 2}, ChunkBytes: []int64{256 << 10, 1 << 20, 4 << 20, 16 << 20},
	}}
	r, err := Feed(context.Background(), dev, images, o)
	ok(t, err)
	// Batches of 8 are not staged, and 4 MiB is all of the others.
	if want := 2 * 2 * (3 + 1 + 2*3 + 2*3); r.GridSize != want {
		t.Errorf("%d settings, want %d", r.GridSize, want)
	}
	f := &feed{dev: dev, ds: images, o: o}
	f.o.Space = o.space(dev)
	ok(t, f.weigh())
	ok(t, f.findStaging())
	seen := false
	for _, set := range f.o.Space.Settings() {
		if set.staged() != (!set.Pin && set.Batch > 8) || set.ChunkBytes > 4<<20 {
			t.Errorf("%v", set)
		}
		need, err := f.Need(set)
		ok(t, err)
		slabs := int64(set.Prefetch+1) * int64(set.Batch) * sample
		chunk := min(set.ChunkBytes, pagemem.RoundUp(int64(set.Batch)*sample)) // none is larger than a slab
		rings := 4 * int64(set.Copiers) * chunk
		want := Memory{PinnedBytes: rings, HostBytes: slabs + rings, DeviceBytes: 3 * int64(set.Batch) * sample}
		if set.Pin {
			want.PinnedBytes = slabs
		}
		if need != want {
			t.Errorf("%v: %+v, want %+v", set, need, want)
		}
		if set.Copiers == 2 && set.ChunkBytes == 256<<10 && set.Batch == 32 && !seen {
			seen = true
			m, err := f.Try(context.Background(), set, Run{For: 10 * time.Millisecond})
			ok(t, err)
			if m.seconds(link) <= 0 || m.Samples == 0 {
				t.Errorf("%v: %+v", set, m)
			}
		}
	}
	if !seen {
		t.Error("nothing was staged")
	}
}

// Where the system lets no more be pinned, copiers that would get less than they
// need are left out: a loader would make do with fewer of them, or with none.
func TestStagingShort(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // no model of the link
	images := &made{n: 100, spec: dataset.Spec{Shape: []int{64 << 10}, DType: dtype.U8}}
	const ring = 4 * 256 << 10 // the smallest
	o := Options{Budget: 200 * time.Millisecond, Space: Space{
		Workers: []int{1}, Batch: []int{32}, Prefetch: []int{1}, Pin: []bool{false},
		Copiers: []int{1, 4}, ChunkBytes: []int64{256 << 10, 1 << 20},
	}}
	for _, limit := range []int64{1, ring, 4*ring - 1, 4 * ring, 16*ring - 1, 16 * ring} {
		dev := devicetest.OpenDiscrete(t, 64<<20)
		dev.PinLimit = limit
		f := &feed{dev: dev, ds: images, o: o}
		f.o.Space = o.space(dev)
		ok(t, f.weigh())
		ok(t, f.findStaging())
		settings := f.o.Space.Settings()
		if limit < ring != (len(settings) == 1 && settings[0].Copiers == 0) {
			t.Errorf("with %d bytes: %v", limit, settings)
		}
		for _, set := range settings {
			need := int64(set.Copiers) * 4 * set.ChunkBytes
			for range 2 { // it is known then
				_, err := f.Try(t.Context(), set, Run{For: time.Millisecond})
				if need <= limit {
					ok(t, err)
					continue
				}
				var short *DoesNotFitError
				if !errors.As(err, &short) || short.AskedBytes != need || short.FreeBytes > limit {
					t.Errorf("%v with %d bytes: %v", set, limit, err)
				}
			}
		}
		r, err := Feed(t.Context(), dev, images, o)
		ok(t, err)
		if r.PinnedBytes > limit {
			t.Errorf("%v takes %d bytes of %d", r.Best, r.PinnedBytes, limit)
		}
	}
}

// Where nothing can be staged there is nothing to look for.
func TestNoStaging(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dev := devicetest.OpenDiscrete(t, 64<<20)
	images := &made{n: 100, spec: dataset.Spec{Shape: []int{64 << 10}, DType: dtype.U8}}
	for name, c := range map[string]struct {
		dev    device.Device
		change func(*Options)
	}{
		"a device that shares the host's memory": {open(t), func(*Options) {}},
		"small batches":                          {dev, func(o *Options) { o.Space.Batch = []int{2, 4} }},
		"pinned memory only":                     {dev, func(o *Options) { o.Loader.Pin = loader.PinAlways }},
		"a budget below one ring":                {dev, func(o *Options) { o.Loader.PinBudget = 1 << 20 }},
		"decoding on the device":                 {dev, func(o *Options) { o.Space.Decode = []string{"gpu"} }},
		"always on the device":                   {dev, func(o *Options) { o.Loader.Decode = loader.DecodeGPU }},
	} {
		o := Options{Space: Space{Batch: []int{64}, Copiers: []int{2}, ChunkBytes: []int64{1 << 20}}}
		c.change(&o)
		f := &feed{dev: c.dev, ds: images, o: o, host: 64<<10 + 4}
		f.o.Space = o.space(c.dev)
		ok(t, f.findStaging())
		for _, set := range f.o.Space.Settings() {
			if set.staged() {
				t.Errorf("%s: %v", name, set)
			}
		}
	}
	// What the loader is told to do is the only value.
	o := Options{Loader: loader.Options{Copiers: 3, ChunkBytes: 5}}
	if s := o.space(dev); !slices.Equal(s.Copiers, []int{3}) || !slices.Equal(s.ChunkBytes, []int64{5}) {
		t.Errorf("%+v", s)
	}
}

// Samples that cannot be read are left out or replaced, and counted.
func TestFeedUnread(t *testing.T) {
	for _, policy := range []loader.ErrorPolicy{loader.Skip, loader.Replace} {
		ds := rows(40, 0)
		ds.broken, ds.fail = 3, errors.New("cannot read this one")
		o := small()
		o.Loader.OnError = policy
		r, err := Feed(context.Background(), open(t), ds, o)
		ok(t, err)
		if r.Unread == 0 || policy == loader.Skip && r.Replaced != 0 || policy == loader.Replace && r.Replaced != r.Unread {
			t.Errorf("policy %v: %d unread, %d replaced", policy, r.Unread, r.Replaced)
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
	skip := small()
	skip.Loader.OnError = loader.Skip
	if _, err := Feed(t.Context(), dev, bad, skip); !errors.Is(err, loader.ErrNoSamples) || !errors.Is(err, bad.fail) {
		t.Errorf("%v, want %v and %v", err, loader.ErrNoSamples, bad.fail)
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
	automatic := []Options{{Loader: loader.Options{Batch: loader.AutoBatch}}, {Space: Space{Batch: []int{8, loader.AutoBatch}}}}
	for _, o := range append(automatic, o, Options{StepTime: -1}, Options{StepTime: time.Hour}, Options{StepTime: 2 * time.Second, Budget: time.Second},
		Options{StepTime: 1, Step: func(context.Context, *loader.Batch) error { return nil }}) {
		if _, err := Feed(context.Background(), dev, rows(100, 0), o); !errors.Is(err, device.ErrArgument) {
			t.Errorf("%v, want %v", err, device.ErrArgument)
		}
	}
}

// Batches that a budget of device memory has no room for are not tried.
func TestFeedDeviceBudget(t *testing.T) {
	o := small()
	o.Loader.DeviceBudget = 64 << 10
	o.Space.Workers, o.Space.Prefetch, o.Space.Batch = []int{1}, []int{1}, []int{1, 1000}
	r, err := Feed(t.Context(), open(t), &made{n: 2000, spec: dataset.Spec{Shape: []int{1 << 10}, DType: dtype.U8}}, o)
	ok(t, err)
	for _, row := range r.Settings {
		if refused := strings.Contains(row.Refused, "64 KiB"); refused != (row.Batch == 1000) {
			t.Errorf("batch %d: %q", row.Batch, row.Refused)
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

func TestCopierCounts(t *testing.T) {
	for n, want := range map[int][]int{1: {1}, 2: {1, 2}, 3: {1, 2}, 4: {2, 4}, 6: {2, 4}, 16: {2, 4, 8, 16}, 96: {2, 4, 8, 16}} {
		if got := copierCounts(n); !slices.Equal(got, want) {
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
	for _, text := range []string{"", "{}", `{"version":2}`, strings.Repeat(" ", 2<<20), "null"} {
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

// Pictures that are decoded by another library are another search: its rates are
// others.
func TestKeepDecoder(t *testing.T) {
	pictures, err := photos.New(noFiles{}, photos.Options{})
	ok(t, err)
	if id := identify(pictures); id.Decoder != imaging.JPEGDecoder() {
		t.Errorf("pictures are told by the decoder %q, want %q", id.Decoder, imaging.JPEGDecoder())
	}
	if id := identify(rows(0, 0)); id.Decoder != "" {
		t.Errorf("rows are told by the decoder %q", id.Decoder)
	}
}

// noFiles is files of which there are none.
type noFiles struct{ dataset.Files }

func (noFiles) Len() int { return 0 }

// Targets are known again by what they are, and others are another search.
func TestKeepTargets(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dev, ds, o := open(t), rows(1000, 0), small()
	targets := func(bytes int) []dataset.Dataset {
		return []dataset.Dataset{&made{n: 1000, spec: dataset.Spec{Shape: []int{bytes}, DType: dtype.U8}}}
	}
	o.Loader.Targets = targets(9)
	_, err := find(t, newFake("decode", 1), grid, SearchOptions{}).Keep(dev, ds, o)
	ok(t, err)
	o.Loader.Targets = targets(9)
	_, err = Load(dev, ds, o)
	ok(t, err)
	for _, o.Loader.Targets = range [][]dataset.Dataset{nil, targets(8), append(targets(9), targets(9)...)} {
		if _, err := Load(dev, ds, o); !errors.Is(err, ErrNoResult) {
			t.Errorf("%d targets: %v, want %v", len(o.Loader.Targets), err, ErrNoResult)
		}
	}
}

// The memory of targets is predicted: slabs and buffers take what was said.
func TestFeedTargetMemory(t *testing.T) {
	dev, ds, o := open(t), rows(1000, 0), small()
	o.Loader.Targets = []dataset.Dataset{
		&made{n: 1000, spec: dataset.Spec{Shape: []int{37}, DType: dtype.U8}},
		&made{n: 1000, spec: dataset.Spec{Shape: []int{5, 4}, DType: dtype.F32}},
	}
	o.Space = o.space(dev)
	f := &feed{dev: dev, ds: ds, o: o}
	ok(t, f.weigh())
	for _, set := range []Setting{{Workers: 1, Batch: 16, Prefetch: 1}, {Workers: 1, Batch: 64, Prefetch: 3}, {Workers: 2, Batch: 512, Prefetch: 1}} {
		l := o.Loader
		l.Batch, l.Workers, l.Prefetch, l.Pin, l.Epochs = set.Batch, set.Workers, set.Prefetch, loader.PinNever, 100
		ld, err := loader.New(dev, ds, l)
		ok(t, err)
		s := ld.Stats()
		ok(t, ld.Close())
		need, err := f.Need(set)
		ok(t, err)
		sample := int64(rowBytes + 37 + 80)
		if want := sample * int64(set.Batch*(set.Prefetch+1)); need.HostBytes != want || s.HostBytes != want || need.DeviceBytes != s.DeviceBytes {
			t.Errorf("%v: %d bytes of host memory and %d of the device said, %d and %d taken, want %d", set, need.HostBytes, need.DeviceBytes, s.HostBytes, s.DeviceBytes, want)
		}
	}
	r, err := Feed(context.Background(), dev, ds, o)
	ok(t, err)
	if r.Best.Batch == 0 {
		t.Errorf("%+v", r.Best)
	}
}

// What is staged goes by the model of the link: with another one it is another
// search.
func TestKeepLink(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dev, ds := open(t), rows(1000, 0)
	_, err := find(t, newFake("decode", 1), grid, SearchOptions{}).Keep(dev, ds, small())
	ok(t, err)
	m := linkmodel.Model{Version: linkmodel.Version, Machine: linkmodel.MachineOf(dev), MeasuredAt: time.Now()}
	_, err = m.Save(dev)
	ok(t, err)
	_, err = linkmodel.Load(dev)
	ok(t, err)
	if _, err := Load(dev, ds, small()); !errors.Is(err, ErrNoResult) {
		t.Errorf("%v, want %v", err, ErrNoResult)
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
		"larger budget":  {func(o *Options) { o.Budget += time.Second }, false},
		"smaller budget": {func(o *Options) { o.Budget /= 2 }, true},
		"the same":       {func(*Options) {}, true},
		"other seed":     {func(o *Options) { o.Loader.Seed, o.Seed = 7, 7 }, true},
		"ignored":        {func(o *Options) { o.Loader.Batch, o.Loader.Workers, o.Loader.Epochs, o.Loader.Copiers = 3, 5, 9, 2 }, true},
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
