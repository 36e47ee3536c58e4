package directio

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mincore sets a byte for each page of b that is not empty.
func mincore(b []byte, present *byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE,
		uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(present)))
	if errno != 0 {
		return errno
	}
	return nil
}
