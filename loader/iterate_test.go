package loader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// seen is what a loop over batches sees: epoch and number of each, until it has
// seen so many; fewer than 0 means all.
func seen(t testing.TB, loop func(context.Context) func(func(*loader.Batch, error) bool), most int) (list []string) {
	t.Helper()
	for b, err := range loop(t.Context()) {
		testkit.OK(t, err)
		list = append(list, fmt.Sprintf("%d.%d", b.Epoch, b.Number))
		testkit.OK(t, b.Release())
		if len(list) == most {
			break
		}
	}
	return list
}

// A loop after one that was left early begins with a new epoch, which is a whole
// one; Rest and Next go on inside the old one.
func TestLoopsLeftEarly(t *testing.T) {
	dev := devicetest.Open(t)
	for _, unordered := range []bool{false, true} {
		leavesNothing(t, dev)
		type loop = func(*loader.Loader) []string
		epoch := func(most int) loop {
			return func(ld *loader.Loader) []string {
				return seen(t, func(ctx context.Context) func(func(*loader.Batch, error) bool) { return ld.Epoch(ctx) }, most)
			}
		}
		all := func(most int) loop {
			return func(ld *loader.Loader) []string {
				return seen(t, func(ctx context.Context) func(func(*loader.Batch, error) bool) { return ld.All(ctx) }, most)
			}
		}
		rest := func(ld *loader.Loader) []string {
			return seen(t, func(ctx context.Context) func(func(*loader.Batch, error) bool) { return ld.Rest(ctx) }, -1)
		}
		one := func(ld *loader.Loader) []string {
			b, err := next(t, ld)
			testkit.OK(t, err)
			defer b.Release()
			return []string{fmt.Sprintf("%d.%d", b.Epoch, b.Number)}
		}
		for _, c := range []struct {
			name  string
			loops []loop
			want  [][]string
		}{
			{"a look at the first batch", []loop{epoch(1), all(-1), all(-1)}, [][]string{{"0.0"}, {"1.0", "1.1", "1.2", "2.0", "2.1", "2.2"}, nil}},
			{"part of each epoch", []loop{epoch(2), epoch(2), epoch(1), epoch(-1)}, [][]string{{"0.0", "0.1"}, {"1.0", "1.1"}, {"2.0"}, {"3.0", "3.1", "3.2"}}},
			{"left in the second", []loop{all(4), epoch(-1), epoch(-1)}, [][]string{{"0.0", "0.1", "0.2", "1.0"}, {"2.0", "2.1", "2.2"}, nil}},
			{"left behind the last batch", []loop{epoch(3), epoch(-1), epoch(-1)}, [][]string{{"0.0", "0.1", "0.2"}, {"1.0", "1.1", "1.2"}, nil}},
			{"the rest", []loop{rest, epoch(1), rest, rest, all(-1)}, [][]string{nil, {"0.0"}, {"0.1", "0.2"}, nil, {"1.0", "1.1", "1.2"}}},
			{"the next one, and the rest", []loop{epoch(1), one, epoch(-1), all(-1)}, [][]string{{"0.0"}, {"0.1"}, {"0.2"}, {"1.0", "1.1", "1.2"}}},
			{"the next one at first", []loop{one, epoch(-1), one, all(-1)}, [][]string{{"0.0"}, {"0.1", "0.2"}, {"1.0"}, {"1.1", "1.2"}}},
		} {
			ld := start(t, dev, unsteady(table(6, dtype.U8, 3)), loader.Options{Batch: 2, Epochs: 2, Unordered: unordered, Workers: 1, DeviceBuffers: 2})
			for i, loop := range c.loops {
				got := loop(ld)
				if unordered {
					slices.Sort(got)
				}
				if unordered && len(got) == len(c.want[i]) {
					continue // which come first is anybody's guess
				}
				if !slices.Equal(got, c.want[i]) {
					t.Errorf("%s, unordered %t: loop %d sees %v, want %v", c.name, unordered, i, got, c.want[i])
				}
			}
			within(t, "Close", ld.Close)
		}
	}
}

// What comes after a loop that was left early is what would have come without
// it; held batches keep their content, and a state goes on in the same place.
func TestDroppedEpochs(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := images(20, 6, 6, 3)
	ref := newReference(t, ds)
	o := loader.Options{Batch: 3, Epochs: 2, DeviceBuffers: 4}
	want := ref.batches(o, ref.inOrder(4))
	ld := start(t, dev, ds, o)
	s := stream(t, dev)

	var held []*loader.Batch
	for range 2 {
		for b, err := range ld.Epoch(t.Context()) {
			testkit.OK(t, err)
			held = append(held, b)
			break
		}
	}
	compare(t, "a batch of each dropped epoch", []got{use(t, s, held[0]), use(t, s, held[1])}, []got{want[0], want[7]})
	for b, err := range ld.Epoch(t.Context()) {
		testkit.OK(t, err)
		held = append(held, b)
		break
	}
	// The third epoch is dropped as well, but the state is inside of it.
	state := ld.State()
	if state.Epoch != 2 || state.Batch != 1 || state.Dropped != 2 {
		t.Errorf("%+v", state)
	}
	resumed := o
	resumed.Resume = &state
	list, err := run(t, dev, ds, resumed)
	testkit.OK(t, err)
	compare(t, "resumed", list, want[15:])
	compare(t, "batches that are held", []got{use(t, s, held[0]), use(t, s, held[1]), use(t, s, held[2])}, []got{want[0], want[7], want[14]})
	releaseAll(t, held)
	list, err = drain(t, dev, ld)
	testkit.OK(t, err)
	compare(t, "the rest", list, want[15:])
	if done, total := ld.Progress(); done != 28 || total != 28 {
		t.Errorf("%d of %d batches", done, total)
	}
}

// A loop that is begun after Close, or after the loader failed, says so.
func TestLoopAfterTheEnd(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ld := start(t, dev, table(6, dtype.U8, 3), loader.Options{Batch: 2})
	_ = seen(t, func(ctx context.Context) func(func(*loader.Batch, error) bool) { return ld.Epoch(ctx) }, 1)
	within(t, "Close", ld.Close)
	for _, err := range ld.Epoch(t.Context()) {
		testkit.WantError(t, "Epoch after Close", err, device.ErrClosed)
	}

	bad := table(6, dtype.U8, 3)
	bad.fail = map[int]bool{2: true}
	ld = start(t, dev, bad, loader.Options{Batch: 2})
	for range 3 {
		var last error
		for b, err := range ld.Epoch(t.Context()) {
			if last = err; err == nil {
				testkit.OK(t, b.Release())
			}
		}
		testkit.WantError(t, "Epoch of a loader that failed", last, errSample)
	}
}

// A state that is taken in the body of the loop for the last batch goes on with
// the next epoch, or with an empty rest of this one; behind the loop it is the
// next epoch.
func TestStateAtTheEnd(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(6, dtype.U8, 3)
	for _, unordered := range []bool{false, true} {
		o := loader.Options{Batch: 2, Epochs: 2, Unordered: unordered}
		inside, behind := map[loader.StateAtEnd]loader.State{}, map[loader.StateAtEnd]loader.State{}
		for _, o.StateAtEnd = range []loader.StateAtEnd{loader.NextEpoch, loader.EmptyRest} {
			ld := start(t, dev, ds, o)
			for b, err := range ld.Epoch(t.Context()) {
				testkit.OK(t, err)
				inside[o.StateAtEnd] = ld.State()
				testkit.OK(t, b.Release())
			}
			behind[o.StateAtEnd] = ld.State()
			within(t, "Close", ld.Close)
		}
		for _, c := range []struct {
			name         string
			state        loader.State
			epoch, batch int
			first        int // batches of the first loop over an epoch
		}{
			{"inside, next epoch", inside[loader.NextEpoch], 1, 0, 3},
			{"inside, empty rest", inside[loader.EmptyRest], 0, 3, 0},
			{"behind, next epoch", behind[loader.NextEpoch], 1, 0, 3},
			{"behind, empty rest", behind[loader.EmptyRest], 1, 0, 3},
		} {
			if c.state.Epoch != c.epoch || c.state.Batch != c.batch {
				t.Errorf("%s: batch %d of epoch %d, want %d of %d", c.name, c.state.Batch, c.state.Epoch, c.batch, c.epoch)
			}
			o := o
			o.Resume, o.StateAtEnd = &c.state, loader.EmptyRest
			ld := start(t, dev, ds, o)
			if again := ld.State(); again.Epoch != c.epoch || again.Batch != c.batch {
				t.Errorf("%s: resumed, it is batch %d of epoch %d", c.name, again.Batch, again.Epoch)
			}
			epoch := func(ctx context.Context) func(func(*loader.Batch, error) bool) { return ld.Epoch(ctx) }
			first := len(seen(t, epoch, -1))
			if second := len(seen(t, epoch, -1)); first != c.first || first+second != 3 {
				t.Errorf("%s: loops of %d and %d batches, want %d at first", c.name, first, second, c.first)
			}
			within(t, "Close", ld.Close)
			list, err := run(t, dev, ds, o)
			if testkit.OK(t, err); len(list) != 3 {
				t.Errorf("%s: Next gives %d batches", c.name, len(list))
			}
		}
	}
}

// With room for more, the caller may hold more batches than there were buffers
// at first; without memory it is told that there is none.
func TestMoreBuffers(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := images(40, 4, 4, 3)
	ref := newReference(t, ds)
	for _, unordered := range []bool{false, true} {
		o := loader.Options{Batch: 4, DeviceBuffers: 1, MaxDeviceBuffers: 6, Unordered: unordered, Workers: 1}
		want := ref.batches(o, ref.inOrder(1))
		ld := start(t, dev, ds, o)
		var held []*loader.Batch
		for range 6 {
			b, err := next(t, ld)
			testkit.OK(t, err)
			held = append(held, b)
		}
		_, err := next(t, ld)
		says(t, err, loader.ErrHeld, "6 of 6")
		if n := ld.Stats().DeviceBuffers; n != 6 {
			t.Errorf("%d device buffers, want 6", n)
		}
		s := stream(t, dev)
		for _, b := range held {
			compare(t, "a held batch", []got{use(t, s, b)}, want[b.Number:b.Number+1])
		}
		releaseAll(t, held)
		list, err := drain(t, dev, ld)
		testkit.OK(t, err)
		if !unordered {
			compare(t, "the rest", list, want[6:])
		}
		within(t, "Close", ld.Close)
	}
	for _, n := range []int{1, -1, 1 << 20} {
		refuses(t, dev, ds, loader.Options{DeviceBuffers: 2, MaxDeviceBuffers: n}, device.ErrArgument, "MaxDeviceBuffers")
	}

	small := open(t, "host:1MiB")
	ld := start(t, small, images(40, 100, 100, 3), loader.Options{Batch: 4, DType: dtype.F32, DeviceBuffers: 1, MaxDeviceBuffers: 9})
	var held []*loader.Batch
	for {
		b, err := next(t, ld)
		if err != nil {
			testkit.WantError(t, "Next", err, loader.ErrHeld)
			testkit.WantError(t, "Next", err, device.ErrOutOfMemory)
			break
		}
		held = append(held, b)
	}
	if len(held) == 0 || errors.Is(held[0].Release(), loader.ErrReleased) {
		t.Fatal("no batch")
	}
	held = held[1:]
	b, err := next(t, ld)
	testkit.OK(t, err)
	releaseAll(t, append(held, b))
}

// Dropping an epoch takes back slabs, files and device memory from whatever was
// under way: copies through pinned chunks, or pictures that the device decodes.
func TestDroppedEpochsOfAnyKind(t *testing.T) {
	for name, c := range map[string]struct {
		ds dataset.Dataset
		o  loader.Options
	}{
		"staged":                {large(), loader.Options{Batch: 8, Pin: loader.PinNever, Copiers: 2, DType: dtype.U8}},
		"pinned":                {large(), loader.Options{Batch: 8, Pin: loader.PinAlways, PinBudget: 32 << 20}},
		"decoded on the device": {makePhotos(t, 24, 16), loader.Options{Batch: 4, Decode: loader.DecodeGPU}},
	} {
		t.Run(name, func(t *testing.T) {
			loader.UseStandIn(t, &loader.StandIn{Engine: 7})
			dev := newDiscrete(t, 64<<20)
			leavesNothing(t, dev)
			o := c.o
			o.Epochs = 5
			want, err := run(t, dev, c.ds, o)
			testkit.OK(t, err)
			each := len(want) / o.Epochs
			o.Epochs = 1
			ld := start(t, dev, c.ds, o)
			s := stream(t, dev)
			for epoch := range 4 {
				at := 0
				for b, err := range ld.Epoch(t.Context()) {
					testkit.OK(t, err)
					compare(t, name, []got{use(t, s, b)}, want[epoch*each+at:][:1])
					testkit.OK(t, b.Release(s))
					if at++; at > epoch%each {
						break
					}
				}
				if at == each { // a whole one, which counts
					break
				}
			}
		})
	}
}

// A loop whose body calls Next and then leaves early was left early.
func TestNextInALoopThatIsLeft(t *testing.T) {
	ld := start(t, devicetest.Open(t), table(20, dtype.U8, 3), loader.Options{Batch: 2, Epochs: 2})
	for b, err := range ld.All(t.Context()) {
		testkit.OK(t, err)
		testkit.OK(t, b.Release())
		b, err = next(t, ld)
		testkit.OK(t, err)
		testkit.OK(t, b.Release())
		break
	}
	for b, err := range ld.All(t.Context()) {
		testkit.OK(t, err)
		testkit.OK(t, b.Release())
		if b.Epoch != 1 || b.Number != 0 {
			t.Fatalf("batch %d of epoch %d", b.Number, b.Epoch)
		}
		break
	}
}
