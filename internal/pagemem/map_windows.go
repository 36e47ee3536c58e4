package pagemem

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// Windows gives large pages only to privileged processes and locks them for
// good, so a mapping here is of ordinary pages, aligned to 64 KiB.
func mapPages(size int) ([]byte, error) {
	addr, err := windows.VirtualAlloc(0, uintptr(size),
		windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	base := *(*unsafe.Pointer)(unsafe.Pointer(&addr))
	return unsafe.Slice((*byte)(base), size), nil
}

func unmapPages(b []byte) error {
	return windows.VirtualFree(address(b), 0, windows.MEM_RELEASE)
}
