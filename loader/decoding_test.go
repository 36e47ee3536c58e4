package loader_test

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// mixedFolder is a folder of pictures of many sizes and kinds: photos, photos
// that are stored turned, pictures of one colour, PNGs.
func mixedFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) {
		testkit.OK(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
	for i := range 6 {
		photo, err := samplephotos.Photo(i + 1)
		testkit.OK(t, err)
		write(fmt.Sprintf("a%d.jpg", i), photo)
	}
	for i := range 4 {
		m := image.NewRGBA(image.Rect(0, 0, 30+17*i, 90-11*i))
		for k := range m.Pix {
			m.Pix[k] = byte(k*k>>5 + 31*i)
			if k%4 == 3 {
				m.Pix[k] = 255
			}
		}
		var file bytes.Buffer
		testkit.OK(t, png.Encode(&file, m))
		write(fmt.Sprintf("b%d.png", i), file.Bytes())
		file.Reset()
		testkit.OK(t, jpeg.Encode(&file, m, &jpeg.Options{Quality: 95}))
		write(fmt.Sprintf("c%d.jpg", i), file.Bytes())
		// APP1 with the orientation alone, behind the start marker.
		exif := append([]byte{0xFF, 0xE1, 0, 34}, "Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01"...)
		exif = append(exif, 0, byte(3+i), 0, 0, 0, 0, 0, 0)
		write(fmt.Sprintf("d%d.jpg", i), append(append(file.Bytes()[:2:2], exif...), file.Bytes()[2:]...))
	}
	return dir
}

// filesBytes is the size of a few of the files in a folder.
func filesBytes(t testing.TB, dir string) (n int64) {
	t.Helper()
	for _, name := range []string{"a3.jpg", "b0.png", "c3.jpg"} {
		info, err := os.Stat(filepath.Join(dir, name))
		testkit.OK(t, err)
		n += info.Size()
	}
	return n
}

// needTurbo skips where another decoder of the CPU gives other bits.
func needTurbo(t testing.TB) {
	t.Helper()
	if !strings.HasPrefix(imaging.JPEGDecoder(), "libturbojpeg") {
		t.Skip("needs libturbojpeg: " + imaging.JPEGDecoder())
	}
}

// Batches that the device decodes are those that workers decode: for every kind
// of picture, with random crops, in one go and in groups, where the device
// refuses some, in subsets, and after samples that cannot be read.
func TestDecodeOnDevice(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	leavesNothing(t, dev)
	dir := mixedFolder(t)
	for _, transform := range []imaging.Transform{
		imaging.CenterCrop(32), imaging.RandomResizedCrop(24).WithFlip(0.5), imaging.Stretch(20, 30).WithFilter(imaging.Bicubic),
	} {
		all, err := photos.Open(t.Context(), dir, photos.Options{Transform: transform})
		testkit.OK(t, err)
		odd, err := dataset.NewSubset(all, []int{17, 3, 9, 3, 12})
		testkit.OK(t, err)
		both, err := dataset.NewConcat(odd, all, odd)
		testkit.OK(t, err)
		for _, ds := range []dataset.Dataset{all, odd, both} {
			for _, c := range []struct {
				name        string
				first, most int64
				refuses     func(w, h int) bool
			}{
				{"at once", 64 << 20, 64 << 20, nil},
				{"in groups", 1 << 20, 1 << 20, nil},
				{"growing", 1 << 20, 64 << 20, nil},
				{"no room for photos", 50 << 10, 50 << 10, nil},
				{"some refused", 64 << 20, 64 << 20, func(w, _ int) bool { return w%2 == 0 }},
				{"all refused", 2 << 20, 2 << 20, func(int, int) bool { return true }},
			} {
				what := fmt.Sprintf("%v, %d samples, %s", transform, ds.Len(), c.name)
				o := loader.Options{Batch: 7, Epochs: 2, Shuffle: true, Seed: 3, Decode: loader.DecodeCPU, Workers: 3}
				want, err := run(t, dev, ds, o)
				testkit.OK(t, err)
				s := &loader.StandIn{Engine: 7, Refuses: c.refuses}
				loader.UseStandIn(t, s)
				loader.SetRoom(t, c.first, c.most)
				o.Decode = loader.DecodeAuto
				ld := start(t, dev, ds, o)
				list, err := drain(t, dev, ld)
				testkit.OK(t, err)
				compare(t, what, list, want)
				if !ld.Stats().DecodeDevice || s.Decoded == 0 == (c.name != "all refused") {
					t.Errorf("%s: %d pictures were decoded on the device; %+v", what, s.Decoded, ld.Stats())
				}
				if sent := ld.Stats().BytesToDevice; c.refuses == nil && c.most > 1<<20 && sent < filesBytes(t, dir) {
					t.Errorf("%s: %d bytes were sent", what, sent)
				}
				within(t, "Close", ld.Close)
				if !s.Closed {
					t.Errorf("%s: the decoder is still open", what)
				}
			}
		}
	}
}

// A share of the pictures is decoded by workers, the same in every run, and the
// batches are the same.
func TestDecodeShared(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	leavesNothing(t, dev)
	ds, err := photos.Open(t.Context(), mixedFolder(t), photos.Options{Transform: imaging.RandomResizedCrop(24).WithFlip(0.5)})
	testkit.OK(t, err)
	o := loader.Options{Batch: 7, Epochs: 5, Shuffle: true, Seed: 3, Decode: loader.DecodeCPU}
	want, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	o.Decode = loader.DecodeGPU
	decoded := func(share float64, workers int) int {
		t.Helper()
		s := &loader.StandIn{Engine: 7}
		loader.UseStandIn(t, s)
		o.CPUShare, o.Workers = share, workers
		list, err := run(t, dev, ds, o)
		testkit.OK(t, err)
		compare(t, fmt.Sprintf("a share of %v", share), list, want)
		return s.Decoded
	}
	all, half, none := decoded(0, 3), decoded(0.5, 3), decoded(1, 3)
	if none != 0 || half <= all/4 || half >= all*3/4 {
		t.Errorf("the device decodes %d pictures, %d where workers have half of them, %d where they have all", all, half, none)
	}
	if again := decoded(0.5, 1); again != half {
		t.Errorf("with another number of workers the device decodes %d pictures, not %d", again, half)
	}
	for _, share := range []float64{-0.1, 1.1, math.NaN()} {
		o.CPUShare = share
		if _, err := loader.New(dev, ds, o); !errors.Is(err, device.ErrArgument) || !strings.Contains(err.Error(), "CPUShare") {
			t.Errorf("a share of %v: %v", share, err)
		}
	}
}

// Workers that are idle take pictures from a device that is slow, and the batches are
// the same, also where it refuses some and is short of memory.
func TestDecodeAutoShare(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	leavesNothing(t, dev)
	dir := mixedFolder(t)
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.RandomResizedCrop(24).WithFlip(0.5)})
	testkit.OK(t, err)
	o := loader.Options{Batch: 7, Epochs: 6, Shuffle: true, Seed: 3, Decode: loader.DecodeCPU, Workers: 3, Prefetch: 4}
	want, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	for name, s := range map[string]*loader.StandIn{
		"slow":    {},
		"refuses": {Refuses: func(w, _ int) bool { return w%2 == 0 }},
		"short":   {Short: func(batch int) bool { return batch%3 == 1 }},
	} {
		// The device gets on when workers have taken a picture of batches behind.
		var ld *loader.Loader
		made := make(chan struct{})
		s.Engine, s.Before = 7, func() {
			<-made
			for deadline := time.Now().Add(time.Second); ld.Stats().TakenPictures == 0 && time.Now().Before(deadline); {
				time.Sleep(100 * time.Microsecond)
			}
		}
		loader.UseStandIn(t, s)
		o.Decode, o.CPUShare = loader.DecodeGPU, loader.AutoShare
		ld = start(t, dev, ds, o)
		close(made)
		list, err := drain(t, dev, ld)
		testkit.OK(t, err)
		compare(t, name, list, want)
		stats := ld.Stats()
		if stats.TakenPictures == 0 || s.Decoded == 0 {
			t.Errorf("%s: workers took %d pictures, and the device decoded %d", name, stats.TakenPictures, s.Decoded)
		}
		within(t, "Close", ld.Close)
	}
}

// While a batch waits to be delivered, workers leave pictures to the device.
func TestDecodeAutoShareOfASlowProgram(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	leavesNothing(t, dev)
	ds := makePhotos(t, 40, 32)
	s := &loader.StandIn{Engine: 7}
	loader.UseStandIn(t, s)
	ld := start(t, dev, ds, loader.Options{Batch: 4, Epochs: 8, Decode: loader.DecodeGPU, CPUShare: loader.AutoShare, Workers: 3})
	taken := int64(0)
	for n := range 60 { // of 80
		for loader.Finished(ld) < 2 {
			time.Sleep(100 * time.Microsecond)
		}
		if n == 0 {
			taken = ld.Stats().TakenPictures
		}
		b, err := next(t, ld) // one waits still
		testkit.OK(t, err)
		testkit.OK(t, b.Release())
	}
	// Each worker may have had one when the first batch was complete.
	if now := ld.Stats().TakenPictures; now > taken+3 {
		t.Errorf("workers took %d pictures while batches waited", now-taken)
	}
	within(t, "Close", ld.Close)
}

// While the device has no memory for decoding, the CPU decodes, and the batches
// are the same.
func TestDecodeShortOfMemory(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	leavesNothing(t, dev)
	ds := makePhotos(t, 40, 32)
	o := loader.Options{Batch: 7, Epochs: 2, Shuffle: true, Decode: loader.DecodeCPU}
	want, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	o.Decode = loader.DecodeGPU
	for name, short := range map[string]func(int) bool{
		"now and then": func(batch int) bool { return batch%3 == 1 },
		"always":       func(int) bool { return true },
	} {
		s := &loader.StandIn{Engine: 7, Short: short}
		loader.UseStandIn(t, s)
		have, err := run(t, dev, ds, o)
		testkit.OK(t, err)
		compare(t, name, have, want)
		if s.Decoded == 0 != (name == "always") {
			t.Errorf("%s: %d pictures were decoded on the device", name, s.Decoded)
		}
	}
}

// Scratch for decoded pictures leaves memory to others: it does not grow where
// there is little.
func TestDecodeLeavesMemory(t *testing.T) {
	needTurbo(t)
	loader.SetRoom(t, 1<<20, 64<<20)
	s := &loader.StandIn{Engine: 7}
	loader.UseStandIn(t, s)
	ds := makePhotos(t, 40, 32)
	for _, c := range []struct{ held, least, most int64 }{ // free in the end
		{220 << 20, 15 << 20, 34 << 20},
		{1 << 20, 200 << 20, 235 << 20},
	} {
		dev := open(t, "host:256MiB")
		_, err := dev.Alloc(c.held)
		testkit.OK(t, err)
		ld := start(t, dev, ds, loader.Options{Batch: 20, DeviceBuffers: 1, Decode: loader.DecodeGPU})
		if _, err := drain(t, dev, ld); err != nil {
			t.Fatal(err)
		}
		if free := freeBytes(t, dev); free < c.least || free > c.most {
			t.Errorf("%d bytes are free where others hold %d, want %d to %d", free, c.held, c.least, c.most)
		}
		within(t, "Close", ld.Close)
	}
}

// Loaders of one device share its decoder, which is closed with the last of them.
func TestDecodeTogether(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	leavesNothing(t, dev)
	ds := makePhotos(t, 40, 32)
	o := loader.Options{Batch: 7, Epochs: 3, Shuffle: true, Decode: loader.DecodeCPU}
	var want [2][]got
	for i := range want {
		var err error
		o.Seed = uint64(i)
		want[i], err = run(t, dev, ds, o)
		testkit.OK(t, err)
	}
	s := &loader.StandIn{Engine: 7}
	loader.UseStandIn(t, s)
	o.Decode = loader.DecodeGPU
	var loaders [2]*loader.Loader
	for i := range loaders {
		o.Seed = uint64(i)
		loaders[i] = start(t, dev, ds, o)
	}
	var have [2][]got
	var errs [2]error
	var drained sync.WaitGroup
	for i, ld := range loaders {
		drained.Go(func() { have[i], errs[i] = drain(t, dev, ld) })
	}
	drained.Wait()
	for i := range loaders {
		testkit.OK(t, errs[i])
		compare(t, fmt.Sprint("loader ", i), have[i], want[i])
	}
	within(t, "Close", loaders[0].Close)
	if s.Opened != 1 || s.Closed {
		t.Errorf("opened %d times, closed %t, while a loader decodes", s.Opened, s.Closed)
	}
	within(t, "Close", loaders[1].Close)
	if !s.Closed {
		t.Error("the decoder is still open")
	}
	within(t, "Close", start(t, dev, ds, o).Close)
	if s.Opened != 2 || !s.Closed {
		t.Errorf("opened %d times, closed %t, after one more loader", s.Opened, s.Closed)
	}
}

// Files that cannot be decoded by anyone are errors of their samples, also
// those that only the device finds to be bad, and policies apply.
func TestDecodeOnDeviceErrors(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	leavesNothing(t, dev)
	dir := mixedFolder(t)
	photo, err := os.ReadFile(filepath.Join(dir, "a0.jpg"))
	testkit.OK(t, err)
	// Cut short; no picture; and in order but for the bits in the middle.
	testkit.OK(t, os.WriteFile(filepath.Join(dir, "a1.jpg"), photo[:len(photo)/2], 0o644))
	testkit.OK(t, os.WriteFile(filepath.Join(dir, "b1.png"), []byte("no picture"), 0o644))
	broken := slices.Concat(photo[:len(photo)-3000], bytes.Repeat([]byte{0x55}, 2000), photo[len(photo)-1000:])
	testkit.OK(t, os.WriteFile(filepath.Join(dir, "a2.jpg"), broken, 0o644))
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(16)})
	testkit.OK(t, err)
	s := &loader.StandIn{Engine: 1, Refuses: func(w, _ int) bool { return w == 500 }}
	loader.UseStandIn(t, s)
	for _, o := range []loader.Options{{Decode: loader.DecodeCPU}, {Decode: loader.DecodeGPU}, {Decode: loader.DecodeGPU, CPUShare: loader.AutoShare}} {
		place := fmt.Sprint(o.Decode, o.CPUShare)
		o.Batch = 3
		failing := o
		o.OnError = loader.Skip
		ld := start(t, dev, ds, o)
		list, err := drain(t, dev, ld)
		testkit.OK(t, err)
		left := 0
		for _, g := range list {
			left += len(g.indexes)
			if slices.Contains(g.indexes, 1) || slices.Contains(g.indexes, 2) || slices.Contains(g.indexes, 7) {
				t.Errorf("%s: a batch of %v", place, g.indexes)
			}
		}
		if stats := ld.Stats(); stats.Errors != 3 || left != ds.Len()-3 {
			t.Errorf("%s: %d samples, %+v", place, left, stats)
		}
		within(t, "Close", ld.Close)
		_, err = run(t, dev, ds, failing)
		testkit.WantError(t, place, err, dataset.ErrDamaged)
		if err == nil || !strings.Contains(err.Error(), "a1.jpg") {
			t.Error(err)
		}
	}
}

// Where the device cannot decode, auto says why, and asking for it fails.
func TestDecodeElsewhere(t *testing.T) {
	dev := open(t, "host:64MiB")
	leavesNothing(t, dev)
	pictures := makePhotos(t, 3, 16)
	none := &loader.StandIn{}
	for _, c := range []struct {
		part string
		ds   dataset.Dataset
		o    loader.Options
		use  *loader.StandIn
	}{
		{part: "is not a CUDA device", ds: pictures},
		{part: "no JPEG engines", ds: pictures, use: none},
		{part: "gives no files", ds: images(4, 3, 3, 3)},
		{part: "SampleTimeout", ds: pictures, o: loader.Options{SampleTimeout: testkit.Hang}},
		{part: "as asked", ds: pictures, o: loader.Options{Decode: loader.DecodeCPU}},
	} {
		if c.use != nil {
			loader.UseStandIn(t, c.use)
		}
		ld := start(t, dev, c.ds, c.o)
		if s := ld.Stats(); s.DecodeDevice || !strings.Contains(s.DecodeWhy, c.part) {
			t.Errorf("%q: %+v", c.part, s)
		}
		within(t, "Close", ld.Close)
		if c.o.Decode == loader.DecodeCPU || c.use != nil {
			continue
		}
		c.o.Decode = loader.DecodeGPU
		ld, err := loader.New(dev, c.ds, c.o)
		if err == nil {
			within(t, "Close", ld.Close)
		}
		if err == nil || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%q is missing in: %v", c.part, err)
		}
	}
	if !none.Closed {
		t.Error("the decoder that was not used is still open")
	}
}

// With as little device memory as there can be, or a failing call anywhere, a
// loader that decodes leaves nothing behind.
func TestDecodeFailing(t *testing.T) {
	needTurbo(t)
	dev := newDiscrete(t, 64<<20)
	leavesNothing(t, dev)
	loader.UseStandIn(t, &loader.StandIn{Engine: 1})
	loader.SetRoom(t, 1<<20, 1<<20)
	ds := makePhotos(t, 5, 16)
	for at := 1; ; at++ {
		dev.mu.Lock()
		dev.calls, dev.failAt = 0, at
		dev.mu.Unlock()
		ld, err := loader.New(dev, ds, loader.Options{Batch: 2, Decode: loader.DecodeGPU, Pin: loader.PinAlways})
		if err == nil {
			_, err = drain(t, dev.Device, ld)
			within(t, "Close", ld.Close)
		}
		if err == nil {
			if at < 20 {
				t.Errorf("%d calls only", at)
			}
			return
		}
		testkit.WantError(t, fmt.Sprintf("call %d", at), err, errInjected)
		if dev.pinned() != 0 {
			t.Fatalf("call %d: %d bytes are still pinned", at, dev.pinned())
		}
	}
}

var _ device.Device = (*discrete)(nil)
