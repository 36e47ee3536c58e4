package loader

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"path"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
	"github.com/pinion-gpu/pinion/loader/internal/usercode"
	"github.com/pinion-gpu/pinion/sampler"
)

// order is the batches of a loader: batch number n of epoch e is number
// e*perEpoch+n in all.
type order struct {
	batches  sampler.BatchSampler // of this rank
	perEpoch int
	total    int // in all epochs
	largest  int // samples in a batch, at most
	global   int // samples of a full batch of all ranks
	whole    int // samples of an epoch of all ranks; 0 where batches are the caller's own
	digest   string
}

// newOrder makes the order that o asks for.
func newOrder(ds dataset.Dataset, o Options) (r order, err error) {
	defer usercode.Recover(&err, "loader: in the sampler")
	if o.Batches != nil && (o.Sampler != nil || o.Shuffle || o.DropLast) {
		return order{}, fmt.Errorf("loader: %w: Batches comes with an order of its own, so without Sampler, Shuffle and DropLast", device.ErrArgument)
	}
	if o.Sampler != nil && o.Shuffle {
		return order{}, fmt.Errorf("loader: %w: Sampler is an order already, so without Shuffle", device.ErrArgument)
	}
	r = order{largest: o.Batch, global: o.Batch * o.World}
	whole := ds.Len()
	if o.Sampler != nil {
		whole = o.Sampler.Len()
	}
	if o.Batches != nil {
		r.digest = digest(o.Batches.Len(), o.Batches.AppendAt)
		r.batches, err = sampler.NewDistributedBatches(o.Batches, o.Rank, o.World, false)
	} else {
		r.batches, err = r.ofSamples(ds, o)
	}
	if err != nil {
		return order{}, fmt.Errorf("loader: %w", err)
	}
	r.perEpoch = r.batches.Len()
	if o.DropLast && r.perEpoch == 0 {
		share := ""
		if o.World > 1 {
			share = fmt.Sprintf(" for each of %d ranks", o.World)
		}
		return order{}, fmt.Errorf("loader: %w: %s make no full batch of %d%s, and DropLast leaves out the rest", device.ErrArgument, units.Count(whole, "sample"), o.Batch, share)
	}
	r.count(o.Epochs, 0)
	return r, nil
}

// ofSamples cuts a rank's part of an order of samples into batches.
func (r *order) ofSamples(ds dataset.Dataset, o Options) (sampler.BatchSampler, error) {
	whole := o.Sampler
	var err error
	switch {
	case whole != nil:
	case o.Shuffle:
		whole, err = sampler.NewRandom(ds.Len(), o.Seed)
	default:
		whole, err = sampler.NewSequential(ds.Len())
	}
	if err != nil {
		return nil, err
	}
	r.whole = whole.Len()
	r.digest = digest(r.whole, func(dst []int, epoch, k int) []int { return append(dst, whole.At(epoch, k)) })
	mine, err := sampler.NewDistributed(whole, o.Rank, o.World, o.DropLast)
	if err != nil {
		return nil, err
	}
	// No slab for more samples than an epoch has.
	r.largest = min(r.largest, max(mine.Len(), 1))
	return sampler.NewBatches(mine, o.Batch, o.DropLast)
}

// count sets the number of batches: those of so many epochs, and of the ones
// that loops left early.
func (r *order) count(epochs, dropped int) {
	r.total = saturated(r.perEpoch, min(epochs, math.MaxInt-dropped)+dropped)
}

// saturated is a*b, or the largest number that still can be counted to.
func saturated(a, b int) int {
	if a > 0 && b > (math.MaxInt-1)/a {
		return math.MaxInt - 1
	}
	return a * b
}

// at returns epoch and number of the batch that is n-th in all.
func (r *order) at(n int) (epoch, number int) { return n / r.perEpoch, n % r.perEpoch }

// epoch is that of batch n.
func (r *order) epoch(n int) int { return n / r.perEpoch }

// full reports whether the batch of a number is a full one, on all ranks: one
// that samples from the start of the order fill up is not. Batches of the
// caller's own are always full.
func (r *order) full(number int) bool { return r.whole == 0 || number < r.whole/r.global }

// probes is how many places of an order, and of a dataset, a digest looks at.
const probes = 64

// probed calls look for up to that many numbers from 0 to n-1, evenly spread.
func probed(n int, look func(k int)) {
	for i := range min(n, probes) {
		look(i * ((n-1)/min(n, probes) + 1) % n)
	}
}

// digest tells orders apart: by their length and what is visited in places.
func digest(n int, appendAt func(dst []int, epoch, k int) []int) string {
	h := sha256.New()
	put := func(v int) { _ = binary.Write(h, binary.LittleEndian, int64(v)) }
	put(n)
	var list []int
	for _, epoch := range []int{0, 1, 2} {
		probed(n, func(k int) {
			list = appendAt(list[:0], epoch, k)
			put(len(list))
			for _, i := range list {
				put(i)
			}
		})
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// datasetDigest tells datasets apart, and their targets: by their length, the
// form of samples, and the names and labels of some. Of a name only the last
// element counts, so that a dataset may move.
func (l *Loader) datasetDigest() (text string, err error) {
	defer usercode.Recover(&err, "in the dataset")
	h := sha256.New()
	put := func(s *slab.Source) {
		fmt.Fprintln(h, l.samples, s.Spec)
		if l.endless { // its samples have names once they were read
			fmt.Fprintln(h, path.Base(s.Dataset.Name(l.samples-1)))
			return
		}
		probed(l.samples, func(i int) { fmt.Fprintln(h, path.Base(s.Dataset.Name(i)), s.Dataset.Label(i)) })
	}
	put(&l.layout.Samples)
	for k := range l.layout.Targets {
		put(&l.layout.Targets[k])
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
