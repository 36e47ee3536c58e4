//go:build unix

package pagemem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func mapPages(size int) ([]byte, error) {
	// The kernel aligns to pages only, so reserve up to one huge page more
	// and cut off what stands over at both ends.
	extra := 0
	if size >= HugePage {
		extra = HugePage - int(pageSize)
	}
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(size+extra),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	if extra == 0 {
		return unsafe.Slice((*byte)(base), size), nil
	}
	head := int(-uintptr(base) & (HugePage - 1))
	start := unsafe.Add(base, head)
	if head > 0 {
		err = unix.MunmapPtr(base, uintptr(head))
	}
	if tail := extra - head; tail > 0 && err == nil {
		err = unix.MunmapPtr(unsafe.Add(start, size), uintptr(tail))
	}
	if err != nil {
		// A range that is not mapped is no error for munmap.
		unix.MunmapPtr(base, uintptr(size+extra))
		return nil, err
	}
	return unsafe.Slice((*byte)(start), size), nil
}

func unmapPages(b []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)))
}
