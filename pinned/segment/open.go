package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/process"
	"github.com/pinion-gpu/pinion/internal/shmem"
)

// OpenOptions say what [Open] and [OpenPath] expect. The zero
// value expects any segment.
type OpenOptions struct {
	// Generation is the [Segment.Generation] that the segment must have, so
	// that a later one at the same path is not mistaken for it. Default 0: any.
	Generation uint64

	// Sparse leaves the pages as they are: those that nobody has touched get
	// memory when somebody does, and a process that touches one when there is
	// none left is killed. It is for segments whose users take memory as they
	// need it. Default: all pages are backed by memory, or Open fails.
	Sparse bool
}

// Open maps the segment in f, a file that another process has handed
// over, for this process and makes it an owner. The caller keeps f and may
// close it; the segment must be closed. It fails with [ErrInvalid] when f is
// no segment, of another layout version or of a size that does not match its
// header, or when the generation is not the expected one.
func Open(f *os.File, o OpenOptions) (*Segment, error) {
	if f == nil {
		return nil, fmt.Errorf("segment: open segment: %w: no file", device.ErrArgument)
	}
	if _, err := identify(); err != nil {
		return nil, err
	}
	own, err := shmem.Duplicate(f)
	if err != nil {
		return nil, fmt.Errorf("segment: open segment: %w", err)
	}
	s, err := open(own, "", o)
	if err != nil {
		return nil, fmt.Errorf("segment: open segment: %w", errors.Join(err, shmem.Close(own)))
	}
	return s, nil
}

// OpenPath is [Open] by the path that the segment was created
// with. An anonymous segment of a running process PID has the path
// /proc/PID/fd/N on Linux, where N is the descriptor of its File. It fails
// with [io/fs.ErrNotExist] when there is none or it has just been removed.
func OpenPath(path string, o OpenOptions) (*Segment, error) {
	if _, err := identify(); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("segment: open segment: %w", err)
	}
	for range maxTries {
		var f *os.File
		if f, err = openFile(path); err != nil {
			break
		}
		var s *Segment
		if s, err = open(f, path, o); err == nil {
			return s, nil
		}
		if e := shmem.Close(f); e != nil || !errors.Is(err, errMoved) {
			err = errors.Join(err, e)
			break
		}
	}
	return nil, fmt.Errorf("segment: open segment: %w", err)
}

// errMoved: the file was removed, and perhaps replaced, after it was opened.
var errMoved = fmt.Errorf("removed by its last owner meanwhile: %w", fs.ErrNotExist)

// open makes a segment of f. The caller keeps f when it fails.
func open(f *os.File, path string, o OpenOptions) (*Segment, error) {
	h, _, err := readHeader(f)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if want := fileBytes(h.size); info.Size() != want {
		return nil, fmt.Errorf("%w: %s: %d bytes of data need a file of %d bytes, it has %d",
			ErrInvalid, h.label(), h.size, want, info.Size())
	}
	if o.Generation != 0 && h.generation != o.Generation {
		return nil, fmt.Errorf("%w: %s: generation %016x, expected %016x",
			ErrInvalid, h.label(), h.generation, o.Generation)
	}
	self, err := identify()
	if err != nil {
		return nil, err
	}
	s := &Segment{header: h, path: h.path, self: self, file: f}
	named := path != "" && h.path != ""
	if named {
		s.path = path // the creator may see another tree of files
	}
	populate := func() error { return shmem.Populate(s.file, s.mem, 0) }
	if o.Sparse {
		populate = func() error { pagemem.Huge(s.mem); return nil }
	}
	err = s.attach(populate, func() error {
		if named && !isAt(f, path) {
			return errMoved
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// attach maps the file and takes an owner slot. Before that it calls populate,
// with the file mapped, and ready, with the file locked too.
func (s *Segment) attach(populate, ready func() error) error {
	mem, err := shmem.Map(s.file, fileBytes(s.header.size))
	if err != nil {
		return err
	}
	s.mem = mem
	err = func() error {
		if err := populate(); err != nil {
			return err
		}
		unlock, err := shmem.Lock(s.file)
		if err != nil {
			return err
		}
		defer unlock()
		if err := ready(); err != nil {
			return err
		}
		s.slot, err = s.table().join(s.self, process.ID.Alive)
		return err
	}()
	if err != nil {
		return errors.Join(err, pagemem.Unmap(mem))
	}
	return nil
}

// openFile opens a file for reading and writing. What is no regular file is
// not opened: that may have effects, or never return.
func openFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

func regular(name string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w: not a regular file, mode %v", name, ErrInvalid, info.Mode())
	}
	return nil
}

// readHeader reads and checks the header of a file.
func readHeader(f *os.File) (header, []byte, error) {
	info, err := f.Stat()
	if err != nil {
		return header{}, nil, err
	}
	if err := regular(f.Name(), info); err != nil {
		return header{}, nil, err
	}
	b := make([]byte, headerBytes)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return header{}, nil, err
	}
	h, err := parseHeader(b[:n])
	if err != nil {
		return header{}, nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return h, b, nil
}

// isAt reports whether path still names f.
func isAt(f *os.File, path string) bool {
	there, err1 := os.Stat(path)
	here, err2 := f.Stat()
	return err1 == nil && err2 == nil && os.SameFile(there, here)
}
