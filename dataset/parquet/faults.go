package parquet

import (
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
)

// maxFaults is how many bad samples of a row group are told one by one.
const maxFaults = 4096

// faults are the samples of a row group that cannot be read. The others can.
type faults map[int]error

// add notes the first fault of a row. It fails when there are too many.
func (f faults) add(row int, format string, args ...any) error {
	if f[row] != nil {
		return nil
	}
	f[row] = fmt.Errorf(format, args...)
	if len(f) > maxFaults {
		return fmt.Errorf("%d samples of it are at fault, the last one: %w", len(f), f[row])
	}
	return nil
}

func (f faults) null(row int, c *chunk) error {
	return f.add(row, "%w: column %q is null; give a number to stand for nulls (Fill, --fill)", dataset.ErrFormat, c.name)
}

func (f faults) unfit(row int, c *chunk, value int, e element) error {
	return f.add(row, "%w: column %q: %v does not fit %v", dataset.ErrFormat, c.name, c.value(value), e.dtype)
}

// short is the error for a column that has other rows than its row group.
func short(c *chunk, rows, want int) error {
	return fmt.Errorf("%w: column %q has %d rows or more, its row group %d", dataset.ErrDamaged, c.name, rows, want)
}
