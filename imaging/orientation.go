package imaging

import (
	"github.com/pinion-gpu/pinion/imaging/internal/header"
)

// Orientation says how the pixels of a file lie, by the numbers of EXIF.
// Cameras store pictures as their sensor was held and leave turning them to
// the reader.
type Orientation uint8

// The orientations, by what makes a picture upright.
const (
	Upright     Orientation = iota + 1 // nothing
	Mirrored                           // mirror, left and right
	UpsideDown                         // turn by 180 degrees
	Flipped                            // mirror, top and bottom
	Transposed                         // mirror along the diagonal from the top left
	TurnedLeft                         // turn by 90 degrees, clockwise
	Transversed                        // mirror along the diagonal from the top right
	TurnedRight                        // turn by 90 degrees, counter-clockwise
)

// OrientationOf returns the orientation that a JPEG, PNG or WebP file notes
// in its EXIF data, or Upright where there is none, or none that can be read.
// It looks at the headers of the file's parts only.
func OrientationOf(data []byte) Orientation {
	f, err := header.Sniff(data)
	if err != nil {
		return Upright
	}
	return Orientation(header.Orientation(f, data))
}

// Size returns the size of the upright picture whose stored size is given, and
// the other way round.
func (o Orientation) Size(width, height int) (int, int) {
	if o.transposed() {
		return height, width
	}
	return width, height
}

// transposed: rows of the upright picture are stored as columns.
func (o Orientation) transposed() bool { return o >= Transposed }

// reversedX: the first column of the file is the last column, or row, of the
// upright picture.
func (o Orientation) reversedX() bool {
	return o == Mirrored || o == UpsideDown || o == Transversed || o == TurnedRight
}

// reversedY is reversedX for the first row of the file.
func (o Orientation) reversedY() bool {
	return o == UpsideDown || o == Flipped || o == TurnedLeft || o == Transversed
}

// layout is a plan as it applies to the pixels of a file.
type layout struct {
	x, y       axis // along the file's rows, down its columns
	transposed bool
	pixel      int // bytes of a pixel of the result
}

// layout lays a plan for the upright picture on the stored one.
func (src *picture) layout(p Plan) layout {
	x := axis{Axis: p.X, mirror: p.Mirror}
	y := axis{Axis: p.Y}
	o := src.orientation
	if o.transposed() {
		x, y = y, x
	}
	x.reversed, y.reversed = o.reversedX(), o.reversedY()
	x.size, y.size = src.width, src.height
	for _, a := range []*axis{&x, &y} {
		a.filter, a.shrink = p.Filter, src.shrink
	}
	return layout{x, y, o.transposed(), src.pixel.bytes()}
}

// coarser is l for chroma that is stored coarser.
func (l layout) coarser(shiftX, shiftY int) layout {
	l.x.shift, l.y.shift = shiftX, shiftY
	return l
}

// output is which output along the file's columns is made as number i: in the
// order of the file's rows.
func (l *layout) output(i int) int {
	if l.y.descending() {
		return l.y.N - 1 - i
	}
	return i
}

// target is where the pixels of output number i go: into their row of
// dst, or into scratch if they are a column of it.
func (l *layout) target(dst, scratch []byte, i int) []byte {
	if l.transposed {
		return scratch
	}
	size := l.pixel * l.x.N
	return dst[l.output(i)*size:][:size]
}

// put writes the columns that are outputs number i and after to dst.
func (l *layout) put(dst []byte, columns [][]byte, i int) {
	n := l.pixel
	pitch := n * l.y.N
	for j, column := range columns {
		for at := n * l.output(i+j); len(column) >= n; at += pitch {
			if n == 3 {
				*(*[3]byte)(dst[at:]) = [3]byte(column)
			} else {
				copy(dst[at:], column[:n])
			}
			column = column[n:]
		}
	}
}

// upright writes the whole picture, which lies elsewhere, into m, which has
// pixels like it, turned.
func (src *picture) upright(m *Image) {
	o := src.orientation
	m.reshape(o.Size(src.width, src.height))
	n := src.pixel.bytes()
	size := n * src.width
	if o == Upright {
		for y := range src.height {
			row := m.Pix[y*size:][:size]
			copy(row, src.row(y, 0, src.width, row)) // planes have rows of their own
		}
		return
	}
	// In pixels of m: where the file's first one goes, and how far the next
	// one in its row and in its column lies from it.
	first, right, down := 0, 1, m.Width
	if o.transposed() {
		right, down = down, right
	}
	if o.reversedX() {
		first += right * (src.width - 1)
		right = -right
	}
	if o.reversedY() {
		first += down * (src.height - 1)
		down = -down
	}
	scratch := make([]byte, size)
	for y := range src.height {
		row := src.row(y, 0, src.width, scratch)
		at := first + y*down
		for x := range src.width {
			copy(m.Pix[n*at:n*at+n], row[n*x:])
			at += right
		}
	}
}
