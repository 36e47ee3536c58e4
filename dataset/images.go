package dataset

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
)

// ImageOptions says how pictures become samples. The zero value works.
type ImageOptions struct {
	// Size is the side of the square samples in pixels, 1 to 65535.
	// Default 224.
	Size int
	// Stretch scales both sides to Size and so changes proportions. Default
	// false: the shorter side is scaled to Size and the middle is kept, as
	// torchvision's Resize(Size) and CenterCrop(Size) do.
	Stretch bool
	// MaxPixels is the largest picture that is decoded, see
	// [imaging.Options.MaxPixels].
	MaxPixels int
}

const defaultSize = 224

// Images is pictures as samples: {Size, Size, 3} u8, HWC, RGB.
type Images struct {
	Files
	opts     ImageOptions
	geometry imaging.Transform
}

// NewImages makes a dataset of encoded pictures: JPEG, PNG or WebP. The files
// stay the caller's, who closes them when the dataset is no longer in use. It
// fails with [ErrArgument] for an impossible size.
func NewImages(files Files, opts ImageOptions) (*Images, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	geometry := imaging.CenterCrop(opts.Size)
	if opts.Stretch {
		geometry = imaging.Stretch(opts.Size, opts.Size)
	}
	return &Images{files, opts, geometry}, nil
}

func (o ImageOptions) withDefaults() (ImageOptions, error) {
	o.Size = cmp.Or(o.Size, defaultSize)
	if o.Size < 1 || o.Size > 65535 {
		return o, fmt.Errorf("%w: image size %d, want 1 to 65535", ErrArgument, o.Size)
	}
	return o, nil
}

// OpenImageFolder is [OpenFolder], then [NewImages].
func OpenImageFolder(dir string, opts ImageOptions) (*Images, error) {
	if _, err := opts.withDefaults(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	files, err := OpenFolder(dir, FolderOptions{})
	if err != nil {
		return nil, err
	}
	return NewImages(files, opts)
}

// Classes returns the names of the classes, to which labels are indexes; nil
// where the files have none.
func (d *Images) Classes() []string {
	if c, ok := d.Files.(interface{ Classes() []string }); ok {
		return c.Classes()
	}
	return nil
}

// Spec implements [Dataset]: {Size, Size, 3} u8.
func (d *Images) Spec() Spec {
	return Spec{Shape: []int{d.opts.Size, d.opts.Size, 3}, DType: dtype.U8}
}

// NewReader implements [Dataset].
func (d *Images) NewReader() (Reader, error) {
	files, err := d.NewFileReader()
	if err != nil {
		return nil, err
	}
	return &imageReader{
		images:  d,
		files:   files,
		bytes:   d.geometry.Bytes(),
		decoder: imaging.NewDecoder(imaging.Options{MaxPixels: d.opts.MaxPixels}),
	}, nil
}

type imageReader struct {
	images  *Images
	files   FileReader
	bytes   int
	decoder *imaging.Decoder // nil after Close
	buffer  fileBuffer
}

// Read implements [Reader].
func (r *imageReader) Read(ctx context.Context, v Visit, dst []byte) error {
	if err := checkRead(r.images, v.Index, dst, r.bytes); err != nil {
		return err
	}
	name := r.images.Name(v.Index)
	if r.decoder == nil {
		return fmt.Errorf("%s: %w", name, fs.ErrClosed)
	}
	start := time.Now()
	content, err := r.buffer.load(ctx, r.files, v.Index)
	if err != nil {
		return err
	}
	v.Timing.read(start)
	if err := r.decoder.DecodeTransformed(dst, content, r.images.geometry, v.Key); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if v.Timing != nil {
		decode, resize := r.decoder.Elapsed()
		v.Timing.Decode += decode
		v.Timing.Resize += resize
	}
	return nil
}

// Close implements [Reader].
func (r *imageReader) Close() error {
	if r.decoder == nil {
		return nil
	}
	r.decoder.Close()
	r.decoder, r.buffer = nil, fileBuffer{}
	return r.files.Close()
}
