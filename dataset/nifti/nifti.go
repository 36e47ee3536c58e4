package nifti

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
)

// File is one .nii or .nii.gz file, NIfTI-1 or NIfTI-2. Its last axis counts
// samples if it has more than three; else it is one sample. Axes are those of
// the file in reverse, since x is the fastest there: a file of dim = {4, X, Y,
// Z, N} is N samples of {Z, Y, X}. Voxels stay where they are stored: the
// orientation in the header is not applied.
type File struct {
	name   string
	spec   dataset.Spec
	n      int
	opts   Options
	header header
	volume []int // its shape as it is stored
	stored int64 // bytes of a volume
	voxels io.ReaderAt
	start  int64    // of the first volume
	file   *os.File // nil if the voxels are in memory
}

// Open opens a file. One that is compressed is decompressed into memory,
// all of it, until ctx ends, since a volume in the middle cannot be reached
// otherwise. Close closes the file.
//
// It fails with [dataset.ErrFormat] for what is no NIfTI file of header and voxels or
// for voxels of another type, [dataset.ErrDamaged] for a broken header or a file that
// ends too early, [dataset.ErrTooLarge] for volumes beyond opts.MaxBytes (for a
// compressed file: all of them), and [dataset.ErrArgument] for impossible options.
func Open(ctx context.Context, path string, opts Options) (*File, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := openSource(path)
	if err != nil {
		return nil, err
	}
	d, err := newFile(ctx, path, f, opts)
	if err != nil || f.gz {
		f.file.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func newFile(ctx context.Context, path string, f *source, opts Options) (*File, error) {
	h := f.header
	d := &File{opts: opts, header: h, volume: h.shape, voxels: f.file, start: h.offset, file: f.file}
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
		err = fmt.Errorf("%w: %d volumes of %v, %d bytes compressed in one file; the limit is %d bytes", dataset.ErrTooLarge, n, d.volume, all, opts.MaxBytes)
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
	spec := dataset.Spec{Shape: opts.size(d.volume), DType: opts.DType}
	d.name, d.spec, d.n = path, spec, n
	return d, nil
}

// Len implements [dataset.Dataset].
func (d *File) Len() int { return d.n }

// Spec implements [dataset.Dataset].
func (d *File) Spec() dataset.Spec { return d.spec.Clone() }

// Name implements [dataset.Dataset]: "scan.nii[17]".
func (d *File) Name(i int) string { return fmt.Sprintf("%s[%d]", d.name, i) }

// Label implements [dataset.Dataset]: there are none.
func (d *File) Label(int) int32 { return -1 }

// NewReader implements [dataset.Dataset]. Readers share the file and none of its
// state.
func (d *File) NewReader() (dataset.Reader, error) {
	return &fileReader{nifti: d, voxels: voxelReader{opts: d.opts}}, nil
}

// Close closes the file. Reads fail from then on with [fs.ErrClosed], unless
// the voxels are in memory.
func (d *File) Close() error {
	if d.file == nil {
		return nil
	}
	return d.file.Close()
}

type fileReader struct {
	nifti  *File
	voxels voxelReader
	closed bool
}

// Read implements [dataset.Reader].
func (r *fileReader) Read(_ context.Context, v dataset.Visit, dst []byte) error {
	d := r.nifti
	if err := dataset.CheckRead(d, v.Index, dst, d.spec.Bytes()); err != nil {
		return err
	}
	if r.closed {
		return fmt.Errorf("%s: %w", d.Name(v.Index), fs.ErrClosed)
	}
	err := r.voxels.read(dst, d.header, d.volume, v.Timing, func(b []byte) error {
		start := v.Timing.Start()
		err := file.ReadFull(d.voxels, b, d.start+int64(v.Index)*d.stored)
		v.Timing.AddRead(start)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(v.Index), err)
	}
	return nil
}

// Close implements [dataset.Reader].
func (r *fileReader) Close() error {
	*r = fileReader{nifti: r.nifti, closed: true}
	return nil
}
