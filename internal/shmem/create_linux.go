package shmem

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// CreateAnonymous makes a file of size zero bytes that has no name anywhere:
// it lives as long as somebody has it open or mapped. Nobody can change its
// size (it is sealed), so that nobody can pull pages from under the others.
// The name only shows in /proc.
func CreateAnonymous(name string, size int64) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("shmem: memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "memfd:"+name)
	if err := f.Truncate(size); err != nil {
		f.Close()
		return nil, fmt.Errorf("shmem: size of %d bytes: %w", size, err)
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("shmem: seal the size: %w", err)
	}
	return f, nil
}

// Create makes a file of size zero bytes that [Draft.Publish] can name path.
// Its owner alone may open it.
func Create(path string, size int64) (*Draft, error) {
	// Where the file system can, the file has no name yet that would stay
	// behind if this process were killed.
	f, err := os.OpenFile(filepath.Dir(path), os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err != nil {
		return createTemp(path, size)
	}
	return resize(&Draft{File: f}, size)
}

// link names a file that has no name.
func link(f *os.File, path string) error {
	return withDescriptor(f, func(fd int) error {
		err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
		if err != nil {
			return &os.LinkError{Op: "link", Old: f.Name(), New: path, Err: err}
		}
		return nil
	})
}
