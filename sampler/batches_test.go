package sampler

import (
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/internal/draw"
)

func TestBatchesAreChunksOfTheOrder(t *testing.T) {
	for n := 1; n <= 40; n++ {
		whole := must(NewRandom(n, 1))
		for size := 1; size <= 45; size++ {
			for _, drop := range []bool{false, true} {
				var want [][]int
				for chunk := range slices.Chunk(epochOf(whole, 2), size) {
					if len(chunk) == size || !drop {
						want = append(want, chunk)
					}
				}
				b := must(NewBatches(whole, size, drop))
				if b.Len() != len(want) {
					t.Fatalf("n %d, size %d, drop %v: %d batches, want %d", n, size, drop, b.Len(), len(want))
				}
				for k := range want {
					if got := b.AppendAt([]int{-7}, 2, k); !slices.Equal(got[1:], want[k]) || got[0] != -7 {
						t.Fatalf("n %d, size %d, drop %v: batch %d is %v, want %v appended", n, size, drop, k, got, want[k])
					}
				}
			}
		}
	}
}

// lengthsFor returns n lengths of 1 to 500, many of them short.
func lengthsFor(n int) []int {
	lengths := make([]int, n)
	for i := range lengths {
		x := int(draw.Below(draw.Hash(4, uint64(i)), 500))
		lengths[i] = 1 + x*x/500
	}
	return lengths
}

func TestByLengthVisitsEachSampleOnce(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 8, 9, 40, 64, 65, 1000} {
		lengths := lengthsFor(n)
		for _, size := range []int{1, 3, 8, 100} {
			for _, bucket := range []int{1, 2, 5, 1000} {
				for _, drop := range []bool{false, true} {
					b := must(NewByLength(lengths, ByLengthOptions{Size: size, Bucket: bucket, DropLast: drop, Seed: 1}))
					seen := make([]int, n)
					short, total := 0, 0
					for k := range b.Len() {
						batch := b.AppendAt(nil, 3, k)
						for _, i := range batch {
							seen[i]++
						}
						total += len(batch)
						if len(batch) != size {
							short++
						}
					}
					want := n
					if drop {
						want -= n % size
					}
					if total != want || slices.Max(seen) > 1 || short > 1 || (drop && short > 0) {
						t.Fatalf("n %d, size %d, bucket %d, drop %v: %d samples, one %d times, %d short batches; want %d samples",
							n, size, bucket, drop, total, slices.Max(seen), short, want)
					}
				}
			}
		}
	}
}

func TestByLengthKeepsToBuckets(t *testing.T) {
	// 10 batches and 3 samples: buckets of 3, 3, and 4 batches with the rest.
	const n, size, bucket = 83, 8, 3
	lengths := lengthsFor(n)
	sorted := slices.Sorted(slices.Values(lengths))
	limits := []int{0, 24, 48, n}
	b := must(NewByLength(lengths, ByLengthOptions{Size: size, Bucket: bucket, Seed: 1}))
	counts := make([]int, 3)
	for k := range b.Len() {
		batch := b.AppendAt(nil, 0, k)
		home := 0
		for lengths[batch[0]] > sorted[limits[home+1]-1] {
			home++
		}
		counts[home]++
		for _, i := range batch {
			if low, high := sorted[limits[home]], sorted[limits[home+1]-1]; lengths[i] < low || lengths[i] > high {
				t.Errorf("batch %d has a sample of length %d, outside its bucket's %d to %d", k, lengths[i], low, high)
			}
		}
	}
	if !slices.Equal(counts, []int{3, 3, 5}) {
		t.Errorf("the buckets have %v batches, want 3, 3 and 5", counts)
	}
}

// TestByLengthChangesEachEpoch: who meets whom, when, and who is dropped.
func TestByLengthChangesEachEpoch(t *testing.T) {
	const n, size = 83, 8
	b := must(NewByLength(lengthsFor(n), ByLengthOptions{Size: size, Bucket: 3, DropLast: true, Seed: 1}))
	met, firsts, visits := map[[2]int]bool{}, map[int]bool{}, make([]int, n)
	for e := range 200 {
		for k := range b.Len() {
			batch := b.AppendAt(nil, e, k)
			if k == 0 {
				firsts[slices.Min(batch)] = true
			}
			for _, i := range batch {
				visits[i]++
				for _, j := range batch {
					met[[2]int{i, j}] = true
				}
			}
		}
	}
	// All that share a bucket meet: two buckets of 24 and one of 35.
	if want := 24*24 + 24*24 + 35*35; len(met) != want {
		t.Errorf("%d pairs of samples met, want %d", len(met), want)
	}
	if len(firsts) < 20 {
		t.Errorf("epochs start with only %d different samples", len(firsts))
	}
	if slices.Min(visits) == 0 || slices.Max(visits) != 200 {
		t.Errorf("visits are from %d to %d of 200: somebody is always or anybody may be dropped", slices.Min(visits), slices.Max(visits))
	}
	again := must(NewByLength(lengthsFor(n), ByLengthOptions{Size: size, Bucket: 3, DropLast: true, Seed: 1}))
	other := must(NewByLength(lengthsFor(n), ByLengthOptions{Size: size, Bucket: 3, DropLast: true, Seed: 2}))
	if !slices.Equal(b.AppendAt(nil, 5, 2), again.AppendAt(nil, 5, 2)) {
		t.Error("the same seed gives another batch")
	}
	if slices.Equal(b.AppendAt(nil, 5, 2), other.AppendAt(nil, 5, 2)) {
		t.Error("another seed gives the same batch")
	}
}

func TestPadding(t *testing.T) {
	lengths := []int{1, 4, 2, 2, 5}
	b := must(NewBatches(must(NewSequential(5)), 2, false))
	p, err := PaddingOf(b, lengths, 0) // 4+4, 2+2, 5
	if err != nil {
		t.Fatal(err)
	}
	if want := "17.6% padding: 14 used of 17"; p.String() != want {
		t.Errorf("%q, want %q", p, want)
	}
	if p, err := PaddingOf(b, make([]int, 5), 0); err != nil || p.Waste() != 0 {
		t.Errorf("of lengths 0: waste %v, %v", p.Waste(), err)
	}
}

func TestByLengthPadsLess(t *testing.T) {
	lengths := lengthsFor(20_000)
	waste := func(b BatchSampler) float64 { return must(PaddingOf(b, lengths, 1)).Waste() }
	random := waste(must(NewBatches(must(NewRandom(len(lengths), 1)), 64, false)))
	wide := waste(must(NewByLength(lengths, ByLengthOptions{Seed: 1})))
	narrow := waste(must(NewByLength(lengths, ByLengthOptions{Bucket: 1, Seed: 1})))
	t.Logf("padding: random %.3f, buckets of 16 batches %.3f, of 1 %.3f", random, wide, narrow)
	if !(narrow < wide/4 && wide < random/4) {
		t.Errorf("padding: random %.3f, buckets of 16 batches %.3f, of 1 %.3f", random, wide, narrow)
	}
}
