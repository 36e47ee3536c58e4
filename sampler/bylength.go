package sampler

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/internal/draw"
)

// ByLengthOptions tune a [ByLength]. The zero value works.
type ByLengthOptions struct {
	// Size is the number of samples in a batch. Default: 64.
	Size int

	// Bucket is the number of batches in a bucket. The samples of a batch come
	// from one bucket: with 1 there is the least padding, but a batch has the same
	// samples in every epoch; larger buckets mix more and pad more. Default: 16.
	Bucket int

	// DropLast leaves out the batch that is not full, of which there is at
	// most one. Its samples are drawn from the last bucket, anew for each
	// epoch.
	DropLast bool

	// Seed draws the members of batches and the order of batches.
	Seed uint64
}

// ByLength makes batches of samples of similar length, so that little is padded,
// and visits the batches in random order. Both are drawn anew for each epoch.
//
// Samples are sorted by length and cut into buckets of equal size. In each
// epoch, every bucket is shuffled and cut into batches, then the order of all
// batches is shuffled. The last bucket is larger by what is left over. The batch
// that is not full may come anywhere in the epoch. A ByLength takes 8 bytes of
// memory per sample.
type ByLength struct {
	sorted  []int // indices, shortest sample first
	size    int
	bucket  int // batches in each bucket; the last has the remainder too
	buckets int
	members uint64 // key
	batches Random
}

// NewByLength returns batches of the samples whose lengths are given, in any
// unit. The slice is not kept. It is an [ErrArgument] if there are none, if one
// is negative, or if Size or Bucket is.
func NewByLength(lengths []int, o ByLengthOptions) (*ByLength, error) {
	o.Size, o.Bucket = cmp.Or(o.Size, 64), cmp.Or(o.Bucket, 16)
	for _, v := range []struct {
		name string
		n    int
	}{{"the number of lengths", len(lengths)}, {"Size", o.Size}, {"Bucket", o.Bucket}} {
		if err := atLeastOne(v.name, v.n); err != nil {
			return nil, err
		}
	}
	sorted := make([]int, len(lengths))
	for i, length := range lengths {
		if length < 0 {
			return nil, fmt.Errorf("sampler: %w: length %d of %d is %d", ErrArgument, i, len(lengths), length)
		}
		sorted[i] = i
	}
	slices.SortFunc(sorted, func(a, b int) int {
		return cmp.Or(cmp.Compare(lengths[a], lengths[b]), cmp.Compare(a, b))
	})
	return &ByLength{
		sorted:  sorted,
		size:    o.Size,
		bucket:  o.Bucket,
		buckets: max(1, len(lengths)/o.Size/o.Bucket),
		members: draw.Hash(saltMembers, o.Seed),
		batches: Random{draw.Hash(saltBatches, o.Seed), newBijection(batchesOf(len(lengths), o.Size, o.DropLast))},
	}, nil
}

// Len is the number of batches of an epoch.
func (b *ByLength) Len() int { return b.batches.Len() }

// AppendAt appends the indices of the k-th batch of an epoch to dst; nothing if
// k is not in 0..Len()-1.
func (b *ByLength) AppendAt(dst []int, epoch, k int) []int {
	batch := b.batches.At(epoch, k)
	if batch < 0 {
		return dst
	}
	bucket := min(batch/b.bucket, b.buckets-1)
	members := b.sorted[bucket*b.bucket*b.size:]
	if bucket < b.buckets-1 {
		members = members[:b.bucket*b.size]
	}
	order := newBijection(len(members))
	key := draw.Hash(draw.Hash(b.members, uint64(epoch)), uint64(bucket))
	first := (batch - bucket*b.bucket) * b.size
	for i := range min(b.size, len(members)-first) {
		dst = append(dst, members[order.at(key, uint64(first+i))])
	}
	return dst
}
