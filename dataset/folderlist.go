package dataset

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// imageExtensions are compared in lower case.
var imageExtensions = []string{".jpg", ".jpeg", ".png", ".webp"}

// listFolder lists the files below dir that have one of those extensions, unless
// ctx ends before.
func listFolder(ctx context.Context, dir string, extensions []string) (*folderIndex, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: %w: not a folder", dir, ErrFormat)
	}
	top, classes, err := listTop(ctx, dir, extensions)
	if err != nil {
		return nil, err
	}
	walk(ctx, top)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	files, bytes, others := top.count()
	x := &folderIndex{}
	x.names.grow(files, bytes)
	if err := x.addTop(top, classes); err != nil {
		return nil, err
	}
	if files == 0 {
		return nil, noFiles(dir, extensions, others)
	}
	return x, nil
}

func noFiles(dir string, extensions []string, others int) error {
	wanted := strings.Join(extensions, ", ")
	if others == 0 {
		return fmt.Errorf("%s: %w: no files; looked for %s in it and its sub-folders", dir, ErrEmpty, wanted)
	}
	return fmt.Errorf("%s: %w: none of %d files ends in %s", dir, ErrEmpty, others, wanted)
}

// listTop lists dir itself: the files beside the class folders, and those
// folders, of which nothing is known yet but their names.
func listTop(ctx context.Context, dir string, extensions []string) (top *subtree, classes []string, err error) {
	entries, err := readDir(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	top = &subtree{path: dir, extensions: extensions, failed: math.MaxInt}
	top.grow(entries)
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		folder, err := isClass(dir, e)
		if err != nil {
			return nil, nil, err
		}
		if folder {
			classes = append(classes, e.Name())
		} else if err := top.file(e); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range classes {
		top.folder(name)
	}
	return top, classes, nil
}

// isClass reports whether an entry of the first level is a class. Links may
// be, but not one to the folder itself or one that holds it: then the walk
// would come by here again. Deeper down no link to a folder is followed, so
// that there cannot be a loop.
func isClass(dir string, e fs.DirEntry) (bool, error) {
	if hidden(e) || e.Type()&fs.ModeSymlink == 0 {
		return !hidden(e) && e.IsDir(), nil
	}
	info, err := os.Stat(filepath.Join(dir, e.Name()))
	if err != nil || !info.IsDir() {
		return false, nil // file looks at it
	}
	loop, err := holds(info, dir)
	return !loop, err
}

// holds reports whether a folder is dir or one that dir is in.
func holds(folder fs.FileInfo, dir string) (bool, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	for err == nil {
		var info fs.FileInfo
		info, err = os.Stat(dir)
		if err == nil && os.SameFile(info, folder) {
			return true, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return false, err
}

// file lists an entry that is no folder to walk into, if it has one
// of the extensions.
func (t *subtree) file(e fs.DirEntry) error {
	if hidden(e) {
		return nil
	}
	mode := e.Type()
	wanted := hasExtension(e.Name(), t.extensions)
	if wanted && mode&fs.ModeSymlink != 0 {
		info, err := os.Stat(filepath.Join(t.path, e.Name()))
		if err != nil {
			return err
		}
		mode = info.Mode()
	}
	if !wanted || !mode.IsRegular() {
		t.others++
		return nil
	}
	t.files.add([]byte(e.Name()))
	return nil
}

func hidden(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }

// hasExtension compares the end of a name with extensions in lower case.
func hasExtension(name string, extensions []string) bool {
	for _, e := range extensions {
		if at := len(name) - len(e); at >= 0 && strings.EqualFold(name[at:], e) {
			return true
		}
	}
	return false
}
