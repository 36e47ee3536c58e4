// Package labels reads arrays of labels.
package labels

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dtype"
)

// maxLabels bounds the memory of labels, 4 GiB: in the file they may be no more
// than a hole.
const maxLabels = 1 << 30

// Read reads n whole numbers of any type from a position in a file.
func Read(r io.ReaderAt, at int64, n int, d dtype.DType) ([]int32, error) {
	if n > maxLabels {
		return nil, fmt.Errorf("%w: %d labels, the limit is %d", dataset.ErrTooLarge, n, maxLabels)
	}
	const most = 1 << 20 // at a time
	data := make([]byte, min(n, most)*d.Size())
	var labels []int32
	for len(labels) < n {
		part := data[:min(n-len(labels), most)*d.Size()]
		err := file.ReadFull(r, part, at+int64(len(labels))*int64(d.Size()))
		if err == nil {
			labels, err = Append(labels, part, d)
		}
		if err != nil {
			return nil, err
		}
	}
	return labels, nil
}

// Append converts an array of whole numbers of any type.
func Append(labels []int32, data []byte, d dtype.DType) ([]int32, error) {
	var value func(b []byte) int64
	switch d {
	case dtype.U8:
		value = func(b []byte) int64 { return int64(b[0]) }
	case dtype.I8:
		value = func(b []byte) int64 { return int64(int8(b[0])) }
	case dtype.U16:
		value = func(b []byte) int64 { return int64(binary.LittleEndian.Uint16(b)) }
	case dtype.I16:
		value = func(b []byte) int64 { return int64(int16(binary.LittleEndian.Uint16(b))) }
	case dtype.I32:
		value = func(b []byte) int64 { return int64(int32(binary.LittleEndian.Uint32(b))) }
	case dtype.I64:
		value = func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }
	default:
		return nil, fmt.Errorf("%w: labels of type %v; want whole numbers", dataset.ErrFormat, d)
	}
	for ; len(data) > 0; data = data[d.Size():] {
		v := value(data)
		if int64(int32(v)) != v {
			return nil, fmt.Errorf("%w: label %d of sample %d does not fit 32 bits", dataset.ErrFormat, v, len(labels))
		}
		labels = append(labels, int32(v))
	}
	return labels, nil
}
