package dataset

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
)

// ImageOptions says how the images of a folder are read. The zero value
// works.
type ImageOptions struct {
	// Size is the side of the square samples in pixels, 1 to 65535.
	// Default 224.
	Size int
	// Stretch scales both sides to Size and so changes proportions. Default
	// false: the shorter side is scaled to Size and the middle is kept, as
	// torchvision's Resize(Size) and CenterCrop(Size) do.
	Stretch bool
	// MaxPixels is the largest image that is decoded, see
	// [imaging.Options.MaxPixels].
	MaxPixels int
	// MaxFileBytes is the largest file that is read, below 2 GiB. Default
	// 256 MiB.
	MaxFileBytes int64
}

const (
	defaultSize         = 224
	defaultMaxFileBytes = 256 << 20
)

// ImageFolder is a folder of JPEG, PNG and WebP files. The class of a file is
// the name of the sub-folder of the first level that it is in, however deep;
// files beside those folders have the class "". Samples are {Size, Size, 3}
// u8, HWC, RGB.
type ImageFolder struct {
	dir      string
	opts     ImageOptions
	geometry imaging.Geometry
	folderList
}

// OpenImageFolder lists the images below dir; it opens none of them. Order is
// that of the names, byte by byte, folder by folder, files beside the class
// folders first, and the same on every machine. Names that begin with a dot
// are skipped, and so are files without one of the extensions .jpg, .jpeg,
// .png, .webp in any case. Links to files are followed, links to folders only
// where they are a class.
//
// It fails with [ErrEmpty] when there are no images, with [ErrFormat] when
// dir is no folder, with [ErrArgument], or with the error of the file system
// for the folder or link that could not be read.
func OpenImageFolder(dir string, opts ImageOptions) (*ImageFolder, error) {
	if opts.Size == 0 {
		opts.Size = defaultSize
	}
	if opts.Size < 1 || opts.Size > 65535 {
		return nil, fmt.Errorf("%s: %w: image size %d, want 1 to 65535", dir, ErrArgument, opts.Size)
	}
	if opts.MaxFileBytes <= 0 {
		opts.MaxFileBytes = defaultMaxFileBytes
	}
	opts.MaxFileBytes = min(opts.MaxFileBytes, math.MaxInt32-1)
	geometry := imaging.CenterCrop(opts.Size)
	if opts.Stretch {
		geometry = imaging.Stretch(opts.Size, opts.Size)
	}
	list, err := listFolder(dir)
	if err != nil {
		return nil, err
	}
	return &ImageFolder{dir, opts, geometry, list}, nil
}

// Classes returns the classes; a label is an index into them. They are the
// sorted names of all sub-folders, with or without images, so that the
// folders of a training set and of its smaller validation set agree. "" comes
// first, if there are images outside of sub-folders.
func (d *ImageFolder) Classes() []string { return slices.Clone(d.classes) }

// Len implements [Dataset].
func (d *ImageFolder) Len() int { return len(d.files) }

// Spec implements [Dataset]: {Size, Size, 3} u8.
func (d *ImageFolder) Spec() Spec {
	return Spec{Shape: []int{d.opts.Size, d.opts.Size, 3}, DType: dtype.U8}
}

// Name implements [Dataset]: the file's path.
func (d *ImageFolder) Name(i int) string { return filepath.Join(d.dir, d.files[i]) }

// Label implements [Dataset].
func (d *ImageFolder) Label(i int) int32 { return d.labels[i] }

// NewReader implements [Dataset].
func (d *ImageFolder) NewReader() (Reader, error) {
	return &imageReader{
		folder:  d,
		bytes:   d.geometry.Bytes(),
		decoder: imaging.NewDecoder(imaging.Options{MaxPixels: d.opts.MaxPixels}),
	}, nil
}

type imageReader struct {
	folder  *ImageFolder
	bytes   int
	decoder *imaging.Decoder // nil after Close
	file    []byte           // content of the last file
}

// Read implements [Reader].
func (r *imageReader) Read(i int, dst []byte, t *Timing) error {
	if err := checkRead(r.folder, i, dst, r.bytes); err != nil {
		return err
	}
	path := r.folder.Name(i)
	if r.decoder == nil {
		return fmt.Errorf("%s: %w", path, fs.ErrClosed)
	}
	start := time.Now()
	if err := r.load(path); err != nil {
		return err
	}
	if t != nil {
		t.Read += time.Since(start)
	}
	if err := r.decoder.DecodeResized(dst, r.file, r.folder.geometry); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if t != nil {
		decode, resize := r.decoder.Elapsed()
		t.Decode += decode
		t.Resize += resize
	}
	return nil
}

// keepBytes is the largest file buffer that is used again.
const keepBytes = 16 << 20

// load reads a whole file into r.file.
func (r *imageReader) load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := checkRegular(path, info); err != nil {
		return err
	}
	size := info.Size()
	if size > r.folder.opts.MaxFileBytes {
		return fmt.Errorf("%s: %w: a file of %d bytes, the limit is %d", path, ErrTooLarge, size, r.folder.opts.MaxFileBytes)
	}
	// One byte more shows whether the file grows.
	need := int(size) + 1
	if cap(r.file) < need || cap(r.file) > keepBytes {
		r.file = make([]byte, need+need/4)
	}
	n, err := io.ReadFull(f, r.file[:need])
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	if n != int(size) {
		return fmt.Errorf("%s: %w: it had %d bytes and changed while it was read", path, ErrDamaged, size)
	}
	r.file = r.file[:n]
	return nil
}

// Close implements [Reader].
func (r *imageReader) Close() error {
	if r.decoder != nil {
		r.decoder.Close()
		r.decoder, r.file = nil, nil
	}
	return nil
}
