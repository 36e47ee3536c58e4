package feed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// painted are photos, which take a while to paint.
var painted = sync.OnceValue(func() (list [][]byte) {
	for number := 1; number <= 11; number++ {
		jpeg, err := samplephotos.Photo(number)
		if err != nil {
			panic(err)
		}
		list = append(list, jpeg)
	}
	return list
})

// makePhotos is a folder of n photos, 11 at most; broken ones are cut short.
func makePhotos(t testing.TB, n int, broken ...int) dataset.Dataset {
	t.Helper()
	dir := t.TempDir()
	for i, jpeg := range painted()[:n] {
		for _, b := range broken {
			if b == i {
				jpeg = jpeg[:len(jpeg)/2]
			}
		}
		ok(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.jpg", i)), jpeg, 0o644))
	}
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(20)})
	ok(t, err)
	return ds
}

// ok ends the test if err is not nil.
var ok = testkit.OK

// checksum hashes the photos as bytes in NCHW order: the batches one behind
// the other.
func checksum(t testing.TB, ds dataset.Dataset, epochs int) string {
	t.Helper()
	r, err := ds.NewReader()
	ok(t, err)
	defer r.Close()
	h := sha256.New()
	shape := ds.Spec().Shape
	for range epochs {
		for i := range ds.Len() {
			pixels := make([]byte, ds.Spec().Bytes())
			ok(t, r.Read(t.Context(), dataset.Visit{Index: i}, pixels))
			var planes []byte
			for c := range shape[2] {
				for p := range shape[0] * shape[1] {
					planes = append(planes, pixels[p*shape[2]+c])
				}
			}
			h.Write(planes)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// The checksum is that of the samples in order, whatever the settings.
func TestChecksum(t *testing.T) {
	dev := devicetest.Open(t)
	ds := makePhotos(t, 11)
	want := checksum(t, ds, 2)
	for _, workers := range []int{1, 2, 5} {
		for _, prefetch := range []int{1, 4} {
			for _, pin := range []loader.Pinning{loader.PinAuto, loader.PinNever} {
				o := loader.Options{Batch: 4, Workers: workers, Prefetch: prefetch, Pin: pin, Epochs: 2, DType: dtype.U8}
				report, err := Run(context.Background(), dev, ds, Options{Loader: o, Checksum: true})
				ok(t, err)
				if report.Checksum != want {
					t.Errorf("%+v: %s, want %s", o, report.Checksum, want)
				}
			}
		}
	}

	// Other bytes have another one: of another type, order or samples.
	seen := map[string]bool{want: true}
	for _, o := range []loader.Options{
		{Batch: 4, Epochs: 2},
		{Batch: 4, Epochs: 2, DType: dtype.F16},
		{Batch: 4, Epochs: 1, DType: dtype.U8},
		{Batch: 4, Epochs: 2, DType: dtype.U8, DropLast: true},
		{Batch: 4, Epochs: 2, DType: dtype.U8, Shuffle: true},
		{Batch: 4, Epochs: 2, DType: dtype.U8, Shuffle: true, Seed: 1},
	} {
		report, err := Run(context.Background(), dev, ds, Options{Loader: o, Checksum: true})
		ok(t, err)
		if seen[report.Checksum] {
			t.Errorf("%+v has the checksum of other bytes, %s", o, report.Checksum)
		}
		seen[report.Checksum] = true
	}
}

// The figures of a report agree with each other and with the dataset.
func TestReport(t *testing.T) {
	dev := devicetest.Open(t)
	ds := makePhotos(t, 11, 2, 9)
	var calls []loader.Stats
	report, err := Run(context.Background(), dev, ds, Options{
		Loader:   loader.Options{Batch: 4, Workers: 2, Epochs: 3, DType: dtype.BF16, OnError: loader.Skip},
		Progress: func(s loader.Stats, _, _ int) { calls = append(calls, s) },
	})
	ok(t, err)
	if report.Samples != 27 || report.Batches != 9 || report.Errors != 6 || report.BytesToDevice != 27*(20*20*3+4) || report.Checksum != "" {
		t.Errorf("%+v", report)
	}
	if fmt.Sprint(report.Shape) != "[4 3 20 20]" || report.DType != dtype.BF16 {
		t.Errorf("a full batch is %v %v, want [4 3 20 20] bf16", report.Shape, report.DType)
	}
	var samples int64
	var elapsed time.Duration
	for i, e := range report.Epochs {
		samples += e.Samples
		elapsed += e.Elapsed
		if e.Samples != 9 || e.Elapsed <= 0 || e.HostBytes != report.HostBytes || e.HeapBytes <= 0 || e.DeviceFreeBytes <= 0 {
			t.Errorf("epoch %d: %+v", i, e)
		}
	}
	if len(report.Epochs) != 3 || samples != report.Samples || elapsed > report.Elapsed {
		t.Errorf("%d epochs of %d samples in %v, all of %d in %v", len(report.Epochs), samples, elapsed, report.Samples, report.Elapsed)
	}
	if f := report.DeviceWaitFraction(); f < 0 || f > 1 || report.DeviceWait > report.Elapsed {
		t.Errorf("the device waited %v of %v, a share of %g", report.DeviceWait, report.Elapsed, f)
	}
	if report.Prepared <= 0 {
		t.Errorf("prepared in %v", report.Prepared)
	}
	if len(calls) != 9 {
		t.Fatalf("%d calls of Progress for 9 batches", len(calls))
	}
	for i, s := range calls {
		if s.Batches != int64(i+1) {
			t.Errorf("call %d of Progress after %d batches", i, s.Batches)
		}
	}
}

// A run that is cut short reports what was done until then, gives everything
// back and has no checksum.
func TestCancel(t *testing.T) {
	dev := devicetest.Open(t)
	before, err := dev.Memory()
	ok(t, err)
	ds := makePhotos(t, 5)
	for _, after := range []int{0, 1, 7} {
		ctx, cancel := context.WithCancel(context.Background())
		batches := 0
		if after == 0 {
			cancel()
		}
		report, err := Run(ctx, dev, ds, Options{
			Loader:   loader.Options{Batch: 2, Epochs: 1 << 30},
			Checksum: true,
			Progress: func(loader.Stats, int, int) {
				if batches++; batches == after {
					cancel()
				}
			},
		})
		cancel()
		if !errors.Is(err, context.Canceled) || report == nil {
			t.Fatalf("after %d batches: %v, report %v", after, err, report)
		}
		if report.Batches != int64(after) || report.Checksum != "" || report.Elapsed < 0 {
			t.Errorf("after %d batches: %+v", after, report)
		}
	}
	now, err := dev.Memory()
	ok(t, err)
	if dev.Info().Backend == "host" && now.FreeBytes != before.FreeBytes {
		t.Errorf("%d bytes of the device free before, %d now", before.FreeBytes, now.FreeBytes)
	}
}

// A sample that cannot be read ends the run with its name, and with the report
// of the batches before it.
func TestBadSample(t *testing.T) {
	dev := devicetest.Open(t)
	ds := makePhotos(t, 6, 4)
	report, err := Run(context.Background(), dev, ds, Options{Loader: loader.Options{Batch: 2}, Checksum: true})
	if !errors.Is(err, dataset.ErrDamaged) || !strings.Contains(err.Error(), "004.jpg") {
		t.Errorf("%v", err)
	}
	if report == nil || report.Batches != 2 || report.Samples != 4 || report.Checksum != "" {
		t.Errorf("%+v", report)
	}
	_, err = Run(context.Background(), dev, ds, Options{Loader: loader.Options{Batch: -2}})
	if err == nil {
		t.Error("no error from a batch of -2")
	}
}
