package loader_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// jpegFile writes a grey picture, and returns the file.
func jpegFile(t testing.TB, dir, name string, w, h int) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, w, h))
	for k := range m.Pix {
		m.Pix[k] = byte(k*7 + w)
	}
	var file bytes.Buffer
	testkit.OK(t, jpeg.Encode(&file, m, nil))
	testkit.OK(t, os.WriteFile(filepath.Join(dir, name), file.Bytes(), 0o644))
	return file.Bytes()
}

// damagedFile writes a picture that ends soon behind its header.
func damagedFile(t testing.TB, dir, name string, w, h int) []byte {
	t.Helper()
	file := jpegFile(t, dir, name, w, h)
	n := bytes.Index(file, []byte{0xFF, 0xDA}) + 70 // a part of the scan
	file = append(file[:n:n], 0xFF, 0xD9)
	testkit.OK(t, os.WriteFile(filepath.Join(dir, name), file, 0o644))
	return file
}

// A sample that is left out takes no other with it, where the device refuses a
// picture of its batch.
func TestSkipThenRefused(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	dir := t.TempDir()
	jpegFile(t, dir, "a.jpg", 40, 40)
	testkit.OK(t, os.WriteFile(filepath.Join(dir, "b.jpg"), []byte("no picture"), 0o644))
	jpegFile(t, dir, "c.jpg", 41, 40)
	jpegFile(t, dir, "d.jpg", 42, 40)
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(16)})
	testkit.OK(t, err)
	o := loader.Options{Batch: 4, OnError: loader.Skip, Decode: loader.DecodeCPU}
	want, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	s := &loader.StandIn{Engine: 7, Refuses: func(w, h int) bool { return w == 42 }}
	loader.UseStandIn(t, s)
	o.Decode = loader.DecodeGPU
	ld := start(t, dev, ds, o)
	list, err := drain(t, dev, ld)
	testkit.OK(t, err)
	compare(t, "skip", list, want)
	if n := ld.Stats().Errors; n != 1 {
		t.Errorf("%d errors, want 1", n)
	}
}

// panicking is pictures that a worker cannot decode without a panic.
type panicking struct{ *photos.Images }

type panickingReader struct{ dataset.EncodedReader }

func (p panicking) NewEncodedReader() (dataset.EncodedReader, error) {
	r, err := p.Images.NewEncodedReader()
	return panickingReader{r}, err
}

func (panickingReader) Decode(context.Context, dataset.Visit, []byte, []byte) error {
	panic("no such picture")
}

// A panic about a picture that the device refuses is an error of the sample.
func TestPanicAfterRefusal(t *testing.T) {
	dev := open(t, "host:256MiB")
	dir := t.TempDir()
	for i := range 4 {
		jpegFile(t, dir, fmt.Sprintf("%d.jpg", i), 40+i, 40)
	}
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(16)})
	testkit.OK(t, err)
	loader.UseStandIn(t, &loader.StandIn{Engine: 7, Refuses: func(w, h int) bool { return w == 42 }})
	ld := start(t, dev, panicking{ds}, loader.Options{Batch: 4, OnError: loader.Skip, Decode: loader.DecodeGPU})
	list, err := drain(t, dev, ld)
	testkit.OK(t, err)
	if len(list) != 1 || !slices.Equal(list[0].indexes, []int{0, 1, 3}) || ld.Stats().Errors != 1 {
		t.Errorf("%v, %d errors", list, ld.Stats().Errors)
	}
	within(t, "Close", ld.Close)
}

// Where nothing can be decoded anywhere, replacing ends with an error.
func TestReplaceRefused(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	dir := t.TempDir()
	for i := range 4 {
		damagedFile(t, dir, fmt.Sprintf("%d.jpg", i), 40, 40)
	}
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(16)})
	testkit.OK(t, err)
	o := loader.Options{Batch: 4, OnError: loader.Replace, Decode: loader.DecodeCPU}
	_, want := run(t, dev, ds, o)
	s := &loader.StandIn{Engine: 7, Refuses: func(w, h int) bool { return true }}
	loader.UseStandIn(t, s)
	o.Decode = loader.DecodeGPU
	_, err = run(t, dev, ds, o)
	if want == nil || err == nil || err.Error() != want.Error() {
		t.Errorf("%v, want %v", err, want)
	}
}

// What the device still does about a batch when it refuses a picture does not
// get into what is made of the rest.
func TestLabelsAfterRefusal(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	dir := t.TempDir()
	for i, w := range []int{40, 42, 41, 41} {
		write := jpegFile
		if w == 42 {
			write = damagedFile
		}
		write(t, dir, fmt.Sprintf("%d.jpg", i), w, 40)
	}
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(16)})
	testkit.OK(t, err)
	loader.SetRoom(t, 6<<10, 6<<10)
	loader.UseStandIn(t, &loader.StandIn{Engine: 7, Refuses: func(w, h int) bool { return w == 42 },
		Before: func() { time.Sleep(5 * time.Millisecond) }})
	ld := start(t, dev, ds, loader.Options{Batch: 4, OnError: loader.Skip, Decode: loader.DecodeGPU})
	b, err := next(t, ld)
	testkit.OK(t, err)
	s := stream(t, dev)
	labels := make([]byte, 12)
	testkit.OK(t, s.CopyD2H(labels, b.DeviceLabels))
	testkit.OK(t, s.Synchronize())
	if want := make([]byte, 12); !bytes.Equal(labels, want) {
		t.Errorf("labels % x, want % x", labels, want)
	}
}

// sameOnDevice wants the batches of the device to be those of the workers.
func sameOnDevice(t testing.TB, dev device.Device, ds dataset.Dataset) {
	t.Helper()
	o := loader.Options{Batch: 4, OnError: loader.Skip, Decode: loader.DecodeCPU}
	want, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	loader.UseStandIn(t, &loader.StandIn{Engine: 7})
	o.Decode = loader.DecodeGPU
	list, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	compare(t, "on the device", list, want)
}

// Pictures that are scaled to more than the device makes are for the CPU.
func TestDecodeNarrow(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	dir := t.TempDir()
	jpegFile(t, dir, "a.jpg", 40, 40)
	jpegFile(t, dir, "b.jpg", 6000, 1)
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(16)})
	testkit.OK(t, err)
	sameOnDevice(t, dev, ds)
}

// What the dataset finds too large is so on the device too.
func TestDecodeMaxPixels(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	dir := t.TempDir()
	jpegFile(t, dir, "a.jpg", 40, 40)
	jpegFile(t, dir, "b.jpg", 600, 600)
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(16), Decode: imaging.Options{MaxPixels: 10000}})
	testkit.OK(t, err)
	sameOnDevice(t, dev, ds)
}

// Where there is no room for a sample that a worker made, workers decode.
func TestDecodeLargeSamples(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	ds, err := photos.Open(t.Context(), mixedFolder(t), photos.Options{Transform: imaging.CenterCrop(64)})
	testkit.OK(t, err)
	loader.SetRoom(t, 1<<10, 1<<10)
	loader.UseStandIn(t, &loader.StandIn{Engine: 7})
	ld := start(t, dev, ds, loader.Options{Batch: 2})
	list, err := drain(t, dev, ld)
	testkit.OK(t, err)
	if len(list) != 9 || ld.Stats().DecodeDevice {
		t.Errorf("%d batches, want 9; %+v", len(list), ld.Stats())
	}
}
