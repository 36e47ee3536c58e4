package sampler

import (
	"fmt"
	"math"
	"sort"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/internal/draw"
)

// Blocks visits every sample once per epoch and keeps those of a block close
// together. It is for samples that are cheap to read together, such as those of
// a tar shard on a web server.
//
// In each epoch the order of the blocks is shuffled and cut into groups, and
// the samples of each group are shuffled. A group of one block only shuffles
// within blocks; one of all blocks is a random order of all samples. Under
// [Distributed], ranks share every group, so each of them reads from all blocks.
// A Blocks takes 8 bytes of memory per block, and 16 more for each of the two
// epochs whose order was asked for last.
type Blocks struct {
	starts []int // number of the first sample of each block, and of all at the end
	group  int   // blocks in a group; the last may have fewer
	order  Random
	within uint64 // key

	// A cache: the layouts of the last even and the last odd epoch.
	laid [2]atomic.Pointer[blockLayout]
}

// blockLayout is the order of the blocks in one epoch.
type blockLayout struct {
	epoch int
	block []int // at each place
	ends  []int // position behind each place
}

// NewBlocks returns an order of samples in blocks of these sizes, which are
// numbered block by block: sizes of 3 and 2 are the samples 0 to 2 and 3 to 4.
// group is the number of blocks whose samples are mixed, from 1 on. The slice
// is not kept. It is an [ErrArgument] if group is below 1, if a size is
// negative, or if there are no samples or too many to count.
func NewBlocks(sizes []int, group int, seed uint64) (*Blocks, error) {
	for _, v := range []struct {
		name string
		n    int
	}{{"the number of sizes", len(sizes)}, {"group", group}} {
		if err := atLeastOne(v.name, v.n); err != nil {
			return nil, err
		}
	}
	starts := make([]int, len(sizes)+1)
	for i, size := range sizes {
		if size < 0 {
			return nil, fmt.Errorf("sampler: %w: size %d of %d is %d", ErrArgument, i, len(sizes), size)
		}
		if size > math.MaxInt-starts[i] {
			return nil, fmt.Errorf("sampler: %w: the first %d of %d sizes are too many samples to count", ErrArgument, i+1, len(sizes))
		}
		starts[i+1] = starts[i] + size
	}
	if starts[len(sizes)] == 0 {
		return nil, fmt.Errorf("sampler: %w: all %d sizes are 0", ErrArgument, len(sizes))
	}
	return &Blocks{
		starts: starts,
		group:  min(group, len(sizes)),
		order:  Random{draw.Hash(saltBlocks, seed), newBijection(len(sizes))},
		within: draw.Hash(saltWithin, seed),
	}, nil
}

// Len is the number of samples.
func (s *Blocks) Len() int { return s.starts[len(s.starts)-1] }

// At returns the index that is visited k-th, or -1 if k is not in 0..Len()-1.
func (s *Blocks) At(epoch, k int) int {
	if !within(k, s.Len()) {
		return -1
	}
	l := s.layout(epoch)
	first := placeOf(l.ends, k) / s.group * s.group // place of the group's first block
	start := 0
	if first > 0 {
		start = l.ends[first-1]
	}
	end := l.ends[min(first+s.group, len(l.ends))-1]
	key := draw.Hash(draw.Hash(s.within, uint64(epoch)), uint64(first))
	k = start + int(newBijection(end-start).at(key, uint64(k-start)))
	place := placeOf(l.ends, k)
	return s.starts[l.block[place]+1] - (l.ends[place] - k)
}

// placeOf returns the place of the block that position k is in.
func placeOf(ends []int, k int) int {
	return sort.SearchInts(ends, k+1)
}

// layout returns the order of blocks in an epoch.
func (s *Blocks) layout(epoch int) *blockLayout {
	laid := &s.laid[epoch&1]
	if l := laid.Load(); l != nil && l.epoch == epoch {
		return l
	}
	blocks := len(s.starts) - 1
	l := &blockLayout{epoch, make([]int, blocks), make([]int, blocks)}
	end := 0
	for place := range blocks {
		b := s.order.At(epoch, place)
		end += s.starts[b+1] - s.starts[b]
		l.block[place], l.ends[place] = b, end
	}
	laid.Store(l)
	return l
}
