package dataset

import (
	"fmt"
	"math"
)

// Raw is a file of bare samples, back to back, as numpy.ndarray.tofile or
// numpy.memmap write them. Elements are little-endian.
type Raw struct{ fileArray }

// RawOptions configures [OpenRaw]. The zero value works.
type RawOptions struct {
	// Offset is where sample 0 begins, in bytes: the length of a header that
	// is skipped. Default 0.
	Offset int64
	// Labels holds the class of every sample; it is not copied. Default nil:
	// all are -1.
	Labels []int32
}

// OpenRaw opens a file of samples of that spec; the file's size says how many
// there are. Close closes the file. It fails with [ErrEmpty] for a file with
// nothing behind the offset, [ErrDamaged] for one that ends inside of a
// sample, [ErrArgument] for an impossible spec, a negative offset or a wrong
// number of labels.
func OpenRaw(path string, spec Spec, opts RawOptions) (*Raw, error) {
	sample, err := checkSpec(spec)
	if err == nil && opts.Offset < 0 {
		err = fmt.Errorf("%w: offset %d", ErrArgument, opts.Offset)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	n, rest := (size-opts.Offset)/int64(sample), (size-opts.Offset)%int64(sample)
	switch {
	case size <= opts.Offset:
		err = fmt.Errorf("%w: a file of %d bytes, samples begin at %d", ErrEmpty, size, opts.Offset)
	case rest != 0:
		err = fmt.Errorf("%w: %d bytes from offset %d are no whole samples of %d (%v)", ErrDamaged, size-opts.Offset, opts.Offset, sample, spec)
	case n > math.MaxInt:
		err = fmt.Errorf("%w: %d samples", ErrTooLarge, n)
	default:
		err = checkLabels(opts.Labels, int(n))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Raw{fileArray{array{path, opts.Labels, spec.clone(), int(n), sample}, f, opts.Offset}}, nil
}
