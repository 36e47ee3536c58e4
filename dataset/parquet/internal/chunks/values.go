package chunks

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/float16"
)

// encoding is how the values of a page are written, with its number in files.
type encoding int32

const (
	plain               encoding = 0
	plainDictionary     encoding = 2
	runs                encoding = 3 // RLE
	bitPacked           encoding = 4 // of levels, in old files
	deltaBinaryPacked   encoding = 5
	deltaLengthBytes    encoding = 6
	deltaBytes          encoding = 7
	dictionaryIndexes   encoding = 8
	byteStreamSplit     encoding = 9
	numbersOfDictionary          = 8  // bytes of a number in memory
	blobOfDictionary             = 24 // and of a slice
)

// values are those of a page, which are read one after the other.
type values interface {
	// read reads n values more into b.
	read(n int, b *Batch) error
}

// fixed are numbers that take as many bytes each.
type fixed struct {
	data     []byte
	width    int
	of       Type
	unsigned bool
}

func (v *fixed) read(n int, b *Batch) error {
	if n*v.width > len(v.data) {
		return errShort
	}
	src := v.data[:n*v.width]
	v.data = v.data[len(src):]
	switch {
	case v.of == Int32 && v.unsigned:
		dst := extend(&b.Ints, n)
		for i := range dst {
			dst[i] = int64(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case v.of == Int32:
		dst := extend(&b.Ints, n)
		for i := range dst {
			dst[i] = int64(int32(binary.LittleEndian.Uint32(src[4*i:])))
		}
	case v.of == Int64:
		dst := extend(&b.Ints, n)
		for i := range dst {
			dst[i] = int64(binary.LittleEndian.Uint64(src[8*i:]))
		}
	case v.of == Float:
		dst := extend(&b.Floats, n)
		for i := range dst {
			dst[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:])))
		}
	case v.of == Double:
		dst := extend(&b.Floats, n)
		for i := range dst {
			dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:]))
		}
	default:
		dst := extend(&b.Floats, n)
		for i := range dst {
			dst[i] = float64(float16.FromF16(binary.LittleEndian.Uint16(src[2*i:])))
		}
	}
	return nil
}

// extend makes a list n elements longer, and returns those.
func extend[T any](list *[]T, n int) []T {
	*list = slices.Grow(*list, n)[:len(*list)+n]
	return (*list)[len(*list)-n:]
}

// unsplit puts the bytes of each number together, which BYTE_STREAM_SPLIT writes
// apart: first the first bytes of all, then the second ones.
func unsplit(src []byte, width int) []byte {
	n := len(src) / width
	dst := make([]byte, n*width)
	for k := range width {
		for i, b := range src[k*n:][:n] {
			dst[i*width+k] = b
		}
	}
	return dst
}

// bools are booleans.
type bools []byte

func (v *bools) read(n int, b *Batch) error {
	if n > len(*v) {
		return errShort
	}
	dst := extend(&b.Ints, n)
	for i, bit := range (*v)[:n] {
		dst[i] = int64(bit)
	}
	*v = (*v)[n:]
	return nil
}

// whole are numbers that are there as they are.
type whole []int64

func (v *whole) read(n int, b *Batch) error {
	if n > len(*v) {
		return errShort
	}
	b.Ints = append(b.Ints, (*v)[:n]...)
	*v = (*v)[n:]
	return nil
}

// blobs are byte arrays, each behind its length.
type blobs []byte

func (v *blobs) read(n int, b *Batch) error {
	for range n {
		if len(*v) < 4 {
			return errShort
		}
		size := int64(binary.LittleEndian.Uint32(*v))
		if size > int64(len(*v)-4) {
			return errShort
		}
		b.Blobs = append(b.Blobs, (*v)[4:4+size])
		*v = (*v)[4+size:]
	}
	return nil
}

// lengthBlobs are byte arrays with their lengths before all of them.
type lengthBlobs struct {
	lengths []int64
	data    []byte
}

func (v *lengthBlobs) read(n int, b *Batch) error {
	if n > len(v.lengths) {
		return errShort
	}
	for _, size := range v.lengths[:n] {
		if size < 0 || size > int64(len(v.data)) {
			return errShort
		}
		b.Blobs = append(b.Blobs, v.data[:size])
		v.data = v.data[size:]
	}
	v.lengths = v.lengths[n:]
	return nil
}

// prefixBlobs are byte arrays of which each shares a prefix with the one before.
type prefixBlobs struct {
	prefixes []int64
	suffixes lengthBlobs
	last     []byte
	room     int64 // bytes that the values of a batch may take
}

func (v *prefixBlobs) read(n int, b *Batch) error {
	if n > len(v.prefixes) {
		return errShort
	}
	from := len(b.Blobs)
	if err := v.suffixes.read(n, b); err != nil {
		return err
	}
	room := v.room
	for i, prefix := range v.prefixes[:n] {
		if prefix < 0 || prefix > int64(len(v.last)) {
			return errShort
		}
		if prefix > 0 {
			suffix := b.Blobs[from+i]
			if room -= prefix + int64(len(suffix)); room < 0 {
				return tooLarge(v.room-room, v.room)
			}
			b.Blobs[from+i] = append(v.last[:prefix:prefix], suffix...)
		}
		v.last = b.Blobs[from+i]
	}
	v.prefixes = v.prefixes[n:]
	return nil
}

// indexes are places in a dictionary.
type indexes struct {
	at         []uint32
	dictionary *Batch
}

func (v *indexes) read(n int, b *Batch) error {
	if n > len(v.at) {
		return errShort
	}
	d := v.dictionary
	size := uint32(max(len(d.Ints), len(d.Floats), len(d.Blobs)))
	for _, i := range v.at[:n] {
		if i >= size {
			return fmt.Errorf("%w: value %d of a dictionary of %d", dataset.ErrDamaged, i, size)
		}
	}
	switch {
	case d.Ints != nil:
		dst := extend(&b.Ints, n)
		for k, i := range v.at[:n] {
			dst[k] = d.Ints[i]
		}
	case d.Floats != nil:
		dst := extend(&b.Floats, n)
		for k, i := range v.at[:n] {
			dst[k] = d.Floats[i]
		}
	default:
		dst := extend(&b.Blobs, n)
		for k, i := range v.at[:n] {
			dst[k] = d.Blobs[i]
		}
	}
	v.at = v.at[n:]
	return nil
}
