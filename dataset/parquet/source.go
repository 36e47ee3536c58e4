package parquet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/parquet/internal/chunks"
)

// source is one file. It is open only while something of it is read, so that
// there may be more shards than a process may have open files.
type source struct {
	path     string
	size     int64
	modified time.Time
	footer   *chunks.Footer
	pages    int64 // bytes that pages may take

	samples []column // what is read of it
	label   []column // none or one
}

// expand returns the files that path stands for.
func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return []string{path}, nil
	}
	pattern := path
	if err == nil {
		pattern = filepath.Join(literal(path), "*.parquet")
	} else if !strings.ContainsAny(path, "*?[") {
		return nil, err
	}
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, dataset.ErrArgument, err)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return strings.HasPrefix(filepath.Base(p), ".") })
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: %w: no files %s", path, dataset.ErrEmpty, filepath.Base(pattern))
	}
	return paths, nil
}

// literal escapes what is special in a pattern. On Windows nothing can be, and
// a folder with '[' in its name has to be given as a pattern.
func literal(path string) string {
	if os.PathSeparator == '\\' {
		return path
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// openSource reads the footer of a file.
func openSource(path string, pages int64) (*source, error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &source{path: path, size: info.Size(), modified: info.ModTime(), pages: pages}
	if s.footer, err = chunks.ReadFooter(f, s.size); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// openRegular opens a file unless it is a pipe or a device, which could block
// for ever.
func openRegular(path string) (*os.File, os.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if err := file.CheckRegular(path, info); err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// minPages is room for the pages of any ordinary file.
const minPages = 64 << 20

// openGroup is a row group of a file that is open.
type openGroup struct {
	source *source
	file   *os.File
	chunks []chunks.Chunk
}

// read calls f with a row group of the file.
func (s *source) read(group int, f func(rg *openGroup) error) error {
	opened, info, err := openRegular(s.path)
	if err != nil {
		return err
	}
	defer opened.Close()
	if info.Size() != s.size || !info.ModTime().Equal(s.modified) {
		return fmt.Errorf("%s: %w: the file has changed since it was opened", s.path, dataset.ErrDamaged)
	}
	if err := f(&openGroup{s, opened, s.footer.Groups[group].Chunks}); err != nil {
		return fmt.Errorf("%s: row group %d: %w", s.path, group, err)
	}
	return nil
}

// check checks that a column of a row group is one that can be read, and lies
// in the file.
func (s *source) check(group int, c column) error {
	if err := s.footer.Groups[group].Chunks[c.index].Check(c.leaf, s.size); err != nil {
		return fmt.Errorf("%s: row group %d: column %q: %w", s.path, group, c.name, err)
	}
	return nil
}

// bytes is how many bytes a column of a row group is said to have, uncompressed
// and without what a dictionary repeats.
func (s *source) bytes(group int, c column) int64 {
	return max(s.footer.Groups[group].Chunks[c.index].UncompressedBytes, 0)
}
