package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/process"
	"github.com/pinion-gpu/pinion/internal/shmem"
	"github.com/pinion-gpu/pinion/internal/sysmem"
)

// Options configure [Create]. The zero value is ready to use.
type Options struct {
	// Name says in errors, and in /proc/PID/maps, what the segment is for: at
	// most 63 bytes of UTF-8. Default: none.
	Name string

	// Path is where the segment's file is to be, for processes that open it
	// by name. It should be on a shared-memory file system, such as /dev/shm:
	// CUDA refuses to pin the pages of files on disks. Only the same user can
	// open it. Default: anonymous memory (a memfd), which other processes get
	// by descriptor; it needs Linux.
	Path string

	// PrefaultWorkers is the number of goroutines that fault in the pages.
	// Default (and below zero): GOMAXPROCS, at most 16.
	PrefaultWorkers int
}

// Create makes a segment of n > 0 bytes, backed by memory all through,
// in huge pages where the system gives them to shared memory. The caller must
// close it.
//
// At Path, a segment that dead processes left behind is replaced. One with
// live owners fails with [ErrOwned], which names them, and any other file with
// [ErrInvalid]. It fails with [ErrMemory] when the machine, or the process's
// control group, has not that much memory, and with [device.ErrNotSupported]
// where the system has no such memory.
func Create(n int64, o Options) (*Segment, error) {
	s, err := create(n, o)
	if err != nil {
		return nil, fmt.Errorf("segment: create a segment of %d bytes: %w", n, err)
	}
	return s, nil
}

func create(n int64, o Options) (*Segment, error) {
	if n <= 0 || n > maxBytes {
		return nil, fmt.Errorf("%w: the size must be above 0 and at most %d", device.ErrArgument, int64(maxBytes))
	}
	if len(o.Name) > maxName || !utf8.ValidString(o.Name) || strings.ContainsRune(o.Name, 0) {
		return nil, fmt.Errorf("%w: the name must be at most %d bytes of UTF-8, it is %q", device.ErrArgument, maxName, o.Name)
	}
	self, err := identify()
	if err != nil {
		return nil, err
	}
	if err := sysmem.Check(fileBytes(n)); err != nil {
		return nil, err
	}
	h := header{size: n, generation: 1 + rand.Uint64N(1<<64-1), creator: self, name: o.Name}
	if o.Path == "" {
		f, err := shmem.CreateAnonymous("pinion-"+o.Name, fileBytes(n))
		if errors.Is(err, errors.ErrUnsupported) {
			err = fmt.Errorf("%w: anonymous segments need Linux, give a path", device.ErrNotSupported)
		}
		if err != nil {
			return nil, err
		}
		s, err := found(f, h, o.PrefaultWorkers)
		if err != nil {
			return nil, errors.Join(err, shmem.Close(f))
		}
		return s, nil
	}

	if h.path, err = filepath.Abs(o.Path); err != nil {
		return nil, err
	}
	if len(h.path) > maxPath || strings.ContainsRune(h.path, 0) {
		return nil, fmt.Errorf("%w: a path of %d bytes, at most %d are possible", device.ErrArgument, len(h.path), maxPath)
	}
	// Before the memory is made, to fail early. Another process may be at it
	// too, so the name is taken by whoever publishes first.
	if err := removeDead(h.path); err != nil {
		return nil, err
	}
	draft, err := shmem.Create(h.path, fileBytes(n))
	if err != nil {
		return nil, err
	}
	s, err := found(draft.File, h, o.PrefaultWorkers)
	if err != nil {
		return nil, errors.Join(err, draft.Discard(), shmem.Close(draft.File))
	}
	for tries := 0; ; tries++ {
		if err = draft.Publish(h.path); err == nil {
			return s, nil
		}
		if errors.Is(err, fs.ErrExist) && tries < maxTries {
			err = removeDead(h.path)
		}
		if err != nil {
			return nil, errors.Join(err, draft.Discard(), s.Close())
		}
	}
}

// maxTries bounds how often a name that others create and remove meanwhile is
// tried again.
const maxTries = 10

// found makes the file f, of the size for h, a segment. The caller keeps f
// when it fails.
func found(f *os.File, h header, workers int) (*Segment, error) {
	s := &Segment{header: h, path: h.path, creator: true, self: h.creator, file: f}
	populate := func() error { return shmem.Populate(f, s.mem, workers) }
	if err := s.attach(populate, func() error { h.put(s.mem); return nil }); err != nil {
		return nil, err
	}
	return s, nil
}

// Remove removes the file of a segment whose owners have all died,
// killed before they could close it. The file that its processes leave in
// this way takes memory until it is removed, or replaced by [Create].
// It fails with [ErrOwned], which names them, when there are live owners, with
// [ErrInvalid] when the file is not a segment, and does nothing when there is
// none.
func Remove(path string) error {
	if _, err := identify(); err != nil {
		return err
	}
	if err := removeDead(path); err != nil {
		return fmt.Errorf("segment: remove segment: %w", err)
	}
	return nil
}

func removeDead(path string) error {
	f, err := openFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer shmem.Close(f)
	unlock, err := shmem.Lock(f)
	if err != nil {
		return err
	}
	defer unlock()
	h, b, err := readHeader(f)
	if err != nil {
		return err
	}
	if live := tableOf(b).live(process.ID.Alive); len(live) > 0 {
		return fmt.Errorf("%s: %w, %s", path, ErrOwned, ownersText(h.owners(live)))
	}
	if !isAt(f, path) {
		return nil // somebody else was first
	}
	return os.Remove(path)
}
