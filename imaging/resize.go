package imaging

import "fmt"

// Resizer scales images with an antialiased bilinear filter. Its results are
// Pillow's, bit for bit: Image.resize(size, BILINEAR) on an RGB image, and
// torchvision's Resize and CenterCrop, which call it.
//
// The zero value is ready. It keeps filters and buffers from call to call and
// is not safe for concurrent use.
type Resizer struct {
	filters filters
	packed  scaler
	planes  [3]scaler
	colors  [3][]byte // one output row of Y, Cb and Cr
}

// Resize scales src into dst, HWC RGB bytes, exactly [Geometry.Bytes] of
// them. dst must not overlap src. It computes only what a crop keeps. It
// fails with [ErrArgument].
func (r *Resizer) Resize(dst []byte, src *Image, g Geometry) error {
	if err := src.check(); err != nil {
		return err
	}
	if err := checkTarget(dst, g); err != nil {
		return err
	}
	r.resize(dst, picture{(*packedRows)(src), src.Width, src.Height}, g)
	return nil
}

func checkTarget(dst []byte, g Geometry) error {
	if err := g.check(); err != nil {
		return err
	}
	if len(dst) != g.Bytes() {
		return fmt.Errorf("%w: a destination of %d bytes for %v, want %d", ErrArgument, len(dst), g, g.Bytes())
	}
	return nil
}

// resize scales a valid source, as RGB, into a valid destination.
func (r *Resizer) resize(dst []byte, src picture, g Geometry) {
	ax, ay := g.axes(src.width, src.height)
	r.packed.begin(3, r.filters.get(ax), r.filters.get(ay))
	rowBytes := 3 * ax.n
	for i := range ay.n {
		r.packed.row(dst[i*rowBytes:][:rowBytes], src.rows, i)
	}
}

// resizeYCbCr scales the planes of a valid source, each from its own
// resolution, and converts to RGB what comes out: coarse chroma leaves less
// to resize, and only the pixels of the result are converted.
func (r *Resizer) resizeYCbCr(dst []byte, src *ycbcrRows, width, height int, g Geometry) {
	ax, ay := g.axes(width, height)
	cx, cy := ax, ay
	cx.shift, cy.shift = src.shiftX, src.shiftY
	x, y := r.filters.get(cx), r.filters.get(cy)
	r.planes[1].begin(1, x, y)
	r.planes[2].begin(1, x, y)
	r.planes[0].begin(1, r.filters.get(ax), r.filters.get(ay))
	for c := range r.colors {
		r.colors[c] = resized(r.colors[c], ax.n)
	}
	rowBytes := 3 * ax.n
	for i := range ay.n {
		for c := range r.colors {
			r.planes[c].row(r.colors[c], &src.planes[c], i)
		}
		toRGB(dst[i*rowBytes:][:rowBytes], r.colors[0], r.colors[1], r.colors[2], src.studio)
	}
}
