package loader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// A sample that cannot be read ends the loader behind the batches before its
// own, with an error that names it, again and again.
func TestFail(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for _, workers := range []int{1, 4} {
		for _, bad := range []int{0, 9, 13, 19} {
			ds := table(20, dtype.F32, 3)
			ds.fail = map[int]bool{bad: true, 19: true}
			unsteady(ds)
			ref := newReference(t, ds)
			o := loader.Options{Batch: 4, Workers: workers, Epochs: 2}
			ld := start(t, dev, ds, o)
			list, err := drain(t, dev, ld)
			what := fmt.Sprintf("sample %d, %d workers", bad, workers)
			testkit.WantError(t, what, err, errSample)
			if err == nil || !strings.Contains(err.Error(), ds.Name(bad)) {
				t.Errorf("%s: the error does not name it: %v", what, err)
			}
			compare(t, what, list, ref.batches(o, ref.inOrder(1))[:bad/4])
			if _, again := next(t, ld); again == nil || again.Error() != err.Error() {
				t.Errorf("%s: Next said %v, then %v", what, err, again)
			}
			if s := ld.Stats(); s.Batches != int64(bad/4) || s.Errors != 0 {
				t.Errorf("%s: %+v", what, s)
			}
			within(t, "Close", ld.Close)
			_, err = next(t, ld)
			testkit.WantError(t, "Next after Close", err, device.ErrClosed)
		}
	}
}

// With Skip bad samples are left out, told in order and counted; a batch
// without any good ones is not delivered at all.
func TestSkip(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := unsteady(images(14, 3, 4, 3))
	ds.fail = map[int]bool{0: true, 5: true, 8: true, 10: true, 13: true}
	ds.panics = map[int]bool{9: true, 11: true}
	ref := newReference(t, ds)
	for _, workers := range []int{1, 3} {
		var told []string
		o := loader.Options{Batch: 4, Workers: workers, Epochs: 2, DType: dtype.BF16,
			Decide: func(err *loader.SampleError) loader.ErrorPolicy { told = append(told, err.Error()); return loader.Skip }}
		ld := start(t, dev, ds, o)
		list, err := drain(t, dev, ld)
		testkit.OK(t, err)
		compare(t, "what is left", list, ref.batches(o, ref.inOrder(2)))
		if n := len(list); n != 6 {
			t.Errorf("%d batches, want 3 an epoch", n)
		}
		s := ld.Stats()
		within(t, "Close", ld.Close)
		bad := []int{0, 5, 8, 9, 10, 11, 13}
		if s.Errors != 14 || len(told) != 14 || s.Samples != 14 {
			t.Fatalf("%d errors counted, %d told, %d samples, want 14 each", s.Errors, len(told), s.Samples)
		}
		for i, text := range told {
			if name := ds.Name(bad[i%7]); !strings.Contains(text, name) {
				t.Errorf("skip %d is %.80q, want %s", i, text, name)
			}
		}
	}
}

// A panic of the dataset's code is an error that names the sample and tells
// the panic.
func TestPanic(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(6, dtype.F32, 3)
	ds.panics = map[int]bool{4: true}
	list, err := run(t, dev, ds, loader.Options{Batch: 2, Workers: 2})
	if len(list) != 2 || err == nil {
		t.Fatalf("%d batches and %v, want 2 and an error", len(list), err)
	}
	for _, part := range []string{ds.Name(4), "panic", "reader lost its head over 4"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
	if strings.Contains(fmt.Sprint(err), "\n") || !strings.Contains(fmt.Sprintf("%+v", err), "fakeReader.Read") {
		t.Errorf("not one line, or no stack:\n%v\n%+v", err, err)
	}
}

// A reader that cannot be made is no bad sample: the loader fails whatever
// the policy.
func TestNoReader(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	cause := errors.New("no more files can be opened")
	for _, policy := range []loader.ErrorPolicy{loader.Fail, loader.Skip} {
		ds := table(6, dtype.F32, 3)
		ds.noReader = cause
		ld, err := loader.New(dev, ds, loader.Options{Batch: 2, Workers: 3, OnError: policy})
		if err == nil {
			_, err = drain(t, dev, ld)
			within(t, "Close", ld.Close)
		}
		testkit.WantError(t, fmt.Sprintf("policy %d", policy), err, cause)
	}
}

// Options out of range are told by New.
func TestBadOptions(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	rgb, rows := images(8, 4, 4, 3), table(8, dtype.F32, 3)
	for _, c := range []struct {
		name string
		ds   *fake
		o    loader.Options
	}{
		{"Batch", rows, loader.Options{Batch: -2}},
		{"Workers", rows, loader.Options{Workers: -1}},
		{"Prefetch", rows, loader.Options{Prefetch: -1}},
		{"DeviceBuffers", rows, loader.Options{DeviceBuffers: -2}},
		{"DeviceBudget", rows, loader.Options{DeviceBudget: -1}},
		{"Epochs", rows, loader.Options{Epochs: -1}},
		{"f64", rgb, loader.Options{DType: dtype.F64}},
		{"dtype(200)", rgb, loader.Options{DType: 200}},
		{"dtype(200)", rows, loader.Options{DType: 200}},
		{"i64", table(8, dtype.I64, 3), loader.Options{DType: dtype.F32}},
		{"i64", rows, loader.Options{DType: dtype.I64}},
		{"0 samples", table(0, dtype.F32, 3), loader.Options{}},
		{"0 bytes", table(8, dtype.F32, 0), loader.Options{}},
		{"0 bytes", table(8, 0, 3), loader.Options{}},
		{"batch of", table(8, dtype.F32, math.MaxInt/64), loader.Options{}},
		{"Mean", rgb, loader.Options{Mean: []float64{0.5}}},
		{"Std", rgb, loader.Options{Std: []float64{1, 2, 3, 4}}},
		{"deviation", rgb, loader.Options{Mean: []float64{0, 0, 0}, Std: []float64{1, 0, 1}}},
		{"mean", rgb, loader.Options{Mean: []float64{0, math.NaN(), 0}}},
	} {
		refuses(t, dev, c.ds, c.o, device.ErrArgument, c.name)
	}
}

// Numbers far beyond use neither panic nor hang: the loader takes what it can
// use, or says that it cannot.
func TestHugeOptions(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(5, dtype.U8, 3)
	ref := newReference(t, ds)
	for _, o := range []loader.Options{
		{Batch: math.MaxInt},
		{Workers: math.MaxInt},
		{Prefetch: math.MaxInt},
		{Epochs: math.MaxInt, Batch: 5},
	} {
		what := fmt.Sprintf("%+v", o)
		ld, err := newWithoutPanic(dev, ds, o)
		if err != nil {
			testkit.WantError(t, what, err, device.ErrArgument)
			continue
		}
		b, err := next(t, ld)
		testkit.OK(t, err)
		if want := ref.batches(loader.Options{}, ref.inOrder(1)); !slices.Equal(b.Indexes, want[0].indexes) {
			t.Errorf("%s: the first batch has %v", what, b.Indexes)
		}
		testkit.OK(t, b.Release())
		within(t, "Close", ld.Close)
	}
}

func newWithoutPanic(dev device.Device, ds *fake, o loader.Options) (ld *loader.Loader, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return loader.New(dev, ds, o)
}

// The end stays the end.
func TestEOF(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ld := start(t, dev, table(5, dtype.U8, 3), loader.Options{})
	_, err := drain(t, dev, ld)
	testkit.OK(t, err)
	for range 3 {
		if _, err := next(t, ld); err != io.EOF {
			t.Fatalf("behind the end: %v, want io.EOF", err)
		}
	}
}

// nameless is a dataset whose errors do not say which sample they are about.
type nameless struct{ *fake }

func (n nameless) NewReader() (dataset.Reader, error) {
	r, err := n.fake.NewReader()
	return namelessReader{r}, err
}

type namelessReader struct{ dataset.Reader }

func (r namelessReader) Read(ctx context.Context, v dataset.Visit, dst []byte) error {
	if r.Reader.Read(ctx, v, dst) != nil {
		return errSample
	}
	return nil
}

// An error names its sample and the target of it, once, whether the dataset did
// so or not.
func TestErrorNamesTheSample(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(8, dtype.U8, 3)
	ds.fail = map[int]bool{5: true}
	target := table(8, dtype.U8, 2)
	target.fail, target.prefix = map[int]bool{5: true}, "mask of "
	for _, c := range []struct {
		ds     dataset.Dataset
		target dataset.Dataset
		name   string
	}{
		{ds, nil, "fake-005"},
		{nameless{ds}, nil, "fake-005"},
		{table(8, dtype.U8, 3), target, "mask of fake-005"},
		{table(8, dtype.U8, 3), nameless{target}, "mask of fake-005"},
	} {
		o := loader.Options{Batch: 4}
		if c.target != nil {
			o.Targets = []dataset.Dataset{c.target}
		}
		_, err := run(t, dev, c.ds, o)
		testkit.WantError(t, c.name, err, errSample)
		if text := fmt.Sprint(err); strings.Count(text, c.name) != 1 || !strings.Contains(text, "sample 5") {
			t.Errorf("%q is not there once: %s", c.name, text)
		}
	}
}

// Every sample that was left out or replaced is listed once, up to as many as
// asked for.
func TestUnread(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(400, dtype.U8, 3)
	ds.fail = map[int]bool{}
	for i := 1; i < 400; i += 2 {
		ds.fail[i] = true
	}
	for keep, want := range map[int]int{0: 100, 7: 7, -1: 200} {
		for _, policy := range []loader.ErrorPolicy{loader.Skip, loader.Replace} {
			ld := start(t, dev, ds, loader.Options{Batch: 16, Epochs: 2, OnError: policy, KeepErrors: keep})
			_, err := drain(t, dev, ld)
			testkit.OK(t, err)
			list := ld.Unread()
			if len(list) != want {
				t.Errorf("%d samples are listed with KeepErrors %d, want %d", len(list), keep, want)
			}
			known := map[int]bool{}
			for _, e := range list {
				if known[e.Index] || !ds.fail[e.Index] || e.Name != ds.Name(e.Index) || !errors.Is(e, errSample) {
					t.Errorf("%v", e)
				}
				known[e.Index] = true
			}
		}
	}
}
