package pagemem

import (
	"errors"
	"fmt"
	"math"
	"os"
	"unsafe"
)

// HugePage is the size of a huge page on amd64 and, with 4 KiB pages, on
// arm64. Mappings of at least this size start on a multiple of it.
const HugePage = 2 << 20

// ErrLockLimit: the system does not allow this process that much locked
// memory. [LockLimit] tells how much.
var ErrLockLimit = errors.New("locked memory limit reached")

var pageSize = int64(os.Getpagesize())

// PageSize returns the system's page size in bytes, a power of two.
func PageSize() int64 { return pageSize }

// RoundUp returns n rounded up to whole pages. Below zero it is zero. Where
// the result would not fit it is the largest number of whole pages that does,
// which no mapping can have.
func RoundUp(n int64) int64 {
	if n <= 0 {
		return 0
	}
	if n > math.MaxInt64-(pageSize-1) {
		return math.MaxInt64 &^ (pageSize - 1)
	}
	return (n + pageSize - 1) &^ (pageSize - 1)
}

// Aligned reports whether b is one or more whole pages.
func Aligned(b []byte) bool {
	return len(b) > 0 && int64(len(b))&(pageSize-1) == 0 && address(b)&uintptr(pageSize-1) == 0
}

// Map maps n > 0 bytes of zeroed memory, rounded up to whole pages. From
// [HugePage] on it starts on a multiple of that, so that huge pages fit. No
// page is backed by memory before it is touched. The caller owns the memory
// until [Unmap].
func Map(n int64) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("pagemem: cannot map %d bytes", n)
	}
	size := RoundUp(n)
	if size < n || size > math.MaxInt-HugePage {
		return nil, fmt.Errorf("pagemem: cannot map %d bytes: larger than the address space", n)
	}
	b, err := mapPages(int(size))
	if err != nil {
		return nil, fmt.Errorf("pagemem: map %d bytes: %w", size, err)
	}
	return b, nil
}

// Unmap gives back memory that [Map] returned, whole. Locked pages are
// unlocked by that.
func Unmap(b []byte) error {
	if !Aligned(b) {
		return misaligned("unmap", b)
	}
	if err := unmapPages(b); err != nil {
		return fmt.Errorf("pagemem: unmap %d bytes at %#x: %w", len(b), address(b), err)
	}
	return nil
}

// Huge asks for huge pages under b, where the system gives them on request.
// It is a hint: call it before the pages are touched.
func Huge(b []byte) {
	if Aligned(b) {
		adviseHuge(b)
	}
}

// Lock keeps the pages of b in physical memory and faults them in. It fails
// with [ErrLockLimit] when the system does not allow that much. On Windows it
// first raises the process's working set where that is too small.
func Lock(b []byte) error {
	if !Aligned(b) {
		return misaligned("lock", b)
	}
	if err := lockPages(b); err != nil {
		return fmt.Errorf("pagemem: lock %d bytes: %w", len(b), err)
	}
	return nil
}

// Unlock undoes [Lock]. Locks do not nest.
func Unlock(b []byte) error {
	if !Aligned(b) {
		return misaligned("unlock", b)
	}
	if err := unlockPages(b); err != nil {
		return fmt.Errorf("pagemem: unlock %d bytes: %w", len(b), err)
	}
	return nil
}

// LockLimit returns how many bytes this process may keep locked in all, or
// unlimited. On Linux that is RLIMIT_MEMLOCK, which does not bind a process
// with CAP_IPC_LOCK. On Windows it is the minimum working set as it is now,
// which [Lock] raises when it must. Where nothing is known it is 0, false.
//
// Drivers that pin memory by themselves may not count against it.
func LockLimit() (bytes int64, unlimited bool) { return lockLimit() }

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func misaligned(what string, b []byte) error {
	return fmt.Errorf("pagemem: cannot %s %d bytes at %#x: not whole pages of %d bytes",
		what, len(b), address(b), pageSize)
}
