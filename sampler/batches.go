package sampler

// Batches cuts the order of a sampler into batches.
type Batches struct {
	order     Sampler
	size, len int
}

// NewBatches returns batches of size indices each. The last batch of an epoch
// is shorter where size does not divide the order; with dropLast it is left
// out, which leaves no batch if the order is shorter than one. A size below 1
// or a nil sampler is an [ErrArgument].
func NewBatches(order Sampler, size int, dropLast bool) (*Batches, error) {
	if order == nil {
		return nil, errNoSampler
	}
	if err := atLeastOne("size", size); err != nil {
		return nil, err
	}
	return &Batches{order, size, batchesOf(order.Len(), size, dropLast)}, nil
}

// batchesOf is the number of batches that n indices make.
func batchesOf(n, size int, dropLast bool) int {
	count := n / size
	if !dropLast && n%size > 0 {
		count++
	}
	return count
}

// Len is the number of batches of an epoch.
func (b *Batches) Len() int { return b.len }

// AppendAt appends the indices of the k-th batch of an epoch to dst; nothing if
// k is not in 0..Len()-1.
func (b *Batches) AppendAt(dst []int, epoch, k int) []int {
	if !within(k, b.len) {
		return dst
	}
	first := k * b.size
	for i := range min(b.size, b.order.Len()-first) {
		dst = append(dst, b.order.At(epoch, first+i))
	}
	return dst
}
