package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	regular "github.com/pinion-gpu/pinion/dataset/internal/file"
)

// maxOpenFiles is how many shards stay open: opening a file takes milliseconds
// on some network file systems, and processes may not have many.
const maxOpenFiles = 128

// file is a shard in a file system.
type file struct {
	path  string
	size  int64
	mtime time.Time
	files *files
}

// openFile looks at a shard.
func openFile(path string, files *files) (*file, error) {
	info, err := os.Stat(path) // before the file is opened: a pipe would block
	if err != nil {
		return nil, err
	}
	if err := regular.CheckRegular(path, info); err != nil {
		return nil, err
	}
	return &file{path, info.Size(), info.ModTime(), files}, nil
}

// bytes implements [place].
func (f *file) bytes() int64 { return f.size }

// identity implements [place].
func (f *file) identity() string {
	path, err := filepath.Abs(f.path)
	if err != nil {
		path = f.path
	}
	return fmt.Sprint("file\x00", path, "\x00", f.size, "\x00", f.mtime.UnixNano())
}

// readAt implements [source].
func (f *file) readAt(_ context.Context, p []byte, at int64) error {
	open, err := f.files.acquire(f)
	if err != nil {
		return err
	}
	defer f.files.release(open)
	n, err := open.file.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the shard had %d bytes and has shrunk to less than %d", ErrDamaged, f.size, at+int64(len(p)))
	}
	return err
}

// sidecar implements [place]. One that is older than the shard is that of an older
// shard: where only contents changed, labels too, nothing else would tell.
func (f *file) sidecar(context.Context) ([]byte, error) {
	path := f.path + IndexSuffix
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > min(f.size, maxIndexBytes) || info.ModTime().Before(f.mtime) {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, nil // it can be made again
	}
	return content, nil
}

// files keeps the shards open that were used last.
type files struct {
	mu     sync.Mutex
	open   map[*file]*openedFile
	clock  int64
	closed bool
}

// openedFile is closed when nobody uses it and it is not kept either.
type openedFile struct {
	file  *os.File
	users int
	used  int64 // clock
	kept  bool
}

func newFiles() *files { return &files{open: map[*file]*openedFile{}} }

// acquire opens a shard, unless it is open. It has to be released.
func (s *files) acquire(f *file) (*openedFile, error) {
	if o, err := s.get(f, nil); o != nil || err != nil {
		return o, err
	}
	h, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	info, err := h.Stat()
	if err == nil && (info.Size() != f.size || !info.ModTime().Equal(f.mtime)) {
		err = fmt.Errorf("%w: the shard had %d bytes and was of %v, and has %d and is of %v: it changed while it was read",
			ErrDamaged, f.size, f.mtime, info.Size(), info.ModTime())
	}
	var o *openedFile
	if err == nil {
		o, err = s.get(f, h)
	}
	if err != nil || o.file != h {
		h.Close()
	}
	return o, err
}

// get returns the open shard. If there is none, it keeps h, or returns nil
// where that is nil too.
func (s *files) get(f *file, h *os.File) (*openedFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.open[f]
	switch {
	case s.closed:
		return nil, fs.ErrClosed
	case o == nil && h == nil:
		return nil, nil
	case o == nil:
		if len(s.open) >= maxOpenFiles {
			s.dropOldest()
		}
		o = &openedFile{file: h, kept: true}
		s.open[f] = o
	}
	s.clock++
	o.used = s.clock
	o.users++
	return o, nil
}

func (s *files) dropOldest() {
	var oldest *file
	for f, o := range s.open {
		if oldest == nil || o.used < s.open[oldest].used {
			oldest = f
		}
	}
	s.drop(oldest)
}

// drop keeps a shard no longer.
func (s *files) drop(f *file) {
	o := s.open[f]
	delete(s.open, f)
	if o.kept = false; o.users == 0 {
		o.file.Close()
	}
}

func (s *files) release(o *openedFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.users--; o.users == 0 && !o.kept {
		o.file.Close()
	}
}

// close closes all shards; those in use when they are released.
func (s *files) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for f := range s.open {
		s.drop(f)
	}
}
