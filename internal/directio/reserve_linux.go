package directio

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pinion-gpu/pinion/internal/units"
)

// Reserve makes sure that the first n > 0 bytes of f have room on the disk,
// where the file system can do that beforehand. It fails with the numbers when
// there is not enough.
func Reserve(f *os.File, n int64) error {
	// A reservation that fails would fill the disk first.
	can, err := checkRoom(f, n)
	if !can || err != nil {
		return err
	}
	return noRoom(f, n, fallocate(f, n))
}

// CheckRoom fails as [Reserve] does where the disk of f has no room for n > 0
// bytes, and reserves none. It is for the bytes of several files.
func CheckRoom(f *os.File, n int64) error {
	_, err := checkRoom(f, n)
	return err
}

// checkRoom also tells whether the file system reserves at all.
func checkRoom(f *os.File, n int64) (can bool, err error) {
	err = fallocate(f, 1)
	if errors.Is(err, errors.ErrUnsupported) || err == unix.EINVAL {
		return false, nil
	}
	if free, ok := free(f); err == nil && ok && free < n {
		err = unix.ENOSPC
	}
	return true, noRoom(f, n, err)
}

func fallocate(f *os.File, n int64) error {
	return control(f, func(fd int) error {
		_, err := again(func() (int, error) { return 0, unix.Fallocate(fd, 0, 0, n) })
		return err
	})
}

func noRoom(f *os.File, n int64, err error) error {
	if err == nil {
		return nil
	}
	return withFree(f, fmt.Errorf("reserve %s: %w", units.Bytes(n), err))
}

// free returns how many bytes the file system of f has room for.
func free(f *os.File) (int64, bool) {
	var fs unix.Statfs_t
	err := control(f, func(fd int) error { return unix.Fstatfs(fd, &fs) })
	return int64(fs.Bavail) * int64(fs.Bsize), err == nil && fs.Blocks > 0
}

// withFree adds to the error of a full disk how full it is.
func withFree(f *os.File, err error) error {
	if free, ok := free(f); ok && errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("%w: %s are free", err, units.Bytes(free))
	}
	return err
}
