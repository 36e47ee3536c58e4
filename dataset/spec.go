package dataset

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/dtype"
)

// checkSpec checks a spec that a caller gives and returns its bytes.
func checkSpec(s Spec) (int, error) {
	if !s.DType.Valid() {
		return 0, fmt.Errorf("%w: samples of type %v", ErrArgument, s.DType)
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

// wholeLabels converts an array of whole numbers of any type.
func wholeLabels(data []byte, d dtype.DType) ([]int32, error) {
	var value func(b []byte) int64
	switch d {
	case dtype.U8:
		value = func(b []byte) int64 { return int64(b[0]) }
	case dtype.I8:
		value = func(b []byte) int64 { return int64(int8(b[0])) }
	case dtype.I16:
		value = func(b []byte) int64 { return int64(int16(binary.LittleEndian.Uint16(b))) }
	case dtype.I32:
		value = func(b []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(b))) }
	case dtype.I64:
		value = func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }
	default:
		return nil, fmt.Errorf("%w: labels of type %v; want whole numbers", ErrFormat, d)
	}
	labels := make([]int32, len(data)/d.Size())
	for i := range labels {
		v := value(data[i*d.Size():])
		if labels[i] = int32(v); int64(labels[i]) != v {
			return nil, fmt.Errorf("%w: label %d of sample %d does not fit 32 bits", ErrFormat, v, i)
		}
	}
	return labels, nil
}
