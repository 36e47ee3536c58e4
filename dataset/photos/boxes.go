package photos

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
)

// BoxFormat says what the four numbers of a box are.
type BoxFormat int

const (
	// BoxCorners is left, top, right, bottom: torchvision's "xyxy", and
	// Pascal VOC's.
	BoxCorners BoxFormat = iota
	// BoxCornerSize is left, top, width, height: "xywh", and COCO's.
	BoxCornerSize
	// BoxCenterSize is the middle, then width and height: "cxcywh", and YOLO's.
	BoxCenterSize
)

// BoxOptions says where boxes are in a sample. The zero value is for rows of
// left, top, right and bottom in pixels.
type BoxOptions struct {
	Format BoxFormat
	// Normalized: numbers are shares of the sides of the picture, from 0 to 1,
	// as YOLO's are; else they are pixels.
	Normalized bool
	// Column is where the four numbers begin in a row. Others, such as a
	// class, stay as they are. Default 0.
	Column int
}

// Boxes is boxes that change along with the pictures that they go with.
type Boxes struct {
	dataset.Dataset
	transform imaging.Transform
	opts      BoxOptions
	columns   int // of a row
}

// NewBoxes makes of boxes of pictures those of the samples that t makes of the
// pictures: cropped, scaled and mirrored as they are, in the same format. Give
// t the terms of the pictures' own transform. d has a row for each box, F32 of
// shape {boxes, columns}, mostly a ragged one, or one row in each sample.
//
// A box that a crop cuts is what is left of it. One of which nothing is left
// becomes four zeros and keeps its row, since how many boxes a sample has is
// known before it is read. Numbers are those of the upright picture, from the
// edge of the first pixel on; they are not rounded.
//
// Pictures are read before boxes, by visits of one [dataset.Frame], as package loader
// reads targets, and the parts of a [dataset.Zip]; else reads fail with [dataset.ErrArgument], as
// NewBoxes does for samples that have no room for a box. d stays the caller's.
func NewBoxes(d dataset.Dataset, t imaging.Transform, o BoxOptions) (*Boxes, error) {
	spec := d.Spec()
	switch {
	case spec.DType != dtype.F32 || len(spec.Shape) < 1 || len(spec.Shape) > 2 || spec.Ragged && len(spec.Shape) == 1:
		return nil, fmt.Errorf("boxes: %w: samples of %v, want rows of f32", dataset.ErrArgument, spec)
	case o.Format < BoxCorners || o.Format > BoxCenterSize:
		return nil, fmt.Errorf("boxes: %w: format %d", dataset.ErrArgument, o.Format)
	}
	columns := spec.Shape[len(spec.Shape)-1]
	if o.Column < 0 || o.Column > columns-4 {
		return nil, fmt.Errorf("boxes: %w: four numbers from column %d on, and rows have %d", dataset.ErrArgument, o.Column, columns)
	}
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("boxes: %w", err)
	}
	return &Boxes{d, t, o, columns}, nil
}

// Length implements [dataset.Ragged].
func (d *Boxes) Length(i int) int { return dataset.Length(d.Dataset, i) }

// NewReader implements [dataset.Dataset].
func (d *Boxes) NewReader() (dataset.Reader, error) {
	r, err := d.Dataset.NewReader()
	if err != nil {
		return nil, err
	}
	return &boxReader{d, r}, nil
}

type boxReader struct {
	boxes *Boxes
	dataset.Reader
}

// Read implements [dataset.Reader].
func (r *boxReader) Read(ctx context.Context, v dataset.Visit, dst []byte) error {
	if err := r.Reader.Read(ctx, v, dst); err != nil {
		return err
	}
	if v.Frame == nil || *v.Frame == (dataset.Frame{}) {
		return fmt.Errorf("%s: %w: boxes change along with a picture, and none was read before them", r.boxes.Name(v.Index), dataset.ErrArgument)
	}
	p := r.boxes.transform.Plan(v.Frame.Width, v.Frame.Height, v.Key)
	row := 4 * r.boxes.columns
	for at := 0; at+row <= len(dst); at += row {
		r.boxes.move(dst[at+4*r.boxes.opts.Column:][:16], v.Frame, &p)
	}
	return nil
}

// move changes the four numbers of a box as p says.
func (d *Boxes) move(box []byte, f *dataset.Frame, p *imaging.Plan) {
	var n [4]float64
	for i := range n {
		n[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(box[4*i:])))
	}
	if d.opts.Normalized {
		stretch(&n, float64(f.Width), float64(f.Height))
	}
	d.opts.Format.toCorners(&n)
	x0, y0 := p.Point(n[0], n[1])
	x1, y1 := p.Point(n[2], n[3])
	if p.Mirror {
		x0, x1 = x1, x0
	}
	width, height := float64(p.X.N), float64(p.Y.N)
	n = [4]float64{max(x0, 0), max(y0, 0), min(x1, width), min(y1, height)}
	if !(n[2] > n[0] && n[3] > n[1]) { // nothing is left, or there were no numbers
		n = [4]float64{}
	}
	d.opts.Format.fromCorners(&n)
	if d.opts.Normalized {
		stretch(&n, 1/width, 1/height)
	}
	for i, v := range n {
		binary.LittleEndian.PutUint32(box[4*i:], math.Float32bits(float32(v)))
	}
}

// stretch multiplies what is horizontal and what is vertical.
func stretch(n *[4]float64, x, y float64) {
	n[0], n[2] = n[0]*x, n[2]*x
	n[1], n[3] = n[1]*y, n[3]*y
}

func (f BoxFormat) toCorners(n *[4]float64) {
	switch f {
	case BoxCornerSize:
		n[2], n[3] = n[0]+n[2], n[1]+n[3]
	case BoxCenterSize:
		n[0], n[1], n[2], n[3] = n[0]-n[2]/2, n[1]-n[3]/2, n[0]+n[2]/2, n[1]+n[3]/2
	}
}

func (f BoxFormat) fromCorners(n *[4]float64) {
	switch f {
	case BoxCornerSize:
		n[2], n[3] = n[2]-n[0], n[3]-n[1]
	case BoxCenterSize:
		n[0], n[1], n[2], n[3] = (n[0]+n[2])/2, (n[1]+n[3])/2, n[2]-n[0], n[3]-n[1]
	}
}
