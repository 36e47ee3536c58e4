//go:build linux || darwin

package shmem

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/pagemem"
	"golang.org/x/sys/unix"
)

// Map maps the first size bytes of f, whole pages, for reading and writing.
// From [pagemem.HugePage] on the memory starts on a multiple of that, as huge
// pages want. The caller owns it until [pagemem.Unmap]; it stays when f is
// closed. Touching what lies behind the end of f kills the process.
func Map(f *os.File, size int64) ([]byte, error) {
	if size <= 0 || size%pagemem.PageSize() != 0 || size > 1<<62 || int64(int(size)) != size {
		return nil, fmt.Errorf("shmem: cannot map %d bytes", size)
	}
	var mem []byte
	err := withDescriptor(f, func(fd int) (err error) {
		mem, err = mapAligned(fd, uintptr(size))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("shmem: map %d bytes of %s: %w", size, f.Name(), err)
	}
	return mem, nil
}

func mapAligned(fd int, size uintptr) ([]byte, error) {
	const access = unix.PROT_READ | unix.PROT_WRITE
	if size < pagemem.HugePage {
		p, err := unix.MmapPtr(fd, 0, nil, size, access, unix.MAP_SHARED)
		if err != nil {
			return nil, err
		}
		return unsafe.Slice((*byte)(p), size), nil
	}
	// The kernel aligns to pages only: reserve up to one huge page more, map
	// over the aligned part and give back what stands over at both ends.
	reserved := size + pagemem.HugePage
	base, err := unix.MmapPtr(-1, 0, nil, reserved, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	head := -uintptr(base) & (pagemem.HugePage - 1)
	start := unsafe.Add(base, head)
	if _, err := unix.MmapPtr(fd, 0, start, size, access, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		unix.MunmapPtr(base, reserved)
		return nil, err
	}
	if head > 0 {
		unix.MunmapPtr(base, head)
	}
	if tail := reserved - head - size; tail > 0 {
		unix.MunmapPtr(unsafe.Add(start, size), tail)
	}
	return unsafe.Slice((*byte)(start), size), nil
}
