package loader_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/sampler"
	"github.com/pinion-gpu/pinion/vram"
)

// kinds are datasets whose batches lie on a device in different ways: as they
// are, and as bytes beside the floats that become of them.
func kinds() []*fake {
	return []*fake{table(400, dtype.U8, 20_000), images(400, 40, 50, 3)}
}

// buffers makes a loader and tells how many device buffers it got.
func buffers(t testing.TB, dev device.Device, ds dataset.Dataset, o loader.Options) (n int, err error) {
	t.Helper()
	ld, err := loader.New(dev, ds, o)
	if err != nil {
		return 0, err
	}
	n = ld.Stats().DeviceBuffers
	within(t, "Close", ld.Close)
	return n, nil
}

// What an error says would fit, fits, and no more than that does: while
// another pool holds a part of the device, and when a budget is less than it
// has.
func TestBatchError(t *testing.T) {
	dev := open(t, "host:16MiB")
	leavesNothing(t, dev)
	pool, err := vram.New(dev, vram.Options{})
	testkit.OK(t, err)
	defer pool.Close()
	if _, err := pool.Alloc(t.Context(), 9<<20, vram.Use{}); err != nil {
		t.Fatal(err)
	}
	free := freeBytes(t, dev)
	for _, ds := range kinds() {
		for _, budget := range []int64{0, 3_500_000} {
			o := loader.Options{Batch: 390, DeviceBudget: budget, Pin: loader.PinNever, Prefetch: 1}
			_, err := loader.New(dev, ds, o)
			testkit.WantError(t, ds.spec.String(), err, device.ErrOutOfMemory)
			var e *loader.BatchError
			if !errors.As(err, &e) {
				t.Fatalf("%v", err)
			}
			have := free
			if budget > 0 {
				have = budget
			}
			if e.Batch != 390 || e.FreeBytes != have || e.Budget != (budget > 0) || e.Buffers != 3 || e.NeedBytes <= have || e.Device != "host:16MiB" {
				t.Errorf("%+v", e)
			}
			for _, c := range []struct {
				batch, want int // buffers
			}{{e.Fits, 1}, {e.Fits + 1, 0}, {e.FitsAll, 3}, {e.FitsAll + 1, 2}} {
				o.Batch = c.batch
				if n, err := buffers(t, dev, ds, o); n != c.want || (err == nil) != (n > 0) {
					t.Errorf("%v, %d bytes: a batch of %d has %d buffers, want %d (%v)", ds.spec, have, c.batch, n, c.want, err)
				}
			}
			if now := freeBytes(t, dev); now != free {
				t.Fatalf("%d bytes are free after loaders that failed, %d before", now, free)
			}
		}
	}
}

func TestBatchErrorText(t *testing.T) {
	e := loader.BatchError{Device: "cuda:0", Batch: 32, NeedBytes: 19 << 20, FreeBytes: 15 << 20, Fits: 24, FitsAll: 8, Buffers: 3, Err: errSample}
	check := func(want string) {
		t.Helper()
		if got := e.Error(); got != "loader: out of device memory: one batch of 32 samples needs 19 MiB on cuda:0, where 15 MiB are "+want {
			t.Error(got)
		}
	}
	check("free: 24 fit, or 8 with all 3 device buffers")
	e.FitsAll = 0
	check("free: 24 fit")
	e.Fits = 1
	check("free: 1 fits")
	e.Fits, e.Budget = 0, true
	check("allowed by DeviceBudget: not even one sample fits")
	if !errors.Is(&e, device.ErrOutOfMemory) || !errors.Is(&e, errSample) {
		t.Error("it does not wrap what it is")
	}
	e.Err = nil
	if !errors.Is(&e, device.ErrOutOfMemory) {
		t.Error("it does not wrap what it is")
	}
}

// AutoBatch fills the device but for a sixteenth, is the same with the same
// room, and gives the batches that its size gives.
func TestAutoBatch(t *testing.T) {
	dev := open(t, "host:16MiB")
	leavesNothing(t, dev)
	pool, err := vram.New(dev, vram.Options{})
	testkit.OK(t, err)
	defer pool.Close()
	o := loader.Options{Batch: loader.AutoBatch, Pin: loader.PinNever}
	for _, ds := range kinds() {
		alone := auto(t, dev, ds, o)
		block, err := pool.Alloc(t.Context(), 7<<20, vram.Use{})
		testkit.OK(t, err)
		pressed := auto(t, dev, ds, o)
		if again := auto(t, dev, ds, o); again.Batch != pressed.Batch {
			t.Errorf("a batch of %d, then of %d", pressed.Batch, again.Batch)
		}
		if pressed.Batch >= alone.Batch || pressed.DeviceBuffers != 3 || !strings.HasPrefix(pressed.BatchWhy, "3 device buffers of it fit into the ") {
			t.Errorf("%v: alone %d, pressed %d (%s) with %d buffers", ds.spec, alone.Batch, pressed.Batch, pressed.BatchWhy, pressed.DeviceBuffers)
		}
		// It is the largest: of one more sample, three would leave less.
		free := freeBytes(t, dev)
		each := pressed.DeviceBytes / 3 / int64(pressed.Batch)
		if left := free - pressed.DeviceBytes; left < free/16 || left-3*(each+64)-3*2*4096 > free/16 {
			t.Errorf("%v: %d of %d bytes are left, want a sixteenth", ds.spec, left, free)
		}
		ld := start(t, dev, ds, o)
		list, err := drain(t, dev, ld)
		testkit.OK(t, err)
		fixed := o
		fixed.Batch = pressed.Batch
		ref := newReference(t, ds)
		compare(t, ds.spec.String(), list, ref.batches(fixed, ref.inOrder(1)))
		within(t, "Close", ld.Close)
		testkit.OK(t, block.Free())
		_, err = pool.Trim()
		testkit.OK(t, err)
	}
}

// auto is what a loader with AutoBatch says of itself.
func auto(t testing.TB, dev device.Device, ds dataset.Dataset, o loader.Options) loader.Stats {
	t.Helper()
	ld, err := loader.New(dev, ds, o)
	testkit.OK(t, err)
	s := ld.Stats()
	within(t, "Close", ld.Close)
	if s.Batch < 1 || s.BatchWhy == "" || s.Shape[0] > s.Batch {
		t.Errorf("%+v", s)
	}
	return s
}

// What else keeps AutoBatch small.
func TestAutoBatchLimits(t *testing.T) {
	dev := open(t, "host:64MiB")
	leavesNothing(t, dev)
	tiny := open(t, "host:1MiB")
	ds := table(50, dtype.U8, 20_000)
	five, err := sampler.NewSequential(5)
	testkit.OK(t, err)
	thousand, err := sampler.NewRandomWithReplacement(50, 1000, 1)
	testkit.OK(t, err)
	for _, c := range []struct {
		name string
		o    loader.Options
		want int
		why  string
		also device.Device
	}{
		{"epoch", loader.Options{}, 50, "an epoch has no more samples", nil},
		{"sampler", loader.Options{Sampler: five}, 5, "an epoch has no more samples", nil},
		{"drop last", loader.Options{DropLast: true}, 50, "an epoch has no more samples", nil},
		{"budget", loader.Options{DeviceBudget: 1_500_000, DeviceBuffers: 2}, 37, "2 device buffers of it fit into the 1.43 MiB of DeviceBudget", nil},
		{"pin budget", loader.Options{PinBudget: 100_000, DeviceBuffers: 1}, 4, "97.7 KiB of PinBudget", nil},
		{"the same device twice", loader.Options{DeviceBuffers: 8, Sampler: thousand}, 196, "8 device buffers of it fit into the 64 MiB free on host:64MiB", dev},
		{"the smaller device", loader.Options{DeviceBuffers: 1}, 49, "free on host:1MiB, less a sixteenth", tiny},
	} {
		c.o.Batch = loader.AutoBatch
		devices := []device.Device{dev}
		if c.also != nil {
			devices = append(devices, c.also)
		}
		ld, err := loader.NewOn(devices, ds, c.o)
		testkit.OK(t, err)
		if s := ld.Stats(); s.Batch != c.want || !strings.Contains(s.BatchWhy, c.why) {
			t.Errorf("%s: %d because %q, want %d because %q", c.name, s.Batch, s.BatchWhy, c.want, c.why)
		}
		within(t, "Close", ld.Close)
	}
	// A stream ends somewhere, and nobody knows where.
	if s := auto(t, tiny, stream0(10), loader.Options{Batch: loader.AutoBatch}); !strings.Contains(s.BatchWhy, "free on host:1MiB") {
		t.Errorf("%d because %q", s.Batch, s.BatchWhy)
	}
}

// AutoBatch that cannot be is refused.
func TestAutoBatchRefused(t *testing.T) {
	dev := open(t, "host:1MiB")
	leavesNothing(t, dev)
	ds := table(50, dtype.U8, 20_000)
	batches, err := sampler.NewByLength(make([]int, 50), sampler.ByLengthOptions{Size: 4})
	testkit.OK(t, err)
	refuses(t, dev, ds, loader.Options{Batch: loader.AutoBatch, Batches: batches}, device.ErrArgument, "sizes of their own")
	refuses(t, dev, ds, loader.Options{Batch: loader.AutoBatch, World: 2}, device.ErrArgument, "each of 2 ranks")
	large := table(5, dtype.U8, 2<<20)
	refuses(t, dev, large, loader.Options{Batch: loader.AutoBatch}, device.ErrOutOfMemory, "one batch of 1 sample needs 2.00 MiB on host:1MiB, where 1 MiB are free: not even one sample fits")
	refuses(t, dev, ds, loader.Options{Batch: loader.AutoBatch, DeviceBudget: 20_000}, device.ErrOutOfMemory, "19.5 KiB are allowed by DeviceBudget: not even one")
	for budget, buffers := range map[int64]int{25_000: 1, 50_000: 2, 75_000: 3} {
		if s := auto(t, dev, ds, loader.Options{Batch: loader.AutoBatch, DeviceBudget: budget}); s.Batch != 1 || s.DeviceBuffers != buffers {
			t.Errorf("%d bytes: a batch of %d in %d buffers, want %d", budget, s.Batch, s.DeviceBuffers, buffers)
		}
	}
}

// A loader that resumes has the batches of the state, whatever room there is.
func TestAutoBatchResumes(t *testing.T) {
	dev := open(t, "host:1MiB")
	leavesNothing(t, dev)
	ds := table(50, dtype.U8, 20_000)
	o := loader.Options{Batch: loader.AutoBatch}
	ld := start(t, dev, ds, o)
	was := ld.Stats().Batch
	b, err := next(t, ld)
	testkit.OK(t, err)
	testkit.OK(t, b.Release())
	state := ld.State()
	within(t, "Close", ld.Close)

	roomy := open(t, "host:64MiB")
	o.Resume = &state
	ld = start(t, roomy, ds, o)
	if s := ld.Stats(); s.Batch != was || s.BatchWhy != "" {
		t.Errorf("a batch of %d (%s), was %d", s.Batch, s.BatchWhy, was)
	}
	if b, err = next(t, ld); err != nil || b.Indexes[0] != was {
		t.Errorf("%v, %v; want to begin with sample %d", b, err, was)
	}
	testkit.OK(t, b.Release())
}

// A budget bounds the buffers that are made later, too.
func TestDeviceBudget(t *testing.T) {
	dev := open(t, "host:16MiB")
	leavesNothing(t, dev)
	ds := table(50, dtype.U8, 20_000)
	ld := start(t, dev, ds, loader.Options{Batch: 2, DeviceBuffers: 1, MaxDeviceBuffers: 9, DeviceBudget: 150_000})
	var held []*loader.Batch
	for range 3 { // of 44 KiB each
		b, err := next(t, ld)
		testkit.OK(t, err)
		held = append(held, b)
	}
	_, err := next(t, ld)
	says(t, err, loader.ErrHeld, "DeviceBudget is 146 KiB")
	for _, b := range held {
		testkit.OK(t, b.Release())
	}
}
