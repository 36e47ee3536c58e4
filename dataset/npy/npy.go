package npy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/internal/labels"
	"github.com/pinion-gpu/pinion/dataset/internal/stored"
)

// Array is a NumPy array in a .npy file, format 1, 2 or 3. The first axis
// counts samples: an array of shape (N, 3, 8) is N samples of {3, 8}. Elements
// are bool (read as u8), uint8 to uint64, int8 to int64, or float16 to float64, of
// which uint32 and uint64 become I64; a number that is too large for that is an
// error of its sample. Big-endian elements are turned around as they are read.
//
// An array in Fortran order is read into memory once, since there the elements of
// a sample are spread over the whole file.
type Array struct{ dataset.Dataset }

// Options configures [Open]. The zero value works.
type Options struct {
	// Label is the path of another .npy file, whose array holds the labels: whole
	// numbers of shape {N} or {N, 1}, which are read into memory. Default:
	// "x.labels.npy" beside "x.npy" if it is there; else all labels are -1.
	Label string
	// MaxBytes is the largest array in Fortran order that is read. Default 4 GiB.
	MaxBytes int64
}

// Open opens an array and reads its header. Close closes the file.
// It fails with [dataset.ErrFormat] for what is no array or one of another kind,
// [dataset.ErrEmpty] for an array of no elements, [dataset.ErrDamaged] for a
// broken header or a file whose size is not what the header says,
// [dataset.ErrTooLarge], or [dataset.ErrArgument] for labels of another number.
func Open(ctx context.Context, path string, opts Options) (*Array, error) {
	opts.MaxBytes = cmp.Or(max(opts.MaxBytes, 0), defaultMaxBytes)
	f, size, err := file.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	d, err := open(ctx, path, f, size, opts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return d, nil
}

func open(ctx context.Context, path string, f *os.File, size int64, opts Options) (*Array, error) {
	h, err := readHeader(f)
	if err == nil {
		err = cmp.Or(h.checkSamples(), h.checkSize(size))
	}
	if err != nil {
		return nil, err
	}
	labels, err := readLabels(path, opts.Label, h.shape[0])
	if err != nil {
		return nil, err
	}
	d, err := h.dataset(ctx, f, h.bytes, path, labels, opts.MaxBytes)
	if err != nil {
		return nil, err
	}
	return &Array{d}, nil
}

// Unwrap returns the samples, which may be in memory.
func (d *Array) Unwrap() dataset.Dataset { return d.Dataset }

// Close closes the file.
func (d *Array) Close() error { return dataset.Close(d.Dataset) }

// defaultMaxBytes is the largest array that becomes samples in memory.
const defaultMaxBytes = 4 << 30

// dataset makes samples of the elements in r from a position on.
func (h header) dataset(ctx context.Context, r io.ReaderAt, at int64, name string, labels []int32, limit int64) (dataset.Dataset, error) {
	source := r
	if !h.Plain() {
		source, at = stored.Source{Type: h.Type, R: r, Start: at}, 0
	}
	if !h.fortran {
		return dataset.NewRaw(source, h.shape[0], h.sample(), dataset.RawOptions{Labels: labels, Name: name, Offset: at})
	}
	if bytes := int64(h.DType.Size()) * elements(h.shape); bytes > limit {
		return nil, fmt.Errorf("%w: %d bytes in Fortran order, the limit is %d; numpy.ascontiguousarray changes the order", dataset.ErrTooLarge, bytes, limit)
	}
	data := make([]byte, int64(h.DType.Size())*elements(h.shape))
	err := stored.Transpose(data, h.shape, h.DType.Size(), func(b []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := file.ReadFull(source, b, at)
		at += int64(len(b))
		return err
	})
	if err != nil {
		return nil, err
	}
	d, err := dataset.NewMemory(data, h.sample(), dataset.MemoryOptions{Labels: labels, Name: name})
	if err != nil {
		return nil, err
	}
	if c, ok := r.(io.Closer); ok {
		return dataset.Owning(d, c), nil
	}
	return d, nil
}

// labelsBeside is the end of the name of a file of labels, in place of that of
// the samples.
const labelsBeside = ".labels.npy"

// readLabels reads n labels of an array from a file beside it, if there is one.
func readLabels(path, beside string, n int) ([]int32, error) {
	if beside == "" {
		beside = strings.TrimSuffix(path, filepath.Ext(path)) + labelsBeside
		if _, err := os.Stat(beside); err != nil {
			return nil, nil
		}
	}
	f, size, err := file.OpenRegular(beside)
	if err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	defer f.Close()
	h, err := readHeader(f)
	if err == nil {
		err = h.checkSize(size)
	}
	var list []int32
	if err == nil {
		list, err = h.labels(f, h.bytes, n)
	}
	if err != nil {
		return nil, fmt.Errorf("labels: %s: %w", beside, err)
	}
	return list, nil
}

// labels reads an array of n labels from a position on.
func (h header) labels(r io.ReaderAt, at int64, n int) ([]int32, error) {
	if h.shape[0] != n || elements(h.shape) != int64(n) {
		return nil, fmt.Errorf("%w: labels of shape %v for %d samples", dataset.ErrArgument, h.shape, n)
	}
	if !h.Plain() {
		r, at = stored.Source{Type: h.Type, R: r, Start: at}, 0
	}
	return labels.Read(r, at, n, h.DType)
}
