package points

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/internal/number"
)

// pcdDecoder makes f32 rows of .pcd files.
type pcdDecoder struct {
	raw []byte // decompressed
}

// decode reads the points of a whole file into dst, which was made for the
// number of them.
func (d *pcdDecoder) decode(dst, file []byte, fields []string) error {
	h, err := readPCDHeader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return err
	}
	columns, err := h.pick(fields)
	if err != nil {
		return err
	}
	if 4*len(columns)*h.points != len(dst) {
		return fmt.Errorf("%w: the file has changed: %d points of %d columns in %d bytes", dataset.ErrDamaged, h.points, len(columns), len(dst))
	}
	if h.points == 0 {
		return nil
	}
	data := file[h.bytes:]
	switch h.data {
	case "ascii":
		return h.parse(dst, data, columns)
	case "binary_compressed":
		if data, err = d.decompress(data, h.points*h.stride); err != nil {
			return err
		}
		// Here fields come one after the other, each with all points.
		for at, c := range columns {
			size := c.size * c.count
			c.copy(dst[4*at:], 4*len(columns), data[c.offset*h.points+c.index*c.size:], size, h.points)
		}
	default:
		for at, c := range columns {
			c.copy(dst[4*at:], 4*len(columns), data[c.offset+c.index*c.size:], h.stride, h.points)
		}
	}
	return nil
}

// decompress undoes LZF; two sizes stand before it.
func (d *pcdDecoder) decompress(data []byte, want int) ([]byte, error) {
	packed, size := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint32(data[4:])
	if data = data[8:]; int64(packed) > int64(len(data)) || int64(size) != int64(want) {
		return nil, fmt.Errorf("%w: %d bytes of %d decompress to %d, want %d", dataset.ErrDamaged, packed, len(data), size, want)
	}
	if cap(d.raw) < want || cap(d.raw) > file.KeepBytes {
		d.raw = make([]byte, want)
	}
	return d.raw[:want], unpackLZF(d.raw[:want], data[:packed])
}

// copy converts one number of each of n points; src begins with the first
// one, and stride bytes are from one to the next.
func (c pcdColumn) copy(dst []byte, row int, src []byte, stride, n int) {
	single := c.kind == 'F' && c.size == 4
	for i := range n {
		to, from := dst[i*row:][:4], src[i*stride:]
		if single {
			copy(to, from[:4])
		} else {
			binary.LittleEndian.PutUint32(to, math.Float32bits(c.float(from)))
		}
	}
}

// float converts the number that b begins with.
func (f pcdField) float(b []byte) float32 {
	if f.kind == 'F' {
		return float32(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	var v uint64
	for i := range f.size {
		v |= uint64(b[i]) << (8 * i)
	}
	if f.kind == 'U' {
		return float32(v)
	}
	unused := 64 - 8*f.size
	return float32(int64(v<<unused) >> unused)
}

// parse reads points as text, one in a line.
func (h *pcdHeader) parse(dst, text []byte, columns []pcdColumn) error {
	values := make([]float32, h.numbers)
	for i := range h.points {
		var line []byte
		for len(line) == 0 {
			if len(text) == 0 {
				return fmt.Errorf("%w: %d of %d points", dataset.ErrDamaged, i, h.points)
			}
			line, text, _ = bytes.Cut(text, []byte{'\n'})
			line = bytes.TrimSpace(line)
		}
		for n := range values {
			v, end, ok := number.Scan(line)
			if ok && end < len(line) && line[end] == ' ' {
				line = bytes.TrimLeft(line[end:], " \t")
			} else { // the last one, or what is rare
				var word []byte
				word, line = cutWord(line)
				if v, ok = number.Parse(word); !ok {
					return fmt.Errorf("%w: point %d, number %d of %d: %.40q is not a number", dataset.ErrDamaged, i, n, h.numbers, word)
				}
			}
			values[n] = float32(v)
		}
		if len(line) > 0 {
			return fmt.Errorf("%w: point %d: %.40q after its %d numbers", dataset.ErrDamaged, i, line, h.numbers)
		}
		for _, c := range columns {
			binary.LittleEndian.PutUint32(dst, math.Float32bits(values[c.number+c.index]))
			dst = dst[4:]
		}
	}
	return nil
}

// cutWord cuts the first word off a line, without the quotes around it.
func cutWord(line []byte) (word, rest []byte) {
	end := bytes.IndexAny(line, " \t")
	if end < 0 {
		end = len(line)
	}
	word, rest = line[:end], bytes.TrimLeft(line[end:], " \t")
	if n := len(word); n >= 2 && word[0] == '"' && word[n-1] == '"' {
		word = word[1 : n-1]
	}
	return word, rest
}
