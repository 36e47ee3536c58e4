//go:build linux || darwin

package shmem

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// withDescriptor calls fn with the descriptor of f, which stays open meanwhile.
func withDescriptor(f *os.File, fn func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = fn(int(fd)) }); e != nil {
		return os.ErrClosed // Control has no other reason
	}
	return err
}

// Duplicate returns another descriptor of f, for [Close].
func Duplicate(f *os.File) (*os.File, error) {
	var copied int
	err := withDescriptor(f, func(fd int) (err error) {
		copied, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("shmem: duplicate the descriptor of %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(copied), f.Name()), nil
}
