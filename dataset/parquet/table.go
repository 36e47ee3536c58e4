package parquet

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/dataset"
	rowlabels "github.com/pinion-gpu/pinion/dataset/internal/labels"
	"github.com/pinion-gpu/pinion/dtype"
)

// defaultCacheBytes is the default of the options' CacheBytes.
const defaultCacheBytes = 1 << 30

// table is the rows of some files, one behind the other.
type table struct {
	name    string
	sources []*source
	groups  []*group
	rows    int
	labels  []int32         // nil if there are none
	names   []string        // of the classes, where labels are texts
	targets dataset.Dataset // labels that are no whole numbers; nil: none
	cache   *cache
}

// group is a row group that has rows.
type group struct {
	source *source
	index  int // in the file, beside those that have none
	first  int // number of its first row in the file
	start  int // number of its first row in the table
	rows   int
	size   int64        // bytes of its files, as the footer says; 0 for numbers
	need   atomic.Int64 // bytes that it needs in the cache
}

// openTable reads the footers of the files that path stands for.
func openTable(ctx context.Context, path string, cacheBytes int64) (*table, error) {
	if cacheBytes < 0 {
		return nil, fmt.Errorf("%s: %w: CacheBytes %d", path, dataset.ErrArgument, cacheBytes)
	}
	cacheBytes = cmp.Or(cacheBytes, defaultCacheBytes)
	paths, err := expand(path)
	if err != nil {
		return nil, err
	}
	t := &table{name: path, sources: make([]*source, len(paths)), cache: newCache(cacheBytes)}
	err = inParallel(ctx, len(paths), func(_ context.Context, i int) (err error) {
		t.sources[i], err = openSource(paths[i], cacheBytes)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, s := range t.sources {
		if err := t.addGroups(s); err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
	}
	if t.rows == 0 {
		return nil, fmt.Errorf("%s: %w: no rows in %d files", path, dataset.ErrEmpty, len(paths))
	}
	return t, nil
}

func (t *table) addGroups(s *source) error {
	first := 0
	for i, rg := range s.footer.Groups {
		n := rg.Rows
		if n < 0 || n > math.MaxInt32 || int64(t.rows)+n > math.MaxInt {
			return fmt.Errorf("%w: row group %d has %d rows", dataset.ErrDamaged, i, n)
		}
		if n == 0 {
			continue
		}
		t.groups = append(t.groups, &group{source: s, index: i, first: first, start: t.rows, rows: int(n)})
		first += int(n)
		t.rows += int(n)
	}
	return nil
}

// choose notes which columns are read of every file, and checks that they can
// be.
func (t *table) choose(samples func(leaves []column) ([]column, error), label string) (err error) {
	for _, s := range t.sources {
		leaves := s.columns()
		if s.samples, err = samples(leaves); err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		if label == "" {
			continue
		}
		list, err := labelColumns(leaves, label)
		if err == nil && len(list) == 1 && s != t.sources[0] {
			c, first := list[0], t.sources[0].label[0]
			if c.kind != first.kind || c.number.float != first.number.float {
				err = fmt.Errorf("%w: label column %q is of another type than in %s", dataset.ErrFormat, label, t.sources[0].path)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		s.label = list
	}
	for _, g := range t.groups {
		for _, columns := range [][]column{g.source.samples, g.source.label} {
			for _, c := range columns {
				if err := g.source.check(g.index, c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// labelColumns returns the columns of the labels: the one of that name, or those of
// numbers whose names are given with commas between them.
func labelColumns(leaves []column, label string) ([]column, error) {
	c, err := named(leaves, label, scalar, words)
	if err == nil || !strings.Contains(label, ",") {
		return []column{c}, err
	}
	var list []column
	for name := range strings.SplitSeq(label, ",") {
		c, err := named(leaves, name, scalar)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// index makes room for a number for each row, and fills it row group by row
// group.
func (t *table) index(ctx context.Context, what string, read func(ctx context.Context, rg *openGroup, g *group, into []int32) error) ([]int32, error) {
	if bytes := 4 * int64(t.rows); bytes > t.cache.max {
		return nil, fmt.Errorf("%s: %w: %s of %d rows take %d bytes, CacheBytes allow %d",
			t.name, dataset.ErrTooLarge, what, t.rows, bytes, t.cache.max)
	}
	numbers := make([]int32, t.rows)
	err := inParallel(ctx, len(t.groups), func(ctx context.Context, i int) error {
		g := t.groups[i]
		return g.source.read(g.index, func(rg *openGroup) error {
			return read(ctx, rg, g, numbers[g.start:][:g.rows])
		})
	})
	return numbers, err
}

// readLabels reads the column of labels.
func (t *table) readLabels(ctx context.Context) (err error) {
	if c := t.sources[0].label[0]; len(t.sources[0].label) > 1 || c.kind == words || c.number.float {
		return t.buildLabels(ctx, c.kind == words)
	}
	t.labels, err = t.index(ctx, "labels", func(ctx context.Context, rg *openGroup, g *group, into []int32) error {
		return labels(ctx, rg, g.source.label[0], g.first, into)
	})
	return err
}

// buildLabels reads a column of labels that are texts, or numbers with fractions,
// or several columns of numbers.
func (t *table) buildLabels(ctx context.Context, isText bool) error {
	width := len(t.sources[0].label)
	if bytes := 8 * int64(t.rows) * int64(width); bytes > t.cache.max {
		return fmt.Errorf("%s: %w: labels of %d rows take %d bytes, CacheBytes allow %d", t.name, dataset.ErrTooLarge, t.rows, bytes, t.cache.max)
	}
	parts := make([]rowlabels.Builder, len(t.groups))
	err := inParallel(ctx, len(t.groups), func(ctx context.Context, i int) error {
		g := t.groups[i]
		parts[i] = rowlabels.Builder{Text: isText, Width: width}
		return g.source.read(g.index, func(rg *openGroup) error {
			if width > 1 {
				return addRows(ctx, rg, g.source.label, g.rows, &parts[i])
			}
			return addLabels(ctx, rg, g.source.label[0], g.rows, &parts[i])
		})
	})
	if err != nil {
		return err
	}
	all := rowlabels.Builder{Text: isText, Width: width}
	for i := range parts {
		all.Append(&parts[i])
	}
	set, err := all.Finish(t.name)
	t.labels, t.names, t.targets = set.Labels, set.Names, set.Targets
	return err
}

// addRows adds the labels of a row group that several columns have: those of a row
// together. A null is NaN.
func addRows(ctx context.Context, rg *openGroup, columns []column, rows int, b *rowlabels.Builder) error {
	block, err := decodeRows(ctx, rg, columns, rows, element{dtype: dtype.F64, fill: nan})
	if err != nil {
		return err
	}
	for row := range rows {
		if err := block.faults[row]; err != nil {
			return err
		}
		for v := range slices.Chunk(block.data[row*block.size:][:block.size], 8) {
			if err := b.Number(math.Float64frombits(binary.LittleEndian.Uint64(v))); err != nil {
				return err
			}
		}
	}
	return nil
}

// nan stands for nulls among several labels.
var nan = binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN()))

// addLabels adds the labels of a row group. A null is no label: -1, or NaN.
func addLabels(ctx context.Context, rg *openGroup, col column, rows int, b *rowlabels.Builder) error {
	c, err := openChunk(ctx, rg, col)
	if err != nil {
		return err
	}
	for row := 0; ; {
		more, err := c.next()
		if err != nil {
			return err
		}
		if row += len(c.Defs); row > rows || !more && row < rows {
			return short(c, row, rows)
		}
		if !more {
			return nil
		}
		value := 0
		for _, d := range c.Defs {
			there := d == c.max
			switch {
			case b.Text && there:
				b.Name(string(c.Blobs[value]))
			case b.Text:
				b.Name("")
			case there:
				err = b.Number(c.Floats[value])
			default:
				err = b.Number(math.NaN())
			}
			if err != nil {
				return err
			}
			if there {
				value++
			}
		}
	}
}

// Targets returns the labels that are no whole numbers, as f32; nil where there are
// none.
func (t *table) Targets() dataset.Dataset { return t.targets }

// labels reads the labels of a row group. A null is no label: -1.
func labels(ctx context.Context, rg *openGroup, col column, first int, into []int32) error {
	c, err := openChunk(ctx, rg, col)
	if err != nil {
		return err
	}
	row := 0
	for {
		more, err := c.next()
		if err != nil {
			return err
		}
		if n := row + len(c.Defs); n > len(into) || !more && n < len(into) {
			return short(c, n, len(into))
		}
		if !more {
			return nil
		}
		value := 0
		for _, d := range c.Defs {
			into[row] = -1
			if d == c.max {
				v := c.Ints[value]
				if into[row] = int32(v); int64(into[row]) != v || v < 0 && col.number.unsigned {
					return fmt.Errorf("%w: row %d: label %v does not fit 32 bits", dataset.ErrFormat, first+row, c.value(value))
				}
				value++
			}
			row++
		}
	}
}

// fits checks that a row group can be in the cache, and notes what it needs.
func (t *table) fits(g *group, bytes int64) error {
	if bytes < 0 || bytes > t.cache.max {
		return fmt.Errorf("%s: %w: row group %d has %d bytes, the cache %d; raise CacheBytes or write smaller row groups",
			g.source.path, dataset.ErrTooLarge, g.index, bytes, t.cache.max)
	}
	g.need.Store(bytes)
	return nil
}

// Len implements [dataset.Dataset].
func (t *table) Len() int { return t.rows }

// Name implements [dataset.Dataset]: "train-0.parquet[17]" is row 17 of that
// file.
func (t *table) Name(i int) string {
	g, row := t.at(i)
	return fmt.Sprintf("%s[%d]", g.source.path, g.first+row)
}

// Label implements [dataset.Dataset].
func (t *table) Label(i int) int32 {
	if t.labels == nil {
		return -1
	}
	return t.labels[i]
}

// Shards returns the number of samples of each row group, in order: what
// sampler.NewBlocks shuffles without reading every group again and again.
func (t *table) Shards() []int {
	sizes := make([]int, len(t.groups))
	for i, g := range t.groups {
		sizes[i] = g.rows
	}
	return sizes
}

// at returns where sample i is.
func (t *table) at(i int) (g *group, row int) {
	k := sort.Search(len(t.groups), func(k int) bool { return t.groups[k].start > i }) - 1
	return t.groups[k], i - t.groups[k].start
}

// checkIndex checks the number of a sample.
func (t *table) checkIndex(i int) error {
	if i < 0 || i >= t.rows {
		return fmt.Errorf("%s: %w: sample %d of %d", t.name, dataset.ErrArgument, i, t.rows)
	}
	return nil
}

// inParallel calls f for 0 to n-1, as many at a time as there are processors,
// and returns the first error.
func inParallel(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		work.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return f(ctx, i)
		})
	}
	return work.Wait()
}
