package loader_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// Photos arrive as the decoder gives them, normalised by the formula.
func TestPhotos(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := makePhotos(t, 7, 24)
	ref := newReference(t, ds)
	for _, dt := range []dtype.DType{0, dtype.F32, dtype.F16, dtype.BF16, dtype.U8} {
		for _, batch := range []int{0, 1, 3, 7} {
			o := loader.Options{Batch: batch, DType: dt, Decode: loader.DecodeCPU} // a device differs in the last bits
			list, err := run(t, dev, ds, o)
			testkit.OK(t, err)
			compare(t, fmt.Sprintf("%v in batches of %d", dt, batch), list, ref.batches(o, ref.inOrder(1)))
		}
	}
}

// Every kind of sample is delivered as documented, whatever the batch, the
// number of epochs and DropLast.
func TestContent(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	half := []float64{0.5}
	for _, c := range []struct {
		name  string
		ds    *fake
		types []dtype.DType
		o     loader.Options
	}{
		{"rgb", images(11, 5, 6, 3), []dtype.DType{0, dtype.F32, dtype.F16, dtype.BF16, dtype.U8}, loader.Options{}},
		{"rgb with its own mean", images(5, 4, 4, 3), []dtype.DType{dtype.F16},
			loader.Options{Mean: []float64{0.1, 0.2, 0.3}, Std: []float64{0.5, 1, 2}}},
		{"grey", images(9, 7, 3, 1), []dtype.DType{0, dtype.BF16, dtype.U8}, loader.Options{}},
		{"grey with a mean", images(9, 7, 3, 1), []dtype.DType{dtype.F32}, loader.Options{Mean: half}},
		{"grey with a deviation", images(9, 7, 3, 1), []dtype.DType{dtype.F32}, loader.Options{Std: half}},
		{"rgba", images(6, 3, 5, 4), []dtype.DType{0, dtype.F16, dtype.U8}, loader.Options{}},
		{"rgb of 16 bits", table(11, dtype.U16, 5, 6, 3), []dtype.DType{0, dtype.F32, dtype.F16, dtype.BF16, dtype.U16}, loader.Options{}},
		{"rgb of 16 bits with its own mean", table(5, dtype.U16, 4, 4, 3), []dtype.DType{dtype.F16},
			loader.Options{Mean: []float64{0.1, 0.2, 0.3}, Std: []float64{0.5, 1, 2}}},
		{"grey of 16 bits", table(9, dtype.U16, 7, 3, 1), []dtype.DType{0, dtype.BF16, dtype.U16}, loader.Options{}},
		{"grey of 16 bits with a mean", table(9, dtype.U16, 7, 3, 1), []dtype.DType{dtype.F32}, loader.Options{Mean: half, Std: half}},
		{"four channels of 16 bits", table(6, dtype.U16, 3, 5, 4), []dtype.DType{0, dtype.F16, dtype.U16}, loader.Options{}},
		{"five channels of 16 bits are no image", table(6, dtype.U16, 3, 3, 5), []dtype.DType{0, dtype.F32}, loader.Options{Mean: half, Std: half}},
		{"cast from u16", table(10, dtype.U16, 9), []dtype.DType{0, dtype.F32, dtype.U8}, loader.Options{}},
		{"five channels are no image", images(6, 3, 3, 5), []dtype.DType{0, dtype.F32}, loader.Options{Mean: half, Std: half}},
		{"raw f32", table(10, dtype.F32, 3, 8), []dtype.DType{0, dtype.F32}, loader.Options{}},
		{"raw i64", table(4, dtype.I64, 5), []dtype.DType{0, dtype.I64}, loader.Options{}},
		{"raw bytes", table(5, dtype.U8, 33), []dtype.DType{0, dtype.U8}, loader.Options{}},
		{"scalars", table(20, dtype.F64), []dtype.DType{0, dtype.F32}, loader.Options{}},
		{"cast from f32", table(10, dtype.F32, 7), []dtype.DType{dtype.F16, dtype.BF16, dtype.U8}, loader.Options{}},
		{"cast from i16", table(10, dtype.I16, 3, 3), []dtype.DType{dtype.F32, dtype.F16, dtype.BF16}, loader.Options{}},
		{"cast from bytes", table(10, dtype.U8, 9), []dtype.DType{dtype.F32, dtype.BF16}, loader.Options{}},
	} {
		ref := newReference(t, c.ds)
		for _, dt := range c.types {
			for _, batch := range []int{1, 2, 4, c.ds.n} {
				o := c.o
				o.DType, o.Batch, o.Workers = dt, batch, 3
				o.Epochs, o.DropLast = 1+batch%3, batch%4 == 2
				list, err := run(t, dev, c.ds, o)
				testkit.OK(t, err)
				compare(t, fmt.Sprintf("%s as %v, %+v", c.name, dt, o), list, ref.batches(o, ref.inOrder(o.Epochs)))
			}
		}
		if n := c.ds.readers.Load(); n != 0 {
			t.Errorf("%s: %d readers are still open", c.name, n)
		}
	}
}

// A last batch that is not full is left out, also when it is the only one.
func TestDropLast(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for _, c := range []struct{ n, batch, want int }{{10, 5, 2}, {10, 4, 2}, {10, 10, 1}, {64, 0, 1}} {
		list, err := run(t, dev, table(c.n, dtype.U8, 4), loader.Options{Batch: c.batch, DropLast: true})
		testkit.OK(t, err)
		if len(list) != c.want {
			t.Errorf("%d samples in batches of %d: %d full batches, want %d", c.n, c.batch, len(list), c.want)
		}
	}
	// Of fewer samples than a batch nothing would be left.
	for _, o := range []loader.Options{{Batch: 11}, {}, {Batch: 6, World: 2}} {
		o.DropLast = true
		refuses(t, dev, table(10, dtype.U8, 4), o, device.ErrArgument, "10 samples make no full batch of")
	}
}

// unsteady makes some samples come later than those behind them.
func unsteady(f *fake) *fake {
	f.before = func(i int) {
		for range (i * 7) % 40 {
			runtime.Gosched()
		}
	}
	return f
}

// Workers, prefetch, buffers and pinning change nothing but speed.
func TestSameForAnySettings(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := unsteady(images(23, 6, 6, 3))
	ref := newReference(t, ds)
	base := loader.Options{Batch: 4, Epochs: 2, DType: dtype.F16, Shuffle: true, Seed: 5}
	var want []got
	for _, workers := range []int{1, 2, 5} {
		for _, prefetch := range []int{1, 4} {
			for _, buffers := range []int{1, 2, 5} {
				for _, pin := range []loader.Pinning{loader.PinAuto, loader.PinAlways, loader.PinNever} {
					o := base
					o.Workers, o.Prefetch, o.DeviceBuffers, o.Pin, o.PinBudget = workers, prefetch, buffers, pin, 64<<10
					ld, err := loader.New(dev, ds, o)
					if pinLimited(err) {
						continue
					}
					testkit.OK(t, err)
					list, err := drain(t, dev, ld)
					testkit.OK(t, err)
					if want == nil {
						orders := ordersOf(t, list, ds.n)
						want = ref.batches(o, orders)
					}
					compare(t, fmt.Sprintf("%+v", o), list, want)
					if s := ld.Stats(); s.Workers != workers || s.DeviceBuffers != buffers || s.Slabs != prefetch+1 ||
						s.Pinned != (s.PageableWhy == "") || pin == loader.PinAlways && !s.Pinned || pin == loader.PinNever && s.Pinned {
						t.Errorf("%+v: %+v", o, s)
					}
					within(t, "Close", ld.Close)
				}
			}
		}
	}
}

// ordersOf is the order in which the samples of each epoch came. It must be a
// permutation of all of them.
func ordersOf(t testing.TB, list []got, n int) [][]int {
	t.Helper()
	var orders [][]int
	for _, g := range list {
		if g.epoch == len(orders) {
			orders = append(orders, nil)
		}
		orders[g.epoch] = append(orders[g.epoch], g.indexes...)
	}
	for epoch, order := range orders {
		sorted := slices.Sorted(slices.Values(order))
		for i := range n {
			if len(sorted) != n || sorted[i] != i {
				t.Fatalf("epoch %d visits %v, which is no permutation of %d samples", epoch, order, n)
			}
		}
	}
	return orders
}

func TestShuffle(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	const n, epochs = 50, 4
	orders := func(seed uint64, workers, batch int) [][]int {
		t.Helper()
		list, err := run(t, dev, unsteady(table(n, dtype.U8, 3)),
			loader.Options{Batch: batch, Workers: workers, Epochs: epochs, Shuffle: true, Seed: seed})
		testkit.OK(t, err)
		o := ordersOf(t, list, n)
		if len(o) != epochs {
			t.Fatalf("%d epochs, want %d", len(o), epochs)
		}
		return o
	}
	seen := map[string]string{}
	for _, seed := range []uint64{0, 1, 1 << 63} {
		first := orders(seed, 1, 7)
		for epoch, order := range first {
			this := fmt.Sprintf("seed %d, epoch %d", seed, epoch)
			if other := seen[fmt.Sprint(order)]; other != "" {
				t.Errorf("%s has the order of %s", this, other)
			}
			seen[fmt.Sprint(order)] = this
			if slices.IsSorted(order) {
				t.Errorf("%s is not shuffled", this)
			}
		}
		for _, again := range [][][]int{orders(seed, 4, 7), orders(seed, 2, 16)} {
			for epoch := range first {
				if !slices.Equal(again[epoch], first[epoch]) {
					t.Errorf("seed %d, epoch %d: another order with other workers or batches", seed, epoch)
				}
			}
		}
	}
	// Epochs begin where a longer run would be: the order is the epoch's own.
	list, err := run(t, dev, table(n, dtype.U8, 3), loader.Options{Shuffle: true, Seed: 1})
	testkit.OK(t, err)
	if !slices.Equal(ordersOf(t, list, n)[0], orders(1, 1, 7)[0]) {
		t.Error("epoch 0 depends on the number of epochs")
	}
}

// Random options and targets against the reference.
func TestRandom(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 0))
		n := 1 + rng.IntN(40)
		ds := []func() *fake{
			func() *fake { return images(n, 1+rng.IntN(9), 1+rng.IntN(9), 1+rng.IntN(4)) },
			func() *fake { return table(n, dtype.F32, 1+rng.IntN(20)) },
			func() *fake { return table(n, dtype.I16, 1+rng.IntN(5), 1+rng.IntN(5)) },
		}[rng.IntN(3)]()
		o := loader.Options{
			Batch: 1 + rng.IntN(n), Workers: 1 + rng.IntN(5), Prefetch: 1 + rng.IntN(4), DeviceBuffers: 1 + rng.IntN(4),
			Epochs: 1 + rng.IntN(3), Shuffle: rng.IntN(2) == 0, Seed: rng.Uint64(), DropLast: rng.IntN(2) == 0,
			DType:   []dtype.DType{dtype.F32, dtype.F16, dtype.BF16, dtype.U8}[rng.IntN(4)],
			OnError: loader.Skip,
		}
		if rng.IntN(3) == 0 {
			o.DType = 0
		}
		orders := newReference(t, ds).inOrder(o.Epochs)
		if o.Shuffle {
			plain := o
			plain.Batch, plain.DropLast, plain.Workers = 1, false, 1
			list, err := run(t, dev, ds, plain)
			testkit.OK(t, err)
			orders = ordersOf(t, list, n)
		}
		for range max(0, rng.IntN(6)-2) {
			target := randomTarget(rng, n)
			o.Targets = append(o.Targets, target)
		}
		bad := 0
		if rng.IntN(2) == 0 {
			bad = spoil(rng, ds)
			for _, target := range o.Targets {
				if rng.IntN(2) == 0 {
					bad += spoil(rng, target.(*fake))
				}
			}
		}
		ref := newReference(t, ds, o.Targets...)
		unsteady(ds)
		what := fmt.Sprintf("seed %d: %d samples of %v, %d bad, %+v", seed, n, ds.spec, bad, o)
		skipped := 0
		o.Decide = func(*loader.SampleError) loader.ErrorPolicy { skipped++; return loader.Skip }
		want := ref.batches(o, orders)

		ld := start(t, dev, ds, o)
		list, err := drain(t, dev, ld)
		for i := range list {
			if bad > 0 {
				list[i] = ref.narrow(t, list[i])
			}
		}
		if empty := emptyEpoch(want, o, n); empty < o.Epochs {
			testkit.WantError(t, what, err, loader.ErrNoSamples)
			want = slices.DeleteFunc(want, func(g got) bool { return g.epoch > empty })
			compare(t, what, list, want)
			within(t, "Close", ld.Close)
			continue
		}
		testkit.OK(t, err)
		compare(t, what, list, want)
		s := ld.Stats()
		within(t, "Close", ld.Close)
		samples, bytes := 0, 0
		for _, g := range want {
			samples += len(g.indexes)
			bytes += copied(ds.spec, len(g.indexes), g.targets...)
		}
		if bad > 0 && len(o.Targets) > 0 { // gaps are copied along
			bytes = int(max(s.BytesToDevice, int64(bytes)))
		}
		if s.Samples != int64(samples) || s.Batches != int64(len(want)) || s.Errors != int64(skipped) ||
			s.BytesToDevice != int64(bytes) {
			t.Fatalf("%s: %+v with %d skipped, want %d samples in %d batches", what, s, skipped, samples, len(want))
		}
	}
}

// emptyEpoch is the first epoch of n samples that has batches, but none with
// anything in it, or o.Epochs.
func emptyEpoch(list []got, o loader.Options, n int) int {
	if o.DropLast && n < o.Batch {
		return o.Epochs
	}
	for epoch := range o.Epochs {
		if !slices.ContainsFunc(list, func(g got) bool { return g.epoch == epoch }) {
			return epoch
		}
	}
	return o.Epochs
}

// randomTarget makes a target of any kind for n samples.
func randomTarget(rng *rand.Rand, n int) *fake {
	switch rng.IntN(4) {
	case 0:
		return images(n, 1+rng.IntN(9), 1+rng.IntN(9), 1)
	case 1:
		return table(n, dtype.I64)
	case 2:
		return table(n, dtype.I16, 1+rng.IntN(5))
	}
	longest, step := 1+rng.IntN(9), 1+rng.IntN(5)
	return raggedTable(n, longest, func(i int) int { return i * step % (longest + 1) })
}

// spoil makes some samples fail or panic, and returns how many.
func spoil(rng *rand.Rand, ds *fake) int {
	ds.fail, ds.panics = map[int]bool{}, map[int]bool{}
	for i := range ds.n {
		switch rng.IntN(6) {
		case 0:
			ds.fail[i] = true
		case 1:
			ds.panics[i] = true
		}
	}
	return len(ds.fail) + len(ds.panics)
}

// copied is what goes over the link for n samples of one length: they, what
// goes with them and their labels, each part from a multiple of 16 on.
func copied(spec dataset.Spec, n int, targets ...gotTarget) int {
	bytes := n * spec.Bytes()
	align := func() { bytes = (bytes + 15) &^ 15 }
	lengths := 0
	for _, target := range targets {
		align()
		bytes += len(target.data)
		lengths += len(target.onDevice)
	}
	align()
	bytes += 4 * n
	if lengths > 0 {
		align()
		bytes += lengths
	}
	return bytes
}

var _ dataset.Dataset = (*fake)(nil)

// What the options point to is the caller's again behind New.
func TestOptionsAreCopied(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := images(40, 7, 3, 3)
	o := loader.Options{Batch: 4, Mean: []float64{0.1, 0.2, 0.3}, Std: []float64{0.5, 1, 2}, Targets: []dataset.Dataset{table(40, dtype.F32, 3)}}
	want, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	ld := start(t, dev, ds, o)
	clear(o.Mean)
	clear(o.Std)
	clear(o.Targets)
	have, err := drain(t, dev, ld)
	testkit.OK(t, err)
	compare(t, "after a change", have, want)
}
