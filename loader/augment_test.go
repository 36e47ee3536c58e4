package loader_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/sampler"
)

// plain01 makes floats from 0 to 1 of images.
func plain01(o loader.Options) loader.Options {
	o.DType, o.Mean, o.Std = dtype.F32, []float64{0, 0, 0}, []float64{1, 1, 1}
	return o
}

func floats(data []byte) []float64 {
	list := make([]float64, len(data)/4)
	for i := range list {
		list[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
	}
	return list
}

// Colours change as the jitter draws for the visit, whatever the batch; here in
// brightness alone, which is easy to work out.
func TestJitter(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := images(11, 5, 4, 3)
	jitter := imaging.Jitter{Brightness: 0.8}
	for _, o := range []loader.Options{{Batch: 4, Epochs: 2}, {Batch: 11, Shuffle: true, Epochs: 2}, {Batch: 3, Mask: true}} {
		o.Seed, o.Jitter = 21, jitter
		list, err := run(t, dev, ds, plain01(o))
		testkit.OK(t, err)
		for _, g := range list {
			have := floats(g.data)
			for slot, i := range g.indexes {
				factor := float64(jitter.Draw(sampler.Key(21, g.epoch, i)).Brightness)
				sample := ds.sample(i)
				for p := range 20 {
					for c := range 3 {
						want := min(1, factor*float64(sample[3*p+c])/255)
						if x := have[60*slot+20*c+p]; math.Abs(x-want) > 1e-5 {
							t.Fatalf("%+v: sample %d has %g, want %g", o, i, x, want)
						}
					}
				}
			}
		}
	}
}

// The jitter of a dataset's transform is the default.
func TestJitterOfTransform(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	jitter := imaging.Jitter{Brightness: 0.3, Contrast: 0.4, Saturation: 0.5, Hue: 0.1}
	ds := makePhotos(t, 5, 12).(*photos.Images)
	with, err := photos.New(ds.Files, photos.Options{Transform: imaging.CenterCrop(12).WithJitter(jitter)})
	testkit.OK(t, err)
	o := loader.Options{Batch: 5, Seed: 4, Decode: loader.DecodeCPU}
	plain, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	have, err := run(t, dev, with, o)
	testkit.OK(t, err)
	o.Jitter = jitter
	want, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	compare(t, "jitter of the transform", have, want)
	if slices.Equal(have[0].data, plain[0].data) {
		t.Error("the colours are as they were")
	}
}

// It is also that of pictures behind chains whose parts are cropped differently,
// and behind maps. Parts that differ in it are refused unless the loader says.
func TestJitterBehind(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	jitter := imaging.Jitter{Brightness: 0.3, Hue: 0.1}
	files := makePhotos(t, 5, 12).(*photos.Images).Files
	pictures := func(transform imaging.Transform) dataset.Dataset {
		ds, err := photos.New(files, photos.Options{Transform: transform})
		testkit.OK(t, err)
		return ds
	}
	chain := func(parts ...dataset.Dataset) dataset.Dataset {
		ds, err := dataset.NewConcat(parts...)
		testkit.OK(t, err)
		return ds
	}
	crop, stretch := imaging.CenterCrop(12), imaging.Stretch(12, 12)
	same, err := dataset.NewMap(pictures(crop.WithJitter(jitter)), dataset.Spec{Shape: []int{12, 12, 3}, DType: dtype.U8},
		func(_ context.Context, _ dataset.Visit, dst, src []byte) error { copy(dst, src); return nil })
	testkit.OK(t, err)
	o := loader.Options{Batch: 5, Seed: 4, Decode: loader.DecodeCPU}
	for _, c := range []struct {
		what        string
		with, plain dataset.Dataset
	}{
		{"chain", chain(pictures(crop.WithJitter(jitter)), pictures(stretch.WithJitter(jitter))), chain(pictures(crop), pictures(stretch))},
		{"map", same, pictures(crop)},
	} {
		o.Jitter = imaging.Jitter{}
		have, err := run(t, dev, c.with, o)
		testkit.OK(t, err)
		o.Jitter = jitter
		want, err := run(t, dev, c.plain, o)
		testkit.OK(t, err)
		compare(t, c.what, have, want)
	}
	differing := chain(pictures(crop), pictures(crop.WithJitter(jitter)))
	refuses(t, dev, differing, loader.Options{Batch: 5}, device.ErrArgument, "parts of the dataset are jittered by")
	_, err = run(t, dev, differing, loader.Options{Batch: 5, Jitter: jitter})
	testkit.OK(t, err)
}

// Mixed images are what their weights say, weights depend on the visit alone,
// and at equal global batch ranks mix the same pairs.
func TestMixup(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := images(24, 3, 3, 3)
	s := stream(t, dev)
	weights := map[string]float32{}
	partners := map[string]int{}
	check := func(o loader.Options, pairs bool) {
		t.Helper()
		o.Epochs, o.Seed, o.Mixup, o.Shuffle = 2, 8, 0.4, true
		ld := start(t, dev, ds, plain01(o))
		for b, err := range ld.All(t.Context()) {
			testkit.OK(t, err)
			g := use(t, s, b)
			have := floats(g.data)
			var table []byte
			for slot, i := range b.Indexes {
				w := b.Mix[slot]
				table = binary.LittleEndian.AppendUint32(table, math.Float32bits(w))
				name := fmt.Sprint(b.Epoch, i)
				if len(b.Indexes) < o.Batch { // the last one, which is not mixed
					if w != 1 {
						t.Errorf("%+v: a weight of %g in a batch that is not full", o, w)
					}
					continue
				}
				if known, there := weights[name]; there && known != w || !(w >= 0 && w <= 1) {
					t.Fatalf("%+v: sample %s has the weight %g, before %g", o, name, w, known)
				}
				weights[name] = w
				partner := b.Indexes[b.Partner(slot)]
				if known, there := partners[name]; pairs && there && known != partner {
					t.Fatalf("%+v: sample %s is mixed with %d, before with %d", o, name, partner, known)
				}
				partners[name] = partner
				x, y := ds.sample(i), ds.sample(partner)
				for p := range 9 {
					for c := range 3 {
						want := (float64(w)*float64(x[3*p+c]) + (1-float64(w))*float64(y[3*p+c])) / 255
						if v := have[27*slot+9*c+p]; math.Abs(v-want) > 1e-5 {
							t.Fatalf("%+v: sample %s has %g, want %g", o, name, v, want)
						}
					}
				}
			}
			same(t, s, "weights", b.DeviceMix, table)
			testkit.OK(t, b.Release(s))
		}
		within(t, "Close", ld.Close)
	}
	check(loader.Options{Batch: 12}, true)
	for _, world := range []int{2, 3, 6} {
		for rank := range world {
			check(loader.Options{Batch: 12 / world, World: world, Rank: rank}, true)
		}
	}
	check(loader.Options{Batch: 5}, false)
	if len(weights) != 48 {
		t.Errorf("%d visits", len(weights))
	}
	mean, extreme := 0.0, 0
	for _, w := range weights {
		mean += float64(w) / 48
		if w < 0.1 || w > 0.9 {
			extreme++
		}
	}
	if math.Abs(mean-0.5) > 0.2 || extreme < 10 { // Beta(0.4, 0.4) likes the ends
		t.Errorf("the mean weight is %g, %d are extreme", mean, extreme)
	}
}

// However many ranks there are, the same samples are mixed with each other, or
// with none: also in a last batch that is not full, and in one that is filled up
// from the start of the order.
func TestMixupOfRanks(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	pairs := func(n, batch, world int) map[int][2]any {
		known := map[int][2]any{}
		for rank := range world {
			o := plain01(loader.Options{Batch: batch, World: world, Rank: rank, Mixup: 0.4, Shuffle: true, Seed: 5})
			ld := start(t, dev, images(n, 3, 3, 3), o)
			at := 0
			for b, err := range ld.All(t.Context()) {
				testkit.OK(t, err)
				for slot, i := range b.Indexes {
					partner := b.Indexes[b.Partner(slot)]
					if b.Mix[slot] == 1 {
						partner = i
					}
					if at += world; rank+at-world < n { // not one that fills up
						known[i] = [2]any{partner, b.Mix[slot]}
					}
				}
				testkit.OK(t, b.Release())
			}
			within(t, "Close", ld.Close)
		}
		return known
	}
	for _, n := range []int{12, 22, 23, 24, 30, 35, 7} {
		want := pairs(n, 12, 1)
		if len(want) != n {
			t.Fatalf("%d samples of %d", len(want), n)
		}
		for _, world := range []int{2, 3, 6} {
			if got := pairs(n, 12/world, world); !maps.Equal(got, want) {
				t.Errorf("%d samples on %d ranks: %v, want %v", n, world, got, want)
			}
		}
	}
	refuses(t, dev, images(12, 3, 3, 3), loader.Options{Batch: 3, World: 2, Mixup: 0.4}, device.ErrArgument, "with Mixup and 2 ranks Batch has to be even")
}

// Samples without colours are not changed, and impossible ranges are told.
func TestBadAugmentation(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	some := imaging.Jitter{Hue: 0.1}
	for _, c := range []struct {
		part string
		ds   *fake
		o    loader.Options
	}{
		{"no colours", table(4, dtype.F32, 3), loader.Options{Jitter: some}},
		{"no colours", images(4, 3, 3, 1), loader.Options{Jitter: some}},
		{"jitter", images(4, 3, 3, 3), loader.Options{Jitter: imaging.Jitter{Hue: 0.6}}},
		{"only images", table(4, dtype.F32, 3), loader.Options{Mixup: 0.2}},
		{"Mixup is -1", images(4, 3, 3, 3), loader.Options{Mixup: -1}},
		{"Mixup is 5", images(4, 3, 3, 3), loader.Options{Mixup: 5}},
		{"Mixup is NaN", images(4, 3, 3, 3), loader.Options{Mixup: math.NaN()}},
	} {
		refuses(t, dev, c.ds, c.o, device.ErrArgument, c.part)
	}
}
