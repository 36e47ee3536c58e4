//go:build unix

package directio

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Map maps n > 0 bytes of f at offset for reading, until unmap is called. Where
// the file ends before them, touching the rest is a fault.
func Map(f *os.File, offset, n int64) (b []byte, unmap func() error, err error) {
	from := offset &^ int64(os.Getpagesize()-1)
	if size := offset - from + n; size > math.MaxInt {
		return nil, nil, fmt.Errorf("map %d bytes: more than the address space", size)
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	ctlErr := conn.Control(func(fd uintptr) {
		b, err = unix.Mmap(int(fd), from, int(offset-from+n), unix.PROT_READ, unix.MAP_SHARED)
	})
	if ctlErr != nil {
		return nil, nil, ctlErr
	}
	if err != nil {
		return nil, nil, fmt.Errorf("map %d bytes at offset %d: %w", n, offset, err)
	}
	all := b
	return all[offset-from:], func() error { return unix.Munmap(all) }, nil
}
