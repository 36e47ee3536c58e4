package loader_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// keyed gives the key of the visit, big end first.
type keyed struct{ *fake }

func (d *keyed) NewReader() (dataset.Reader, error) { return keyReader{}, nil }

type keyReader struct{}

func (keyReader) Close() error { return nil }

func (keyReader) Read(_ context.Context, v dataset.Visit, dst []byte) error {
	for i := range 8 {
		dst[i] = byte(v.Key >> (56 - 8*i))
	}
	return nil
}

// With Replace every batch is full, other samples are in the places of those
// that cannot be read, and workers change nothing.
func TestReplace(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(30, dtype.F32, 3)
	ref := newReference(t, ds)
	ds.fail, ds.panics = map[int]bool{}, map[int]bool{7: true}
	for _, i := range []int{0, 3, 4, 5, 11, 29} {
		ds.fail[i] = true
	}
	unsteady(ds)
	var want []got
	for _, workers := range []int{1, 2, 5} {
		o := loader.Options{Batch: 4, Workers: workers, Epochs: 2, OnError: loader.Replace, Seed: 6}
		ld := start(t, dev, ds, o)
		list, err := drain(t, dev, ld)
		testkit.OK(t, err)
		s := ld.Stats()
		within(t, "Close", ld.Close)
		if want == nil {
			var orders [][]int
			for _, g := range list {
				if g.epoch == len(orders) {
					orders = append(orders, nil)
				}
				orders[g.epoch] = append(orders[g.epoch], g.indexes...)
			}
			want = ref.batches(o, orders)
			bad := 0
			for epoch, order := range orders {
				for at, i := range order {
					switch {
					case ds.fail[i] || ds.panics[i]:
						t.Errorf("sample %d is in a batch", i)
					case ds.fail[at] || ds.panics[at]:
						bad++
					case i != at:
						t.Errorf("epoch %d: sample %d in the place of %d", epoch, i, at)
					}
				}
			}
			if bad != 14 || slices.Equal(orders[0], orders[1]) {
				t.Errorf("%d replaced; epochs %v", bad, orders)
			}
		}
		compare(t, fmt.Sprintf("%d workers", workers), list, want)
		if s.Errors != 14 || s.Replaced != 14 || s.Samples != 60 {
			t.Errorf("%+v", s)
		}
	}
}

// Where no sample can be read, replacing ends with an error.
func TestReplaceNothing(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(5, dtype.U8, 3)
	ds.fail = map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true}
	_, err := run(t, dev, ds, loader.Options{OnError: loader.Replace})
	testkit.WantError(t, "nothing can be read", err, errSample)
	if err == nil || !strings.Contains(err.Error(), "in place of sample 0") {
		t.Error(err)
	}
}

// Decide says for each sample what happens, in order, and gets all there is to
// know. A panic in it ends the loader.
func TestDecide(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := unsteady(table(20, dtype.F32, 3))
	ds.fail = map[int]bool{2: true, 9: true, 14: true, 15: true}
	var asked []string
	decide := func(err *loader.SampleError) loader.ErrorPolicy {
		asked = append(asked, fmt.Sprintf("%d %s %d %d %t", err.Index, err.Name, err.Epoch, err.Batch, errors.Is(err, errSample)))
		switch err.Index {
		case 9:
			return loader.Skip
		case 15:
			return loader.Fail
		}
		return loader.Replace
	}
	ld := start(t, dev, ds, loader.Options{Batch: 5, Workers: 3, Decide: decide, Seed: 1})
	list, err := drain(t, dev, ld)
	testkit.WantError(t, "the end", err, errSample)
	if err == nil || !strings.Contains(err.Error(), "sample 15") {
		t.Error(err)
	}
	if len(list) != 3 || len(list[0].indexes) != 5 || len(list[1].indexes) != 4 || len(list[2].indexes) != 5 {
		t.Errorf("%d batches: %v", len(list), list)
	}
	if want := []string{"2 fake-002 0 0 true", "9 fake-009 0 1 true", "14 fake-014 0 2 true", "15 fake-015 0 3 true"}; !slices.Equal(asked, want) {
		t.Errorf("asked about %q, want %q", asked, want)
	}
	within(t, "Close", ld.Close)
	_, err = run(t, dev, ds, loader.Options{Decide: func(*loader.SampleError) loader.ErrorPolicy { panic("no idea") }})
	if err == nil || !strings.Contains(err.Error(), "in Decide: panic: no idea") {
		t.Error(err)
	}
}

// A sample beyond its time limit is one that cannot be read. A reader that
// heeds the context goes on; one that does not is left alone, and harms
// nothing when it comes back.
func TestSampleTimeout(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for _, heeds := range []bool{true, false} {
		patiently(t, 30*time.Millisecond, []int{6, 13}, func(limit time.Duration, l late) func() {
			ds := &slow{fake: table(20, dtype.F32, 3), heeds: heeds, gate: make(chan struct{})}
			defer close(ds.gate)
			o := loader.Options{Batch: 4, Workers: 2, Epochs: 2, Decide: l.decide(loader.Skip), SampleTimeout: limit}
			ld := start(t, dev, ds, o)
			list, err := drain(t, dev, ld)
			testkit.OK(t, err)
			s := ld.Stats()
			within(t, "Close", ld.Close)
			ld = start(t, dev, ds, loader.Options{Decide: l.decide(loader.Fail), SampleTimeout: limit})
			_, err = drain(t, dev, ld)
			within(t, "Close", ld.Close)
			return func() {
				ref := newReference(t, ds.fake)
				ref.samples[6], ref.samples[13] = nil, nil
				compare(t, fmt.Sprintf("heeds %t", heeds), list, ref.batches(o, ref.inOrder(2)))
				if s.Errors != 4 {
					t.Errorf("%+v", s)
				}
				testkit.WantError(t, "too slow", err, loader.ErrTimeout)
				if err == nil || !strings.Contains(err.Error(), "fake-006") || !strings.Contains(err.Error(), limit.String()) {
					t.Error(err)
				}
			}
		})
	}
}

// Where every read is stuck the loader ends, whatever the policy.
func TestStuck(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := &slow{fake: table(200, dtype.F32, 3), gate: make(chan struct{}), all: true}
	defer close(ds.gate)
	ld := start(t, dev, ds, loader.Options{Batch: 10, Workers: 16, OnError: loader.Skip, SampleTimeout: time.Millisecond})
	_, err := drain(t, dev, ld)
	testkit.WantError(t, "stuck", err, loader.ErrTimeout)
	if err == nil || !strings.Contains(err.Error(), "at a time did not return") {
		t.Error(err)
	}
	within(t, "Close", ld.Close)
}

// slow is stuck at samples 6 and 13, or at all of them, until gate is closed,
// or the context ends if it heeds that.
type slow struct {
	*fake
	heeds, all bool
	gate       chan struct{}
}

func (d *slow) NewReader() (dataset.Reader, error) { return slowReader{d}, nil }

type slowReader struct{ d *slow }

func (slowReader) Close() error { return nil }

func (r slowReader) Read(ctx context.Context, v dataset.Visit, dst []byte) error {
	if r.d.all || v.Index == 6 || v.Index == 13 {
		heeded := ctx.Done()
		if !r.d.heeds {
			heeded = nil
		}
		select {
		case <-r.d.gate:
			for i := range dst {
				dst[i] = 0xEE // too late to be seen
			}
		case <-heeded:
			return ctx.Err()
		}
	}
	copy(dst, r.d.sample(v.Index))
	return nil
}

// several are all devices of the backend that tests run on, or three small
// ones where that has one only.
func several(t testing.TB) (list []device.Device) {
	t.Helper()
	kind, _, _ := strings.Cut(os.Getenv("PINION_DEVICE"), ":")
	for _, backend := range device.Backends() {
		if backend.Name != kind {
			continue
		}
		names, err := backend.List()
		testkit.OK(t, err)
		for _, name := range names {
			list = append(list, open(t, name))
		}
	}
	if len(list) < 2 {
		return []device.Device{open(t, "host:1MiB"), open(t, "host:2MiB"), open(t, "host:3MiB")}
	}
	t.Logf("%d devices", len(list))
	return list
}

// Batches go to several devices in turn, in order; each device's own errors
// and limits stay its own.
func TestSeveralDevices(t *testing.T) {
	devices := several(t)
	leavesNothing(t, devices[1])
	ds := unsteady(images(50, 4, 4, 3))
	ds.fail = map[int]bool{8: true, 9: true, 10: true, 11: true, 30: true}
	ref := newReference(t, ds)
	o := loader.Options{Batch: 4, Epochs: 3, DType: dtype.U8, OnError: loader.Skip, Workers: 4}
	want := ref.batches(o, ref.inOrder(3))
	ld, err := loader.NewOn(devices, ds, o)
	testkit.OK(t, err)
	var list []got
	for {
		b, err := next(t, ld)
		if err != nil {
			break
		}
		at := (13*b.Epoch + b.Number) % len(devices)
		if b.Device != devices[at] {
			t.Fatalf("batch %d of epoch %d is not on device %d", b.Number, b.Epoch, at)
		}
		s, err := b.Device.NewStream()
		testkit.OK(t, err)
		list = append(list, use(t, s, b))
		testkit.OK(t, b.Release(s))
		testkit.OK(t, s.Close())
	}
	compare(t, "several devices", list, want)
	within(t, "Close", ld.Close)

	_, err = loader.NewOn(nil, ds, o)
	testkit.WantError(t, "no devices", err, device.ErrArgument)
	_, err = loader.NewOn([]device.Device{devices[0], nil}, ds, o)
	testkit.WantError(t, "a device that is nil", err, device.ErrArgument)
}

// A batch with two holders is given back by the last.
func TestRetain(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(8, dtype.F32, 5)
	ld := start(t, dev, ds, loader.Options{Batch: 2, DeviceBuffers: 1})
	b, err := next(t, ld)
	testkit.OK(t, err)
	testkit.OK(t, b.Retain())
	testkit.OK(t, b.Release())
	_, err = next(t, ld)
	testkit.WantError(t, "Next while it is held", err, loader.ErrHeld)
	testkit.OK(t, b.Release())
	testkit.WantError(t, "Release once more", b.Release(), loader.ErrReleased)
	testkit.WantError(t, "Retain what is given back", b.Retain(), loader.ErrReleased)
	b, err = next(t, ld)
	testkit.OK(t, err)
	testkit.OK(t, b.Release())
}

// Epoch ends with its epoch, also where all of the next cannot be read or the
// epoch itself is empty; All ends with the last.
func TestIterators(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(10, dtype.U8, 3)
	ld := start(t, dev, ds, loader.Options{Batch: 4, Epochs: 4})
	for epoch := range 2 {
		var numbers []int
		for b, err := range ld.Epoch(t.Context()) {
			testkit.OK(t, err)
			if b.Epoch != epoch {
				t.Fatalf("epoch %d, want %d", b.Epoch, epoch)
			}
			numbers = append(numbers, b.Number)
			testkit.OK(t, b.Release())
		}
		if !slices.Equal(numbers, []int{0, 1, 2}) {
			t.Errorf("epoch %d has batches %v", epoch, numbers)
		}
	}
	n := 0
	for b, err := range ld.All(t.Context()) {
		testkit.OK(t, err)
		n++
		testkit.OK(t, b.Release())
		if n == 1 {
			break // the next loop begins with a new epoch, and that is one more
		}
	}
	for b, err := range ld.All(t.Context()) {
		testkit.OK(t, err)
		n++
		testkit.OK(t, b.Release())
	}
	for range ld.Epoch(t.Context()) {
		t.Error("a batch behind the end")
	}
	if n != 7 {
		t.Errorf("%d batches, want 7", n)
	}
	within(t, "Close", ld.Close)
	for _, err := range ld.All(t.Context()) {
		testkit.WantError(t, "All after Close", err, device.ErrClosed)
	}
}

// Epoch waits for nothing of the epoch behind its own: neither for samples that
// are not read yet, nor for a buffer when the caller holds all, nor does it fail
// with it.
func TestEpochWaitsForNoOther(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	epoch := func(ld *loader.Loader, each func(*loader.Batch) error) {
		t.Helper()
		within(t, "Epoch", func() error {
			n := 0
			for b, err := range ld.Epoch(t.Context()) {
				testkit.OK(t, err)
				testkit.OK(t, each(b))
				n++
			}
			if n != 3 {
				t.Errorf("%d batches, want 3", n)
			}
			return nil
		})
	}
	release := func(b *loader.Batch) error { return b.Release() }

	slow := table(6, dtype.U8, 3)
	gate := make(chan struct{})
	slow.before = func(int) {
		if slow.reads.Load() > 6 {
			<-gate
		}
	}
	defer close(gate)
	epoch(start(t, dev, slow, loader.Options{Batch: 2, Workers: 1, Epochs: 2}), release)

	for _, unordered := range []bool{false, true} {
		held := start(t, dev, table(6, dtype.U8, 3), loader.Options{Batch: 2, DeviceBuffers: 3, Epochs: 2, Unordered: unordered})
		var list []*loader.Batch
		epoch(held, func(b *loader.Batch) error { list = append(list, b); return nil })
		releaseAll(t, list)
	}

	bad := table(6, dtype.U8, 3)
	bad.before = func(int) {
		if bad.reads.Load() > 6 {
			panic("not twice")
		}
	}
	failing := start(t, dev, bad, loader.Options{Batch: 2, Workers: 1, Epochs: 2})
	epoch(failing, release)
	if _, err := next(t, failing); err == nil || !strings.Contains(err.Error(), "not twice") {
		t.Errorf("the next epoch: %v", err)
	}
}
