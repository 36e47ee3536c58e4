package spmd

import (
	"github.com/pinion-gpu/pinion/step/graph"
)

// Cut returns a rank's part of the data of a parameter, such as one of a checkpoint, along
// the axis that [Partitioned] has for it. s is the shape of all of it. The part is a
// copy; of [Whole], it is data itself. It fails with [train.ErrArgument] if data or the axis
// do not fit.
//
// [train.ErrArgument]: https://pkg.go.dev/github.com/pinion-gpu/pinion/step/train#pkg-variables
func Cut(data []byte, s graph.Shape, axis, ranks, rank int) ([]byte, error) {
	if ranks < 1 || rank < 0 || rank >= ranks {
		return nil, bad("rank %d of %d", rank, ranks)
	}
	if int64(len(data)) != s.Bytes() {
		return nil, bad("%d bytes of %v, which has %d", len(data), s, s.Bytes())
	}
	if axis == Whole {
		return data, nil
	}
	row, err := rowOf(s, axis, ranks)
	if err != nil {
		return nil, err
	}
	part := make([]byte, 0, len(data)/ranks)
	for at := rank * row; at < len(data); at += ranks * row {
		part = append(part, data[at:at+row]...)
	}
	return part, nil
}

// Join returns the data of a parameter of which each rank has a part, in the order of the
// ranks: what [Cut] cuts. Of [Whole], it is the first rank's. It fails as Cut does.
func Join(parts [][]byte, s graph.Shape, axis int) ([]byte, error) {
	if len(parts) == 0 {
		return nil, bad("no parts of %v", s)
	}
	ranks, each := len(parts), s.Bytes()
	row, err := len(parts[0]), error(nil)
	if axis != Whole {
		if row, err = rowOf(s, axis, ranks); err != nil {
			return nil, err
		}
		each /= int64(ranks)
	}
	for rank, part := range parts {
		if int64(len(part)) != each {
			return nil, bad("rank %d of %d has %d bytes of %v instead of %d", rank, ranks, len(part), s, each)
		}
	}
	if axis == Whole {
		return parts[0], nil
	}
	data := make([]byte, 0, s.Bytes())
	for at := 0; at < len(parts[0]); at += row {
		for _, part := range parts {
			data = append(data, part[at:at+row]...)
		}
	}
	return data, nil
}

// rowOf is how many bytes of a rank's lie one behind the other.
func rowOf(s graph.Shape, axis, ranks int) (int, error) {
	if axis < 0 || axis >= s.Rank() || s.Dims[axis]%ranks != 0 {
		return 0, bad("%v cannot be split along axis %d by %d ranks", s, axis, ranks)
	}
	return product(s.Dims[axis:]) / ranks * s.Type.Size(), nil
}
