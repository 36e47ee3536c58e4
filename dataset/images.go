package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
)

// ImageOptions says how pictures become samples. The zero value works.
type ImageOptions struct {
	// Transform says what is taken of a picture and how it is scaled. Default:
	// [imaging.CenterCrop] of 224, what torchvision's Resize(224) and
	// CenterCrop(224) do. Its jitter of colours is for a device to apply, as
	// package loader does.
	Transform imaging.Transform
	// Decode says what samples are made of, by its DType and Channels, or by
	// Indexes for masks, and has the limits of decoding. Default: 3 channels of
	// U8. Others are decoded on the CPU only.
	Decode imaging.Options
}

const defaultSize = 224

// Images is pictures as samples: HWC, {height, width, 3} u8 of RGB, or of the
// channels and type that the options ask for.
type Images struct {
	Files
	opts  ImageOptions
	goes  bool      // with other pictures, whose shape they must have
	owned io.Closer // nil: the files are the caller's
}

// NewImages makes a dataset of encoded pictures: JPEG, PNG or WebP. The files
// stay the caller's, who closes them when the dataset is no longer in use. It
// fails with [ErrArgument] for an impossible transform, channels or type.
//
// Masks, which are pictures of indexes, and files of [Match] go with other
// pictures. Where those are read before them by visits of one [Frame], as package
// loader reads targets, and the parts of a [Zip], one that does not fit fails with
// [ErrMismatch]: of another shape, or of another size where crops are random, its
// sample would be of another part.
func NewImages(files Files, opts ImageOptions) (*Images, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	_, matched := files.(*Matched)
	return &Images{Files: files, opts: opts, goes: matched || opts.Decode.Indexes}, nil
}

func (o ImageOptions) withDefaults() (ImageOptions, error) {
	if o.Transform == (imaging.Transform{}) {
		o.Transform = imaging.CenterCrop(defaultSize)
	}
	if o.Decode.DType == 0 {
		o.Decode.DType = dtype.U8
	}
	if o.Decode.Channels == 0 {
		o.Decode.Channels = 3
		if o.Decode.Indexes {
			o.Decode.Channels = 1
		}
	}
	return o, errors.Join(o.Decode.Check(), o.Transform.Check())
}

// OpenImageFolder is [OpenFolder], then [NewImages].
func OpenImageFolder(ctx context.Context, dir string, opts ImageOptions) (*Images, error) {
	if _, err := opts.withDefaults(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	files, err := OpenFolder(ctx, dir, FolderOptions{})
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

// Close closes the files, if [Open] has opened them.
func (d *Images) Close() error {
	if d.owned == nil {
		return nil
	}
	return d.owned.Close()
}

// Shards returns the number of pictures in each of the shards that they come
// from, for package sampler's Blocks; nil where there are none.
func (d *Images) Shards() []int {
	if s, ok := d.Files.(interface{ Shards() []int }); ok {
		return s.Shards()
	}
	return nil
}

// Spec implements [Dataset]: {height, width, channels}.
func (d *Images) Spec() Spec {
	width, height := d.opts.Transform.Size()
	return Spec{Shape: []int{height, width, d.opts.Decode.Channels}, DType: d.opts.Decode.DType}
}

// Transform implements [Encoded].
func (d *Images) Transform() imaging.Transform { return d.opts.Transform }

// NewReader implements [Dataset].
func (d *Images) NewReader() (Reader, error) { return d.NewEncodedReader() }

// NewEncodedReader implements [Encoded].
func (d *Images) NewEncodedReader() (EncodedReader, error) {
	files, err := d.NewFileReader()
	if err != nil {
		return nil, err
	}
	return &imageReader{images: d, files: files, bytes: d.Spec().Bytes(), decoder: imaging.NewDecoder(d.opts.Decode)}, nil
}

type imageReader struct {
	images  *Images
	files   FileReader
	bytes   int              // of a sample
	decoder *imaging.Decoder // nil after Close
	buffer  fileBuffer
}

// Read implements [Reader].
func (r *imageReader) Read(ctx context.Context, v Visit, dst []byte) error {
	if err := checkRead(r.images, v.Index, dst, r.bytes); err != nil {
		return err
	}
	content, err := r.buffer.load(func(buf []byte) ([]byte, error) { return r.ReadFile(ctx, v, buf) })
	if err != nil {
		return err
	}
	return r.Decode(ctx, v, content, dst)
}

// ReadFile implements [EncodedReader].
func (r *imageReader) ReadFile(ctx context.Context, v Visit, buf []byte) ([]byte, error) {
	if r.decoder == nil {
		return nil, fmt.Errorf("%s: %w", r.images.Name(v.Index), fs.ErrClosed)
	}
	start := v.Timing.start()
	content, err := r.files.ReadFile(ctx, v.Index, buf)
	v.Timing.read(start)
	return content, err
}

// Decode implements [EncodedReader].
func (r *imageReader) Decode(ctx context.Context, v Visit, content, dst []byte) error {
	if err := r.decoder.DecodeTransformed(ctx, dst, content, r.images.opts.Transform, v.Key); err != nil {
		return fmt.Errorf("%s: %w", r.images.Name(v.Index), err)
	}
	if err := r.join(v.Frame); err != nil {
		return fmt.Errorf("%s: %w", r.images.Name(v.Index), err)
	}
	if v.Timing != nil {
		decode, resize := r.decoder.Elapsed()
		v.Timing.Decode += decode
		v.Timing.Resize += resize
	}
	return nil
}

// join compares the picture that was decoded last with those that it goes with.
func (r *imageReader) join(f *Frame) error {
	if f == nil || *f != (Frame{}) && !r.images.goes {
		return nil
	}
	width, height := r.decoder.Source()
	return f.join(width, height, r.images.opts.Transform)
}

// Orientation implements [EncodedReader].
func (r *imageReader) Orientation(content []byte) imaging.Orientation {
	if r.images.opts.Decode.IgnoreOrientation {
		return imaging.Upright
	}
	return imaging.OrientationOf(content)
}

// MaxPixels implements [EncodedReader].
func (r *imageReader) MaxPixels() int { return r.decoder.MaxPixels() }

// Close implements [Reader].
func (r *imageReader) Close() error {
	if r.decoder == nil {
		return nil
	}
	r.decoder.Close()
	r.decoder, r.buffer = nil, fileBuffer{}
	return r.files.Close()
}
