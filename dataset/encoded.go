package dataset

import (
	"context"

	"github.com/pinion-gpu/pinion/imaging"
)

// Encoded is what a dataset of pictures is too: it gives their files, so that
// a device can decode them and do what the transform says, where the spec is 3
// channels of u8. [As] finds it, behind subsets and the like too.
type Encoded interface {
	Dataset
	// Transform says how pictures become samples.
	Transform() imaging.Transform
	// NewEncodedReader makes a reader for one worker.
	NewEncodedReader() (EncodedReader, error)
}

// EncodedReader reads pictures in two steps. It is not safe for concurrent
// use.
type EncodedReader interface {
	Reader
	// ReadFile returns the content of the file of a sample, as
	// [FileReader].ReadFile does.
	ReadFile(ctx context.Context, v Visit, buf []byte) ([]byte, error)
	// Orientation returns how a file's picture has to be turned before
	// anything else is done to it.
	Orientation(content []byte) imaging.Orientation
	// MaxPixels returns the largest width x height of a picture that becomes a
	// sample, for the file that was read last. Decode fails for larger ones.
	MaxPixels() int
	// Decode makes a sample of a file's content on the CPU, as Read does.
	Decode(ctx context.Context, v Visit, content, dst []byte) error
}

// As makes an [Encoded] of the subset, where the whole is one.
func (d *Subset) As(target any) bool {
	if target, ok := target.(*Encoded); ok {
		if whole, ok := As[Encoded](d.dataset); ok {
			*target = &encodedSubset{d, whole}
			return true
		}
	}
	return false
}

// encodedSubset is a subset of encoded pictures.
type encodedSubset struct {
	*Subset
	whole Encoded
}

func (d *encodedSubset) Transform() imaging.Transform { return d.whole.Transform() }

func (d *encodedSubset) NewEncodedReader() (EncodedReader, error) {
	r, err := d.whole.NewEncodedReader()
	if err != nil {
		return nil, err
	}
	return &encodedSubsetReader{subsetReader{d.Subset, r}, r}, nil
}

type encodedSubsetReader struct {
	subsetReader
	EncodedReader EncodedReader
}

func (r *encodedSubsetReader) ReadFile(ctx context.Context, v Visit, buf []byte) ([]byte, error) {
	if err := CheckIndex(r.subset, v.Index); err != nil {
		return nil, err
	}
	v.Index = r.subset.indices[v.Index]
	return r.EncodedReader.ReadFile(ctx, v, buf)
}

func (r *encodedSubsetReader) Orientation(content []byte) imaging.Orientation {
	return r.EncodedReader.Orientation(content)
}

func (r *encodedSubsetReader) MaxPixels() int { return r.EncodedReader.MaxPixels() }

func (r *encodedSubsetReader) Decode(ctx context.Context, v Visit, content, dst []byte) error {
	if err := CheckIndex(r.subset, v.Index); err != nil {
		return err
	}
	v.Index = r.subset.indices[v.Index]
	return r.EncodedReader.Decode(ctx, v, content, dst)
}

// encodedConcat is encoded pictures of one transform, one behind the other.
type encodedConcat struct {
	*Concat
	parts []Encoded
}

// As makes an [Encoded] of the chain, where all parts are one, of one transform.
func (d *Concat) As(target any) bool {
	if target, ok := target.(*Encoded); ok {
		e := &encodedConcat{Concat: d}
		for _, p := range d.parts {
			part, ok := As[Encoded](p)
			if !ok || len(e.parts) > 0 && part.Transform() != e.parts[0].Transform() {
				return false
			}
			e.parts = append(e.parts, part)
		}
		*target = e
		return true
	}
	return false
}

func (d *encodedConcat) Transform() imaging.Transform { return d.parts[0].Transform() }

func (d *encodedConcat) NewEncodedReader() (EncodedReader, error) {
	r := &encodedConcatReader{concatReader: concatReader{concat: d.Concat}}
	for _, p := range d.parts {
		part, err := p.NewEncodedReader()
		if err != nil {
			return nil, joinClose(err, r.readers)
		}
		r.readers = append(r.readers, part)
		r.encoded = append(r.encoded, part)
	}
	return r, nil
}

type encodedConcatReader struct {
	concatReader
	encoded []EncodedReader
	last    int // part of the file that was read last
}

// at returns the reader of the part that a sample is in, and the visit there.
func (r *encodedConcatReader) at(v Visit) (EncodedReader, Visit, error) {
	if err := CheckIndex(r.concat, v.Index); err != nil {
		return nil, v, err
	}
	r.last, v.Index = r.concat.part(v.Index)
	return r.encoded[r.last], v, nil
}

func (r *encodedConcatReader) ReadFile(ctx context.Context, v Visit, buf []byte) ([]byte, error) {
	part, v, err := r.at(v)
	if err != nil {
		return nil, err
	}
	return part.ReadFile(ctx, v, buf)
}

func (r *encodedConcatReader) Orientation(content []byte) imaging.Orientation {
	return r.encoded[r.last].Orientation(content)
}

func (r *encodedConcatReader) MaxPixels() int { return r.encoded[r.last].MaxPixels() }

func (r *encodedConcatReader) Decode(ctx context.Context, v Visit, content, dst []byte) error {
	part, v, err := r.at(v)
	if err != nil {
		return err
	}
	return part.Decode(ctx, v, content, dst)
}
