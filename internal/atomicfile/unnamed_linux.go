package atomicfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openUnnamed makes a file without a name on the file system of path, which its
// errors name. It is gone when it is closed, or its process ends, without
// [link]. It fails where the file system, or the system, cannot do that.
func openUnnamed(path string, perm fs.FileMode) (*os.File, error) {
	for {
		fd, err := unix.Open(filepath.Dir(path), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, uint32(perm.Perm()))
		switch err {
		case nil:
		case unix.EINTR:
			continue
		default:
			return nil, err
		}
		file := os.NewFile(uintptr(fd), path)
		if _, err := os.Lstat(openName(uintptr(fd))); err != nil { // no /proc: link would fail, but only in the end
			file.Close()
			return nil, err
		}
		return file, nil
	}
}

// openName is the name that an open file has for its own process.
func openName(fd uintptr) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// link gives a file that openUnnamed made a name. It fails with [fs.ErrExist]
// where something has that name.
func link(f *os.File, path string) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if conn.Control(func(fd uintptr) {
		err = unix.Linkat(unix.AT_FDCWD, openName(fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	}) != nil {
		err = fs.ErrClosed
	}
	if err != nil {
		return &fs.PathError{Op: "link", Path: path, Err: err}
	}
	return nil
}
