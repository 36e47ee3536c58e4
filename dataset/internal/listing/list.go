package listing

import (
	"context"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// List lists the files below dir that have one of those extensions, with the dot
// and in lower case, unless ctx ends before.
func List(ctx context.Context, dir string, extensions []string) (*Index, error) {
	top, classes, err := listTop(ctx, dir, extensions)
	if err != nil {
		return nil, err
	}
	walk(ctx, top)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	files, bytes, others := top.count()
	x := &Index{Others: others}
	x.names.grow(files, bytes)
	if err := x.addTop(top, classes); err != nil {
		return nil, err
	}
	return x, nil
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
		} else {
			top.file(e)
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
func (t *subtree) file(e fs.DirEntry) {
	if hidden(e) {
		return
	}
	mode := e.Type()
	wanted := HasExtension(e.Name(), t.extensions)
	if wanted && mode&fs.ModeSymlink != 0 {
		// What a dangling link stands for is missing when it is read.
		mode = 0
		if info, err := os.Stat(filepath.Join(t.path, e.Name())); err == nil {
			mode = info.Mode()
		}
	}
	if !wanted || !mode.IsRegular() {
		t.others++
		return
	}
	t.files.add([]byte(e.Name()))
}

func hidden(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }

// HasExtension compares the end of a name with extensions in lower case.
func HasExtension(name string, extensions []string) bool {
	for _, e := range extensions {
		if at := len(name) - len(e); at >= 0 && strings.EqualFold(name[at:], e) {
			return true
		}
	}
	return false
}
