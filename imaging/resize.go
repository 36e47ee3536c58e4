package imaging

import "fmt"

// Resizer scales images, with antialiased filters or by the nearest pixel. Its
// results are Pillow's, bit for bit: Image.crop(box) and Image.resize(size,
// BILINEAR, BICUBIC or NEAREST) on an image of mode RGB, L or I;16, and the
// transforms of torchvision that call them. See the package's page for what is
// special about 16 bits.
//
// The zero value is ready. It keeps tables of weights and buffers from call to
// call and is not safe for concurrent use.
type Resizer struct {
	tables tables
	packed scaler
	planes [3]scaler
	colors [3][rowsAtOnce][]byte // output rows of Y, Cb and Cr
	lines  [rowsAtOnce][]byte    // output rows of pixels, when they become columns
	out    [rowsAtOnce][]byte    // where the rows of a block go
}

// Resize does what a plan for an image of src's size says, into dst: X.N x Y.N
// pixels like those of src. dst must not overlap src. It computes only what the
// plan keeps. It fails with [ErrArgument].
func (r *Resizer) Resize(dst []byte, src *Image, p Plan) error {
	if err := src.check(); err != nil {
		return err
	}
	if err := p.check(src.Width, src.Height); err != nil {
		return err
	}
	if want := p.X.N * p.Y.N * src.pixel().bytes(); len(dst) != want {
		return fmt.Errorf("%w: a destination of %d bytes for %dx%d, want %d", ErrArgument, len(dst), p.X.N, p.Y.N, want)
	}
	r.resize(dst, &picture{rows: (*packedRows)(src), pixel: src.pixel(), width: src.Width, height: src.Height, orientation: Upright}, p)
	return nil
}

// resize does what a valid plan says to the picture that src is upright.
func (r *Resizer) resize(dst []byte, src *picture, p Plan) {
	l := src.layout(p)
	if planes, ok := src.rows.(*ycbcrRows); ok && planes.coarse() {
		r.resizeYCbCr(dst, planes, l)
		return
	}
	r.packed.begin(src.pixel, r.tables.get(l.x), r.tables.get(l.y), l.transposed)
	r.blocks(dst, &l, func(out [][]byte, i int) { r.packed.rows(out, src.rows, &l, i) })
}

// resizeYCbCr scales the planes of a picture, each from its own resolution,
// and converts to RGB what comes out: coarse chroma leaves less to resize, and
// only the pixels of the result are converted.
func (r *Resizer) resizeYCbCr(dst []byte, src *ycbcrRows, l layout) {
	plane := pixel{grey: true}
	chroma := l.coarser(src.shiftX, src.shiftY)
	x, y := r.tables.get(chroma.x), r.tables.get(chroma.y)
	r.planes[1].begin(plane, x, y, l.transposed)
	r.planes[2].begin(plane, x, y, l.transposed)
	r.planes[0].begin(plane, r.tables.get(l.x), r.tables.get(l.y), l.transposed)
	for c := range r.colors {
		for j := range r.colors[c] {
			r.colors[c][j] = resized(r.colors[c][j], padded(l.x.N))[:l.x.N]
		}
	}
	r.blocks(dst, &l, func(out [][]byte, i int) {
		for c := range r.colors {
			r.planes[c].rows(r.colors[c][:len(out)], &src.planes[c], &l, i)
		}
		for j := range out {
			toRGB(out[j], r.colors[0][j], r.colors[1][j], r.colors[2][j], src.studio)
		}
	})
}

// blocks calls fill for up to rowsAtOnce outputs along the file's rows, number
// i and after, until dst is full.
func (r *Resizer) blocks(dst []byte, l *layout, fill func(out [][]byte, i int)) {
	for j := range r.lines {
		r.lines[j] = resized(r.lines[j], padded(l.pixel*l.x.N))[:l.pixel*l.x.N]
	}
	defer clear(r.out[:]) // the caller's memory is not kept
	for i := 0; i < l.y.N; i += rowsAtOnce {
		out := r.out[:min(rowsAtOnce, l.y.N-i)]
		for j := range out {
			out[j] = l.target(dst, r.lines[j], i+j)
		}
		fill(out, i)
		if l.transposed {
			l.put(dst, out, i)
		}
	}
}
