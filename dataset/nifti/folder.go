package nifti

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/ragged"
)

// Folder is NIfTI files in a folder, one sample each. Axes are those of the
// file in reverse, since x is the fastest there: {Z, Y, X}, or {T, Z, Y, X}
// for a series. Voxels stay where they are stored: the orientation in the
// headers is not applied.
type Folder struct {
	*ragged.Files
	opts Options
}

// OpenFolder lists the volumes below dir, files that end in .nii or .nii.gz,
// in the order and with the classes of [dataset.OpenFolder], and reads their headers.
// Folder are of one shape. Where they differ in the slowest axis alone, the
// samples differ in length; where they differ in others, opts.Size is needed.
// Each reader keeps a volume in memory, unless voxels need no conversion.
//
// It fails with [dataset.ErrFormat] for volumes of different shapes, naming both,
// and otherwise as [Open] and OpenFolder do. Errors name the file.
func OpenFolder(ctx context.Context, dir string, opts Options) (*Folder, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	folder, err := dataset.OpenFolder(ctx, dir, dataset.FolderOptions{Extensions: Extensions})
	if err != nil {
		return nil, err
	}
	return openVolumes(ctx, folder, opts)
}

// openVolumes reads the headers of all volumes.
func openVolumes(ctx context.Context, folder *dataset.Folder, opts Options) (d *Folder, err error) {
	d = &Folder{opts: opts}
	d.Files, err = ragged.Measure(ctx, folder, ragged.Form{
		DType: opts.DType,
		Shape: func(path string) ([]int, error) {
			f, err := d.open(path)
			if err != nil {
				return nil, err
			}
			return opts.size(f.header.shape), f.file.Close()
		},
		Unlike: func(shape, first []int, name string) error {
			return fmt.Errorf("%w: a volume of shape %v, that of %s is %v; Crop (--crop ZxYxX) makes them alike", dataset.ErrFormat, shape, name, first)
		},
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// open opens a file and checks that its volume can be read.
func (d *Folder) open(path string) (*source, error) {
	f, err := openSource(path)
	if err != nil {
		return nil, err
	}
	h := f.header
	err = d.opts.check(h, h.shape)
	if err == nil {
		err = f.checkSize(elements(h.shape) * int64(h.kind.size))
	}
	if err != nil {
		f.file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// NewReader implements [dataset.Dataset].
func (d *Folder) NewReader() (dataset.Reader, error) {
	return &folderReader{volumes: d, voxels: voxelReader{opts: d.opts}}, nil
}

type folderReader struct {
	volumes *Folder
	voxels  voxelReader
	gunzip  gunzip
	closed  bool
}

// Read implements [dataset.Reader].
func (r *folderReader) Read(ctx context.Context, v dataset.Visit, dst []byte) error {
	d := r.volumes
	if err := d.CheckRead(v.Index, dst); err != nil {
		return err
	}
	if r.closed {
		return fmt.Errorf("%s: %w", d.Name(v.Index), fs.ErrClosed)
	}
	start := v.Timing.Start()
	f, err := d.open(d.Name(v.Index))
	v.Timing.AddRead(start)
	if err != nil {
		return err
	}
	defer f.file.Close()
	shape := f.header.shape
	if !d.Matches(v.Index, d.opts.size(shape)) {
		return fmt.Errorf("%s: %w: the file has changed: a volume of shape %v", d.Name(v.Index), dataset.ErrDamaged, shape)
	}
	err = r.voxels.read(dst, f.header, shape, v.Timing, func(b []byte) error {
		start := v.Timing.Start()
		err := f.load(ctx, &r.gunzip, b)
		if f.gz {
			v.Timing.AddDecode(start)
		} else {
			v.Timing.AddRead(start)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(v.Index), err)
	}
	return nil
}

// Close implements [dataset.Reader].
func (r *folderReader) Close() error {
	*r = folderReader{volumes: r.volumes, closed: true}
	return nil
}
