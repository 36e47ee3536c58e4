package dataset

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// imageExtensions are compared in lower case.
var imageExtensions = []string{".jpg", ".jpeg", ".png", ".webp"}

// folderList is what a walk through a folder of images finds.
type folderList struct {
	classes []string
	files   []string // relative to the folder
	labels  []int32  // index into classes, for each file
}

// lister walks through a folder.
type lister struct {
	dir string
	folderList
	others int // files that are no images
}

func listFolder(dir string) (folderList, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return folderList{}, err
	}
	if !info.IsDir() {
		return folderList{}, fmt.Errorf("%s: %w: not a folder", dir, ErrFormat)
	}
	l := &lister{dir: dir}
	if err := l.top(); err != nil {
		return folderList{}, err
	}
	if len(l.files) == 0 {
		extensions := strings.Join(imageExtensions, ", ")
		if l.others == 0 {
			return folderList{}, fmt.Errorf("%s: %w: no files; looked for %s in it and its sub-folders", dir, ErrEmpty, extensions)
		}
		return folderList{}, fmt.Errorf("%s: %w: no images; none of %d files ends in %s", dir, ErrEmpty, l.others, extensions)
	}
	return l.folderList, nil
}

// top lists the images beside the class folders, then the class folders.
func (l *lister) top() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	var folders []string
	l.classes = []string{""}
	for _, e := range entries {
		folder, err := l.isFolder(e)
		if err != nil {
			return err
		}
		if folder {
			folders = append(folders, e.Name())
		} else if err := l.entry("", e); err != nil {
			return err
		}
	}
	if len(l.files) == 0 {
		l.classes = nil
	}
	for _, name := range folders {
		l.classes = append(l.classes, name)
		if err := l.walk(name); err != nil {
			return err
		}
	}
	return nil
}

// isFolder reports whether an entry of the first level is a class. Links may
// be, but not one to the folder itself or one that holds it: then the walk
// would come by here again. Deeper down no link to a folder is followed, so
// that there cannot be a loop.
func (l *lister) isFolder(e fs.DirEntry) (bool, error) {
	if hidden(e) || e.Type()&fs.ModeSymlink == 0 {
		return !hidden(e) && e.IsDir(), nil
	}
	path := filepath.Join(l.dir, e.Name())
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return false, nil // entry looks at it
	}
	loop, err := holds(info, l.dir)
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

func (l *lister) walk(folder string) error {
	entries, err := os.ReadDir(filepath.Join(l.dir, folder))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := l.entry(folder, e); err != nil {
			return err
		}
	}
	return nil
}

// entry lists a file of that folder, or walks into a folder of it.
func (l *lister) entry(folder string, e fs.DirEntry) error {
	if hidden(e) {
		return nil
	}
	name := filepath.Join(folder, e.Name())
	mode := e.Type()
	if mode.IsDir() {
		return l.walk(name)
	}
	if !isImage(name) {
		l.others++
		return nil
	}
	if mode&fs.ModeSymlink != 0 {
		info, err := os.Stat(filepath.Join(l.dir, name))
		if err != nil {
			return err
		}
		mode = info.Mode()
	}
	if !mode.IsRegular() {
		l.others++
		return nil
	}
	l.files = append(l.files, name)
	l.labels = append(l.labels, int32(len(l.classes)-1))
	return nil
}

func hidden(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }

func isImage(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	for _, e := range imageExtensions {
		if ext == e {
			return true
		}
	}
	return false
}
