package pagemem

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

func adviseHuge(b []byte) {
	// A kernel without transparent huge pages refuses; small pages work too.
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
}

var noPopulate atomic.Bool // the kernel is older than 5.14

func populatePages(b []byte) error {
	for !noPopulate.Load() {
		switch err := unix.Madvise(b, unix.MADV_POPULATE_WRITE); err {
		case nil:
			return nil
		case unix.EINTR, unix.EAGAIN:
		case unix.EINVAL:
			noPopulate.Store(true)
		default:
			return err
		}
	}
	touchPages(b)
	return nil
}
