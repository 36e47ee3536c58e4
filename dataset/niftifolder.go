package dataset

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
)

var niftiExtensions = []string{".nii", ".nii.gz"}

// Volumes is NIfTI files in a folder, one sample each. Axes are those of the
// file in reverse, since x is the fastest there: {Z, Y, X}, or {T, Z, Y, X}
// for a series. Voxels stay where they are stored: the orientation in the
// headers is not applied.
type Volumes struct {
	raggedFiles
	opts VolumeOptions
}

// OpenVolumes lists the volumes below dir, files that end in .nii or .nii.gz,
// in the order and with the classes of [OpenFolder], and reads their headers.
// Volumes are of one shape. Where they differ in the slowest axis alone, the
// samples differ in length; where they differ in others, opts.Size is needed.
// Each reader keeps a volume in memory, unless voxels need no conversion.
//
// It fails with [ErrFormat] for volumes of different shapes, naming both,
// and otherwise as [OpenNIfTI] and OpenFolder do. Errors name the file.
func OpenVolumes(ctx context.Context, dir string, opts VolumeOptions) (*Volumes, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	folder, err := OpenFolder(ctx, dir, FolderOptions{Extensions: niftiExtensions})
	if err != nil {
		return nil, err
	}
	d := &Volumes{opts: opts}
	d.Folder, d.lengths = folder, make([]int32, folder.Len())
	shapes := make([][]int, folder.Len())
	err = inParallel(ctx, folder.Len(), func(i int) error {
		f, err := d.open(i)
		if err != nil {
			return err
		}
		shapes[i] = opts.size(f.header.shape)
		d.lengths[i] = int32(shapes[i][0])
		return f.file.Close()
	})
	if err != nil {
		return nil, err
	}
	for i, s := range shapes {
		if !slices.Equal(s[1:], shapes[0][1:]) {
			return nil, fmt.Errorf("%s: %w: a volume of shape %v, that of %s is %v; option Size makes them alike", d.Name(i), ErrFormat, s, d.Name(0), shapes[0])
		}
	}
	d.spec = Spec{Shape: slices.Clone(shapes[0]), DType: opts.DType}
	d.spec.Shape[0] = d.longest()
	d.spec.Ragged = int(slices.Min(d.lengths)) < d.spec.Shape[0]
	d.row = d.spec.RowBytes()
	return d, nil
}

// open opens a file and checks that its volume can be read.
func (d *Volumes) open(i int) (*niftiFile, error) {
	path := d.Name(i)
	f, err := openNIfTI(path)
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

// NewReader implements [Dataset].
func (d *Volumes) NewReader() (Reader, error) {
	return &volumeReader{volumes: d, voxels: voxelReader{opts: d.opts}}, nil
}

type volumeReader struct {
	volumes *Volumes
	voxels  voxelReader
	gunzip  gunzip
	closed  bool
}

// Read implements [Reader].
func (r *volumeReader) Read(ctx context.Context, v Visit, dst []byte) error {
	d := r.volumes
	if err := d.checkRead(v.Index, dst); err != nil {
		return err
	}
	if r.closed {
		return fmt.Errorf("%s: %w", d.Name(v.Index), fs.ErrClosed)
	}
	start := v.Timing.start()
	f, err := d.open(v.Index)
	v.Timing.read(start)
	if err != nil {
		return err
	}
	defer f.file.Close()
	shape := f.header.shape
	if size := d.opts.size(shape); size[0] != d.Length(v.Index) || !slices.Equal(size[1:], d.spec.Shape[1:]) {
		return fmt.Errorf("%s: %w: the file has changed: a volume of shape %v", d.Name(v.Index), ErrDamaged, shape)
	}
	err = r.voxels.read(dst, f.header, shape, v.Timing, func(b []byte) error {
		start := v.Timing.start()
		err := f.load(ctx, &r.gunzip, b)
		if f.gz {
			v.Timing.decode(start)
		} else {
			v.Timing.read(start)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(v.Index), err)
	}
	return nil
}

// Close implements [Reader].
func (r *volumeReader) Close() error {
	*r = volumeReader{volumes: r.volumes, closed: true}
	return nil
}
