package loader_test

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// failing is a table of n samples of which those from one on cannot be read.
func failing(n, from int) *fake {
	ds := table(n, dtype.U8, 2)
	ds.fail = map[int]bool{}
	for i := from; i < n; i++ {
		ds.fail[i] = true
	}
	return ds
}

// An epoch of which nothing can be read ends the loader, however many are to
// come, again and again.
func TestSkipEverything(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for _, o := range []loader.Options{
		{OnError: loader.Skip},
		{OnError: loader.Skip, Unordered: true, Workers: 4},
		{Decide: func(*loader.SampleError) loader.ErrorPolicy { return loader.Skip }, Shuffle: true},
	} {
		for _, epochs := range []int{1, 3, math.MaxInt} {
			o.Batch, o.Epochs = 2, epochs
			ld := start(t, dev, failing(9, 0), o)
			list, err := drain(t, dev, ld)
			testkit.WantError(t, "the cause", err, errSample)
			says(t, err, loader.ErrNoSamples, "9 of epoch 0")
			var sample *loader.SampleError
			if !errors.As(err, &sample) || !o.Shuffle && !o.Unordered && sample.Index != 0 {
				t.Errorf("the first cause is missing: %v", err)
			}
			if s := ld.Stats(); len(list) != 0 || s.Errors < 9 || s.Batches != 0 || s.BytesToDevice != 0 {
				t.Errorf("%d batches, %+v", len(list), s)
			}
			if _, again := next(t, ld); again == nil || again.Error() != err.Error() {
				t.Errorf("Next said %v, then %v", err, again)
			}
			if s := ld.State(); s.Epoch != 1 || s.Batch != 0 {
				t.Errorf("the state is batch %d of epoch %d, want the first of epoch 1", s.Batch, s.Epoch)
			}
			within(t, "Close", ld.Close)
		}
	}
}

// One sample of an epoch is enough, be it the first or the last; an epoch in
// which reading stops to work ends the loader behind those before it.
func TestSkipNearlyEverything(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for _, good := range []int{0, 4, 8} {
		for _, un := range []bool{false, true} {
			ds := failing(9, 0)
			ds.fail[good] = false
			list, err := run(t, dev, ds, loader.Options{Batch: 2, OnError: loader.Skip, Epochs: 3, Unordered: un})
			testkit.OK(t, err)
			if len(list) != 3 {
				t.Errorf("%d batches, want one an epoch", len(list))
			}
		}
	}
	ds := table(9, dtype.U8, 2)
	ds.panics = map[int]bool{}
	var reads [9]atomic.Int32 // one an epoch
	ds.before = func(i int) {
		if reads[i].Add(1) > 2 {
			panic("the disk is gone")
		}
	}
	list, err := run(t, dev, ds, loader.Options{Batch: 2, Workers: 1, OnError: loader.Skip, Epochs: math.MaxInt})
	says(t, err, loader.ErrNoSamples, "9 of epoch 2")
	if len(list) != 10 {
		t.Errorf("%d batches, want those of two epochs", len(list))
	}
}

// A rank judges its own part, and what DropLast cuts off is no part of it.
func TestSkipEverythingOfAPart(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(10, dtype.U8, 2)
	ds.fail = map[int]bool{1: true, 3: true, 5: true, 7: true, 9: true}
	o := loader.Options{Batch: 2, OnError: loader.Skip, World: 2}
	list, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	if len(list) != 3 {
		t.Errorf("rank 0: %d batches, want 3", len(list))
	}
	o.Rank = 1
	_, err = run(t, dev, ds, o)
	says(t, err, loader.ErrNoSamples, "5 of epoch 0")

	ds = table(10, dtype.U8, 2)
	ds.fail = map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true}
	_, err = run(t, dev, ds, loader.Options{Batch: 8, DropLast: true, OnError: loader.Skip})
	says(t, err, loader.ErrNoSamples, "8 of epoch 0")
}

// Of an epoch that another loader began nothing is known: the next one decides.
func TestSkipEverythingAfterResume(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for _, un := range []bool{false, true} {
		o := loader.Options{Batch: 2, OnError: loader.Skip, Epochs: 3, Unordered: un}
		ld := start(t, dev, failing(9, 3), o)
		b, err := next(t, ld) // one of two
		testkit.OK(t, err)
		testkit.OK(t, b.Release())
		state := ld.State()
		within(t, "Close", ld.Close)
		if state.Epoch != 0 || state.Batch == 0 && state.Ahead == nil {
			t.Fatalf("%+v is not in the middle of an epoch", state)
		}
		o.Resume = &state
		list, err := run(t, dev, failing(9, 3), o)
		testkit.OK(t, err)
		if len(list) != 5 {
			t.Errorf("%d batches, want the other one and those of two epochs", len(list))
		}
		_, err = run(t, dev, failing(9, 0), o)
		says(t, err, loader.ErrNoSamples, "9 of epoch 1")
		state.Epoch, state.Batch, state.Ahead = 2, 0, nil // at its start
		_, err = run(t, dev, failing(9, 0), o)
		says(t, err, loader.ErrNoSamples, "9 of epoch 2")
	}
}

// Batches go to several devices, and all of them are left out.
func TestSkipEverythingOnTwoDevices(t *testing.T) {
	a, b := open(t, "host:16MiB"), open(t, "host:16MiB")
	ld, err := loader.NewOn([]device.Device{a, b}, failing(9, 0), loader.Options{Batch: 2, OnError: loader.Skip, Epochs: math.MaxInt})
	testkit.OK(t, err)
	_, err = next(t, ld)
	says(t, err, loader.ErrNoSamples, "9 of epoch 0")
	within(t, "Close", ld.Close)
}

// Batches without samples are passed over no longer than the context lasts.
func TestPassingOverHeedsContext(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ctx, cancel := context.WithCancel(t.Context())
	ds := failing(1<<20, 0)
	ds.before = func(i int) {
		if i == 100 {
			cancel()
		}
	}
	ld := start(t, dev, ds, loader.Options{Batch: 1, OnError: loader.Skip})
	_, err := ld.Next(ctx)
	testkit.WantError(t, "Next", err, context.Canceled)
	if done, _ := ld.Progress(); done > 1<<19 {
		t.Errorf("%d batches were passed over", done)
	}
}
