package imaging

import "fmt"

// Resizer scales images with antialiased filters. Its results are Pillow's,
// bit for bit: Image.crop(box) and Image.resize(size, BILINEAR or BICUBIC) on
// an RGB image, and the transforms of torchvision that call them.
//
// The zero value is ready. It keeps tables of weights and buffers from call to
// call and is not safe for concurrent use.
type Resizer struct {
	tables tables
	packed scaler
	planes [3]scaler
	colors [3][]byte // one output row of Y, Cb and Cr
	line   []byte    // one output row of RGB
}

// Resize does what a plan for an image of src's size says, into dst: HWC RGB
// bytes, exactly [Plan.Bytes] of them. dst must not overlap src. It computes
// only what the plan keeps. It fails with [ErrArgument].
func (r *Resizer) Resize(dst []byte, src *Image, p Plan) error {
	if err := src.check(); err != nil {
		return err
	}
	if err := p.check(src.Width, src.Height); err != nil {
		return err
	}
	if len(dst) != p.Bytes() {
		return fmt.Errorf("%w: a destination of %d bytes for %dx%d, want %d", ErrArgument, len(dst), p.X.N, p.Y.N, p.Bytes())
	}
	r.resize(dst, &picture{rows: (*packedRows)(src), width: src.Width, height: src.Height, orientation: Upright}, p)
	return nil
}

// resize does what a valid plan says to the picture that src is upright.
func (r *Resizer) resize(dst []byte, src *picture, p Plan) {
	l := src.layout(p)
	if planes, ok := src.rows.(*ycbcrRows); ok && planes.coarse() {
		r.resizeYCbCr(dst, planes, l)
		return
	}
	r.packed.begin(3, r.tables.get(l.x), r.tables.get(l.y), l.transposed)
	r.line = resized(r.line, padded(3*l.x.N))
	row := r.line[:3*l.x.N]
	for i := range l.y.N {
		k := l.output(i)
		if l.transposed {
			r.packed.row(row, src.rows, k)
			l.put(dst, row, k)
		} else {
			r.packed.row(dst[k*len(row):][:len(row)], src.rows, k)
		}
	}
}

// resizeYCbCr scales the planes of a picture, each from its own resolution,
// and converts to RGB what comes out: coarse chroma leaves less to resize, and
// only the pixels of the result are converted.
func (r *Resizer) resizeYCbCr(dst []byte, src *ycbcrRows, l layout) {
	chroma := l.coarser(src.shiftX, src.shiftY)
	x, y := r.tables.get(chroma.x), r.tables.get(chroma.y)
	r.planes[1].begin(1, x, y, l.transposed)
	r.planes[2].begin(1, x, y, l.transposed)
	r.planes[0].begin(1, r.tables.get(l.x), r.tables.get(l.y), l.transposed)
	for c := range r.colors {
		r.colors[c] = resized(r.colors[c], padded(l.x.N))[:l.x.N]
	}
	r.line = resized(r.line, 3*l.x.N)
	for i := range l.y.N {
		k := l.output(i)
		for c := range r.colors {
			r.planes[c].row(r.colors[c], &src.planes[c], k)
		}
		toRGB(r.line, r.colors[0], r.colors[1], r.colors[2], src.studio)
		l.put(dst, r.line, k)
	}
}
