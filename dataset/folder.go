package dataset

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/internal/listing"
)

// FolderOptions configures [OpenFolder].
type FolderOptions struct {
	// MaxFileBytes is the largest file that is read, below 2 GiB. Default
	// 256 MiB.
	MaxFileBytes int64
	// Extensions are the ends of the names of the files that are listed, with
	// the dot and in lower case: ".jpg". At least one.
	Extensions []string
}

// Folder is the files of a folder with one of some extensions. The class of a file is the name of the sub-folder
// of the first level that it is in, however deep; files beside those folders
// have the class "".
type Folder struct {
	root  string // what all paths begin with
	index *listing.Index
	limit int64
}

// OpenFolder lists the files below dir; it opens none of them. Order is
// that of the names, byte by byte, folder by folder, files beside the class
// folders first, and the same on every machine. Names that begin with a dot
// are skipped, and so are files with other extensions; case does not matter.
// Links to files are followed, links to folders only where they are a class.
//
// Several folders are listed at a time. The list takes 8 bytes for a file beside
// those of its name, and the path of each folder once.
//
// It fails with [ErrEmpty] when there are no such files, with [ErrFormat] when
// dir is no folder, with the error of the file system for the folder or link
// that could not be read, or with the cause of ctx when that ends before.
func OpenFolder(ctx context.Context, dir string, opts FolderOptions) (*Folder, error) {
	if len(opts.Extensions) == 0 {
		return nil, fmt.Errorf("%s: %w: no extensions of files to list", dir, ErrArgument)
	}
	list, err := listFolder(ctx, dir, opts.Extensions)
	if err != nil {
		return nil, err
	}
	return newFolder(dir, list, opts)
}

// listFolder lists the files below dir that have one of those extensions.
func listFolder(ctx context.Context, dir string, extensions []string) (*listing.Index, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: %w: not a folder", dir, ErrFormat)
	}
	return listing.List(ctx, dir, extensions)
}

// newFolder makes a folder of those files of a list that have one of the
// extensions.
func newFolder(dir string, list *listing.Index, opts FolderOptions) (*Folder, error) {
	list = list.Filter(opts.Extensions)
	wanted := strings.Join(opts.Extensions, ", ")
	switch {
	case list.Len() == 0 && list.Others == 0:
		return nil, fmt.Errorf("%s: %w: no files; looked for %s in it and its sub-folders", dir, ErrEmpty, wanted)
	case list.Len() == 0:
		return nil, fmt.Errorf("%s: %w: none of %d files ends in %s", dir, ErrEmpty, list.Others, wanted)
	}
	limit := min(cmp.Or(max(opts.MaxFileBytes, 0), file.DefaultMax), math.MaxInt32-1)
	return &Folder{listing.Prefix(dir), list, limit}, nil
}

// Classes returns the classes; a label is an index into them. They are the
// sorted names of all sub-folders, with or without files, so that the
// folders of a training set and of its smaller validation set agree. "" comes
// first, if there are files outside of sub-folders.
func (d *Folder) Classes() []string { return slices.Clone(d.index.Classes) }

// Len implements [Files].
func (d *Folder) Len() int { return d.index.Len() }

// Name implements [Files]: the file's path.
func (d *Folder) Name(i int) string { return d.index.Path(i) }

// Label implements [Files].
func (d *Folder) Label(i int) int32 { return d.index.Class(i) }

// NewFileReader implements [Files].
func (d *Folder) NewFileReader() (FileReader, error) { return &folderReader{folder: d}, nil }

type folderReader struct {
	folder *Folder
	closed bool
}

// ReadFile implements [FileReader].
func (r *folderReader) ReadFile(_ context.Context, i int, buf []byte) ([]byte, error) {
	if i < 0 || i >= r.folder.Len() {
		return nil, fmt.Errorf("%w: file %d of %d", ErrArgument, i, r.folder.Len())
	}
	path := r.folder.Name(i)
	if r.closed {
		return nil, fmt.Errorf("%s: %w", path, fs.ErrClosed)
	}
	return file.Read(path, buf, r.folder.limit)
}

// Close implements [FileReader].
func (r *folderReader) Close() error {
	r.closed = true
	return nil
}
