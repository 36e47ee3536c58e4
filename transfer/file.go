package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// FileCopy describes a copy between a file and device memory.
type FileCopy struct {
	// File is open for reading, or writing, and can be used at any offset:
	// a regular file or a block device. It stays the caller's, its own offset
	// is not moved, and it must not be closed during the copy.
	File   *os.File
	Offset int64 // in the file

	Device device.Ptr
	Bytes  int64

	// Path forces a way. Default: [FileAuto].
	Path FilePath

	// Sync makes what is written durable before the copy counts as done. It
	// means nothing to reads.
	Sync bool

	// After and On hold the copy up as they do a [Copy]; the call returns when
	// it is done.
	After device.Event
	On    device.Stream

	// Progress, if set, is called with the bytes copied so far, from the
	// goroutine that called, the last time with done == total.
	Progress func(done, total int64)

	name string // of the file in errors, if not its own
}

// path is the name of the file in errors.
func (c *FileCopy) path() string {
	if c.name != "" {
		return c.name
	}
	return c.File.Name()
}

// FilePath is a way between a file and the device.
type FilePath string

// The ways between a file and the device.
const (
	// FileAuto reads what is in the page cache from there and the rest past
	// it. It writes through the page cache, which is quick as long as nobody
	// waits for the disk, and with Sync past it. What is not read from the
	// page cache takes cuFile where that goes straight between the disk and
	// the device.
	FileAuto FilePath = ""

	// FileCached reads or writes through the page cache.
	FileCached FilePath = "cached"

	// FileDirect reads or writes past the page cache (O_DIRECT): the cache
	// stays as it is, and the speed is that of the disk. Bytes that do not
	// fill an aligned block of 4 KiB are still written through the cache.
	FileDirect FilePath = "direct"

	// FileMapped maps the file and copies from the mapping, for reading only. If
	// the file shrinks meanwhile, or the disk fails, the host backend returns an
	// error, but a C driver that touches the missing pages kills the process: use
	// it on files that nobody changes.
	FileMapped FilePath = "mapped"

	// FileCuFile uses NVIDIA's cuFile, also where it would go through host
	// memory of its own, which is slower than FileAuto.
	FileCuFile FilePath = "cufile"
)

// FileReport says which way the bytes of a file took.
type FileReport struct {
	CachedBytes int64 // through the page cache
	DirectBytes int64 // past it
	MappedBytes int64 // from a mapping
	CuFileBytes int64 // by cuFile

	Wall time.Duration

	// Notes say, in a sentence each, why a faster way was not taken.
	Notes []string
}

func (r *FileReport) note(err error) { r.Notes = append(r.Notes, err.Error()) }

// ReadFile copies a part of a file to device memory and returns when it is
// there. Bytes that are in the page cache take the copiers, as pageable memory
// does, and arrive at the speed of the link; others are read past the cache by
// [Options].FileWorkers goroutines at the speed of the disk.
//
// A file that is shorter than the copy fails at once with
// [io.ErrUnexpectedEOF], and so does one that shrinks meanwhile, when that is
// found. When it fails, or when ctx ends, the device memory holds a part of
// the bytes.
func (e *Engine) ReadFile(ctx context.Context, c FileCopy) (FileReport, error) {
	return e.moveFile(ctx, c, false)
}

// WriteFile copies device memory into an open file, at an offset, and returns
// when the system has the bytes, or with Sync the disk. When it fails, or when
// ctx ends, the file holds a part of them; see [Engine.CreateFile] for files
// that are complete or not there.
func (e *Engine) WriteFile(ctx context.Context, c FileCopy) (FileReport, error) {
	return e.moveFile(ctx, c, true)
}

func (e *Engine) moveFile(ctx context.Context, c FileCopy, write bool) (r FileReport, err error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	began := time.Now()
	defer func() { r.Wall = time.Since(began) }()
	verb := "read"
	if write {
		verb = "write"
	}
	if err := c.Check(write); err != nil {
		return r, fmt.Errorf("transfer: %s file: %w", verb, err)
	}
	if err := e.await(ctx, c.On, c.After); err != nil {
		return r, err
	}
	if c.Bytes == 0 {
		return r, e.streams.copy(ctx, Copy{Device: c.Device, Progress: c.Progress})
	}
	if err := e.routeFile(ctx, &c, write, &r); err != nil {
		if err == ctx.Err() || errors.Is(err, errClosed) {
			return r, err
		}
		return r, fmt.Errorf("transfer: %s %s, %d bytes at offset %d: %w", verb, c.path(), c.Bytes, c.Offset, err)
	}
	if write && c.Sync {
		if err := c.File.Sync(); err != nil {
			return r, fmt.Errorf("transfer: %w", err)
		}
	}
	return r, nil
}

// Check finds what is wrong with c before anything is copied, as
// [Engine.ReadFile] does, or [Engine.WriteFile] to write: bad arguments fail with
// [device.ErrArgument], a file that is too short to be read with
// [io.ErrUnexpectedEOF].
func (c *FileCopy) Check(write bool) error {
	switch {
	case c.File == nil:
		return fmt.Errorf("%w: no file", device.ErrArgument)
	case c.Bytes < 0 || c.Offset < 0 || c.Offset > math.MaxInt64-c.Bytes:
		return fmt.Errorf("%w: %d bytes at offset %d of %s", device.ErrArgument, c.Bytes, c.Offset, c.path())
	case uint64(c.Device) > math.MaxUint64-uint64(c.Bytes):
		return fmt.Errorf("%w: %d bytes of device memory at %#x", device.ErrArgument, c.Bytes, uint64(c.Device))
	case write && c.Path == FileMapped:
		return fmt.Errorf("%w: path %q is for reading", device.ErrArgument, c.Path)
	}
	switch c.Path {
	case FileAuto, FileCached, FileDirect, FileMapped, FileCuFile:
	default:
		return fmt.Errorf("%w: unknown path %q", device.ErrArgument, c.Path)
	}
	info, err := c.File.Stat()
	if err != nil {
		return err
	}
	mode := info.Mode()
	switch {
	case mode.IsRegular():
		if !write && info.Size() < c.Offset+c.Bytes {
			return fmt.Errorf("%s has %d bytes, not %d behind offset %d: %w",
				c.path(), info.Size(), c.Bytes, c.Offset, errShort)
		}
	case mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0: // a disk
	default:
		return fmt.Errorf("%w: %s is %s: only regular files and block devices are read and written at offsets",
			device.ErrArgument, c.path(), kindOf(mode))
	}
	return nil
}

// kindOf names what is not a file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a character device"
}
