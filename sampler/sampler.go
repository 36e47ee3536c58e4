package sampler

import (
	"fmt"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// ErrArgument: a number that a constructor cannot work with. The error around
// it says which, and its value.
var ErrArgument = errs.ErrArgument

// Sampler is an order of samples for every epoch.
//
// A Sampler has no position: At is a function of its arguments and of what the
// sampler was made with, so it is safe for concurrent use.
type Sampler interface {
	// Len is the number of indices of an epoch, the same for every epoch.
	Len() int

	// At returns the k-th index of an epoch, or -1 if k is not in
	// 0..Len()-1. Any epoch will do.
	At(epoch, k int) int
}

// BatchSampler is an order of batches for every epoch. Like a [Sampler] it has
// no position and is safe for concurrent use.
type BatchSampler interface {
	// Len is the number of batches of an epoch, the same for every epoch.
	Len() int

	// AppendAt appends the indices of the k-th batch of an epoch to dst and
	// returns it. It appends nothing if k is not in 0..Len()-1.
	AppendAt(dst []int, epoch, k int) []int
}

var errNoSampler = fmt.Errorf("sampler: %w: the sampler is nil", ErrArgument)

// within reports whether k is in 0..n-1.
func within(k, n int) bool { return k >= 0 && k < n }

// atLeastOne returns an error if the argument of that name is below 1.
func atLeastOne(name string, v int) error {
	if v < 1 {
		return fmt.Errorf("sampler: %w: %s is %d, want 1 or more", ErrArgument, name, v)
	}
	return nil
}
