package sampler

import (
	"fmt"
	"slices"
	"testing"
)

// TestDistributedGolden: what PyTorch's DistributedSampler gives without
// shuffle, worked out by hand from its rules.
func TestDistributedGolden(t *testing.T) {
	for _, c := range []struct {
		n, world int
		drop     bool
		ranks    [][]int
	}{
		{6, 1, false, [][]int{{0, 1, 2, 3, 4, 5}}},
		{6, 3, false, [][]int{{0, 3}, {1, 4}, {2, 5}}},
		{6, 3, true, [][]int{{0, 3}, {1, 4}, {2, 5}}},
		{10, 4, false, [][]int{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}}},
		{10, 4, true, [][]int{{0, 4}, {1, 5}, {2, 6}, {3, 7}}},
		{7, 3, false, [][]int{{0, 3, 6}, {1, 4, 0}, {2, 5, 1}}},
		{7, 3, true, [][]int{{0, 3}, {1, 4}, {2, 5}}},
		{3, 5, false, [][]int{{0}, {1}, {2}, {0}, {1}}},
		{3, 5, true, [][]int{{}, {}, {}, {}, {}}},
		{2, 7, false, [][]int{{0}, {1}, {0}, {1}, {0}, {1}, {0}}},
		{1, 4, false, [][]int{{0}, {0}, {0}, {0}}},
	} {
		for rank, want := range c.ranks {
			d := must(NewDistributed(must(NewSequential(c.n)), rank, c.world, c.drop))
			if got := epochOf(d, 0); !slices.Equal(got, want) {
				t.Errorf("n %d, world %d, drop %v: rank %d has %v, want %v", c.n, c.world, c.drop, rank, got, want)
			}
		}
	}
}

// distribute is PyTorch's rule as its sampler does it: on a list.
func distribute(list []int, rank, world int, drop bool) []int {
	total := (len(list) + world - 1) / world * world
	if drop {
		total = len(list) / world * world
	}
	padded := slices.Clone(list)
	for len(padded) < total {
		padded = append(padded, list[:min(len(list), total-len(padded))]...)
	}
	mine := []int{}
	for i := rank; i < total; i += world {
		mine = append(mine, padded[i])
	}
	return mine
}

func TestDistributedIsTheRuleOnAList(t *testing.T) {
	for n := 1; n <= 24; n++ {
		whole := must(NewRandom(n, 8))
		list := epochOf(whole, 3)
		for world := 1; world <= 60; world++ {
			for rank := range world {
				for _, drop := range []bool{false, true} {
					d := must(NewDistributed(whole, rank, world, drop))
					if got, want := epochOf(d, 3), distribute(list, rank, world, drop); !slices.Equal(got, want) {
						t.Fatalf("n %d, world %d, drop %v: rank %d has %v, want %v", n, world, drop, rank, got, want)
					}
				}
			}
		}
	}
}

// TestWorldChangesNoGlobalBatch: at an equal global batch, the ranks' batches
// together hold the samples that one rank's batch would.
func TestWorldChangesNoGlobalBatch(t *testing.T) {
	const n, global = 96, 12
	whole := must(NewRandom(n, 8))
	alone := must(NewBatches(whole, global, false))
	for _, world := range []int{2, 3, 4, 12} {
		for k := range alone.Len() {
			want := alone.AppendAt(nil, 1, k)
			var got []int
			for rank := range world {
				mine := must(NewBatches(must(NewDistributed(whole, rank, world, false)), global/world, false))
				got = mine.AppendAt(got, 1, k)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("world %d, batch %d: %v, want %v", world, k, got, want)
			}
		}
	}
}

func TestDistributedBatches(t *testing.T) {
	whole := must(NewBatches(must(NewSequential(9)), 2, false)) // 01 23 45 67 8
	for _, c := range []struct {
		world int
		drop  bool
		want  string // of the ranks
	}{
		{2, false, "[[0 1][4 5][8]] [[2 3][6 7][0 1]]"},
		{2, true, "[[0 1][4 5]] [[2 3][6 7]]"},
		{5, false, "[[0 1]] [[2 3]] [[4 5]] [[6 7]] [[8]]"},
	} {
		got := ""
		for rank := range c.world {
			d := must(NewDistributedBatches(whole, rank, c.world, c.drop))
			if rank > 0 {
				got += " "
			}
			got += "["
			for k := range d.Len() {
				got += fmt.Sprint(d.AppendAt(nil, 0, k))
			}
			got += "]"
		}
		if got != c.want {
			t.Errorf("world %d, drop %v: %s, want %s", c.world, c.drop, got, c.want)
		}
	}
}
