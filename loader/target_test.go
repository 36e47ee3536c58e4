package loader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// boxes are targets of n samples: from 0 to 4 rows of two numbers.
func boxes(n int) *fake {
	f := raggedTable(n, 4, func(i int) int { return i * 3 % 5 })
	f.prefix = "boxes/"
	return f
}

// masks are targets of n samples: bytes of 64x64 each.
func masks(n int) *fake {
	f := images(n, 64, 64, 1)
	f.prefix = "masks/"
	return f
}

// skewed is n samples of which few are long: one in the place of another makes
// its batch wider.
func skewed(n int) *fake {
	return raggedTable(n, 40, func(i int) int {
		if i%8 == 3 {
			return 40 - i%5
		}
		return i % 3
	})
}

// Whatever is left out or replaced, in samples that differ in length or do not:
// each sample has its own targets, and no others are left out than those that
// cannot be read.
func TestTargetsOfBadSamples(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 4 + rng.IntN(30)
		ds := table(n, dtype.I16, 3)
		if rng.IntN(2) == 0 {
			ds = skewed(n)
		}
		o := loader.Options{Batch: 1 + rng.IntN(8), Workers: 1 + rng.IntN(4), Epochs: 2, Shuffle: rng.IntN(2) == 0, Seed: seed, Unordered: rng.IntN(3) == 0}
		for range 1 + rng.IntN(4) {
			o.Targets = append(o.Targets, randomTarget(rng, n))
		}
		if rng.IntN(2) == 0 {
			o.Targets[0] = skewed(n)
		}
		ref := newReference(t, ds, o.Targets...) // before anything is bad
		bad := map[int]bool{}
		for _, f := range append([]dataset.Dataset{ds}, o.Targets...) {
			f := f.(*fake)
			f.fail, f.panics = map[int]bool{rng.IntN(n): true}, map[int]bool{rng.IntN(n): true}
			maps.Copy(bad, f.fail)
			maps.Copy(bad, f.panics)
		}
		if len(bad) > n/2 {
			continue // replacing gives up in the end
		}
		for _, o.OnError = range []loader.ErrorPolicy{loader.Skip, loader.Replace} {
			what := fmt.Sprintf("seed %d, %+v", seed, o)
			list, err := run(t, dev, ds, o)
			testkit.OK(t, err)
			var want []got
			seen := make([]int, n)
			samples := 0
			for i, g := range list {
				list[i] = ref.narrow(t, g)
				want = append(want, ref.batch(o, g.epoch, g.number, g.indexes))
				for _, i := range g.indexes {
					seen[i]++
					samples++
				}
			}
			compare(t, what, list, want)
			for i, times := range seen {
				switch {
				case bad[i] && times > 0:
					t.Fatalf("%s: sample %d is there", what, i)
				case !bad[i] && (times < 2 || o.OnError == loader.Skip && times > 2):
					t.Fatalf("%s: sample %d came %d times in 2 epochs", what, i, times)
				}
			}
			if o.OnError == loader.Replace && samples != 2*n {
				t.Fatalf("%s: %d samples, want %d", what, samples, 2*n)
			}
		}
	}
}

// An error names the target that it befell, whether that fails, panics, or
// takes too long.
func TestTargetErrors(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(12, dtype.U8, 3)
	for _, limit := range []time.Duration{0, testkit.Hang} {
		bad := masks(12)
		bad.fail, bad.panics = map[int]bool{5: true}, map[int]bool{7: true}
		var asked []string
		o := loader.Options{Batch: 4, Targets: []dataset.Dataset{boxes(12), bad}, SampleTimeout: limit}
		o.Decide = func(err *loader.SampleError) loader.ErrorPolicy {
			first, _, _ := strings.Cut(err.Error(), "\n")
			asked = append(asked, fmt.Sprint(err.Index, " ", err.Name, " | ", first))
			return loader.Skip
		}
		_, err := run(t, dev, ds, o)
		testkit.OK(t, err)
		want := []string{
			"5 masks/fake-005 | loader: sample 5: target 1: masks/fake-005: cannot read this one",
			"7 masks/fake-007 | loader: sample 7: masks/fake-007: target 1: in the dataset: panic: reader lost its head over 7",
		}
		if !slices.Equal(asked, want) {
			t.Errorf("asked about %q, want %q", asked, want)
		}
	}

	gate := make(chan struct{})
	defer close(gate)
	stuck := &slow{fake: masks(12), gate: gate}
	ref := newReference(t, ds, stuck.fake)
	ref.samples[6] = nil
	patiently(t, 100*time.Millisecond, []int{6}, func(limit time.Duration, l late) func() {
		o := loader.Options{Batch: 4, Targets: []dataset.Dataset{stuck}, SampleTimeout: limit, Decide: l.decide(loader.Fail)}
		_, failed := run(t, dev, ds, o)
		o.Decide = l.decide(loader.Skip)
		list, err := run(t, dev, ds, o)
		testkit.OK(t, err)
		return func() {
			says(t, failed, loader.ErrTimeout, "sample 6: masks/fake-006: target 0")
			compare(t, "behind what was stuck", list, ref.batches(o, ref.inOrder(1)))
		}
	})

	// The sample itself takes too long, of a reader that has read targets before.
	photos := &slow{fake: images(12, 4, 4, 1), gate: gate}
	patiently(t, 100*time.Millisecond, []int{6}, func(limit time.Duration, l late) func() {
		_, err := run(t, dev, photos, loader.Options{
			Batch: 4, Workers: 1, Targets: []dataset.Dataset{masks(12)}, SampleTimeout: limit, Decide: l.decide(loader.Fail),
		})
		return func() { says(t, err, loader.ErrTimeout, "sample 6: fake-006: sample timed out") }
	})
}

// A sample whose target turns out longer than was said is not put in the place
// of another, and the error names the target.
func TestTargetTooLong(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds, box := table(12, dtype.U8, 3), boxes(12)
	ref := newReference(t, ds, masks(12), box, masks(12))
	ds.fail = map[int]bool{0: true}
	said := box.length
	box.length = func(i int) int {
		if i >= 4 {
			return 1000 // and there is room for 4
		}
		return said(i)
	}
	tooLong := 0
	o := loader.Options{Batch: 4, Targets: []dataset.Dataset{masks(12), box, masks(12)}}
	o.Decide = func(err *loader.SampleError) loader.ErrorPolicy {
		if err.Index >= 4 {
			testkit.WantError(t, "the longer one", err, loader.ErrTooLong)
			if want := fmt.Sprintf("boxes/fake-%03d", err.Index); err.Name != want || !strings.Contains(err.Error(), "target 1: ") {
				t.Errorf("%v, of %s, want %s", err, err.Name, want)
			}
			tooLong++
		}
		return loader.Replace
	}
	list, err := run(t, dev, ds, o)
	says(t, err, device.ErrArgument, "target 1: bad argument: sample 4 (boxes/fake-004) has length 1000")
	if tooLong == 0 || len(list) != 1 {
		t.Fatalf("%d samples were too long, %d batches", tooLong, len(list))
	}
	g := ref.narrow(t, list[0])
	compare(t, "what took its place", []got{g}, []got{ref.batch(o, 0, 0, g.indexes)})
}

// What cannot be targets is told, with the numbers, and no reader stays open.
func TestBadTargets(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(12, dtype.U8, 3)
	ragged := boxes(12)
	ragged.length = func(i int) int { return i }
	for _, c := range []struct {
		target dataset.Dataset
		part   string
	}{
		{nil, "target 1: "}, {masks(11), "target 1: "}, {masks(13), "13 samples, the dataset has 12"}, {table(12, dtype.U8, 0), "12 samples of 0 bytes"},
		{table(12, dtype.U8, 1<<62), "a batch of 12 samples"}, {struct{ dataset.Dataset }{boxes(12)}, "does not say how long each is"},
	} {
		refuses(t, dev, ds, loader.Options{Targets: []dataset.Dataset{masks(12), c.target}}, device.ErrArgument, c.part)
	}
	// Each by itself could be counted.
	refuses(t, dev, ds, loader.Options{Targets: slices.Repeat([]dataset.Dataset{table(12, dtype.U8, 1<<55)}, 20)}, device.ErrArgument, "a batch of 12 samples")
	_, err := run(t, dev, ds, loader.Options{Targets: []dataset.Dataset{ragged}})
	says(t, err, device.ErrArgument, "target 0: bad argument: sample 5 (boxes/fake-005) has length 5, but the longest is declared as 4")
	for _, limit := range []time.Duration{0, testkit.Hang} {
		closed, panics, before := masks(12), masks(12), masks(12)
		closed.noReader, panics.panicOpen = errSample, true
		_, err = run(t, dev, ds, loader.Options{Targets: []dataset.Dataset{before, closed}, OnError: loader.Skip, SampleTimeout: limit})
		says(t, err, errSample, "no reader: target 1")
		_, err = run(t, dev, ds, loader.Options{Targets: []dataset.Dataset{before, panics}, SampleTimeout: limit})
		if err == nil || !strings.Contains(err.Error(), "no reader today") {
			t.Error(err)
		}
		if n, m := ds.readers.Load(), before.readers.Load(); n != 0 || m != 0 {
			t.Errorf("%d readers of the dataset and %d of a target are still open", n, m)
		}
	}
}

// Targets are part of slabs and device buffers: they are pinned, staged and
// counted with them.
func TestTargetsDiscrete(t *testing.T) {
	const n = 19
	ds, mask, box := large(), unsteady(images(n, 256, 250, 1)), boxes(n)
	ref := newReference(t, ds, mask, box)
	o := loader.Options{Batch: 8, Workers: 2, Epochs: 2, Prefetch: 2, DeviceBuffers: 2, DType: dtype.U8, Targets: []dataset.Dataset{mask, box}}
	want := ref.batches(o, ref.inOrder(2))
	for _, o.Pin = range []loader.Pinning{loader.PinAlways, loader.PinNever} {
		dev := newDiscrete(t, 64<<20)
		leavesNothing(t, dev)
		ld := start(t, dev, ds, o)
		list, err := drain(t, dev, ld)
		testkit.OK(t, err)
		compare(t, "discrete", list, want)
		s := ld.Stats()
		full := int64(copied(ds.spec, 8, gotTarget{data: make([]byte, 8*mask.spec.Bytes())}, gotTarget{data: make([]byte, 8*box.spec.Bytes()), onDevice: make([]byte, 32)}))
		var sent int64
		for _, g := range want {
			sent += int64(copied(ds.spec, len(g.indexes), g.targets...))
		}
		if s.HostBytes != 3*full || s.DeviceBytes != 2*(full+8*int64(ds.spec.Bytes())) || s.BytesToDevice != sent {
			t.Errorf("%d bytes of slabs, %d of buffers, %d sent, want %d, %d and %d", s.HostBytes, s.DeviceBytes, s.BytesToDevice, 3*full, 2*(full+8*int64(ds.spec.Bytes())), sent)
		}
		if staged := s.StagingBytes > 0; staged != (o.Pin == loader.PinNever) {
			t.Errorf("%d bytes of staging", s.StagingBytes)
		}
	}

	// A budget of two slabs, and a device with room for one buffer.
	dev := newDiscrete(t, 5<<20)
	o.Pin, o.PinBudget = loader.PinAlways, 5<<20
	ld := start(t, dev, ds, o)
	list, err := drain(t, dev, ld)
	testkit.OK(t, err)
	compare(t, "little memory", list, want)
	if s := ld.Stats(); s.Slabs != 2 || s.DeviceBuffers != 1 {
		t.Errorf("%d slabs and %d buffers, want 2 and 1", s.Slabs, s.DeviceBuffers)
	}
}

// What goes with images is not overwritten by a staged copy while the caller's
// work is queued on it.
func TestStagingAfterTargets(t *testing.T) {
	dev := newDiscrete(t, 64<<20)
	leavesNothing(t, dev)
	ds, mask := unsteady(images(12, 400, 400, 3)), images(12, 64, 64, 1)
	o := loader.Options{Batch: 4, DeviceBuffers: 1, Pin: loader.PinNever, Copiers: 2, DType: dtype.U8, Epochs: 2, Targets: []dataset.Dataset{mask}}
	ref := newReference(t, ds, mask)
	want := ref.batches(o, ref.inOrder(2))
	ld := start(t, dev, ds, o)
	b, err := next(t, ld)
	testkit.OK(t, err)
	s := stream(t, dev)
	open := hold(t, dev, s)
	back, labels := make([]byte, b.Targets[0].Bytes), make([]byte, 16)
	testkit.OK(t, s.CopyD2H(back, b.Targets[0].Data))
	testkit.OK(t, s.CopyD2H(labels, b.DeviceLabels))
	testkit.OK(t, b.Release(s))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if b, err := ld.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Next while work on the last batch is queued: %v, %v", b, err)
	}
	open()
	testkit.OK(t, s.Synchronize())
	if !bytes.Equal(back, want[0].targets[0].data) {
		t.Error("the targets were overwritten before the stream was done with them")
	}
	if want := []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0}; !bytes.Equal(labels, want) {
		t.Errorf("labels % x, want % x", labels, want)
	}
	list, err := drain(t, dev, ld)
	testkit.OK(t, err)
	compare(t, "the batches behind", list, want[1:])
	if ld.Stats().StagingBytes == 0 {
		t.Error("nothing was staged")
	}
}

// Each device has the targets of its batches.
func TestTargetsOnSeveralDevices(t *testing.T) {
	devices := several(t)
	leavesNothing(t, devices[1])
	ds, targets := unsteady(images(50, 4, 4, 3)), []dataset.Dataset{masks(50), boxes(50)}
	targets[0].(*fake).fail = map[int]bool{8: true, 9: true, 10: true, 11: true, 30: true}
	ref := newReference(t, ds, targets...)
	o := loader.Options{Batch: 4, Epochs: 2, DType: dtype.U8, OnError: loader.Skip, Workers: 4, Targets: targets}
	ld, err := loader.NewOn(devices, ds, o)
	testkit.OK(t, err)
	var list []got
	for b, err := range ld.All(t.Context()) {
		testkit.OK(t, err)
		s, err := b.Device.NewStream()
		testkit.OK(t, err)
		list = append(list, use(t, s, b))
		testkit.OK(t, b.Release(s))
		testkit.OK(t, s.Close())
	}
	for i := range list {
		list[i] = ref.narrow(t, list[i])
	}
	compare(t, "several devices", list, ref.batches(o, ref.inOrder(2)))
	within(t, "Close", ld.Close)
}

// Where the device decodes the pictures, workers read the targets, with the same
// keys, also those of pictures that it refuses, and of what replaces a sample.
func TestTargetsDecodeOnDevice(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	leavesNothing(t, dev)
	ds, err := photos.Open(t.Context(), mixedFolder(t), photos.Options{Transform: imaging.RandomResizedCrop(24).WithFlip(0.5)})
	testkit.OK(t, err)
	n := ds.Len()
	bad := boxes(n)
	crop := imaging.RandomResizedCrop(9).WithFlip(0.5)
	drawn := masksOf(t, ds, crop, -1)
	corners := make([]float32, 4*n)
	for i := range corners {
		corners[i] = float32(10 + 10*(i%4))
	}
	one, err := dataset.NewMemoryOf(corners, []int{4}, dataset.MemoryOptions{})
	testkit.OK(t, err)
	moved, err := photos.NewBoxes(one, crop, photos.BoxOptions{})
	testkit.OK(t, err)
	ref := newReference(t, table(n, dtype.U8, 1), masks(n), bad)
	bad.fail = map[int]bool{2: true, 7: true}
	for _, refused := range []int{0, 1, 2} {
		for _, policy := range []loader.ErrorPolicy{loader.Skip, loader.Replace} {
			o := loader.Options{Batch: 5, Epochs: 2, OnError: policy, Decode: loader.DecodeCPU, Targets: []dataset.Dataset{masks(n), bad, drawn, moved}}
			want, err := run(t, dev, ds, o)
			testkit.OK(t, err)
			calls := 0
			s := &loader.StandIn{Engine: 7, Refuses: func(w, h int) bool { calls++; return refused > 0 && calls%3 < refused }}
			loader.UseStandIn(t, s)
			o.Decode = loader.DecodeGPU
			list, err := run(t, dev, ds, o)
			testkit.OK(t, err)
			if s.Decoded == 0 {
				t.Fatal("the device decoded nothing")
			}
			compare(t, "on the device", list, want)
			for i, g := range list {
				list[i].data, list[i].shape, list[i].dtype, list[i].labels = nil, nil, 0, nil
				list[i].targets = g.targets[:2]
				list[i] = ref.narrow(t, list[i])
				want[i] = ref.batch(o, g.epoch, g.number, g.indexes)
				want[i].data, want[i].shape, want[i].dtype, want[i].labels = nil, nil, 0, nil
			}
			compare(t, "targets", list, want)
		}
	}
}

// A mask that is not as large as its photo is an error of the sample, wherever
// the photo is decoded.
func TestMaskOfAnotherSize(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	leavesNothing(t, dev)
	crop := imaging.RandomResizedCrop(24)
	ds, err := photos.Open(t.Context(), mixedFolder(t), photos.Options{Transform: crop})
	testkit.OK(t, err)
	for _, place := range []loader.DecodePlace{loader.DecodeCPU, loader.DecodeGPU} {
		for _, bad := range []int{0, 7, 16} { // a photo, a PNG, and a photo that is turned
			s := &loader.StandIn{Engine: 7}
			loader.UseStandIn(t, s)
			o := loader.Options{Batch: 4, Decode: place, Targets: []dataset.Dataset{masksOf(t, ds, crop, bad)}}
			_, err := run(t, dev, ds, o)
			testkit.WantError(t, fmt.Sprint("mask ", bad), err, dataset.ErrMismatch)
			if text := fmt.Sprint(err); !strings.Contains(text, fmt.Sprintf("mask-%03d.png", bad)) {
				t.Errorf("mask %d: %v", bad, err)
			}
			o.OnError = loader.Skip
			if place == loader.DecodeCPU {
				o.SampleTimeout = testkit.Hang
			}
			ld := start(t, dev, ds, o)
			_, err = drain(t, dev, ld)
			testkit.OK(t, err)
			within(t, "Close", ld.Close)
			if n := ld.Stats().Errors; n != 1 {
				t.Errorf("mask %d: %d errors", bad, n)
			}
		}
	}
}

// So it is where photo and mask are one sample.
func TestMaskBesidePhoto(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:64MiB")
	leavesNothing(t, dev)
	crop := imaging.RandomResizedCrop(24)
	ds, err := photos.Open(t.Context(), mixedFolder(t), photos.Options{Transform: crop})
	testkit.OK(t, err)
	both, err := dataset.NewZip(ds, masksOf(t, ds, crop, 7))
	testkit.OK(t, err)
	_, err = run(t, dev, both, loader.Options{Batch: 4})
	says(t, err, dataset.ErrMismatch, "mask-007.png")
}

// Another set of targets is another dataset to a state.
func TestTargetsInState(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(20, dtype.U8, 3)
	o := loader.Options{Batch: 4, Shuffle: true, Targets: []dataset.Dataset{masks(20), boxes(20)}}
	all, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	ld := start(t, dev, ds, o)
	take(t, ld, 2)
	state := ld.State()
	within(t, "Close", ld.Close)
	o.Resume = &state
	list, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	compare(t, "resumed", list, all[2:])
	other := masks(20)
	other.prefix = "other"
	for _, targets := range [][]dataset.Dataset{nil, {masks(20)}, {boxes(20), masks(20)}, {other, boxes(20)}, {masks(20), boxes(20), boxes(20)}} {
		o.Targets = targets
		refuses(t, dev, ds, o, loader.ErrState, "targets")
	}
}

// Close in the middle of reading targets ends everything, and whichever call of
// the driver fails before, nothing is left behind.
func TestTargetsClose(t *testing.T) {
	for _, pin := range []loader.Pinning{loader.PinAlways, loader.PinNever} {
		dev := newDiscrete(t, 64<<20)
		leavesNothing(t, dev)
		ds, mask := images(40, 64, 64, 3), unsteady(masks(40))
		o := loader.Options{Batch: 8, Pin: pin, PinBudget: 1 << 20, Epochs: 1000, Targets: []dataset.Dataset{mask, boxes(40)}}
		for at := 1; ; at++ {
			dev.calls, dev.failAt = 0, at
			ld, err := loader.New(dev, ds, o)
			if err == nil {
				within(t, "Close", ld.Close)
				break
			}
			testkit.WantError(t, fmt.Sprintf("call %d", at), err, errInjected)
		}
		dev.failAt = 0
		for taken := range 4 {
			ld := start(t, dev, ds, o)
			var last *loader.Batch
			for range taken {
				b, err := next(t, ld)
				testkit.OK(t, err)
				testkit.OK(t, b.Retain())
				testkit.OK(t, b.Release())
				if last != nil {
					testkit.OK(t, last.Release())
				}
				last = b
			}
			within(t, "Close", ld.Close)
			if last != nil {
				testkit.OK(t, last.Release())
			}
			if n, m := ds.readers.Load(), mask.readers.Load(); n != 0 || m != 0 {
				t.Errorf("%d readers of the dataset and %d of a target are still open", n, m)
			}
		}
	}
}

// A sample is left out of a batch; then the device refuses a picture of it that
// the CPU cannot decode either, and the target of what replaces that is longer
// than all: the targets behind it make way.
func TestLongerTargetAfterRefused(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	leavesNothing(t, dev)
	const n = 12
	dir := t.TempDir()
	for i := range n {
		write := jpegFile
		if i == 6 {
			write = damagedFile
		}
		write(t, dir, fmt.Sprintf("%02d.jpg", i), 40+i, 40)
	}
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(16)})
	testkit.OK(t, err)
	targets := []dataset.Dataset{skewed(n), masks(n), boxes(n)}
	ref := newReference(t, table(n, dtype.U8, 1), targets...)
	targets[1].(*fake).fail = map[int]bool{5: true}
	longer := 0
	for seed := range uint64(40) {
		loader.UseStandIn(t, &loader.StandIn{Engine: 7, Refuses: func(w, h int) bool { return w == 46 }})
		o := loader.Options{Batch: 4, Seed: seed, Decode: loader.DecodeGPU, Targets: targets}
		o.Decide = func(err *loader.SampleError) loader.ErrorPolicy {
			if err.Index == 5 {
				return loader.Skip
			}
			return loader.Replace
		}
		list, err := run(t, dev, ds, o)
		testkit.OK(t, err)
		for i, g := range list {
			if g.number == 1 && g.targets[0].shape[1] > 4 {
				longer++
			}
			g.data, g.shape, g.dtype, g.labels = nil, nil, 0, nil
			g = ref.narrow(t, g)
			want := ref.batch(o, g.epoch, g.number, g.indexes)
			want.data, want.shape, want.dtype, want.labels = nil, nil, 0, nil
			compare(t, fmt.Sprintf("seed %d, batch %d", seed, i), []got{g}, []got{want})
		}
	}
	if longer == 0 {
		t.Error("no batch had to grow")
	}
}
