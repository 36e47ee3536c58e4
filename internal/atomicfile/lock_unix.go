//go:build unix

package atomicfile

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

var errLocked = errors.New("held by another process")

// lockFolder holds a folder until it is closed, or the process ends. It fails
// with errLocked where somebody else does.
func lockFolder(path string) (io.Closer, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err == nil:
		// It may have been removed meanwhile.
		held, statErr := dir.Stat()
		now, err := os.Stat(path)
		if err = errors.Join(statErr, err); err != nil || !os.SameFile(held, now) {
			dir.Close()
			return nil, os.ErrNotExist
		}
		return dir, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		dir.Close()
		return nil, errLocked
	}
	dir.Close()
	return nil, errors.ErrUnsupported
}
