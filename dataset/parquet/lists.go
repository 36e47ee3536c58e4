package parquet

import (
	"context"

	"github.com/pinion-gpu/pinion/dataset"
)

// lengths reads how long the lists of a column are, into one number for each
// row. A null counts as none.
func lengths(ctx context.Context, rg *openGroup, col column, into []int32) error {
	c, err := openChunk(ctx, rg, col)
	if err != nil {
		return err
	}
	row := -1
	for {
		more, err := c.next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		for i, d := range c.Defs {
			if c.Reps[i] == 0 {
				row++
			}
			if row < 0 || row >= len(into) {
				return short(c, row+1, len(into))
			}
			if d >= c.list {
				into[row]++
			}
		}
	}
	if row+1 < len(into) {
		return short(c, row+1, len(into))
	}
	return nil
}

// decodeLists decodes a column of lists, whose rows are as many bytes long as
// the offsets say. Lists of other lengths are faults.
func decodeLists(ctx context.Context, rg *openGroup, col column, offsets []int64, e element) (*block, error) {
	c, err := openChunk(ctx, rg, col)
	if err != nil {
		return nil, err
	}
	rows := len(offsets) - 1
	b := &block{data: make([]byte, offsets[rows]), offsets: offsets, faults: faults{}}
	w := listWriter{chunk: c, block: b, element: e, size: e.dtype.Size(), row: -1}
	for {
		more, err := c.next()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		if err := w.batch(rows); err != nil {
			return nil, err
		}
	}
	if err := w.endRow(); err != nil {
		return nil, err
	}
	if w.row+1 < rows {
		return nil, short(c, w.row+1, rows)
	}
	return b, nil
}

// listWriter writes the elements of lists into samples.
type listWriter struct {
	*chunk
	block   *block
	element element
	size    int // bytes of an element

	row, length int  // where it is: the row, and how many elements of it came
	none        bool // the row is null
}

// batch writes a batch of levels. A row may go on in the next one.
func (w *listWriter) batch(rows int) error {
	value := 0
	for i := 0; i < len(w.Defs); {
		if w.Reps[i] == 0 {
			if err := w.endRow(); err != nil {
				return err
			}
			w.row, w.length, w.none = w.row+1, 0, w.Defs[i] < w.list-1
		}
		if w.row < 0 || w.row >= rows {
			return short(w.chunk, w.row+1, rows)
		}
		end := i + 1
		for end < len(w.Defs) && w.Reps[end] != 0 {
			end++
		}
		n, err := w.elements(i, end, value)
		if err != nil {
			return err
		}
		value, i = value+n, end
	}
	return nil
}

// elements writes levels of one row, and returns how many values they had.
func (w *listWriter) elements(i, end, value int) (values int, err error) {
	if w.Defs[i] < w.list {
		return 0, nil // no list, or an empty one
	}
	dst := w.block.data[w.block.offsets[w.row]:w.block.offsets[w.row+1]]
	row := func(int) int { return w.row }
	for i < end {
		to, there := w.run(i, end)
		n := to - i
		room := max(min(n, len(dst)/w.size-w.length), 0)
		if room > 0 && there {
			err = w.putRun(w.block.faults, dst[w.length*w.size:], w.size, w.element, value+values, room, row)
		} else if room > 0 {
			err = w.fillRun(w.block.faults, dst[w.length*w.size:], w.size, w.element, room, row)
		}
		if err != nil {
			return 0, err
		}
		if there {
			values += n
		}
		w.length, i = w.length+n, to
	}
	return values, nil
}

// endRow checks the row that was written last.
func (w *listWriter) endRow() error {
	if w.row < 0 {
		return nil
	}
	want := int(w.block.offsets[w.row+1]-w.block.offsets[w.row]) / w.size
	switch f := w.block.faults; {
	case w.none && w.element.fill == nil:
		return f.null(w.row, w.chunk)
	case w.length != want:
		return f.add(w.row, "%w: column %q: a list of %d numbers, want %d", dataset.ErrFormat, w.name, w.length, want)
	}
	return nil
}
