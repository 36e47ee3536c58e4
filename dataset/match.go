package dataset

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// Matched is files in the order of others that they go with: masks in that of
// their photos.
type Matched struct {
	files Files
	order []int // of files
}

// Match makes files whose file i is the one of others that goes with file i of
// files, so that Match(photos, masks) is a target for the photos (see packages
// photos and loader). They go together when they have one name by [Key]: in a
// [Folder], and in what is made of one, the path below it without its extension,
// elsewhere the name up to the first dot of its last element, such as the key of
// a sample in shards. key, unless it is nil, makes another one of [Files].Name.
//
// Files that nothing goes with fail with [fs.ErrNotExist], which tells the
// first; others that go with nothing are left out. So Match(masks, photos) is
// the photos that have a mask. It fails with [ErrArgument] where two of others
// have one name. Labels are those of others, which stay the caller's, who closes
// them when the result is no longer in use.
func Match(files, others Files, key func(name string) string) (*Matched, error) {
	name := func(f Files, i int) string {
		if key != nil {
			return key(f.Name(i))
		}
		return Key(f, i)
	}
	places := make(map[string]int, others.Len())
	for i := range others.Len() {
		k := name(others, i)
		if first, twice := places[k]; twice {
			return nil, fmt.Errorf("%s: %w: has the name %q, and so has %s", others.Name(i), ErrArgument, k, others.Name(first))
		}
		places[k] = i
	}
	d := &Matched{files: others, order: make([]int, files.Len())}
	for i := range d.order {
		k := name(files, i)
		place, found := places[k]
		if !found {
			err := fmt.Errorf("%s: %w: it has no partner: none of %d files has the name %q", files.Name(i), fs.ErrNotExist, others.Len(), k)
			if len(places) > 0 {
				err = fmt.Errorf("%w; the first is %s", err, others.Name(0))
			}
			return nil, err
		}
		d.order[i] = place
	}
	return d, nil
}

// Key is what file i goes with others by in [Match]: what a method Key(i int)
// string says, or the name up to the first dot of its last element.
func Key(f Files, i int) string {
	if k, ok := f.(interface{ Key(i int) string }); ok {
		return k.Key(i)
	}
	return stem(f.Name(i))
}

// Key implements what [Key] asks for: the path of file i below the folder,
// without its extension.
func (d *Folder) Key(i int) string {
	path := d.Name(i)
	path = strings.TrimSuffix(path, filepath.Ext(path))
	return filepath.ToSlash(path[len(d.root):])
}

// Key implements what [Key] asks for.
func (d *Matched) Key(i int) string { return Key(d.files, d.order[i]) }

// stem is a name up to the first dot of its last element.
func stem(name string) string {
	base := strings.LastIndexAny(name, `/\`) + 1
	if dot := strings.IndexByte(name[base:], '.'); dot >= 0 {
		return name[:base+dot]
	}
	return name
}

// Len implements [Files].
func (d *Matched) Len() int { return len(d.order) }

// Name implements [Files].
func (d *Matched) Name(i int) string { return d.files.Name(d.order[i]) }

// Label implements [Files].
func (d *Matched) Label(i int) int32 { return d.files.Label(d.order[i]) }

// Classes returns the names of the classes; nil where the files have none.
func (d *Matched) Classes() []string {
	if c, ok := d.files.(interface{ Classes() []string }); ok {
		return c.Classes()
	}
	return nil
}

// NewFileReader implements [Files].
func (d *Matched) NewFileReader() (FileReader, error) {
	r, err := d.files.NewFileReader()
	if err != nil {
		return nil, err
	}
	return &matchedReader{d, r}, nil
}

type matchedReader struct {
	matched *Matched
	FileReader
}

// ReadFile implements [FileReader].
func (r *matchedReader) ReadFile(ctx context.Context, i int, buf []byte) ([]byte, error) {
	if i < 0 || i >= r.matched.Len() {
		return nil, fmt.Errorf("%w: file %d of %d", ErrArgument, i, r.matched.Len())
	}
	return r.FileReader.ReadFile(ctx, r.matched.order[i], buf)
}
