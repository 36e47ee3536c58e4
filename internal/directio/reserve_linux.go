package directio

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Reserve makes sure that the first n > 0 bytes of f have room on the disk,
// where the file system can do that beforehand. It fails with the numbers when
// there is not enough.
func Reserve(f *os.File, n int64) error {
	err := control(f, func(fd int) error {
		_, err := again(func() (int, error) { return 0, unix.Fallocate(fd, 0, 0, n) })
		return err
	})
	if err == nil || errors.Is(err, errors.ErrUnsupported) || err == unix.EINVAL {
		return nil
	}
	return withFree(f, fmt.Errorf("reserve %d bytes: %w", n, err))
}

// withFree adds to the error of a full disk how full it is.
func withFree(f *os.File, err error) error {
	if !errors.Is(err, unix.ENOSPC) {
		return err
	}
	var fs unix.Statfs_t
	if control(f, func(fd int) error { return unix.Fstatfs(fd, &fs) }) != nil {
		return err
	}
	return fmt.Errorf("%w: %d bytes are free", err, int64(fs.Bavail)*fs.Bsize)
}
