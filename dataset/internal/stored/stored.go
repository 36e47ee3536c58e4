// Package stored reads elements that a file stores in another way than samples
// have them: the high byte first, without sign in 4 or 8 bytes, or with the first
// axis the fastest.
package stored

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
)

// Type is how an element is stored.
type Type struct {
	DType     dtype.DType // as samples have it
	Size      int         // bytes in the file
	BigEndian bool
	// Unsigned: of 4 or 8 bytes. They become I64, since there are no element
	// types of theirs, and what is too large for that is an error.
	Unsigned bool
}

// Of returns the type of elements that are stored as samples have them.
func Of(d dtype.DType) Type { return Type{DType: d, Size: d.Size()} }

// Unsigned returns the type of numbers without sign of 4 or 8 bytes.
func Unsigned(size int) Type { return Type{DType: dtype.I64, Size: size, Unsigned: true} }

// Plain reports whether elements need no conversion.
func (t Type) Plain() bool { return !t.Unsigned && (!t.BigEndian || t.Size == 1) }

// Convert makes elements of samples, in place: on entry the stored ones are at
// the end of b.
func (t Type) Convert(b []byte) error {
	order := binary.ByteOrder(binary.LittleEndian)
	if t.BigEndian {
		order = binary.BigEndian
	}
	if t.Unsigned {
		n := len(b) / 8
		from := b[len(b)-n*t.Size:]
		for i := range n { // what is written is behind what is read
			v := uint64(0)
			if t.Size == 4 {
				v = uint64(order.Uint32(from[4*i:]))
			} else if v = order.Uint64(from[8*i:]); v > math.MaxInt64 {
				return fmt.Errorf("%w: element %d is %d, which is too large for i64", dataset.ErrFormat, i, v)
			}
			binary.LittleEndian.PutUint64(b[8*i:], v)
		}
		return nil
	}
	if t.BigEndian {
		Swap(b, t.Size)
	}
	return nil
}

// Swap changes the order of the bytes of each element.
func Swap(b []byte, size int) {
	switch size {
	case 2:
		for ; len(b) >= 2; b = b[2:] {
			b[0], b[1] = b[1], b[0]
		}
	case 4:
		for ; len(b) >= 4; b = b[4:] {
			binary.LittleEndian.PutUint32(b, binary.BigEndian.Uint32(b))
		}
	case 8:
		for ; len(b) >= 8; b = b[8:] {
			binary.LittleEndian.PutUint64(b, binary.BigEndian.Uint64(b))
		}
	}
}

// Source is stored elements as those of samples. Positions and lengths are those
// of whole elements.
type Source struct {
	Type
	R     io.ReaderAt
	Start int64 // of the first element in R
}

// ReadAt implements [io.ReaderAt].
func (s Source) ReadAt(dst []byte, at int64) (int, error) {
	size := s.DType.Size()
	raw := dst[len(dst)-len(dst)/size*s.Size:]
	n, err := s.R.ReadAt(raw, s.Start+at/int64(size)*int64(s.Size))
	if n < len(raw) {
		return 0, err
	}
	if err := s.Convert(dst); err != nil {
		return 0, err
	}
	return len(dst), nil
}

// Close closes the source, if it can be closed.
func (s Source) Close() error {
	if c, ok := s.R.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Transpose puts the elements of an array in row-major order, of that shape and
// size in bytes, that column reads in the order in which they are: those of the
// first axis, for each place of the others. column gets as many bytes as such a
// column has.
func Transpose(dst []byte, shape []int, size int, column func(b []byte) error) error {
	n, width := shape[0], 1
	for _, d := range shape[1:] {
		width *= d
	}
	b := make([]byte, n*size)
	place := make([]int, len(shape)) // of the column, but for axis 0
	for range width {
		if err := column(b); err != nil {
			return err
		}
		at := 0
		for axis, d := range shape[1:] {
			at = at*d + place[axis+1]
		}
		for i := range n {
			copy(dst[(i*width+at)*size:][:size], b[i*size:])
		}
		for axis := 1; axis < len(shape); axis++ {
			if place[axis]++; place[axis] < shape[axis] {
				break
			}
			place[axis] = 0
		}
	}
	return nil
}
