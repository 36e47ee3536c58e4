package parquet

import (
	"context"
)

// decodeRows decodes columns of single numbers side by side.
func decodeRows(ctx context.Context, rg *openGroup, columns []column, rows int, e element) (*block, error) {
	size := e.dtype.Size()
	b := &block{size: len(columns) * size, faults: faults{}}
	b.data = make([]byte, rows*b.size)
	for i, col := range columns {
		c, err := openChunk(ctx, rg, col)
		if err != nil {
			return nil, err
		}
		if err := c.rows(b, i*size, rows, e); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// rows writes the numbers of a column into samples, from byte at of each on.
func (c *chunk) rows(b *block, at, rows int, e element) error {
	row := 0
	for {
		more, err := c.next()
		if err != nil {
			return err
		}
		n := len(c.Defs)
		if row+n > rows || !more && row < rows {
			return short(c, row+n, rows)
		}
		if !more {
			return nil
		}
		value := 0
		for i := 0; i < n; {
			end, there := c.run(i, n)
			dst := b.data[(row+i)*b.size+at:]
			if there {
				err = c.putRun(b.faults, dst, b.size, e, value, end-i, func(k int) int { return row + i + k })
				value += end - i
			} else {
				err = c.fillRun(b.faults, dst, b.size, e, end-i, func(k int) int { return row + i + k })
			}
			if err != nil {
				return err
			}
			i = end
		}
		row += n
	}
}

// putRun writes n values, where rowOf says which sample the k-th is in, and
// notes those that do not fit.
func (c *chunk) putRun(f faults, dst []byte, stride int, e element, value, n int, rowOf func(k int) int) error {
	for k := 0; k < n; k++ {
		k += c.put(e, dst[k*stride:], stride, value+k, n-k)
		if k < n {
			if err := f.unfit(rowOf(k), c, value+k, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillRun writes what stands for nulls, or notes them.
func (c *chunk) fillRun(f faults, dst []byte, stride int, e element, n int, rowOf func(k int) int) error {
	for k := range n {
		if e.fill != nil {
			copy(dst[k*stride:], e.fill)
		} else if err := f.null(rowOf(k), c); err != nil {
			return err
		}
	}
	return nil
}
