package parquet

import (
	"context"
	"encoding/binary"
	"fmt"

	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/float16"
)

// batch is how many values are decoded at a time: few enough to stay in the
// processor's cache.
const batch = 4096

// chunk is a column of a row group, batch by batch.
type chunk struct {
	column
	ctx  context.Context
	read func() (levels int64, values int, err error)

	defs, reps []int16 // levels of the batch
	// The values of the batch that are there, all in one of these. Whole
	// numbers of 64 bits without sign are in ints as they are.
	ints   []int64
	floats []float64
	blobs  []pq.ByteArray // good until the next batch
}

// openChunk begins to read a column.
func openChunk(ctx context.Context, rg *file.RowGroupReader, col column) (*chunk, error) {
	r, err := rg.Column(col.index)
	if err != nil {
		return nil, fmt.Errorf("column %q: %w", col.name, damaged(err))
	}
	c := &chunk{column: col, ctx: ctx, defs: make([]int16, batch), reps: make([]int16, batch)}
	switch r := r.(type) {
	case *file.BooleanColumnChunkReader:
		c.read = reads(c, &c.ints, r.ReadBatchInPage, func(dst []int64, src []bool) {
			for i, v := range src {
				dst[i] = 0
				if v {
					dst[i] = 1
				}
			}
		})
	case *file.Int32ColumnChunkReader:
		c.read = reads(c, &c.ints, r.ReadBatchInPage, widen[int32, int64])
		if col.number.unsigned {
			c.read = reads(c, &c.ints, r.ReadBatchInPage, func(dst []int64, src []int32) {
				for i, v := range src {
					dst[i] = int64(uint32(v))
				}
			})
		}
	case *file.Int64ColumnChunkReader:
		c.read = reads(c, &c.ints, r.ReadBatchInPage, widen[int64, int64])
	case *file.Float32ColumnChunkReader:
		c.read = reads(c, &c.floats, r.ReadBatchInPage, widen[float32, float64])
	case *file.Float64ColumnChunkReader:
		c.read = reads(c, &c.floats, r.ReadBatchInPage, widen[float64, float64])
	case *file.FixedLenByteArrayColumnChunkReader:
		c.read = reads(c, &c.floats, r.ReadBatchInPage, func(dst []float64, src []pq.FixedLenByteArray) {
			for i, v := range src {
				dst[i] = float64(float16.FromF16(binary.LittleEndian.Uint16(v)))
			}
		})
	case *file.ByteArrayColumnChunkReader:
		c.read = reads(c, &c.blobs, r.ReadBatchInPage, func(dst, src []pq.ByteArray) { copy(dst, src) })
	default:
		return nil, fmt.Errorf("column %q: %w: physical type %v", col.name, dataset.ErrFormat, r.Type())
	}
	return c, nil
}

// reads makes the function that reads a batch and widens it into dst.
func reads[T, W any](c *chunk, dst *[]W, read func(int64, []T, []int16, []int16) (int64, int, error), widen func(dst []W, src []T)) func() (int64, int, error) {
	raw, wide := make([]T, batch), make([]W, batch)
	return func() (int64, int, error) {
		levels, values, err := read(batch, raw, c.defs[:batch], c.reps[:batch])
		if err != nil || values < 0 || values > batch {
			return levels, values, err
		}
		*dst = wide[:values]
		widen(*dst, raw[:values])
		return levels, values, nil
	}
}

func widen[T int32 | int64 | float32 | float64, W int64 | float64](dst []W, src []T) {
	for i, v := range src {
		dst[i] = W(v)
	}
}

// next reads a batch of at least one level; false at the end. Where all
// values have to be there, it sets the levels that say so.
func (c *chunk) next() (bool, error) {
	if err := c.ctx.Err(); err != nil {
		return false, err
	}
	levels, values, err := c.read()
	if err != nil {
		return false, fmt.Errorf("column %q: %w", c.name, damaged(err))
	}
	if levels < 0 || levels > batch || values > int(levels) {
		return false, fmt.Errorf("column %q: %w: %d values at %d places", c.name, dataset.ErrDamaged, values, levels)
	}
	c.defs, c.reps = c.defs[:levels], c.reps[:levels]
	if c.max == 0 {
		clear(c.defs)
	}
	there := 0
	for _, d := range c.defs {
		if d == c.max {
			there++
		}
	}
	if there != values {
		return false, fmt.Errorf("column %q: %w: %d values, levels say %d", c.name, dataset.ErrDamaged, values, there)
	}
	return levels > 0, nil
}

// run returns the end of the run of values, or of nulls, that begins at level
// i and is within the first end levels.
func (c *chunk) run(i, end int) (int, bool) {
	there := c.defs[i] == c.max
	for i++; i < end && (c.defs[i] == c.max) == there; i++ {
	}
	return i, there
}

// put writes n values of the batch, from the i-th on, and returns how many:
// it stops at one that does not fit.
func (c *chunk) put(e element, dst []byte, stride, i, n int) int {
	switch {
	case c.number.float:
		return e.putFloats(dst, stride, c.floats[i:i+n])
	case !c.number.unsigned || c.number.bits < 64:
		return e.putInts(dst, stride, c.ints[i:i+n])
	}
	for k, v := range c.ints[i : i+n] {
		at := dst[k*stride:]
		if v >= 0 && e.putInts(at, stride, []int64{v}) == 0 ||
			v < 0 && e.putFloats(at, stride, []float64{float64(uint64(v))}) == 0 {
			return k
		}
	}
	return n
}

// value returns the i-th value of the batch for a message.
func (c *chunk) value(i int) any {
	switch {
	case c.number.float:
		return c.floats[i]
	case c.number.unsigned:
		return uint64(c.ints[i])
	}
	return c.ints[i]
}
