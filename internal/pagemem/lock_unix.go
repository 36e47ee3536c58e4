//go:build unix

package pagemem

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func lockPages(b []byte) error {
	err := unix.Mlock(b)
	switch err {
	case unix.ENOMEM, unix.EPERM, unix.EAGAIN:
		return fmt.Errorf("%w: %w", ErrLockLimit, err)
	}
	return err
}

func unlockPages(b []byte) error { return unix.Munlock(b) }

// rlimit is RLIMIT_MEMLOCK's soft limit.
func rlimit() (bytes int64, unlimited bool) {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil {
		return 0, false
	}
	// RLIM_INFINITY is all ones, or on some systems all ones but the sign.
	if uint64(limit.Cur) >= 1<<63-1 {
		return 0, true
	}
	return int64(limit.Cur), false
}
