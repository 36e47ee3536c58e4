package sampler

import (
	"fmt"
	"math"
)

// shard is the part of n positions that one rank of a world takes.
type shard struct{ n, rank, world, len int }

func newShard(n, rank, world int, drop bool) (shard, error) {
	if err := atLeastOne("world", world); err != nil {
		return shard{}, err
	}
	if !within(rank, world) {
		return shard{}, fmt.Errorf("sampler: %w: rank is %d, want 0 to %d in a world of %d", ErrArgument, rank, world-1, world)
	}
	if n > math.MaxInt-world {
		return shard{}, fmt.Errorf("sampler: %w: %d positions in a world of %d are too many to count", ErrArgument, n, world)
	}
	s := shard{n, rank, world, n / world}
	if !drop && n%world > 0 {
		s.len++
	}
	return s, nil
}

// position is the place in the whole order of the rank's k-th, or -1.
func (s shard) position(k int) int {
	if !within(k, s.len) {
		return -1
	}
	return (s.rank + k*s.world) % s.n
}

// Distributed is one rank's part of a sampler, by the rules of PyTorch's
// DistributedSampler: rank r of world w takes the positions r, r+w, r+2w, … of
// the whole order.
type Distributed struct {
	whole Sampler
	shard shard
}

// NewDistributed returns the part of rank, from 0 to world-1. All ranks get as
// many indices: where the world's size does not divide the order, it is padded
// by repeating it from the start (several times if it is shorter than the
// padding), or with drop, its tail is dropped (which leaves nothing if the
// world is larger than the order). All ranks must use equal samplers.
//
// A world below 1, a rank outside it or a nil sampler is an [ErrArgument].
func NewDistributed(whole Sampler, rank, world int, drop bool) (*Distributed, error) {
	if whole == nil {
		return nil, errNoSampler
	}
	s, err := newShard(whole.Len(), rank, world, drop)
	if err != nil {
		return nil, err
	}
	return &Distributed{whole, s}, nil
}

// Len is the number of indices of an epoch that each rank gets.
func (d *Distributed) Len() int { return d.shard.len }

// At returns the rank's k-th index, or -1 if k is not in 0..Len()-1.
func (d *Distributed) At(epoch, k int) int {
	return d.whole.At(epoch, d.shard.position(k))
}

// DistributedBatches is one rank's part of a batch sampler: whole batches, by
// the same rules as [Distributed]. It is for batches that must stay together,
// as those of [ByLength].
type DistributedBatches struct {
	whole BatchSampler
	shard shard
}

// NewDistributedBatches returns the part of rank, from 0 to world-1: batches
// rank, rank+world, … It pads, drops and fails like [NewDistributed].
func NewDistributedBatches(whole BatchSampler, rank, world int, drop bool) (*DistributedBatches, error) {
	if whole == nil {
		return nil, errNoSampler
	}
	s, err := newShard(whole.Len(), rank, world, drop)
	if err != nil {
		return nil, err
	}
	return &DistributedBatches{whole, s}, nil
}

// Len is the number of batches of an epoch that each rank gets.
func (d *DistributedBatches) Len() int { return d.shard.len }

// AppendAt appends the indices of the rank's k-th batch to dst; nothing if k is
// not in 0..Len()-1.
func (d *DistributedBatches) AppendAt(dst []int, epoch, k int) []int {
	return d.whole.AppendAt(dst, epoch, d.shard.position(k))
}
