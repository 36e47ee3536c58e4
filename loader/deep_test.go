package loader_test

import (
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/sampler"
)

// depthMaps is a folder of n PNGs of 16 bits, of side x side pixels each, and
// what is in them.
func depthMaps(t testing.TB, n, side int) (dir string, content [][]uint16) {
	t.Helper()
	dir = t.TempDir()
	rng := rand.New(rand.NewPCG(71, 72))
	for i := range n {
		m := image.NewGray16(image.Rect(0, 0, side, side))
		for k := range m.Pix {
			m.Pix[k] = byte(rng.Uint32())
		}
		var samples []uint16
		for k := 0; k < len(m.Pix); k += 2 {
			samples = append(samples, binary.BigEndian.Uint16(m.Pix[k:]))
		}
		content = append(content, samples)
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%02d.png", i)))
		testkit.OK(t, err)
		testkit.OK(t, png.Encode(f, m))
		testkit.OK(t, f.Close())
	}
	return dir, content
}

// All 16 bits of a folder of pictures arrive: as floats from 0 to 1, as the mean
// and deviation say, and as they are.
func TestDepthMaps(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	const n, side = 7, 8
	dir, content := depthMaps(t, n, side)
	ds, err := photos.Open(t.Context(), dir, photos.Options{
		Transform: imaging.CenterCrop(side), Decode: imaging.Options{DType: dtype.U16, Channels: 1},
	})
	testkit.OK(t, err)
	for _, o := range []loader.Options{
		{Batch: 3}, {Batch: 3, Mean: []float64{0.25}, Std: []float64{0.125}}, {Batch: 7, DType: dtype.U16},
	} {
		list, err := run(t, dev, ds, o)
		testkit.OK(t, err)
		seen := 0
		for _, g := range list {
			if want := fmt.Sprint([]int{len(g.indexes), 1, side, side}); fmt.Sprint(g.shape) != want {
				t.Fatalf("a batch of shape %v, want %s", g.shape, want)
			}
			size := g.dtype.Size()
			for slot, i := range g.indexes {
				for k, v := range content[i] {
					b := g.data[(slot*side*side+k)*size:]
					if o.DType == dtype.U16 {
						if x := binary.LittleEndian.Uint16(b); x != v {
							t.Fatalf("sample %d has %d, want %d", i, x, v)
						}
						continue
					}
					want := float64(v) / 65535
					if o.Mean != nil {
						want = (want - o.Mean[0]) / o.Std[0]
					}
					if x := float64(math.Float32frombits(binary.LittleEndian.Uint32(b))); math.Abs(x-want) > 1e-6 {
						t.Fatalf("%+v: sample %d has %g, want %g", o, i, x, want)
					}
				}
				seen++
			}
		}
		if seen != n {
			t.Errorf("%d samples, want %d", seen, n)
		}
	}
}

// A state of other pixels of the same files does not fit.
func TestStateOfOtherPixels(t *testing.T) {
	dev := devicetest.Open(t)
	dir, _ := depthMaps(t, 3, 8)
	var states []loader.State
	all := []imaging.Options{{}, {Channels: 1}, {DType: dtype.U16}, {DType: dtype.U16, Channels: 1}}
	open := func(o imaging.Options) *photos.Images {
		ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(8), Decode: o})
		testkit.OK(t, err)
		return ds
	}
	for _, o := range all {
		states = append(states, start(t, dev, open(o), loader.Options{Batch: 1}).State())
	}
	for i, o := range all {
		for k := range states {
			ld, err := loader.New(dev, open(o), loader.Options{Batch: 1, Resume: &states[k]})
			if err == nil {
				within(t, "Close", ld.Close)
			}
			if i == k {
				testkit.OK(t, err)
			} else {
				testkit.WantError(t, fmt.Sprintf("%+v with the state of %+v", o, all[k]), err, loader.ErrState)
			}
		}
	}
}

// Devices decode to RGB bytes alone: others are for the CPU, with the reason.
func TestDecodePlaceOfPixels(t *testing.T) {
	dev := open(t, "host:256MiB")
	dir, _ := depthMaps(t, 3, 8)
	loader.UseStandIn(t, &loader.StandIn{Engine: 7})
	for _, c := range []struct {
		decode imaging.Options
		device bool
		spec   string
	}{
		{imaging.Options{}, true, ""},
		{imaging.Options{Channels: 1}, false, "8x8x1 u8"},
		{imaging.Options{DType: dtype.U16}, false, "8x8x3 u16"},
	} {
		ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(8), Decode: c.decode})
		testkit.OK(t, err)
		s := start(t, dev, ds, loader.Options{Batch: 1}).Stats()
		if s.DecodeDevice != c.device || !strings.Contains(s.DecodeWhy, c.spec) {
			t.Errorf("%+v: on the device %t, because %q", c.decode, s.DecodeDevice, s.DecodeWhy)
		}
		ld, err := loader.New(dev, ds, loader.Options{Batch: 1, Decode: loader.DecodeGPU})
		if c.device {
			testkit.OK(t, err)
			within(t, "Close", ld.Close)
			continue
		}
		says(t, err, device.ErrNotSupported, "a device decodes to 3 channels of u8, and the samples are "+c.spec)
	}
}

// Colours change and images mix on all 16 bits; grey has no colours.
func TestAugmentDeep(t *testing.T) {
	dev := devicetest.Open(t)
	ds := table(8, dtype.U16, 5, 4, 3)
	value := func(i, p, c int) float64 { return element(dtype.U16, ds.sample(i)[2*(3*p+c):]) / 65535 }
	jitter := imaging.Jitter{Brightness: 0.8}
	list, err := run(t, dev, ds, plain01(loader.Options{Batch: 8, Seed: 21, Jitter: jitter}))
	testkit.OK(t, err)
	have := floats(list[0].data)
	for slot, i := range list[0].indexes {
		factor := float64(jitter.Draw(sampler.Key(21, 0, i)).Brightness)
		for k := range 60 {
			if want := min(1, factor*value(i, k%20, k/20)); math.Abs(have[60*slot+k]-want) > 1e-6 {
				t.Fatalf("jitter: sample %d has %g, want %g", i, have[60*slot+k], want)
			}
		}
	}
	ld := start(t, dev, ds, plain01(loader.Options{Batch: 8, Seed: 22, Mixup: 0.4}))
	b, err := next(t, ld)
	testkit.OK(t, err)
	have = floats(use(t, stream(t, dev), b).data)
	for slot, i := range b.Indexes {
		w, partner := float64(b.Mix[slot]), b.Indexes[b.Partner(slot)]
		for k := range 60 {
			want := w*value(i, k%20, k/20) + (1-w)*value(partner, k%20, k/20)
			if math.Abs(have[60*slot+k]-want) > 1e-6 {
				t.Fatalf("mixup: sample %d has %g, want %g", i, have[60*slot+k], want)
			}
		}
	}
	testkit.OK(t, b.Release())
	_, err = loader.New(dev, table(8, dtype.U16, 5, 4, 1), loader.Options{Jitter: jitter})
	testkit.WantError(t, "jitter of grey", err, device.ErrArgument)
	for from, to := range map[dtype.DType]dtype.DType{dtype.U8: dtype.U16, dtype.U16: dtype.U8} {
		_, err = loader.New(dev, table(8, from, 5, 4, 1), loader.Options{DType: to})
		testkit.WantError(t, fmt.Sprintf("%v as %v", from, to), err, device.ErrArgument)
	}
}
