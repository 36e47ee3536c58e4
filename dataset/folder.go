package dataset

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
)

// FolderOptions configures [OpenFolder]. The zero value works.
type FolderOptions struct {
	// MaxFileBytes is the largest file that is read, below 2 GiB. Default
	// 256 MiB.
	MaxFileBytes int64
	// Extensions are the ends of the names of the files that are listed, with
	// the dot and in lower case. Default those of pictures.
	Extensions []string
}

const defaultMaxFileBytes = 256 << 20

// Folder is the files of a folder that end in .jpg, .jpeg, .png or .webp, or
// in what the options say. The class of a file is the name of the sub-folder
// of the first level that it is in, however deep; files beside those folders
// have the class "".
type Folder struct {
	root  string // what all paths begin with
	index *folderIndex
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
	extensions := opts.Extensions
	if extensions == nil {
		extensions = imageExtensions
	}
	index, err := listFolder(ctx, dir, extensions)
	if err != nil {
		return nil, err
	}
	limit := min(cmp.Or(max(opts.MaxFileBytes, 0), defaultMaxFileBytes), math.MaxInt32-1)
	return &Folder{(&subtree{path: dir}).prefix(), index, limit}, nil
}

// Classes returns the classes; a label is an index into them. They are the
// sorted names of all sub-folders, with or without files, so that the
// folders of a training set and of its smaller validation set agree. "" comes
// first, if there are files outside of sub-folders.
func (d *Folder) Classes() []string { return slices.Clone(d.index.classes) }

// Len implements [Files].
func (d *Folder) Len() int { return d.index.len() }

// Name implements [Files]: the file's path.
func (d *Folder) Name(i int) string { return d.index.path(i) }

// Label implements [Files].
func (d *Folder) Label(i int) int32 { return d.index.run(i).class }

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
	return readFile(path, buf, r.folder.limit)
}

// Close implements [FileReader].
func (r *folderReader) Close() error {
	r.closed = true
	return nil
}

// readFile reads a whole file, in buf if that is large enough.
func readFile(path string, buf []byte, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	size := info.Size()
	if size > limit {
		return nil, fmt.Errorf("%s: %w: a file of %d bytes, the limit is %d", path, ErrTooLarge, size, limit)
	}
	// One byte more shows whether the file grows.
	need := int(size) + 1
	if cap(buf) < need {
		buf = make([]byte, need+need/4)
	}
	n, err := io.ReadAtLeast(f, buf[:need], int(size)) // one system call
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	if n != int(size) {
		return nil, fmt.Errorf("%s: %w: it had %d bytes and changed while it was read", path, ErrDamaged, size)
	}
	return buf[:n], nil
}
