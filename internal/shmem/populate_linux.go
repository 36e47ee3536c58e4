package shmem

import (
	"errors"
	"fmt"
	"os"

	"github.com/pinion-gpu/pinion/internal/pagemem"
	"golang.org/x/sys/unix"
)

// Populate backs all of mem, the mapping of f, with memory, huge pages where
// the system gives them, from several goroutines (see [pagemem.Populate]).
// Where there is not enough memory it fails; a later touch would kill the
// process.
func Populate(f *os.File, mem []byte, workers int) error {
	pagemem.Huge(mem)
	if unix.Madvise(mem[:pagemem.PageSize()], unix.MADV_POPULATE_WRITE) == unix.EINVAL {
		// Before Linux 5.14 pages are populated by touching them.
		err := withDescriptor(f, func(fd int) error {
			for {
				if err := unix.Fallocate(fd, 0, 0, int64(len(mem))); err != unix.EINTR {
					return err
				}
			}
		})
		if err != nil {
			return fmt.Errorf("shmem: allocate %d bytes of %s: %w", len(mem), f.Name(), err)
		}
	}
	err := pagemem.Populate(mem, workers)
	if errors.Is(err, unix.EFAULT) {
		return fmt.Errorf("shmem: %s: %w: %w", f.Name(), unix.ENOSPC, err)
	}
	return err
}
