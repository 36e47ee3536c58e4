package harness

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// DropPages takes the pages of a file out of the page cache. Dirty pages are
// written first: they would stay.
func DropPages(f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("drop the pages of %s: %w", f.Name(), err)
	}
	return nil
}
