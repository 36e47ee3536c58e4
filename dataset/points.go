package dataset

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/pinion-gpu/pinion/dtype"
)

// PointOptions says how point clouds are read. The zero value works.
type PointOptions struct {
	// Columns is how many numbers a point has in .bin files: 4 in KITTI (x,
	// y, z, intensity), 5 in nuScenes (and the ring). Default 4.
	Columns int
	// Fields are the fields of .pcd files that make up a point, in that
	// order. Default: x, y, z, and intensity if the file has it.
	Fields []string
	// MaxBytes is the largest file, and the largest cloud, that is read,
	// below 2 GiB. Default 256 MiB.
	MaxBytes int64
}

var pointExtensions = []string{".bin", ".pcd"}

// PointClouds is point clouds in a folder, one file each: samples of {points,
// columns} f32 that differ in the number of points.
type PointClouds struct {
	raggedFiles
	opts PointOptions
}

// OpenPointClouds lists the point clouds below dir, files that end in .bin or
// .pcd, in the order and with the classes of [OpenFolder], and finds the
// number of points of each: of .bin files, which are bare float32, from the
// size; of .pcd files, version 0.7, from the header. Numbers of a .pcd file
// are converted to float32, so whole numbers beyond 2^24 are rounded; points
// that are not there (NaN, in organised clouds) stay as they are.
//
// It fails with [ErrEmpty] when there are no clouds or no points,
// [ErrDamaged] for a file that ends inside of a point or a broken header,
// [ErrFormat] for clouds of different columns or a field that a file does not
// have, [ErrTooLarge], [ErrArgument] for impossible options, and as
// OpenFolder does. Errors name the file.
func OpenPointClouds(ctx context.Context, dir string, opts PointOptions) (*PointClouds, error) {
	opts.Columns = cmp.Or(opts.Columns, 4)
	opts.MaxBytes = min(cmp.Or(max(opts.MaxBytes, 0), defaultMaxFileBytes), math.MaxInt32-1)
	if opts.Columns < 1 || opts.Columns > maxPointColumns {
		return nil, fmt.Errorf("%s: %w: %d columns, want 1 to %d", dir, ErrArgument, opts.Columns, maxPointColumns)
	}
	folder, err := OpenFolder(ctx, dir, FolderOptions{MaxFileBytes: opts.MaxBytes, Extensions: pointExtensions})
	if err != nil {
		return nil, err
	}
	opts.Fields = slices.Clone(opts.Fields)
	d := &PointClouds{opts: opts}
	d.Folder, d.lengths = folder, make([]int32, folder.Len())
	columns := make([]int32, folder.Len())
	err = inParallel(ctx, folder.Len(), func(i int) error {
		points, width, err := d.measure(folder.Name(i))
		d.lengths[i], columns[i] = int32(points), int32(width)
		return err
	})
	if err != nil {
		return nil, err
	}
	width := columns[0]
	if i := slices.IndexFunc(columns, func(c int32) bool { return c != width }); i >= 0 {
		return nil, fmt.Errorf("%s: %w: points of %d columns, those of %s have %d", d.Name(i), ErrFormat, columns[i], d.Name(0), width)
	}
	longest := d.longest()
	if longest == 0 {
		return nil, fmt.Errorf("%s: %w: no points in %d files", dir, ErrEmpty, d.Len())
	}
	d.spec = Spec{Shape: []int{longest, int(width)}, DType: dtype.F32, Ragged: true}
	d.row = d.spec.RowBytes()
	return d, nil
}

// maxPointColumns keeps a point far from overflowing anything.
const maxPointColumns = 1 << 16

// measure returns the number of points of a file and their columns.
func (d *PointClouds) measure(path string) (points, columns int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	if err := checkRegular(path, info); err != nil {
		return 0, 0, err
	}
	size := info.Size()
	switch columns = d.opts.Columns; {
	case size > d.opts.MaxBytes:
		err = fmt.Errorf("%w: a file of %d bytes, the limit is %d", ErrTooLarge, size, d.opts.MaxBytes)
	case isPCD(path):
		points, columns, err = d.measurePCD(path)
	default:
		points, err = kittiPoints(size, columns)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", path, err)
	}
	return points, columns, nil
}

func (d *PointClouds) measurePCD(path string) (points, columns int, err error) {
	f, size, err := openRegular(path)
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
		return 0, 0, fmt.Errorf("%w: %d points of %d bytes, the limit is %d", ErrTooLarge, h.points, point, d.opts.MaxBytes)
	}
	return h.points, columns, nil
}

// NewReader implements [Dataset].
func (d *PointClouds) NewReader() (Reader, error) {
	files, err := d.NewFileReader()
	if err != nil {
		return nil, err
	}
	return &pointReader{clouds: d, files: files}, nil
}

type pointReader struct {
	clouds *PointClouds
	files  FileReader // nil after Close
	buffer fileBuffer
	pcd    pcdDecoder
}

// Read implements [Reader].
func (r *pointReader) Read(ctx context.Context, v Visit, dst []byte) error {
	d := r.clouds
	if err := d.checkRead(v.Index, dst); err != nil {
		return err
	}
	name := d.Name(v.Index)
	if r.files == nil {
		return fmt.Errorf("%s: %w", name, fs.ErrClosed)
	}
	start := v.Timing.start()
	if !isPCD(name) { // the file is what the sample is
		err := readFileInto(name, dst)
		v.Timing.read(start)
		return err
	}
	content, err := r.buffer.load(func(buf []byte) ([]byte, error) { return r.files.ReadFile(ctx, v.Index, buf) })
	if err != nil {
		return err
	}
	v.Timing.read(start)
	start = v.Timing.start()
	if err := r.pcd.decode(dst, content, d.opts.Fields); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	v.Timing.decode(start)
	return nil
}

// Close implements [Reader].
func (r *pointReader) Close() error {
	if r.files == nil {
		return nil
	}
	files := r.files
	*r = pointReader{clouds: r.clouds}
	return files.Close()
}
