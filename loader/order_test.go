package loader_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/sampler"
)

// made returns what a constructor of package sampler made.
func made[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		testkit.OK(t, err)
		return v
	}
}

// A sampler of the caller's own is the order; one that repeats samples as well.
func TestSampler(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := unsteady(table(20, dtype.F32, 3))
	ref := newReference(t, ds)
	draws := made(sampler.NewRandomWithReplacement(20, 33, 7))(t)
	var orders [][]int
	for epoch := range 2 {
		var order []int
		for k := range draws.Len() {
			order = append(order, draws.At(epoch, k))
		}
		orders = append(orders, order)
	}
	o := loader.Options{Batch: 8, Workers: 3, Epochs: 2, Sampler: draws}
	list, err := run(t, dev, ds, o)
	testkit.OK(t, err)
	compare(t, "drawn with replacement", list, ref.batches(o, orders))
}

// Batches of the caller's own are delivered as they are, whatever their sizes.
func TestBatches(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := unsteady(table(50, dtype.F32, 3))
	lengths := make([]int, 50)
	for i := range lengths {
		lengths[i] = i * i % 23
	}
	batches := made(sampler.NewByLength(lengths, sampler.ByLengthOptions{Size: 8, Seed: 3}))(t)
	list, err := run(t, dev, ds, loader.Options{Batches: batches, Batch: 8, Epochs: 2})
	testkit.OK(t, err)
	if len(list) != 2*batches.Len() {
		t.Fatalf("%d batches, want %d", len(list), 2*batches.Len())
	}
	for _, g := range list {
		if want := batches.AppendAt(nil, g.epoch, g.number); !slices.Equal(g.indexes, want) {
			t.Errorf("batch %d of epoch %d has %v, want %v", g.number, g.epoch, g.indexes, want)
		}
	}
}

// Orders that do not fit are errors that say why.
func TestBadOrders(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := table(20, dtype.U8, 3)
	larger := made(sampler.NewSequential(21))(t)
	batches := made(sampler.NewBatches(larger, 7, false))(t)
	for _, c := range []struct {
		part string
		o    loader.Options
	}{
		{"rank is 2", loader.Options{Rank: 2, World: 2}},
		{"Rank is -1", loader.Options{Rank: -1, World: 2}},
		{"without Sampler", loader.Options{Batches: batches, Shuffle: true}},
		{"without Shuffle", loader.Options{Sampler: larger, Shuffle: true}},
		{"sample 20 of 20", loader.Options{Sampler: larger, Batch: 5}},
		{"has 7 samples, but Batch is 5", loader.Options{Batches: batches, Batch: 5}},
		{"not padded", loader.Options{PadTo: 3}},
	} {
		ld, err := loader.New(dev, ds, c.o)
		if err == nil {
			_, err = drain(t, dev, ld)
			within(t, "Close", ld.Close)
		}
		says(t, err, device.ErrArgument, c.part)
	}
}

// Ranks share an epoch by the rules of PyTorch's DistributedSampler, and at
// equal global batch they visit together what one rank would, batch for batch.
func TestRanks(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := unsteady(table(60, dtype.F32, 3))
	visits := func(o loader.Options) []got {
		t.Helper()
		list, err := run(t, dev, ds, o)
		testkit.OK(t, err)
		return list
	}
	base := loader.Options{Epochs: 2, Shuffle: true, Seed: 4}
	alone := base
	alone.Batch = 12
	want := visits(alone)
	for _, world := range []int{2, 3, 4, 6} {
		ranks := make([][]got, world)
		for rank := range world {
			o := base
			o.Rank, o.World, o.Batch = rank, world, 12/world
			ranks[rank] = visits(o)
			if len(ranks[rank]) != len(want) {
				t.Fatalf("rank %d of %d has %d batches, want %d", rank, world, len(ranks[rank]), len(want))
			}
		}
		for k, w := range want {
			for at, index := range w.indexes {
				g := ranks[at%world][k]
				if g.indexes[at/world] != index {
					t.Fatalf("world %d, batch %d: %v at %d, want %v", world, k, g.indexes, at, w.indexes)
				}
			}
		}
	}
	// 60 samples for 7 ranks: 9 each, with 3 from the start once more; or 8.
	for _, drop := range []bool{false, true} {
		count := map[int]int{}
		for rank := range 7 {
			o := loader.Options{Rank: rank, World: 7, Batch: 4, DropLast: drop}
			for _, g := range visits(o) {
				for _, i := range g.indexes {
					count[i]++
				}
			}
		}
		for i := range 60 {
			want := 1
			switch {
			case !drop && i < 3:
				want = 2
			case drop && i >= 56:
				want = 0
			}
			if count[i] != want {
				t.Errorf("drop %t: sample %d is visited %d times, want %d", drop, i, count[i], want)
			}
		}
	}
}

// What is random about a sample depends on the seed, the epoch and its index
// alone.
func TestKeys(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	keys := func(o loader.Options) map[string]uint64 {
		t.Helper()
		ds := &keyed{fake: table(24, dtype.U8, 8)}
		list, err := run(t, dev, ds, o)
		testkit.OK(t, err)
		seen := map[string]uint64{}
		for _, g := range list {
			for slot, i := range g.indexes {
				key := uint64(0)
				for _, b := range g.data[8*slot:][:8] {
					key = key<<8 | uint64(b)
				}
				seen[fmt.Sprint(g.epoch, i)] = key
			}
		}
		return seen
	}
	want := keys(loader.Options{Seed: 9, Epochs: 2, Batch: 5})
	for name, key := range want {
		var epoch, i int
		_, err := fmt.Sscan(name, &epoch, &i)
		testkit.OK(t, err)
		if key != sampler.Key(9, epoch, i) {
			t.Errorf("sample %d of epoch %d has the key %#x", i, epoch, key)
		}
	}
	for _, o := range []loader.Options{
		{Batch: 7, Workers: 4, Shuffle: true}, {Batch: 24, Workers: 1, Unordered: true}, {Batch: 3, Prefetch: 1, SampleTimeout: testkit.Hang},
	} {
		o.Seed, o.Epochs = 9, 2
		have := keys(o)
		for name, key := range want {
			if have[name] != key {
				t.Errorf("%+v: sample %s has the key %#x, want %#x", o, name, have[name], key)
			}
		}
	}
}
