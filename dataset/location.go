package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/internal/listing"
)

// Location is what [Open] was asked to open, for the formats to look at. What is
// found out once, all of them share.
type Location struct {
	path  string
	info  fs.FileInfo // nil: there is nothing of that name
	given Options

	head []byte // of a file
	list *listing.Index
}

// SniffBytes is how much of a file there is in [Location.Head].
const SniffBytes = 64 << 10

// look finds out what is at a path. That there is nothing is no error: it may be
// a pattern or a URL.
func look(ctx context.Context, path string, given Options) (*Location, error) {
	l := &Location{path: path, given: given}
	info, err := os.Stat(path)
	if err != nil {
		return l, nil
	}
	if l.info = info; !info.IsDir() {
		l.head, err = readHead(path)
		return l, err
	}
	var extensions []string
	for _, f := range Formats() {
		extensions = append(extensions, f.Folder...)
	}
	slices.Sort(extensions)
	l.list, err = listing.List(ctx, path, slices.Compact(extensions))
	return l, err
}

func readHead(path string) ([]byte, error) {
	f, size, err := file.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, min(SniffBytes, size))
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && err != io.EOF {
		return nil, err
	}
	return head[:n], nil
}

// Path is what was asked for: a path, a pattern or a URL.
func (l *Location) Path() string { return l.path }

// Exists reports whether there is a file or a folder of that path.
func (l *Location) Exists() bool { return l.info != nil }

// IsFolder reports whether it is a folder.
func (l *Location) IsFolder() bool { return l.list != nil }

// Head returns how a file begins, [SniffBytes] of it at most. It is nil where
// there is no file.
func (l *Location) Head() []byte { return l.head }

// Size returns the size of a file in bytes.
func (l *Location) Size() int64 {
	if l.info == nil {
		return 0
	}
	return l.info.Size()
}

// Whole reports whether the head is all of the file.
func (l *Location) Whole() bool { return int64(len(l.head)) == l.Size() }

// Given reports whether an option was given.
func (l *Location) Given(option string) bool { return l.given[option] != nil }

// Count returns the number of files of a folder, at any depth, that have one of
// those extensions, which some format's Folder has. It is 0 where there is no
// folder.
func (l *Location) Count(extensions ...string) int {
	if l.list == nil {
		return 0
	}
	return l.list.Count(extensions)
}

// Folder returns the files of a folder as [OpenFolder] does, of the listing that
// the formats share.
func (l *Location) Folder(opts FolderOptions) (*Folder, error) {
	if l.list == nil {
		return nil, fmt.Errorf("%s: %w: not a folder", l.path, ErrFormat)
	}
	return newFolder(l.path, l.list, opts)
}
