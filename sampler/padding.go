package sampler

import "fmt"

// Padding says how much of the batches of an epoch is padding, if each sample
// is padded to the longest of its batch. Both counts are in the unit of the
// lengths.
type Padding struct {
	Used   int64 // the samples' own lengths
	Padded int64 // with padding
}

// PaddingOf returns the padding of an epoch of batches of samples of these
// lengths, for instance to choose [ByLengthOptions].Bucket. It goes through the
// whole epoch. A batch with an index that has no length is an [ErrArgument].
func PaddingOf(batches BatchSampler, lengths []int, epoch int) (Padding, error) {
	if batches == nil {
		return Padding{}, errNoSampler
	}
	var p Padding
	var batch []int
	for k := range batches.Len() {
		batch = batches.AppendAt(batch[:0], epoch, k)
		longest := 0
		for _, i := range batch {
			if !within(i, len(lengths)) {
				return Padding{}, fmt.Errorf("sampler: %w: index %d in batch %d, but %d lengths", ErrArgument, i, k, len(lengths))
			}
			p.Used += int64(lengths[i])
			longest = max(longest, lengths[i])
		}
		p.Padded += int64(longest) * int64(len(batch))
	}
	return p, nil
}

// Waste is the share of what is padded that is padding, from 0 to 1.
func (p Padding) Waste() float64 {
	if p.Padded == 0 {
		return 0
	}
	return float64(p.Padded-p.Used) / float64(p.Padded)
}

// String is like "12.5% padding: 700 used of 800".
func (p Padding) String() string {
	return fmt.Sprintf("%.1f%% padding: %d used of %d", 100*p.Waste(), p.Used, p.Padded)
}
