package parquet

import (
	"context"
	"errors"

	"github.com/pinion-gpu/pinion/dataset"
)

// errRoom: the blobs of a row group need more room than was kept for them.
var errRoom = errors.New("not enough room")

// decodeBlobs decodes a column of bytes within room bytes, of which it takes
// about size at once. Blobs larger than limit are faults.
func decodeBlobs(ctx context.Context, rg *openGroup, col column, rows int, limit, room, size int64) (*block, error) {
	c, err := openChunk(ctx, rg, col)
	if err != nil {
		return nil, err
	}
	b := &block{offsets: make([]int64, 1, rows+1), faults: faults{}}
	room -= b.bytes()
	// A dictionary makes large what is small in the file: then there is not
	// enough room, and with more of it the memory grows.
	b.data = make([]byte, 0, min(size, room))
	for {
		more, err := c.next()
		if err != nil {
			return nil, err
		}
		if n := len(b.offsets) - 1 + len(c.Defs); n > rows || !more && n < rows {
			return nil, short(c, n, rows)
		}
		if !more {
			return b, nil
		}
		value := 0
		for _, d := range c.Defs {
			row := len(b.offsets) - 1
			if d != c.max {
				err = b.faults.add(row, "%w: column %q is null", dataset.ErrFormat, c.name)
			} else {
				v := c.Blobs[value]
				value++
				switch {
				case int64(len(v)) > limit:
					err = b.faults.add(row, "%w: %d bytes, the limit is %d", dataset.ErrTooLarge, len(v), limit)
				case int64(len(v)) > room-int64(len(b.data)):
					return nil, errRoom
				default:
					b.data = append(growWithin(b.data, len(v), room), v...)
				}
			}
			if err != nil {
				return nil, err
			}
			b.offsets = append(b.offsets, int64(len(b.data)))
		}
	}
}

// growWithin returns data with a capacity for n more bytes, which is at most
// room: the cache counts all of it.
func growWithin(data []byte, n int, room int64) []byte {
	if cap(data)-len(data) >= n {
		return data
	}
	larger := make([]byte, len(data), min(int64(max(2*cap(data), len(data)+n)), room))
	copy(larger, data)
	return larger
}
