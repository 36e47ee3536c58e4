package shard

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pinion-gpu/pinion/dataset/internal/labels"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
)

// WriterOptions configures [NewWriter]. The zero value works.
type WriterOptions struct {
	// Prefix begins the names of the shards: "train-" gives train-000000.tar,
	// train-000001.tar and so on. Default "shard-".
	Prefix string
	// ShardBytes is the size that shards do not exceed, unless one sample
	// does with the names of the classes. Default 256 MiB.
	ShardBytes int64
	// Classes are the names of the classes, to which the numbers in the members
	// cls are indexes, and among which their texts are. Each shard begins with them, in the member __classes__, a
	// JSON array of strings: 16 MiB at most, and half of ShardBytes. Names that
	// are not UTF-8 lose what is not. Default: none.
	Classes []string
}

// Part is a member of a sample that is written.
type Part struct {
	Extension string // "jpg"
	Content   []byte
}

// Writer writes samples to shards. The same samples give the same bytes. It is
// not safe for concurrent use.
type Writer struct {
	dir     string
	draft   *atomicfile.Folder // nil when it is done with
	opts    WriterOptions
	classes []byte // content of the member; nil: none
	shards  int
	err     error // the first one stays

	file  *os.File // nil between shards
	tar   *tar.Writer
	bytes int64 // of this shard, without the end mark
}

// NewWriter makes a folder of shards, with an index beside each. The folder
// must not exist, or be empty: it appears with [Writer.Close], complete. What
// killed writers of the same folder left beside it is removed.
func NewWriter(dir string, opts WriterOptions) (*Writer, error) {
	opts.Prefix = cmp.Or(opts.Prefix, "shard-")
	opts.ShardBytes = cmp.Or(opts.ShardBytes, 256<<20)
	switch {
	case opts.ShardBytes < 0:
		return nil, fmt.Errorf("%s: %w: shards of at most %d bytes", dir, ErrArgument, opts.ShardBytes)
	case opts.Prefix != filepath.Base(opts.Prefix) || opts.Prefix[0] == '.':
		return nil, fmt.Errorf("%s: %w: the prefix %.80q cannot begin the name of a visible file", dir, ErrArgument, opts.Prefix)
	}
	classes, err := encodeClasses(opts.Classes, opts.ShardBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	dir = filepath.Clean(dir)
	switch entries, err := os.ReadDir(dir); {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%s: %w: it has %d entries", dir, fs.ErrExist, len(entries))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	draft, err := atomicfile.CreateFolder(dir)
	if err != nil {
		return nil, err
	}
	return &Writer{dir: dir, draft: draft, opts: opts, classes: classes}, nil
}

// Write adds a sample. The key is a path with slashes and no dot in its last
// part; keys of a shard differ. The content is not kept.
func (w *Writer) Write(key string, parts ...Part) error {
	if w.err == nil {
		if w.err = w.sample(key, parts); w.err != nil {
			w.err = fmt.Errorf("%s: %q: %w", w.dir, key, w.err)
		}
	}
	return w.err
}

func (w *Writer) sample(key string, parts []Part) error {
	if w.draft == nil {
		return fs.ErrClosed
	}
	if len(parts) == 0 {
		return fmt.Errorf("%w: no members", ErrArgument)
	}
	need := int64(0)
	for _, p := range parts {
		name := key + "." + p.Extension
		if k, _, ok := SplitName(name); !ok || k != key || !fs.ValidPath(name) || len(name) > maxNameBytes {
			return fmt.Errorf("%w: %q cannot name a member", ErrArgument, name)
		}
		need += blockBytes + (int64(len(p.Content))+blockBytes-1)/blockBytes*blockBytes
	}
	const endMark = 2 * blockBytes
	if w.file != nil && w.bytes+need+endMark > w.opts.ShardBytes {
		if err := w.finish(); err != nil {
			return err
		}
	}
	if w.file == nil {
		if err := w.start(); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if err := w.member(key+"."+p.Extension, p.Content); err != nil {
			return err
		}
	}
	if err := w.tar.Flush(); err != nil {
		return err
	}
	var err error
	w.bytes, err = w.file.Seek(0, io.SeekCurrent) // long names take more than counted
	return err
}

// start begins a shard.
func (w *Writer) start() (err error) {
	if w.file, err = os.Create(filepath.Join(w.draft.Path(), fmt.Sprintf("%s%06d.tar", w.opts.Prefix, w.shards))); err != nil {
		w.file = nil
		return err
	}
	w.shards++
	w.tar = tar.NewWriter(w.file)
	if w.classes == nil {
		return nil
	}
	return w.member(labels.ClassesMember, w.classes)
}

// member adds a member. It has no time and no owner: equal samples make equal
// shards.
func (w *Writer) member(name string, content []byte) error {
	header := &tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644, ModTime: time.Unix(0, 0)}
	if err := w.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.tar.Write(content)
	return err
}

// finish ends a shard and writes its index, for the labels that [Open] takes
// by default.
func (w *Writer) finish() error {
	path := w.file.Name()
	err := cmp.Or(w.tar.Close(), w.file.Sync())
	err = cmp.Or(err, w.file.Close())
	w.file = nil
	if err != nil {
		return err
	}
	files := newFiles()
	defer files.close()
	f, err := openFile(path, files)
	if err != nil {
		return err
	}
	from := labels.NewSource("", "")
	x, err := scan(context.Background(), f, f.size, from)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return os.WriteFile(path+IndexSuffix, x.encode(from.String()), 0o644)
}

// Close ends the last shard and puts the folder in its place. After an error
// of Write, it returns that error and removes what was written.
func (w *Writer) Close() error {
	if w.draft == nil {
		return nil
	}
	if w.err == nil && w.file != nil {
		w.err = w.finish()
	}
	if w.err == nil && w.shards == 0 {
		w.err = fmt.Errorf("%s: %w: no samples were written", w.dir, ErrEmpty)
	}
	if w.err == nil {
		w.err = w.draft.Commit()
	}
	return errors.Join(w.err, w.Discard())
}

// Discard removes what was written and not closed. After Close it does
// nothing.
func (w *Writer) Discard() error {
	if w.draft == nil {
		return nil
	}
	draft := w.draft
	w.draft = nil
	if w.file != nil {
		w.file.Close()
		w.file = nil
	}
	return draft.Discard()
}
