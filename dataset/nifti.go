package dataset

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
)

// NIfTI is one .nii or .nii.gz file, NIfTI-1 or NIfTI-2. Its last axis counts
// samples if it has more than three; else it is one sample. Axes are those of
// the file in reverse, since x is the fastest there: a file of dim = {4, X, Y,
// Z, N} is N samples of {Z, Y, X}. Voxels stay where they are stored: the
// orientation in the header is not applied.
type NIfTI struct {
	array
	opts   VolumeOptions
	header niftiHeader
	volume []int // its shape as it is stored
	stored int64 // bytes of a volume
	voxels io.ReaderAt
	start  int64    // of the first volume
	file   *os.File // nil if the voxels are in memory
}

// OpenNIfTI opens a file. One that is compressed is decompressed into memory,
// all of it, until ctx ends, since a volume in the middle cannot be reached
// otherwise. Close closes the file.
//
// It fails with [ErrFormat] for what is no NIfTI file of header and voxels or
// for voxels of another type, [ErrDamaged] for a broken header or a file that
// ends too early, [ErrTooLarge] for volumes beyond opts.MaxBytes (for a
// compressed file: all of them), and [ErrArgument] for impossible options.
func OpenNIfTI(ctx context.Context, path string, opts VolumeOptions) (*NIfTI, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := openNIfTI(path)
	if err != nil {
		return nil, err
	}
	d, err := newNIfTI(ctx, path, f, opts)
	if err != nil || f.gz {
		f.file.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func newNIfTI(ctx context.Context, path string, f *niftiFile, opts VolumeOptions) (*NIfTI, error) {
	h := f.header
	d := &NIfTI{opts: opts, header: h, volume: h.shape, voxels: f.file, start: h.offset, file: f.file}
	n := 1
	if len(h.shape) > 3 {
		n, d.volume = h.shape[0], h.shape[1:]
	}
	if err := opts.check(h, d.volume); err != nil {
		return nil, err
	}
	all, err := volumeBytes(h.shape, h.kind.size, math.MaxInt64)
	if err == nil {
		err = f.checkSize(all)
	}
	if err == nil && f.gz && all > opts.MaxBytes {
		err = fmt.Errorf("%w: %d volumes of %v, %d bytes compressed in one file; the limit is %d bytes", ErrTooLarge, n, d.volume, all, opts.MaxBytes)
	}
	if err != nil {
		return nil, err
	}
	if f.gz {
		data := make([]byte, all)
		if err := f.load(ctx, new(gunzip), data); err != nil {
			return nil, err
		}
		d.voxels, d.start, d.file = bytes.NewReader(data), 0, nil
	}
	d.stored = all / int64(n)
	spec := Spec{Shape: opts.size(d.volume), DType: opts.DType}
	d.array = array{path, nil, spec, n, spec.Bytes()}
	return d, nil
}

// NewReader implements [Dataset]. Readers share the file and none of its
// state.
func (d *NIfTI) NewReader() (Reader, error) {
	return &niftiReader{nifti: d, voxels: voxelReader{opts: d.opts}}, nil
}

// Close closes the file. Reads fail from then on with [fs.ErrClosed], unless
// the voxels are in memory.
func (d *NIfTI) Close() error {
	if d.file == nil {
		return nil
	}
	return d.file.Close()
}

type niftiReader struct {
	nifti  *NIfTI
	voxels voxelReader
	closed bool
}

// Read implements [Reader].
func (r *niftiReader) Read(_ context.Context, v Visit, dst []byte) error {
	d := r.nifti
	if err := checkRead(d, v.Index, dst, d.sample); err != nil {
		return err
	}
	if r.closed {
		return fmt.Errorf("%s: %w", d.Name(v.Index), fs.ErrClosed)
	}
	err := r.voxels.read(dst, d.header, d.volume, v.Timing, func(b []byte) error {
		start := v.Timing.start()
		err := readFull(d.voxels, b, d.start+int64(v.Index)*d.stored)
		v.Timing.read(start)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(v.Index), err)
	}
	return nil
}

// Close implements [Reader].
func (r *niftiReader) Close() error {
	*r = niftiReader{nifti: r.nifti, closed: true}
	return nil
}
