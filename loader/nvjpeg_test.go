package loader_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// everyKind is a folder of pictures of all kinds that can be read, most of them
// for the engines of a GPU, and many not.
func everyKind(t testing.TB) string {
	t.Helper()
	dir := mixedFolder(t)
	for _, pattern := range []string{"*.jpg", "*.webp", "oriented-*.png", "g*.png"} {
		for _, folder := range []string{"../imaging/testdata", "../imaging/nvjpeg/testdata"} {
			names, err := filepath.Glob(filepath.Join(folder, pattern))
			testkit.OK(t, err)
			for _, name := range names {
				content, err := os.ReadFile(name)
				testkit.OK(t, err)
				testkit.OK(t, os.WriteFile(filepath.Join(dir, "e-"+filepath.Base(name)), content, 0o644))
			}
		}
	}
	return dir
}

// steps is the largest difference of two bytes of a sample.
func steps(a, b []byte) (most int) {
	for i := range a {
		most = max(most, int(a[i])-int(b[i]), int(b[i])-int(a[i]))
	}
	return most
}

// decodingDevice is the device that tests run on, with a stand-in for its
// decoder where it runs Go functions. That one leaves photos as wide as refused
// to the workers.
func decodingDevice(t testing.TB, refused int) device.Device {
	t.Helper()
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	if _, is := device.As[device.Caller](dev); is {
		loader.UseStandIn(t, &loader.StandIn{Engine: 1, Refuses: func(w, _ int) bool { return w == refused }})
		return dev
	}
	d, err := nvjpeg.Open(dev, nvjpeg.Options{})
	if errors.Is(err, device.ErrNotSupported) || errors.Is(err, device.ErrUnavailable) {
		t.Skip(err)
	}
	testkit.OK(t, err)
	testkit.OK(t, d.Close())
	return dev
}

// By the decoder of the device itself, where it has one, batches are within a
// step of those that workers decode, whatever kinds of pictures there are, and
// the same where it leaves a picture to them.
func TestDecodeByDevice(t *testing.T) {
	needTurbo(t)
	dev := decodingDevice(t, 0)
	dir := everyKind(t)
	for _, transform := range []imaging.Transform{
		imaging.CenterCrop(32), imaging.RandomResizedCrop(24).WithFlip(0.5), imaging.Stretch(20, 30).WithFilter(imaging.Bicubic),
	} {
		ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: transform})
		testkit.OK(t, err)
		o := loader.Options{Batch: 7, Epochs: 3, Shuffle: true, Seed: 5, DType: dtype.U8, Decode: loader.DecodeGPU}
		byDevice := start(t, dev, ds, o)
		list, err := drain(t, dev, byDevice)
		testkit.OK(t, err)
		within(t, "Close", byDevice.Close)
		o.Decode = loader.DecodeCPU
		want, err := run(t, dev, ds, o)
		testkit.OK(t, err)
		if len(list) != len(want) {
			t.Fatalf("%d batches, want %d", len(list), len(want))
		}
		each := transform.Bytes()
		differ := 0
		for i, g := range list {
			w := want[i]
			if !slices.Equal(g.indexes, w.indexes) || !slices.Equal(g.shape, w.shape) || !slices.Equal(g.labels, w.labels) {
				t.Fatalf("batch %d: %v of %v, want %v of %v", i, g.indexes, g.shape, w.indexes, w.shape)
			}
			for k, index := range g.indexes {
				n := steps(g.data[k*each:][:each], w.data[k*each:][:each])
				if n > 1 {
					t.Errorf("%v: %s is %d steps off", transform, ds.Name(index), n)
				}
				if n == 1 {
					differ++
				}
			}
		}
		if byDevice.Stats().Samples == 0 || stage(byDevice.Stats(), "decode on device") == 0 {
			t.Errorf("nothing was decoded on the device: %+v", byDevice.Stats())
		}
		t.Logf("%v: %d of %d samples differ by a step", transform, differ, 3*ds.Len())
	}
}

// Loaders that decode on one device beside each other make the batches that each
// makes alone.
func TestDecodeByDeviceTogether(t *testing.T) {
	needTurbo(t)
	dev := decodingDevice(t, 0)
	ds, err := photos.Open(t.Context(), everyKind(t), photos.Options{Transform: imaging.CenterCrop(32)})
	testkit.OK(t, err)
	o := loader.Options{Batch: 7, Epochs: 4, Shuffle: true, Decode: loader.DecodeGPU}
	const n = 3
	var want, have [n][]got
	var errs [n]error
	for i := range n {
		o.Seed = uint64(i)
		want[i], err = run(t, dev, ds, o)
		testkit.OK(t, err)
	}
	var drained sync.WaitGroup
	for i := range n {
		o.Seed = uint64(i)
		ld := start(t, dev, ds, o)
		drained.Go(func() { have[i], errs[i] = drain(t, dev, ld) })
	}
	drained.Wait()
	for i := range n {
		testkit.OK(t, errs[i])
		compare(t, fmt.Sprint("loader ", i), have[i], want[i])
	}
}

// Files that are damaged are errors of their samples, and no others, where the
// device decodes. What is wrong inside of a picture it may take for right.
func TestDecodeByDeviceErrors(t *testing.T) {
	needTurbo(t)
	dev := decodingDevice(t, 500)
	dir := everyKind(t)
	photo, err := os.ReadFile(filepath.Join(dir, "a0.jpg"))
	testkit.OK(t, err)
	bad := map[string][]byte{
		"a1.jpg":    photo[:len(photo)/2],
		"b1.png":    []byte("no picture"),
		"c0.jpg":    {},
		"d1.jpg":    photo[:100],
		"e-420.jpg": slices.Concat(photo[:len(photo)-3000], bytes.Repeat([]byte{0xFF}, 2000)),
	}
	for name, content := range bad {
		testkit.OK(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
	const inside = "a2.jpg"
	testkit.OK(t, os.WriteFile(filepath.Join(dir, inside),
		slices.Concat(photo[:len(photo)-3000], bytes.Repeat([]byte{0x55}, 2000), photo[len(photo)-1000:]), 0o644))
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(16)})
	testkit.OK(t, err)
	good, err := run(t, dev, ds, loader.Options{Batch: ds.Len(), DType: dtype.U8, Decode: loader.DecodeCPU, OnError: loader.Skip})
	testkit.OK(t, err)
	each := 16 * 16 * 3
	pixels := map[int][]byte{}
	for k, index := range good[0].indexes {
		pixels[index] = good[0].data[k*each:][:each]
	}

	o := loader.Options{Batch: 5, Epochs: 2, DType: dtype.U8, Decode: loader.DecodeGPU, OnError: loader.Skip}
	ld := start(t, dev, ds, o)
	list, err := drain(t, dev, ld)
	testkit.OK(t, err)
	within(t, "Close", ld.Close)
	seen := map[int]int{}
	for _, g := range list {
		for k, index := range g.indexes {
			name := filepath.Base(ds.Name(index))
			if _, is := bad[name]; is {
				t.Errorf("%s was read", name)
			} else if name != inside {
				if n := steps(g.data[k*each:][:each], pixels[index]); n > 1 {
					t.Errorf("%s is %d steps off", name, n)
				}
			}
			seen[index]++
		}
	}
	for index := range pixels {
		if seen[index] != 2 {
			t.Errorf("%s came %d times", ds.Name(index), seen[index])
		}
	}
	errs := ld.Stats().Errors
	if least := int64(2 * len(bad)); errs < least || errs > least+2 {
		t.Errorf("%d errors, want %d and perhaps those of %s", errs, least, inside)
	}
	t.Log(fmt.Sprint(errs, " errors"))
	_, err = run(t, dev, ds, loader.Options{Batch: 5, Decode: loader.DecodeGPU})
	testkit.WantError(t, "without a policy", err, dataset.ErrDamaged)
}
