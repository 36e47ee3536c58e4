package imaging

import "encoding/binary"

// grey is the brightness of a colour as Pillow's convert("L") has it: ITU-R
// BT.601 with 16 fraction bits, rounded to nearest. It takes samples of 8 or 16
// bits, and grey stays what it is.
func grey(r, g, b uint32) uint32 { return (19595*r + 38470*g + 7471*b + 1<<15) >> 16 }

// greyRows makes rows of one byte a pixel of rows of RGB.
type greyRows struct {
	rows
	rgb []byte
}

func (m *greyRows) row(y, x0, x1 int, dst []byte) []byte {
	m.rgb = resized(m.rgb, 3*(x1-x0))
	src := m.rows.row(y, x0, x1, m.rgb)
	for x := range dst {
		in := (*[3]byte)(src[3*x:])
		dst[x] = byte(grey(uint32(in[0]), uint32(in[1]), uint32(in[2])))
	}
	return dst
}

// deepSource is rows of a picture that has samples of 16 bits.
type deepSource interface {
	// channels is how many samples a pixel has: 1 or 3.
	channels() int
	// deep writes the samples of the pixels x0 <= x < x1 of row y.
	deep(y, x0, x1 int, dst []byte)
}

// deepRows makes samples of 16 bits of any rows, and grey if asked for. Those of
// 8 bits are multiplied by 257, so that black and white stay what they are.
type deepRows struct {
	rows
	grey      bool
	rgb, wide []byte
}

func (m *deepRows) row(y, x0, x1 int, dst []byte) []byte {
	src, deep := m.rows.(deepSource)
	channels := 3
	if deep {
		channels = src.channels()
	}
	wide := dst
	if m.grey != (channels == 1) {
		m.wide = resized(m.wide, 2*channels*(x1-x0))
		wide = m.wide
	}
	if deep {
		src.deep(y, x0, x1, wide)
	} else {
		m.rgb = resized(m.rgb, 3*(x1-x0))
		for i, v := range m.rows.row(y, x0, x1, m.rgb) {
			wide[2*i], wide[2*i+1] = v, v
		}
	}
	switch {
	case m.grey && channels == 3:
		for x := range x1 - x0 {
			in := (*[6]byte)(wide[6*x:])
			v := grey(sample(in[0], in[1]), sample(in[2], in[3]), sample(in[4], in[5]))
			binary.LittleEndian.PutUint16(dst[2*x:], uint16(v))
		}
	case !m.grey && channels == 1:
		for x := range x1 - x0 {
			in := (*[2]byte)(wide[2*x:])
			*(*[6]byte)(dst[6*x:]) = [6]byte{in[0], in[1], in[0], in[1], in[0], in[1]}
		}
	}
	return dst
}

func sample(low, high byte) uint32 { return uint32(low) | uint32(high)<<8 }

// gray16Rows is pixels of one big-endian sample of 16 bits.
type gray16Rows struct{ grayRows }

func (m *gray16Rows) channels() int { return 1 }

func (m *gray16Rows) deep(y, x0, x1 int, dst []byte) {
	src := m.pix[y*m.stride+2*x0:][:2*(x1-x0)]
	dst = dst[:len(src)]
	for i := 0; i+2 <= len(src); i += 2 {
		binary.LittleEndian.PutUint16(dst[i:], binary.BigEndian.Uint16(src[i:]))
	}
}

func (m *rgba64Rows) channels() int { return 3 }

func (m *rgba64Rows) deep(y, x0, x1 int, dst []byte) {
	src := m.pix[y*m.stride+8*x0:]
	for x := range x1 - x0 {
		in := (*[8]byte)(src[8*x:])
		*(*[6]byte)(dst[6*x:]) = [6]byte{in[1], in[0], in[3], in[2], in[5], in[4]}
	}
}
