package dataset

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/pinion-gpu/pinion/dataset/internal/file"
)

// Raw is bare samples, back to back, in a file or a part of one, as
// numpy.ndarray.tofile or numpy.memmap write them. Elements are little-endian.
//
// They are read by position, not mapped: that is as fast, and a file that
// shrinks gives an error where a mapping would end the process.
type Raw struct {
	array
	source io.ReaderAt
	start  int64 // of sample 0
}

// RawOptions configures [OpenRaw] and [NewRaw]. The zero value works.
type RawOptions struct {
	// Offset is where sample 0 begins, in bytes: the length of a header that
	// is skipped. Default 0.
	Offset int64
	// Labels holds the class of every sample; it is not copied. Default nil:
	// all are -1.
	Labels []int32
	// Name stands for the samples in messages. Default the path, or "raw".
	Name string
}

// OpenRaw opens a file of samples of that spec; the file's size says how many
// there are. Close closes the file. It fails with [ErrEmpty] for a file with
// nothing behind the offset, [ErrDamaged] for one that ends inside of a
// sample, [ErrArgument] for an impossible spec, a negative offset or a wrong
// number of labels.
func OpenRaw(path string, spec Spec, opts RawOptions) (*Raw, error) {
	opts.Name = cmp.Or(opts.Name, path)
	sample, err := checkRaw(spec, opts)
	if err != nil {
		return nil, err
	}
	f, size, err := file.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	var d *Raw
	n, rest := (size-opts.Offset)/int64(sample), (size-opts.Offset)%int64(sample)
	switch {
	case size <= opts.Offset:
		err = fmt.Errorf("%s: %w: a file of %d bytes, samples begin at %d", opts.Name, ErrEmpty, size, opts.Offset)
	case rest != 0:
		err = fmt.Errorf("%s: %w: %d bytes from offset %d are not a whole number of samples of %d bytes (%v)", opts.Name, ErrDamaged, size-opts.Offset, opts.Offset, sample, spec)
	case n > math.MaxInt:
		err = fmt.Errorf("%s: %w: %d samples", opts.Name, ErrTooLarge, n)
	default:
		d, err = NewRaw(f, int(n), spec, opts)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return d, nil
}

// NewRaw makes a dataset of n samples of that spec in r, from opts.Offset on.
// All readers use r at once. Close closes r if it is an [io.Closer]. It fails
// with [ErrArgument] for an impossible spec, a negative offset, n below 1 or a
// wrong number of labels; whether r has so many bytes shows when they are read.
func NewRaw(r io.ReaderAt, n int, spec Spec, opts RawOptions) (*Raw, error) {
	opts.Name = cmp.Or(opts.Name, "raw")
	sample, err := checkRaw(spec, opts)
	switch {
	case err != nil:
		return nil, err
	case n < 1 || int64(n) > (math.MaxInt64-opts.Offset)/int64(sample):
		err = fmt.Errorf("%w: %d samples of %d bytes from %d on", ErrArgument, n, sample, opts.Offset)
	default:
		err = checkLabels(opts.Labels, n)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opts.Name, err)
	}
	return &Raw{array{opts.Name, opts.Labels, spec.Clone(), n, sample}, r, opts.Offset}, nil
}

// checkRaw checks what can be checked before a file is opened, and returns the
// bytes of a sample.
func checkRaw(spec Spec, opts RawOptions) (int, error) {
	sample, err := checkSpec(spec)
	if err == nil && opts.Offset < 0 {
		err = fmt.Errorf("%w: offset %d", ErrArgument, opts.Offset)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", opts.Name, err)
	}
	return sample, nil
}

// NewReader implements [Dataset]. Readers share the file and none of its
// state.
func (d *Raw) NewReader() (Reader, error) { return &rawReader{raw: d}, nil }

// Close closes the file. Reads fail from then on with [fs.ErrClosed].
func (d *Raw) Close() error {
	if c, ok := d.source.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

type rawReader struct {
	raw    *Raw
	closed bool
}

// Read implements [Reader].
func (r *rawReader) Read(_ context.Context, v Visit, dst []byte) error {
	d := r.raw
	if err := CheckRead(d, v.Index, dst, d.sample); err != nil {
		return err
	}
	if r.closed {
		return fmt.Errorf("%s: %w", d.Name(v.Index), fs.ErrClosed)
	}
	start := v.Timing.Start()
	if err := file.ReadFull(d.source, dst, d.start+int64(v.Index)*int64(d.sample)); err != nil {
		return fmt.Errorf("%s: %w", d.Name(v.Index), err)
	}
	v.Timing.AddRead(start)
	return nil
}

// Close implements [Reader].
func (r *rawReader) Close() error {
	r.closed = true
	return nil
}

func init() {
	Register(Format{
		Name:    "raw",
		Title:   "bare samples",
		Files:   "any headerless file of samples",
		Samples: "what the option says",
		Options: []Option{{Name: "raw", Usage: "`SHAPE,TYPE` of the samples in a headerless file, such as 256x256x3,u8"}},
		Sniff: func(at *Location) Confidence {
			if at.Given("raw") {
				return Asked
			}
			return NoMatch
		},
		Open: func(_ context.Context, at *Location, values Values) (Dataset, error) {
			spec, err := ParseSpec(values.Text("raw"))
			if err != nil {
				return nil, values.Bad("raw", err)
			}
			return OpenRaw(at.Path(), spec, RawOptions{})
		},
	})
}
