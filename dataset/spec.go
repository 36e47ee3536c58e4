package dataset

import (
	"fmt"
	"math"
	"strings"

	"github.com/pinion-gpu/pinion/dtype"
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

// ParseSpec reads the form of a sample as text: "256x256x3,u8", or a type alone
// for scalars.
func ParseSpec(text string) (spec Spec, err error) {
	shape, name, found := strings.Cut(text, ",")
	if !found {
		shape, name = "", shape
	}
	if spec.DType, err = dtype.Parse(name); err != nil || shape == "" {
		return spec, err
	}
	spec.Shape, err = ParseShape(shape)
	return spec, err
}
