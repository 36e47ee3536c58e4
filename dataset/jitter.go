package dataset

import (
	"fmt"

	"github.com/pinion-gpu/pinion/imaging"
)

// JitterOf returns the jitter of the transform of the pictures in d, which is not
// made by readers but on the device, behind them. It looks behind subsets, chains
// and maps; where there are no pictures it is zero. It fails with [ErrArgument]
// where the parts of a chain differ in it.
func JitterOf(d Dataset) (imaging.Jitter, error) {
	switch d := d.(type) {
	case Encoded:
		return d.Transform().Jitter(), nil
	case *Subset:
		return JitterOf(d.dataset)
	case *Map:
		return JitterOf(d.dataset)
	case *Concat:
		return d.jitter()
	}
	return imaging.Jitter{}, nil
}

// jitter is that of all parts.
func (d *Concat) jitter() (all imaging.Jitter, err error) {
	for i, p := range d.parts {
		j, err := JitterOf(p)
		switch {
		case err != nil:
			return j, err
		case i > 0 && j != all:
			return j, fmt.Errorf("concat: %w: pictures of part %d are jittered by %+v, of part 0 by %+v", ErrArgument, i, j, all)
		}
		all = j
	}
	return all, nil
}
