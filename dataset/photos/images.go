package photos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
)

// Options says how pictures become samples. The zero value works.
type Options struct {
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
	dataset.Files
	opts Options
	goes bool // with other pictures, whose shape they must have
}

// New makes a dataset of encoded pictures: JPEG, PNG or WebP. The files
// stay the caller's, who closes them when the dataset is no longer in use. It
// fails with [dataset.ErrArgument] for an impossible transform, channels or type.
//
// Masks, which are pictures of indexes, and files of [dataset.Match] go with other
// pictures. Where those are read before them by visits of one [dataset.Frame], as package
// loader reads targets, and the parts of a [dataset.Zip], one that does not fit fails with
// [dataset.ErrMismatch]: of another shape, or of another size where crops are random, its
// sample would be of another part.
func New(files dataset.Files, opts Options) (*Images, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	_, matched := files.(*dataset.Matched)
	return &Images{Files: files, opts: opts, goes: matched || opts.Decode.Indexes}, nil
}

func (o Options) withDefaults() (Options, error) {
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

// Repeats implements [dataset.Repeater].
func (d *Images) Repeats() error {
	if r, ok := d.Files.(dataset.Repeater); ok {
		return r.Repeats()
	}
	return fmt.Errorf("%w: files of an unknown number that come once", dataset.ErrArgument)
}

// BeginPass implements [dataset.Repeater].
func (d *Images) BeginPass(epoch int) {
	if r, ok := d.Files.(dataset.Repeater); ok {
		r.BeginPass(epoch)
	}
}

// Open is [OpenFolder], then [New].
func Open(ctx context.Context, dir string, opts Options) (*Images, error) {
	if _, err := opts.withDefaults(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	files, err := OpenFolder(ctx, dir)
	if err != nil {
		return nil, err
	}
	return New(files, opts)
}

// Classes returns the names of the classes, to which labels are indexes; nil
// where the files have none.
func (d *Images) Classes() []string {
	if c, ok := d.Files.(interface{ Classes() []string }); ok {
		return c.Classes()
	}
	return nil
}

// Key implements what [dataset.Key] asks for.
func (d *Images) Key(i int) string { return dataset.Key(d.Files, i) }

// Targets returns the labels of the files that are no classes; nil where they have
// none.
func (d *Images) Targets() dataset.Dataset {
	if t, ok := d.Files.(interface{ Targets() dataset.Dataset }); ok {
		return t.Targets()
	}
	return nil
}

// Shards returns the number of pictures in each of the shards that they come
// from, for package sampler's Blocks; nil where there are none.
func (d *Images) Shards() []int {
	if s, ok := d.Files.(interface{ Shards() []int }); ok {
		return s.Shards()
	}
	return nil
}

// Spec implements [dataset.Dataset]: {height, width, channels}.
func (d *Images) Spec() dataset.Spec {
	width, height := d.opts.Transform.Size()
	return dataset.Spec{Shape: []int{height, width, d.opts.Decode.Channels}, DType: d.opts.Decode.DType}
}

// Transform implements [dataset.Encoded].
func (d *Images) Transform() imaging.Transform { return d.opts.Transform }

// NewReader implements [dataset.Dataset].
func (d *Images) NewReader() (dataset.Reader, error) { return d.NewEncodedReader() }

// NewEncodedReader implements [dataset.Encoded].
func (d *Images) NewEncodedReader() (dataset.EncodedReader, error) {
	files, err := d.NewFileReader()
	if err != nil {
		return nil, err
	}
	return &imageReader{images: d, files: files, bytes: d.Spec().Bytes(), decoder: imaging.NewDecoder(d.opts.Decode)}, nil
}

type imageReader struct {
	images  *Images
	files   dataset.FileReader
	bytes   int              // of a sample
	decoder *imaging.Decoder // nil after Close
	buffer  file.Buffer
}

// Read implements [dataset.Reader].
func (r *imageReader) Read(ctx context.Context, v dataset.Visit, dst []byte) error {
	if err := dataset.CheckRead(r.images, v.Index, dst, r.bytes); err != nil {
		return err
	}
	content, err := r.buffer.Load(func(buf []byte) ([]byte, error) { return r.ReadFile(ctx, v, buf) })
	if err != nil {
		return err
	}
	return r.Decode(ctx, v, content, dst)
}

// ReadFile implements [dataset.EncodedReader].
func (r *imageReader) ReadFile(ctx context.Context, v dataset.Visit, buf []byte) ([]byte, error) {
	if r.decoder == nil {
		return nil, fmt.Errorf("%s: %w", r.images.Name(v.Index), fs.ErrClosed)
	}
	start := v.Timing.Start()
	content, err := r.files.ReadFile(ctx, v.Index, buf)
	v.Timing.AddRead(start)
	return content, err
}

// Decode implements [dataset.EncodedReader].
func (r *imageReader) Decode(ctx context.Context, v dataset.Visit, content, dst []byte) error {
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
func (r *imageReader) join(f *dataset.Frame) error {
	if f == nil || *f != (dataset.Frame{}) && !r.images.goes {
		return nil
	}
	width, height := r.decoder.Source()
	return join(f, width, height, r.images.opts.Transform)
}

// Orientation implements [dataset.EncodedReader].
func (r *imageReader) Orientation(content []byte) imaging.Orientation {
	if r.images.opts.Decode.IgnoreOrientation {
		return imaging.Upright
	}
	return imaging.OrientationOf(content)
}

// MaxPixels implements [dataset.EncodedReader].
func (r *imageReader) MaxPixels() int { return r.decoder.MaxPixels() }

// Close implements [dataset.Reader].
func (r *imageReader) Close() error {
	if r.decoder == nil {
		return nil
	}
	r.decoder.Close()
	r.decoder, r.buffer = nil, file.Buffer{}
	return r.files.Close()
}

// OpenFolder lists the pictures below dir, files that end in one of [Extensions],
// as [dataset.OpenFolder] does.
func OpenFolder(ctx context.Context, dir string) (*dataset.Folder, error) {
	return dataset.OpenFolder(ctx, dir, dataset.FolderOptions{Extensions: Extensions})
}
