package loader_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/sampler"
)

// take takes the next n batches.
func take(t testing.TB, ld *loader.Loader, n int) (list []got) {
	t.Helper()
	for range n {
		b, err := next(t, ld)
		testkit.OK(t, err)
		list = append(list, got{epoch: b.Epoch, number: b.Number, indexes: b.Indexes})
		testkit.OK(t, b.Release())
	}
	return list
}

// A run that stops anywhere and goes on in another loader, with other settings,
// has the batches of one that did not stop.
func TestResume(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := unsteady(images(23, 5, 4, 3))
	base := loader.Options{Batch: 4, Epochs: 3, Shuffle: true, Seed: 11, DType: dtype.F16}
	want, err := run(t, dev, ds, base)
	testkit.OK(t, err)
	for stop := range len(want) + 1 {
		ld := start(t, dev, ds, base)
		take(t, ld, stop)
		file := filepath.Join(t.TempDir(), "state.json")
		testkit.OK(t, ld.State().WriteFile(file))
		within(t, "Close", ld.Close)

		state, err := loader.ReadState(file)
		testkit.OK(t, err)
		o := base
		o.Resume, o.Workers, o.Prefetch, o.DeviceBuffers = &state, 1+stop%4, 1+stop%3, 1+stop%2
		list, err := run(t, dev, ds, o)
		testkit.OK(t, err)
		compare(t, fmt.Sprintf("behind %d batches", stop), list, want[stop:])
	}
}

// At equal global batch a state is good for another number of ranks.
func TestResumeWithOtherRanks(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(48, dtype.F32, 2)
	base := loader.Options{Epochs: 2, Shuffle: true, Seed: 2}
	one := base
	one.Batch = 12
	ld := start(t, dev, ds, one)
	take(t, ld, 5)
	state := ld.State()
	want := take(t, ld, 3)
	within(t, "Close", ld.Close)
	for rank := range 3 {
		o := base
		o.Resume, o.Batch, o.Rank, o.World = &state, 4, rank, 3
		ld := start(t, dev, ds, o)
		for k, g := range take(t, ld, 3) {
			for at, i := range g.indexes {
				if want[k].indexes[3*at+rank] != i {
					t.Errorf("rank %d, batch %d: %v, of %v", rank, k, g.indexes, want[k].indexes)
				}
			}
		}
		within(t, "Close", ld.Close)
	}
}

// Batches that come in any order come once each, epoch by epoch, also over a
// stop in the middle.
func TestUnordered(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		ds := unsteady(table(40, dtype.F32, 3))
		ref := newReference(t, ds)
		o := loader.Options{Batch: 1 + rng.IntN(7), Workers: 1 + rng.IntN(6), Prefetch: 1 + rng.IntN(6), DeviceBuffers: 1 + rng.IntN(3),
			Epochs: 3, Shuffle: true, Seed: seed, Unordered: true}
		inOrder := o
		inOrder.Unordered = false
		all, err := run(t, dev, ds, inOrder)
		testkit.OK(t, err)
		wanted := map[string]got{}
		for _, g := range ref.batches(o, ordersOf(t, all, ds.n)) {
			wanted[fmt.Sprint(g.epoch, g.number)] = g
		}
		total := len(wanted)
		epoch, stop := 0, rng.IntN(total+1)
		s := stream(t, dev)
		for count := 0; count < total; {
			ld := start(t, dev, ds, o)
			for {
				b, err := next(t, ld)
				if err == io.EOF {
					break
				}
				testkit.OK(t, err)
				g := use(t, s, b)
				testkit.OK(t, b.Release(s))
				name := fmt.Sprint(g.epoch, g.number)
				want, there := wanted[name]
				if !there || g.epoch < epoch {
					t.Fatalf("seed %d: batch %s comes again, or behind epoch %d", seed, name, epoch)
				}
				compare(t, "batch "+name, []got{g}, []got{want})
				delete(wanted, name)
				epoch = g.epoch
				if count++; count == stop {
					break
				}
			}
			state := ld.State()
			o.Resume = &state
			within(t, "Close", ld.Close)
		}
		if len(wanted) != 0 {
			t.Errorf("seed %d: %d batches never came", seed, len(wanted))
		}
	}
}

// A state of something else is refused, and says what differs.
func TestBadStates(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(40, dtype.F32, 3)
	base := loader.Options{Batch: 4, Shuffle: true, Seed: 1, Epochs: 2}
	ld := start(t, dev, ds, base)
	take(t, ld, 3)
	good := ld.State()
	within(t, "Close", ld.Close)
	other := made(sampler.NewRandom(40, 99))(t)
	for _, c := range []struct {
		part   string
		ds     *fake
		o      loader.Options
		change func(s *loader.State)
	}{
		{part: "samples of the dataset: 40", ds: table(41, dtype.F32, 3)},
		{part: "form of a sample: 3 f32", ds: table(40, dtype.F32, 4)},
		{part: "seed: 1", o: loader.Options{Batch: 4, Shuffle: true, Seed: 2, Epochs: 2}},
		{part: "Batch times World: 4 in the state, 8 now", o: loader.Options{Batch: 4, World: 2, Shuffle: true, Seed: 1}},
		{part: "order of samples", o: loader.Options{Batch: 4, Seed: 1}},
		{part: "order of samples", o: loader.Options{Batch: 4, Seed: 1, Sampler: other}},
		{part: "version: 1", change: func(s *loader.State) { s.Version = 1 }},
		{part: "names or labels", change: func(s *loader.State) { s.Dataset = "0123" }},
		{part: "batches of an epoch", change: func(s *loader.State) { s.EpochBatches++ }},
		{part: "batch 11 of epoch 0", change: func(s *loader.State) { s.Batch = 11 }},
		{part: "batch 10 of epoch 0", change: func(s *loader.State) { s.Batch, s.Ahead = 10, [][2]int{{11, 12}} }},
		{part: "1 epochs before epoch 0 were dropped", change: func(s *loader.State) { s.Dropped = 1 }},
		{part: "batch -1", change: func(s *loader.State) { s.Batch = -1 }},
		{part: "epoch -1", change: func(s *loader.State) { s.Epoch = -1 }},
		{part: "ahead of", change: func(s *loader.State) { s.Ahead = [][2]int{{3, 4}} }},
		{part: "behind the 20 batches", change: func(s *loader.State) { s.Epoch = 2; s.Batch = 1 }},
		{part: "behind the 20 batches", change: func(s *loader.State) { s.Epoch = 1 << 62 }},
		{part: "ahead of", change: func(s *loader.State) { s.Ahead = [][2]int{{8, 7}} }},
		{part: "ahead of", change: func(s *loader.State) { s.Ahead = [][2]int{{5, 1 << 40}} }},
	} {
		state, o, ds := good, base, ds
		if c.ds != nil {
			ds = c.ds
		}
		if c.o.Batch != 0 {
			o = c.o
		}
		if c.change != nil {
			c.change(&state)
		}
		o.Resume = &state
		refuses(t, dev, ds, o, loader.ErrState, c.part)
	}
}

// A state belongs to what becomes of pictures, wherever that is said.
func TestStateOfPictures(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	jitter := imaging.Jitter{Hue: 0.25}
	files := makePhotos(t, 6, 16).(*photos.Images).Files
	of := func(transform imaging.Transform) dataset.Dataset {
		ds, err := photos.New(files, photos.Options{Transform: transform})
		testkit.OK(t, err)
		return ds
	}
	flipped := imaging.RandomResizedCrop(12).WithFlip(0.5)
	o := loader.Options{Batch: 2}
	ld := start(t, dev, of(flipped.WithJitter(jitter)), o)
	take(t, ld, 1)
	state := ld.State()
	within(t, "Close", ld.Close)
	o.Resume = &state
	const saved = `"rrc:12,flip:0.5,jitter:0,0,0,0.25" in the state, `
	refuses(t, dev, of(imaging.CenterCrop(12)), o, loader.ErrState, saved+`"center:12" now`)
	refuses(t, dev, of(flipped), o, loader.ErrState, saved+`"rrc:12,flip:0.5" now`)
	mixed := o
	mixed.Jitter, mixed.Mixup = jitter, 0.5
	refuses(t, dev, of(flipped), mixed, loader.ErrState, saved+`"rrc:12,flip:0.5,jitter:0,0,0,0.25,mixup:0.5" now`)
	chain := func(transforms ...imaging.Transform) dataset.Dataset {
		var parts []dataset.Dataset
		for _, transform := range transforms {
			parts = append(parts, of(transform))
		}
		ds, err := dataset.NewConcat(parts...)
		testkit.OK(t, err)
		return ds
	}
	ld = start(t, dev, chain(imaging.CenterCrop(12), imaging.Stretch(12, 12)), loader.Options{Batch: 2})
	differing := ld.State()
	within(t, "Close", ld.Close)
	refuses(t, dev, chain(imaging.CenterCrop(12), flipped), loader.Options{Batch: 2, Resume: &differing}, loader.ErrState,
		`"center:12,stretch:12x12" in the state, "center:12,rrc:12,flip:0.5" now`)
	o.Jitter = jitter
	if list, err := run(t, dev, of(flipped), o); err != nil || len(list) != 2 {
		t.Errorf("%d batches, %v", len(list), err)
	}
}

// What is no state file is told, and reading one is bounded.
func TestBadStateFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"empty": "", "text": "hello", "half": `{"version": 2, "epoch"`, "old": `{"version": 1}`, "list": "[]",
		"large": `{"version": 2, "ahead": [` + strings.Repeat("1,", 1<<20) + "1]}",
	} {
		file := filepath.Join(dir, name)
		testkit.OK(t, os.WriteFile(file, []byte(text), 0o644))
		_, err := loader.ReadState(file)
		testkit.WantError(t, name, err, loader.ErrState)
	}
	_, err := loader.ReadState(dir)
	testkit.WantError(t, "a folder", err, loader.ErrState)
	_, err = loader.ReadState(filepath.Join(dir, "none"))
	testkit.WantError(t, "no file", err, os.ErrNotExist)
	testkit.WantError(t, "a place that is not there", loader.State{}.WriteFile(filepath.Join(dir, "none", "state")), os.ErrNotExist)
}

// A state is small, and text that people can read.
func TestStateIsSmall(t *testing.T) {
	dev := devicetest.Open(t)
	ld := start(t, dev, table(100_000, dtype.U8, 3), loader.Options{Batch: 10, Shuffle: true})
	take(t, ld, 20)
	text, err := json.Marshal(ld.State())
	testkit.OK(t, err)
	if len(text) > 512 {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	for _, part := range []string{`"epoch":0`, `"batch":20`, `"samples":100000`, `"spec":"3 u8"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is missing in %s", part, text)
		}
	}
}
