package sampler

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
)

func TestBadArguments(t *testing.T) {
	seq := must(NewSequential(10))
	batches := must(NewBatches(seq, 2, false))
	long := must(NewSequential(math.MaxInt))
	for _, c := range []struct {
		want string
		err  error
	}{
		{"n is 0", second(NewSequential(0))},
		{"n is -3", second(NewRandom(-3, 1))},
		{"n is 0", second(NewRandomWithReplacement(0, 5, 1))},
		{"draws is -1", second(NewRandomWithReplacement(5, -1, 1))},
		{"the number of weights is 0", second(NewWeighted(nil, 5, 1))},
		{"draws is 0", second(NewWeighted([]float64{1}, 0, 1))},
		{"weight 1 of 2 is -0.5", second(NewWeighted([]float64{1, -0.5}, 5, 1))},
		{"weight 0 of 2 is NaN", second(NewWeighted([]float64{math.NaN(), 1}, 5, 1))},
		{"weight 2 of 3 is +Inf", second(NewWeighted([]float64{1, 1, math.Inf(1)}, 5, 1))},
		{"all 2 weights are 0", second(NewWeighted([]float64{0, 0}, 5, 1))},
		{"world is 0", second(NewDistributed(seq, 0, 0, false))},
		{"rank is 4, want 0 to 3 in a world of 4", second(NewDistributed(seq, 4, 4, false))},
		{"rank is -1", second(NewDistributed(seq, -1, 4, false))},
		{"in a world of 2 are too many", second(NewDistributed(long, 0, 2, false))},
		{"sampler is nil", second(NewDistributed(nil, 0, 1, false))},
		{"rank is 9", second(NewDistributedBatches(batches, 9, 4, false))},
		{"sampler is nil", second(NewDistributedBatches(nil, 0, 1, false))},
		{"size is 0", second(NewBatches(seq, 0, false))},
		{"sampler is nil", second(NewBatches(nil, 1, false))},
		{"the number of lengths is 0", second(NewByLength(nil, ByLengthOptions{}))},
		{"length 1 of 2 is -7", second(NewByLength([]int{1, -7}, ByLengthOptions{}))},
		{"Size is -1", second(NewByLength([]int{1}, ByLengthOptions{Size: -1}))},
		{"Bucket is -2", second(NewByLength([]int{1}, ByLengthOptions{Bucket: -2}))},
		{"index 4 in batch 2, but 4 lengths", second(PaddingOf(batches, make([]int, 4), 0))},
		{"sampler is nil", second(PaddingOf(nil, nil, 0))},
		{"the number of sizes is 0", second(NewBlocks(nil, 1, 1))},
		{"group is 0", second(NewBlocks([]int{1}, 0, 1))},
		{"size 1 of 2 is -4", second(NewBlocks([]int{1, -4}, 1, 1))},
		{"all 2 sizes are 0", second(NewBlocks([]int{0, 0}, 1, 1))},
		{"first 2 of 3 sizes are too many", second(NewBlocks([]int{1, math.MaxInt, 1}, 1, 1))},
		{"size is 0", second(NewShuffleBuffer[int](0, 1, 1))},
	} {
		if !errors.Is(c.err, ErrArgument) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error is %v, want one with %q", c.err, c.want)
		}
	}
}

func second[S any](_ S, err error) error { return err }

// samplers is one of each kind.
func samplers() map[string]Sampler {
	random := must(NewRandom(100, 1))
	return map[string]Sampler{
		"Sequential":            must(NewSequential(100)),
		"Random":                random,
		"RandomWithReplacement": must(NewRandomWithReplacement(100, 70, 1)),
		"Weighted":              must(NewWeighted([]float64{1, 2, 0, 3}, 70, 1)),
		"Blocks":                must(NewBlocks([]int{30, 0, 25, 45}, 2, 1)),
		"Distributed":           must(NewDistributed(random, 2, 7, false)),
		"Distributed, empty":    must(NewDistributed(random, 2, 107, true)),
	}
}

func batchSamplers() map[string]BatchSampler {
	byLength := must(NewByLength(lengthsFor(100), ByLengthOptions{Size: 8, Bucket: 2}))
	return map[string]BatchSampler{
		"Batches":            must(NewBatches(must(NewRandom(100, 1)), 8, false)),
		"Batches, empty":     must(NewBatches(must(NewRandom(100, 1)), 101, true)),
		"Batches, huge":      must(NewBatches(must(NewRandom(100, 1)), math.MaxInt, false)),
		"ByLength":           byLength,
		"ByLength, empty":    must(NewByLength(lengthsFor(100), ByLengthOptions{Size: 101, DropLast: true})),
		"ByLength, huge":     must(NewByLength(lengthsFor(100), ByLengthOptions{Size: math.MaxInt, Bucket: math.MaxInt})),
		"DistributedBatches": must(NewDistributedBatches(byLength, 1, 2, false)),
	}
}

func TestOutsideOfTheEpoch(t *testing.T) {
	for name, s := range samplers() {
		for _, k := range []int{-1, math.MinInt, s.Len(), s.Len() + 1, math.MaxInt} {
			if i := s.At(0, k); i != -1 {
				t.Errorf("%s of %d: At(%d) is %d", name, s.Len(), k, i)
			}
		}
		for _, epoch := range []int{-1, math.MinInt, math.MaxInt} {
			for k := range s.Len() {
				if i := s.At(epoch, k); i < 0 || i > 99 {
					t.Errorf("%s: At(%d) of epoch %d is %d", name, k, epoch, i)
				}
			}
		}
	}
	for name, s := range batchSamplers() {
		for _, k := range []int{-1, math.MinInt, s.Len(), s.Len() + 1, math.MaxInt} {
			if batch := s.AppendAt(nil, 0, k); len(batch) > 0 {
				t.Errorf("%s of %d: batch %d is %v", name, s.Len(), k, batch)
			}
		}
		for k := range s.Len() {
			if batch := s.AppendAt(nil, -1, k); len(batch) == 0 {
				t.Errorf("%s of %d: batch %d is empty", name, s.Len(), k)
			}
		}
	}
	random := must(NewRandom(100, 1))
	for _, i := range []int{-1, 100} {
		if p := random.Position(0, i); p != -1 {
			t.Errorf("Position(%d) of 100 is %d", i, p)
		}
	}
}

// TestConcurrentUse is for the race detector, and for hidden positions.
func TestConcurrentUse(t *testing.T) {
	for name, s := range samplers() {
		want := epochOf(s, 3)
		atOnce(func() {
			for k := s.Len() - 1; k >= 0; k-- {
				if i := s.At(3, k); i != want[k] {
					t.Errorf("%s: At(%d) is %d, was %d", name, k, i, want[k])
				}
			}
		})
	}
	for name, s := range batchSamplers() {
		first := make([]int, s.Len())
		for k := range first {
			first[k] = s.AppendAt(nil, 3, k)[0]
		}
		atOnce(func() {
			for k := s.Len() - 1; k >= 0; k-- {
				if i := s.AppendAt(nil, 3, k)[0]; i != first[k] {
					t.Errorf("%s: batch %d starts with %d, was %d", name, k, i, first[k])
				}
			}
		})
	}
}

// atOnce runs f four times at once.
func atOnce(f func()) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(f)
	}
	wg.Wait()
}

// TestNoGarbage: an index or a batch makes none.
func TestNoGarbage(t *testing.T) {
	for name, s := range samplers() {
		if n := testing.AllocsPerRun(100, func() { s.At(1, 2) }); n != 0 {
			t.Errorf("%s: %v allocations an index", name, n)
		}
	}
	batch := make([]int, 0, 200)
	for name, s := range batchSamplers() {
		if n := testing.AllocsPerRun(100, func() { s.AppendAt(batch, 1, 0) }); n != 0 {
			t.Errorf("%s: %v allocations a batch", name, n)
		}
	}
}
