package dataset

import (
	"fmt"
	"math"
)

// checkSpec checks a spec that a caller gives, of samples of one shape, and
// returns its bytes.
func checkSpec(s Spec) (int, error) {
	if !s.DType.Valid() {
		return 0, fmt.Errorf("%w: samples of type %v", ErrArgument, s.DType)
	}
	if s.Ragged {
		return 0, fmt.Errorf("%w: want samples of one shape, not %v", ErrArgument, s)
	}
	bytes := s.DType.Size()
	for _, d := range s.Shape {
		if d < 1 || bytes > math.MaxInt/d {
			return 0, fmt.Errorf("%w: samples of shape %v and type %v", ErrArgument, s.Shape, s.DType)
		}
		bytes *= d
	}
	return bytes, nil
}

// checkLabels checks labels that a caller gives; there may be none at all.
func checkLabels(labels []int32, samples int) error {
	if labels != nil && len(labels) != samples {
		return fmt.Errorf("%w: %d labels for %d samples", ErrArgument, len(labels), samples)
	}
	return nil
}
