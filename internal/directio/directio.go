package directio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Path is a way of reading or writing.
type Path int

const (
	Auto   Path = iota // reads as the package's comment says; writes are Cached
	Cached             // through the page cache
	Direct             // past it, by O_DIRECT; fails where that is not supported
)

// Options say what a file is opened for.
type Options struct {
	Path  Path
	Write bool // instead of reading
}

// Align is what the offsets, the lengths and the addresses of direct reads and
// writes are multiples of. Some files would do with less.
const Align = 4096

// File reads or writes an open file in pieces, by any number of goroutines at
// once.
type File struct {
	file  *os.File
	path  Path
	write bool

	size   int64
	cache  *cacheMap   // nil: there is nothing to ask
	noWait atomic.Bool // RWF_NOWAIT may work
	warm   atomic.Bool // it gave all of the last piece

	opened   sync.Once
	direct   *os.File    // the same file, opened again for O_DIRECT; nil: not supported
	noDirect atomic.Bool // nor will it be tried any more

	cachedBytes, directBytes atomic.Int64

	mu    sync.Mutex
	notes []string
}

// Open prepares f, which stays the caller's and must stay open. It fails with
// [os.ErrClosed] when it is not, and with [os.ErrPermission] when f was not
// opened for what the options say. With [Direct] it fails with
// [errors.ErrUnsupported] where the file cannot be used past the page cache.
func Open(f *os.File, o Options) (*File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkAccess(f, o.Write); err != nil {
		return nil, err
	}
	d := &File{file: f, path: o.Path, write: o.Write, size: info.Size()}
	switch {
	case o.Path == Direct:
		if d.directly() == nil {
			return nil, fmt.Errorf("%w: %s", errors.ErrUnsupported, d.Notes()[0])
		}
	case o.Path == Auto && !o.Write:
		d.noWait.Store(true)
		d.cache = mapCache(f, d.size)
	}
	return d, nil
}

// Close gives back what Open took. No call may be under way.
func (f *File) Close() error {
	err := f.cache.close()
	if f.direct != nil {
		err = errors.Join(err, f.direct.Close())
	}
	return err
}

// Counts returns the bytes that went through the page cache and past it.
func (f *File) Counts() (cached, direct int64) {
	return f.cachedBytes.Load(), f.directBytes.Load()
}

// Notes says in a sentence each why the file was not used past the page cache.
func (f *File) Notes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notes
}

func (f *File) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// Resident reports whether n bytes at offset seem to be in the page cache: all
// of some pages, spread over them, are.
func (f *File) Resident(offset, n int64) bool {
	const spots = 64
	if f.path != Auto || n <= 0 {
		return f.path != Direct
	}
	var scratch []byte
	if f.cache == nil {
		scratch = make([]byte, Align)
	}
	step := max(n/spots, Align)
	for at := offset; at < offset+n; at += step {
		if !f.resident(scratch, at, 1) {
			return false
		}
	}
	return f.resident(scratch, offset+n-1, 1)
}

// resident reports whether n bytes at offset are in the page cache, as far as
// can be found out. What is in scratch is lost.
func (f *File) resident(scratch []byte, offset, n int64) bool {
	if f.cache != nil {
		return f.cache.resident(offset, n)
	}
	if !f.noWait.Load() {
		return true // or be it read through the cache
	}
	got, err := readNoWait(f.file, scratch[:min(n, int64(len(scratch)), Align)], offset)
	if errors.Is(err, errors.ErrUnsupported) {
		f.noWait.Store(false)
		return true
	}
	return got > 0
}

// Read reads n bytes at offset into buf and returns the part of it that holds
// them. It fails with [io.ErrUnexpectedEOF] where the file is shorter.
func (f *File) Read(buf []byte, offset, n int64) ([]byte, error) {
	if n <= 0 || n > int64(len(buf)) || offset < 0 {
		return nil, fmt.Errorf("read of %d bytes at offset %d into %d", n, offset, len(buf))
	}
	// The byte at offset o of the file goes to buf[o-base], so that what has
	// to be aligned is.
	base := offset &^ (Align - 1)
	if offset-base+n > int64(len(buf)) {
		base = offset // no room for that
	}
	piece := buf[offset-base:][:n]

	var got int64
	var err error
	if f.path == Auto && (f.warm.Load() || f.resident(buf, offset, n)) {
		if got, err = f.readCached(piece, offset); err != nil {
			return nil, err
		}
	}
	if got < n && f.path != Cached {
		m, err := f.readDirect(buf, base, offset+got, offset+n)
		if err != nil {
			return nil, err
		}
		got += m
	}
	if got < n {
		m, err := f.file.ReadAt(piece[got:], offset+got)
		f.cachedBytes.Add(int64(m))
		if got += int64(m); got < n {
			return nil, f.explain(err, offset, n, got)
		}
	}
	return piece, nil
}

// readCached reads what is in the page cache at the start of a piece.
func (f *File) readCached(piece []byte, offset int64) (int64, error) {
	n, err := 0, errors.ErrUnsupported
	if f.noWait.Load() {
		n, err = readNoWait(f.file, piece, offset)
		f.warm.Store(n == len(piece))
	}
	if errors.Is(err, errors.ErrUnsupported) {
		f.noWait.Store(false)
		n, err = f.file.ReadAt(piece, offset)
	}
	f.cachedBytes.Add(int64(n))
	if err != nil {
		return 0, f.explain(err, offset, int64(len(piece)), int64(n))
	}
	return int64(n), nil
}

// readDirect reads the bytes from offset to end, and what else it must, to
// their places in buf. It returns how many of them are there: fewer where the
// file ends, or where they cannot be read that way.
func (f *File) readDirect(buf []byte, base, offset, end int64) (int64, error) {
	d := f.directly()
	at, to := offset&^(Align-1), (end+Align-1)&^(Align-1)
	if d == nil || at < base || to-base > int64(len(buf)) || !aligned(buf[at-base:]) {
		return 0, nil
	}
	for at < end {
		n, err := preadOnce(d, buf[at-base:to-base], at)
		if refused(err) && f.path != Direct {
			f.giveUp(err)
			break
		}
		if err != nil {
			return 0, f.explain(err, offset, end-offset, 0)
		}
		at += int64(n)
		if n == 0 || at%Align != 0 {
			break // the file ends here
		}
	}
	n := max(min(at, end)-offset, 0)
	f.directBytes.Add(n)
	return n, nil
}

// Write writes b at offset.
func (f *File) Write(b []byte, offset int64) error {
	done := 0
	if f.path == Direct && offset%Align == 0 && aligned(b) {
		for whole := len(b) &^ (Align - 1); done < whole && done%Align == 0; {
			n, err := pwriteOnce(f.direct, b[done:whole], offset+int64(done))
			if err != nil {
				return f.explainWrite(err, offset, len(b), done)
			}
			if n == 0 {
				break // the way through the page cache says why
			}
			done += n
		}
		f.directBytes.Add(int64(done))
	}
	if done == len(b) {
		return nil
	}
	n, err := f.file.WriteAt(b[done:], offset+int64(done))
	f.cachedBytes.Add(int64(n))
	if err != nil {
		return f.explainWrite(err, offset, len(b), done+n)
	}
	return nil
}

// directly returns the file for O_DIRECT, or nil.
func (f *File) directly() *os.File {
	f.opened.Do(func() {
		var err error
		if f.direct, err = OpenDirect(f.file); err != nil {
			f.giveUp(err)
		}
	})
	if f.noDirect.Load() {
		return nil
	}
	return f.direct
}

// giveUp leaves direct reads be.
func (f *File) giveUp(err error) {
	if f.noDirect.CompareAndSwap(false, true) {
		f.note("not past the page cache: %v", err)
	}
}

// explain adds the numbers to the error of a read that got that many bytes.
func (f *File) explain(err error, offset, n, got int64) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: read of %d bytes at offset %d: the file ends at %d; it had %d bytes when it was opened for this copy",
			io.ErrUnexpectedEOF, n, offset, offset+got, f.size)
	}
	return fmt.Errorf("read of %d bytes at offset %d: %w", n, offset, err)
}

// explainWrite adds the numbers to the error of a write.
func (f *File) explainWrite(err error, offset int64, n, done int) error {
	err = fmt.Errorf("write of %d bytes at offset %d: %d written: %w", n, offset, done, err)
	return withFree(f.file, err)
}

// aligned reports whether b begins at a multiple of Align.
func aligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%Align == 0
}
