package imaging

import (
	"fmt"

	"github.com/pinion-gpu/pinion/dtype"
)

// pixel is what a pixel is made of. The zero value is three bytes: red, green
// and blue.
type pixel struct {
	grey bool // one sample and not three
	deep bool // samples of 16 bits, little-endian, and not of 8
}

// pixelOf is the pixel of that type and so many channels; 0 stands for the
// default of each.
func pixelOf(d dtype.DType, channels int) (pixel, error) {
	p := pixel{grey: channels == 1, deep: d == dtype.U16}
	if channels != 0 && channels != p.channels() || d != 0 && d != p.dtype() {
		return p, fmt.Errorf("%w: pixels of %d channels of %v; they are 1 or 3 of u8 or u16", ErrArgument, channels, d)
	}
	return p, nil
}

func (p pixel) channels() int {
	if p.grey {
		return 1
	}
	return 3
}

func (p pixel) dtype() dtype.DType {
	if p.deep {
		return dtype.U16
	}
	return dtype.U8
}

func (p pixel) bytes() int {
	if p.deep {
		return 2 * p.channels()
	}
	return p.channels()
}
