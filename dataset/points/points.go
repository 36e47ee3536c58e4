package points

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/internal/ragged"
	"github.com/pinion-gpu/pinion/dtype"
)

// Options says how point clouds are read. The zero value works.
type Options struct {
	// Columns is how many numbers a point has in .bin files: 4 in KITTI (x,
	// y, z, intensity), 5 in nuScenes (and the ring). Default 4, and 5 in a
	// folder of .pcd.bin files, as nuScenes calls them. Where the default is not
	// the only one that the sizes of all files fit, [dataset.Warnings] says so.
	Columns int
	// Fields are the fields of .pcd files that make up a point, in that
	// order. Default: x, y, z, and intensity if the file has it.
	Fields []string
	// MaxBytes is the largest file, and the largest cloud, that is read,
	// below 2 GiB. Default 256 MiB.
	MaxBytes int64
}

// Dataset is point clouds in a folder, one file each: samples of {points,
// columns} f32 that differ in the number of points.
type Dataset struct {
	*ragged.Files
	opts     Options
	warnings []string
}

// Open lists the point clouds below dir, files that end in .bin or
// .pcd, in the order and with the classes of [dataset.OpenFolder], and finds the
// number of points of each: of .bin files, which are bare float32, from the
// size; of .pcd files, version 0.5 to 0.7, from the header. Numbers of a .pcd file
// are converted to float32, so whole numbers beyond 2^24 are rounded; points
// that are not there (NaN, in organised clouds) stay as they are.
//
// It fails with [dataset.ErrEmpty] when there are no clouds or no points,
// [dataset.ErrDamaged] for a file that ends inside of a point or a broken header,
// [dataset.ErrFormat] for clouds of different columns or a field that a file does not
// have, [dataset.ErrTooLarge], [dataset.ErrArgument] for impossible options, and as
// OpenFolder does. Errors name the file.
func Open(ctx context.Context, dir string, opts Options) (*Dataset, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	folder, err := dataset.OpenFolder(ctx, dir, dataset.FolderOptions{MaxFileBytes: opts.MaxBytes, Extensions: Extensions})
	if err != nil {
		return nil, err
	}
	return open(ctx, folder, dir, opts)
}

// open finds the number of points of each cloud.
func open(ctx context.Context, folder *dataset.Folder, dir string, opts Options) (d *Dataset, err error) {
	opts.Fields = slices.Clone(opts.Fields)
	d = &Dataset{opts: opts}
	guess := newGuess(folder)
	if opts.Columns == 0 {
		d.opts.Columns = guess.columns
	}
	d.Files, err = ragged.Measure(ctx, folder, ragged.Form{
		DType:  dtype.F32,
		Ragged: true,
		Shape: func(path string) ([]int, error) {
			points, columns, err := d.measure(path, guess)
			return []int{points, columns}, err
		},
		Unlike: func(shape, first []int, name string) error {
			return fmt.Errorf("%w: points of %d columns, those of %s have %d", dataset.ErrFormat, shape[1], name, first[1])
		},
	})
	if err == dataset.ErrEmpty {
		err = fmt.Errorf("%s: %w: no points in %d files", dir, err, folder.Len())
	}
	if opts.Columns == 0 {
		d.warnings, err = guess.verdict(err)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Warnings implements what [dataset.Warnings] asks for.
func (d *Dataset) Warnings() []string { return slices.Concat(d.warnings, d.Files.Warnings()) }

func (o Options) withDefaults() (Options, error) {
	o.MaxBytes = min(cmp.Or(max(o.MaxBytes, 0), file.DefaultMax), math.MaxInt32-1)
	if o.Columns < 0 || o.Columns > maxColumns {
		return o, fmt.Errorf("%w: %d columns, want 1 to %d", dataset.ErrArgument, o.Columns, maxColumns)
	}
	return o, nil
}

// maxColumns keeps a point far from overflowing anything.
const maxColumns = 1 << 16

// measure returns the number of points of a file and their columns.
func (d *Dataset) measure(path string, guess *guess) (points, columns int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	if err := file.CheckRegular(path, info); err != nil {
		return 0, 0, err
	}
	size := info.Size()
	switch columns = d.opts.Columns; {
	case size > d.opts.MaxBytes:
		err = fmt.Errorf("%w: a file of %d bytes, the limit is %d", dataset.ErrTooLarge, size, d.opts.MaxBytes)
	case isPCD(path):
		points, columns, err = d.measurePCD(path)
	default:
		guess.see(size)
		points, err = kittiPoints(size, columns)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", path, err)
	}
	return points, columns, nil
}

func (d *Dataset) measurePCD(path string) (points, columns int, err error) {
	f, size, err := file.OpenRegular(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	h, err := readPCDHeader(f, size)
	if err != nil {
		return 0, 0, err
	}
	picked, err := h.pick(d.opts.Fields)
	if err != nil {
		return 0, 0, err
	}
	columns = len(picked)
	if point := max(h.stride, 4*columns); int64(h.points)*int64(point) > d.opts.MaxBytes {
		return 0, 0, fmt.Errorf("%w: %d points of %d bytes, the limit is %d", dataset.ErrTooLarge, h.points, point, d.opts.MaxBytes)
	}
	return h.points, columns, nil
}

// NewReader implements [dataset.Dataset].
func (d *Dataset) NewReader() (dataset.Reader, error) {
	files, err := d.NewFileReader()
	if err != nil {
		return nil, err
	}
	return &pointReader{clouds: d, files: files}, nil
}

type pointReader struct {
	clouds *Dataset
	files  dataset.FileReader // nil after Close
	buffer file.Buffer
	pcd    pcdDecoder
}

// Read implements [dataset.Reader].
func (r *pointReader) Read(ctx context.Context, v dataset.Visit, dst []byte) error {
	d := r.clouds
	if err := d.CheckRead(v.Index, dst); err != nil {
		return err
	}
	name := d.Name(v.Index)
	if r.files == nil {
		return fmt.Errorf("%s: %w", name, fs.ErrClosed)
	}
	start := v.Timing.Start()
	if !isPCD(name) { // the file is what the sample is
		err := file.ReadInto(name, dst)
		v.Timing.AddRead(start)
		return err
	}
	content, err := r.buffer.Load(func(buf []byte) ([]byte, error) { return r.files.ReadFile(ctx, v.Index, buf) })
	if err != nil {
		return err
	}
	v.Timing.AddRead(start)
	start = v.Timing.Start()
	if err := r.pcd.decode(dst, content, d.opts.Fields); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	v.Timing.AddDecode(start)
	return nil
}

// Close implements [dataset.Reader].
func (r *pointReader) Close() error {
	if r.files == nil {
		return nil
	}
	files := r.files
	*r = pointReader{clouds: r.clouds}
	return files.Close()
}
