package parquet

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/dataset/parquet/internal/chunks"
)

// chunk is a column of a row group, batch by batch.
type chunk struct {
	column
	chunks.Batch
	ctx    context.Context
	reader *chunks.Reader
}

// openChunk begins to read a column.
func openChunk(ctx context.Context, g *openGroup, col column) (*chunk, error) {
	r, err := chunks.NewReader(g.file, g.source.size, g.chunks[col.index], col.leaf, max(g.source.pages, minPages))
	if err != nil {
		return nil, fmt.Errorf("column %q: %w", col.name, err)
	}
	return &chunk{column: col, ctx: ctx, reader: r}, nil
}

// next reads a batch of at least one level; false at the end.
func (c *chunk) next() (bool, error) {
	if err := c.ctx.Err(); err != nil {
		return false, err
	}
	more, err := c.reader.Next(&c.Batch)
	if err != nil {
		return false, fmt.Errorf("column %q: %w", c.name, err)
	}
	if !more {
		c.Batch = chunks.Batch{}
	}
	return more, nil
}

// run returns the end of the run of values, or of nulls, that begins at level
// i and is within the first end levels.
func (c *chunk) run(i, end int) (int, bool) {
	there := c.Defs[i] == c.max
	for i++; i < end && (c.Defs[i] == c.max) == there; i++ {
	}
	return i, there
}

// put writes n values of the batch, from the i-th on, and returns how many:
// it stops at one that does not fit.
func (c *chunk) put(e element, dst []byte, stride, i, n int) int {
	switch {
	case c.number.float:
		return e.putFloats(dst, stride, c.Floats[i:i+n])
	case !c.number.unsigned || c.number.bits < 64:
		return e.putInts(dst, stride, c.Ints[i:i+n])
	}
	for k, v := range c.Ints[i : i+n] {
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
		return c.Floats[i]
	case c.number.unsigned:
		return uint64(c.Ints[i])
	}
	return c.Ints[i]
}
