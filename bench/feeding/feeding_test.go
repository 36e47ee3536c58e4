package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/loader"
)

// painted is a folder of photos for all tests.
var painted string

func TestMain(m *testing.M) {
	tmp, err := os.MkdirTemp("", "feeding-test-")
	if err != nil {
		panic(err)
	}
	painted = filepath.Join(tmp, "photos")
	code := m.Run()
	os.RemoveAll(tmp)
	os.Exit(code)
}

// quick are the options for small sizes on the host backend.
func quick(only string) options {
	return options{Options: harness.Options{Device: "host", Quick: true, Only: only}, photosDir: painted}
}

func measured(t *testing.T, o options) (d document, table string) {
	t.Helper()
	var out, words bytes.Buffer
	if err := run(t.Context(), o, &out, &words); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	return d, words.String()
}

// TestQuick: the document is what readers of it expect, every row is there or
// skipped, and the table has all of them.
func TestQuick(t *testing.T) {
	d, table := measured(t, quick(""))
	have := map[string]bool{}
	for _, s := range d.NotAvailable {
		t.Logf("skipped: %s by %s: %s", s.Name, s.By, s.Reason)
		have[s.Name] = true
	}
	rows := map[string]bool{}
	for _, r := range d.Rows {
		have[r.Name] = true
		if strings.HasPrefix(r.Name, "epoch of") && (r.AtMost == nil || *r.AtMost != 3) {
			t.Errorf("%+v has no target", r)
		}
		if key := r.Name + " by " + r.By; r.By == "" || rows[key] {
			t.Errorf("%q is there twice, or by nobody", key)
		} else {
			rows[key] = true
		}
		counted := r.Unit == "MiB" || r.Unit == "goroutines"
		if r.Value < r.Min || r.Value > r.Max || r.Value < 0 || r.Value == 0 && !counted {
			t.Errorf("%+v", r)
		}
		if !strings.Contains(table, r.Name+"\n") {
			t.Errorf("the table has no %q", r.Name)
		}
	}
	for _, name := range []string{
		"photos to 224-px f32 batches of 8", "photos to 224-px f16 batches of 8", "decode photos",
		"by workers: photos to 224-px f16 batches of 8", "by threads: decode photos",
		"one core: decode photos", "one core: photos to 224-px u8",
		"epoch of 500 x 16 f32 in memory, batches of 50", "loader and first epoch of 500 x 16 f32 in memory, batches of 50",
		"staged copy of ordinary memory", "images in a file to u8 batches of 2", "images in memory to f16 batches of 3",
		"images in a file to f16 batches of 3, of the staged copy",
		"next epoch's first batch of photos, steps of 1ms", "next epoch's first batch of photos, no steps",
		"10 epochs of photos: Go heap", "10 epochs of photos: resident memory", "10 epochs of photos: device memory", "10 epochs of photos: goroutines",
		"photos to 224-px f16 batches of 8, decoded on the device", "decode photos on the device, batches of 8",
	} {
		if !have[name] {
			t.Errorf("no row %q", name)
		}
	}
	if d.Peer != "Pinion" || d.What != "feeding" || d.DeviceName == "" || d.Commit == "" || d.JPEGDecoder == "" || d.Workers < 1 {
		t.Errorf("%+v", d)
	}
}

// TestFullNames: the rows of a whole run have the names that the peers' have.
func TestFullNames(t *testing.T) {
	b := &bench{sizes: fullSizes}
	if got := b.photosTo(dtype.F32); got != "photos to 224-px f32 batches of 64" {
		t.Error(got)
	}
	for _, peer := range []string{"torch_loader.py", "torch_decode.py"} {
		text, err := os.ReadFile(filepath.Join("../peers", peer))
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("BATCH = %d\n", b.batch); !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s has no %q", peer, want)
		}
	}
}

// TestFiles: photos and images are made where they are asked for, and used
// again.
func TestFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	o := quick("gpu,mapped")
	o.photosDir, o.imagesFile = filepath.Join(t.TempDir(), "photos"), filepath.Join(t.TempDir(), "images")
	measured(t, o)
	// With files that are not as they would be made, there is nothing to make.
	if err := os.Truncate(o.imagesFile, 16*256*256*3); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(o.photosDir + "/*/*.jpg")
	if err != nil || len(kept) != quickSizes.photos {
		t.Fatalf("%d photos, %v", len(kept), err)
	}
	if err := os.Remove(kept[0]); err != nil {
		t.Fatal(err)
	}
	measured(t, o)
	if info, err := os.Stat(o.imagesFile); err != nil || info.Size() != 16*256*256*3 {
		t.Errorf("%+v, %v", info, err)
	}
	if now, _ := filepath.Glob(o.photosDir + "/*/*.jpg"); len(now) != len(kept)-1 {
		t.Errorf("%d photos", len(now))
	}
}

func TestOnly(t *testing.T) {
	d, _ := measured(t, quick("memory,next"))
	var names []string
	for _, r := range d.Rows {
		names = append(names, strings.Fields(r.Name)[0])
	}
	if got := strings.Join(names, " "); got != "epoch loader next next" {
		t.Errorf("rows %s", got)
	}
	err := run(t.Context(), quick("memory,gpus"), io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), `"gpus"; there are: cpu, scaling, core, memory, mapped, next-epoch, flat, gpu`) {
		t.Errorf("%v, want one that names the groups", err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, only := range []string{"cpu", "memory", "mapped", "flat"} {
		var out bytes.Buffer
		if err := run(ctx, quick(only), &out, &out); !errors.Is(err, context.Canceled) || out.Len() > 0 {
			t.Errorf("%s: %v, printed %q", only, err, &out)
		}
	}
}

// feedOf is a feed of samples in memory to a host device.
func feedOf(t *testing.T, data []byte, spec dataset.Spec, o loader.Options) feed {
	t.Helper()
	dev, err := device.Open("host")
	if err != nil {
		t.Fatal(err)
	}
	m, err := harness.NewMemory(dev)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(m.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	})
	ds, err := dataset.NewMemory(data, spec, dataset.MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return feed{m: m, ds: ds, options: o}
}

// TestCheckRows: what arrives is compared byte by byte.
func TestCheckRows(t *testing.T) {
	data := bytes.Repeat([]byte{1, 2, 3, 4, 5}, 20)
	f := feedOf(t, data, dataset.Spec{Shape: []int{10}, DType: dtype.U8}, loader.Options{Batch: 3, Shuffle: true})
	if err := f.checkRows(t.Context(), data); err != nil {
		t.Error(err)
	}
	wrong := bytes.Clone(data)
	wrong[99]++
	if err := f.checkRows(t.Context(), wrong); err == nil || !strings.Contains(err.Error(), "sample 9 arrived as another") {
		t.Error(err)
	}
	f.options.DropLast = true
	if err := f.checkRows(t.Context(), data); err == nil || !strings.Contains(err.Error(), "9 samples of 10") {
		t.Error(err)
	}
}

// TestSteady: skipped and timed batches are there, however few an epoch has.
func TestSteady(t *testing.T) {
	f := feedOf(t, make([]byte, 7), dataset.Spec{DType: dtype.U8}, loader.Options{Batch: 3, DropLast: true})
	seconds, err := f.steady(t.Context(), 5, 9)
	if err != nil || seconds <= 0 {
		t.Errorf("%g s, %v", seconds, err)
	}
	f.options.Batch = 8
	if _, err := f.steady(t.Context(), 1, 1); err == nil || !strings.Contains(err.Error(), "7 samples are no batch of 8") {
		t.Error(err)
	}
}

// TestSameImage: an image in the wrong order, with other values, or with none
// does not pass.
func TestSameImage(t *testing.T) {
	want := []byte{0, 100, 200, 10, 110, 210} // two pixels
	right := func(d dtype.DType) (b []byte) {
		for channel := range 3 {
			for pixel := range 2 {
				v := float64(want[3*pixel+channel])
				switch norm := (v/255 - mean[channel]) / std[channel]; d {
				case dtype.U8:
					b = append(b, byte(v))
				case dtype.F16:
					h := float16.ToF16(float32(norm))
					b = append(b, byte(h), byte(h>>8))
				default:
					bits := math.Float32bits(float32(norm))
					b = append(b, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
				}
			}
		}
		return b
	}
	for _, d := range []dtype.DType{dtype.U8, dtype.F16, dtype.F32} {
		got := right(d)
		if err := sameImage(got, want, d, exact(d)); err != nil {
			t.Errorf("%v: %v", d, err)
		}
		for i := 0; i < len(got); i += d.Size() {
			broken := bytes.Clone(got)
			for k := range d.Size() {
				broken[i+k] = 0xff // no number, or another one
			}
			if sameImage(broken, want, d, exact(d)) == nil {
				t.Errorf("%v: value %d is wrong and passes", d, i/d.Size())
			}
		}
		if sameImage(got[d.Size():], want, d, exact(d)) == nil {
			t.Errorf("%v: a short image passes", d)
		}
	}
	if sameImage(want, want, dtype.U8, exact(dtype.U8)) == nil {
		t.Error("HWC passes")
	}
}

func TestShare(t *testing.T) {
	d := new(document)
	s := &sample{Sample: measure.Sample{Row: measure.Row{By: "me"}, Runs: []float64{8, 30, 20}}}
	of := &sample{Sample: measure.Sample{Runs: []float64{1, 10, 5}}}
	d.share("share", s, of, 2, atLeast(180))
	want := measure.Row{Name: "share", By: "me", Unit: "%", Value: 200, Min: 150, Max: 400}
	if len(d.Rows) != 1 || d.Rows[0].Row != want || !d.Rows[0].reached(d.Rows[0].Value) {
		t.Errorf("%+v, want %+v", d.Rows, want)
	}
	of.Runs = nil // it was skipped
	d.share("share", s, of, 2, target{})
	if len(d.Rows) != 1 {
		t.Errorf("%+v", d.Rows)
	}
}

func TestTable(t *testing.T) {
	d := new(document)
	d.figure("rate", "me", "GB/s", 45.678, atLeast(40))
	d.figure("rate", "someone else", "GB/s", 5, target{})
	d.figure("time", "me", "ms", 3.5, atMost(3))
	d.NotAvailable = []harness.NotAvailable{{Name: "more", By: "me", Reason: "not here"}, {Name: "group", Reason: "nor this"}}
	var out strings.Builder
	if err := writeTable(&out, d); err != nil {
		t.Fatal(err)
	}
	const want = `rate
    me            45.68  45.68  45.68  GB/s  >= 40 ok
    someone else      5      5      5  GB/s
time
    me              3.5    3.5    3.5  ms    <= 3 MISSED
not available: more by me: not here
not available: group: nor this
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
}

// TestDevices: with a second device there are rows for one and for both, of
// checked batches.
func TestDevices(t *testing.T) {
	f := feedOf(t, []byte{0}, dataset.Spec{DType: dtype.U8}, loader.Options{})
	other, err := device.Open("host")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	b := &bench{sizes: quickSizes, options: quick(""), dev: f.m.Dev, tmp: t.TempDir(),
		document: &document{Document: harness.NewDocument[row](f.m.Dev, "feeding", 1), Workers: 2}}
	if err := b.onAll(t.Context(), f.m, []device.Device{other}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range b.Rows {
		names = append(names, r.Name)
	}
	want := "on 2 devices: images in a file to u8 batches of 3, of one"
	if len(names) != 9 || names[8] != want || len(b.NotAvailable) != 2 {
		t.Errorf("%q, skipped %+v, want 9 that end with %q", names, b.NotAvailable, want)
	}
}
