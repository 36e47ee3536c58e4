package imaging

import "fmt"

// stored turns the rows of a decoded PNG into those of the numbers in its file.
func (d *Decoder) stored(src *picture, data []byte) error {
	const depth = 24 // where the header has it
	switch as := src.rows.(type) {
	case *palettedRows:
		src.rows = &planeRows{as.pix, as.stride}
	case *grayRows:
		// image/png spreads fewer bits over all of a byte.
		if unit := 255 / (1<<int(data[depth]) - 1); unit > 1 {
			for i := range as.pix {
				as.pix[i] /= byte(unit)
			}
		}
		src.rows = &planeRows{as.pix, as.stride}
	case *gray16Rows:
		if !src.pixel.deep {
			return fmt.Errorf("%w: indexes of 16 bits, and DType is %v", ErrFormat, src.pixel.dtype())
		}
		d.deep.rows, d.deep.grey = as, true
		src.rows = &d.deep
		return nil
	default:
		return fmt.Errorf("%w: indexes of a PNG of colours or transparency, want a palette or grey", ErrFormat)
	}
	if src.pixel.deep {
		d.wide = wideRows{rows: src.rows}
		src.rows = &d.wide
	}
	return nil
}

// wideRows is bytes as numbers of 16 bits.
type wideRows struct{ rows }

func (m *wideRows) row(y, x0, x1 int, dst []byte) []byte {
	for x, v := range m.rows.row(y, x0, x1, nil) {
		dst[2*x], dst[2*x+1] = v, 0
	}
	return dst
}
