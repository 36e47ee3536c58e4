package safetensors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The names that a checkpoint's files have in its folder.
const (
	// SingleName is the file of a checkpoint that is not sharded.
	SingleName = "model.safetensors"
	// IndexName is the index of one that is.
	IndexName = "model.safetensors.index.json"

	extension      = ".safetensors"
	indexExtension = ".safetensors.index.json"
)

// ShardName is the name of shard number i, from 1 on, of n.
func ShardName(i, n int) string { return fmt.Sprintf("model-%05d-of-%05d%s", i, n, extension) }

// Checkpoint is the tensors of one or more open files. Its methods are safe for
// concurrent use.
type Checkpoint struct {
	files   []*File
	tensors []Tensor
	byName  map[string]int
}

// Open opens a checkpoint: a .safetensors file, an index of shards, a folder
// with either, or several of these. Of a folder it takes the index, or else the
// file, and fails with [ErrFormat] where it finds none, or several and none of
// the usual name. A tensor that two files have, or that the index names and
// its shard does not have, is [ErrDamaged]; a shard that is missing is
// [fs.ErrNotExist], and the error names it. Of the shards' tensors, those that
// the index names belong to the checkpoint.
func Open(paths ...string) (ck *Checkpoint, err error) {
	if len(paths) == 0 {
		return nil, fmt.Errorf("%w: no checkpoint named", ErrArgument)
	}
	ck = &Checkpoint{byName: map[string]int{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, ck.Close())
			ck = nil
		}
	}()
	for _, path := range paths {
		if path, err = find(path); err != nil {
			return
		}
		if strings.HasSuffix(path, ".json") {
			err = ck.addIndex(path)
		} else {
			err = ck.addFile(path)
		}
		if err != nil {
			return
		}
	}
	return
}

// find returns the file or the index that a path stands for.
func find(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", err
	}
	for _, kind := range []struct{ usual, ending string }{{IndexName, indexExtension}, {SingleName, extension}} {
		var found []string
		for _, e := range entries {
			if name := e.Name(); strings.HasSuffix(name, kind.ending) && !strings.HasPrefix(name, ".") && !e.IsDir() {
				found = append(found, name)
			}
		}
		switch {
		case slices.Contains(found, kind.usual):
			return filepath.Join(path, kind.usual), nil
		case len(found) == 1:
			return filepath.Join(path, found[0]), nil
		case len(found) > 1:
			return "", fmt.Errorf("%s: %w: %d files end in %s, and none is %s; name those that you mean", path, ErrFormat, len(found), kind.ending, kind.usual)
		}
	}
	return "", fmt.Errorf("%s: %w: no .safetensors file and no index in the folder", path, ErrFormat)
}

func (ck *Checkpoint) addFile(path string) error {
	f, err := OpenFile(path)
	if err != nil {
		return err
	}
	ck.files = append(ck.files, f)
	for _, t := range f.Tensors {
		if err := ck.add(t); err != nil {
			return err
		}
	}
	return nil
}

func (ck *Checkpoint) add(t Tensor) error {
	if i, twice := ck.byName[t.Name]; twice {
		return fmt.Errorf("%s: %w", t.File.path, damaged("%.80q is also in %s", t.Name, ck.tensors[i].File.path))
	}
	ck.byName[t.Name] = len(ck.tensors)
	ck.tensors = append(ck.tensors, t)
	return nil
}

func (ck *Checkpoint) addIndex(path string) error {
	x, err := ReadIndex(path)
	if err != nil {
		return err
	}
	folder := filepath.Dir(path)
	if err := x.missing(folder); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range x.Names() {
		f, err := OpenFile(filepath.Join(folder, filepath.FromSlash(name)))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		ck.files = append(ck.files, f)
		for _, t := range f.Tensors {
			if x.Files[t.Name] != name {
				continue
			}
			if err := ck.add(t); err != nil {
				return err
			}
		}
	}
	absent, found := "", len(x.Files)
	for name := range x.Files {
		if _, ok := ck.byName[name]; !ok {
			found--
			if absent == "" || name < absent {
				absent = name
			}
		}
	}
	if absent != "" {
		return fmt.Errorf("%s: %w", path, damaged("%.80q is not in %s, where the index says it is; %d of %d tensors are there",
			absent, x.Files[absent], found, len(x.Files)))
	}
	return nil
}

// Files returns the open files, in the order of the paths, the shards of an
// index by name.
func (ck *Checkpoint) Files() []*File { return slices.Clone(ck.files) }

// Tensors returns all tensors, file by file in the order of their data.
func (ck *Checkpoint) Tensors() []Tensor { return slices.Clone(ck.tensors) }

// Find returns the tensor of that name.
func (ck *Checkpoint) Find(name string) (Tensor, bool) {
	i, ok := ck.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return ck.tensors[i], true
}

// Bytes returns the bytes of all tensors.
func (ck *Checkpoint) Bytes() (n int64) {
	for _, t := range ck.tensors {
		n += t.Bytes
	}
	return n
}

// Close closes the files. A second Close does nothing.
func (ck *Checkpoint) Close() error {
	var all []error
	for _, f := range ck.files {
		all = append(all, f.Close())
	}
	return errors.Join(all...)
}
