package safetensors

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/jsonscan"
)

// Index says which file of a checkpoint holds which tensor:
//
//	{"metadata": {"total_size": 28966928384},
//	 "weight_map": {"lm_head.weight": "model-00006-of-00006.safetensors"}}
type Index struct {
	// TotalBytes is what all tensors have, as the index says; 0 where it does
	// not. Nothing is made of it, since many indexes are wrong.
	TotalBytes int64

	// Files are the names of files by tensor, relative to the index.
	Files map[string]string
}

// ReadIndex reads and checks an index file. It fails with [ErrFormat] for what
// is no index, [ErrDamaged] for one with a tensor that stands twice or a file
// outside the index's folder, and [ErrTooLarge] beyond [MaxHeader] bytes.
func ReadIndex(path string) (*Index, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w: not a regular file but %v", path, ErrFormat, info.Mode())
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxHeader+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxHeader {
		return nil, fmt.Errorf("%s: %w: an index of more than %d bytes", path, ErrTooLarge, MaxHeader)
	}
	x, err := ParseIndex(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return x, nil
}

// ParseIndex is [ReadIndex] of the text of an index.
func ParseIndex(text []byte) (*Index, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	x := &Index{}
	var seen []string
	err := jsonscan.Object(text, func(key, value []byte) (err error) {
		name := string(key)
		switch name {
		case "metadata", "weight_map":
		default:
			return nil
		}
		if slices.Contains(seen, name) {
			return fmt.Errorf("%q twice", name)
		}
		seen = append(seen, name)
		if name == "metadata" {
			x.TotalBytes = totalBytes(value)
			return nil
		}
		if x.Files, err = parseStrings(value); err != nil {
			return fmt.Errorf("weight_map: %.200w", err)
		}
		return nil
	})
	if err != nil {
		return nil, damaged("index: %w", err)
	}
	if x.Files == nil {
		return nil, fmt.Errorf("%w: an index has a weight_map, this has none", ErrFormat)
	}
	for tensor, file := range x.Files {
		if !filepath.IsLocal(filepath.FromSlash(file)) || strings.ContainsFunc(file, unicode.IsControl) {
			return nil, damaged("index: %.80q is in %.80q, which is no file below the index", tensor, file)
		}
		// A file that has many names here is opened once.
		x.Files[tensor] = path.Clean(file)
	}
	return x, nil
}

// totalBytes is the total_size of metadata, 0 where that is no whole number.
func totalBytes(metadata []byte) (n int64) {
	// What else is in there, and of what kind it is, is up to who wrote it.
	jsonscan.Object(metadata, func(key, value []byte) error {
		if string(key) == "total_size" {
			if json.Unmarshal(value, &n) != nil {
				n = 0
			}
		}
		return nil
	})
	return max(n, 0)
}

// Names returns the files of the index, sorted.
func (x *Index) Names() []string {
	files := map[string]bool{}
	for _, file := range x.Files {
		files[file] = true
	}
	names := make([]string, 0, len(files))
	for file := range files {
		names = append(names, file)
	}
	slices.Sort(names)
	return names
}

// Write writes an index to a file, which is complete or not there.
func (x *Index) Write(path string) error {
	return atomicfile.Write(path, 0o666, x.write)
}

func (x *Index) write(w io.Writer) error {
	type metadata struct {
		TotalSize int64 `json:"total_size"`
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Metadata  metadata          `json:"metadata"`
		WeightMap map[string]string `json:"weight_map"`
	}{metadata{x.TotalBytes}, x.Files})
}

// missing fails where files of the index, which is in folder, are not there.
func (x *Index) missing(folder string) error {
	absent := map[string]bool{}
	first, tensors := "", 0
	for _, name := range x.Names() {
		if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(name))); errors.Is(err, os.ErrNotExist) {
			absent[name] = true
			first = cmp.Or(first, name)
		}
	}
	for _, name := range x.Files {
		if absent[name] {
			tensors++
		}
	}
	if len(absent) == 0 {
		return nil
	}
	return fmt.Errorf("missing shards: %d of %d, with %d of %d tensors; the first is %s: %w",
		len(absent), len(x.Names()), tensors, len(x.Files), first, os.ErrNotExist)
}
