package virtmem

import (
	"fmt"
	"math"
	"os"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/shmem"
	"golang.org/x/sys/unix"
)

// StoreBytes is the size of a store. It is far more than any machine has: a
// store is not what limits memory.
const StoreBytes = 1 << 60

// Store is memory without an address. Its methods but Close are safe for
// concurrent use on different pieces.
type Store struct{ file *os.File }

// Supported reports whether the system lets this process have address space
// and stores. It tries once.
var Supported = sync.OnceValue(func() bool {
	store, err := NewStore("probe")
	if err != nil {
		return false
	}
	defer store.Close()
	page := pagemem.PageSize()
	b, err := Reserve(page)
	if err != nil {
		return false
	}
	defer Release(b)
	return store.Map(b, page) == nil && Unmap(b) == nil && store.Discard(page, page) == nil
})

// Reserve reserves n > 0 bytes of addresses, which start on a multiple of
// [pagemem.HugePage]. The caller owns them until [Release].
func Reserve(n int64) ([]byte, error) {
	if n <= 0 || n > math.MaxInt-pagemem.HugePage || n%pagemem.PageSize() != 0 {
		return nil, fmt.Errorf("virtmem: cannot reserve %d bytes", n)
	}
	// The kernel aligns to pages only: reserve more and cut off both ends.
	all := uintptr(n) + pagemem.HugePage
	base, err := unix.MmapPtr(-1, 0, nil, all, unix.PROT_NONE, inaccessible)
	if err != nil {
		return nil, fmt.Errorf("virtmem: reserve %d bytes: %w", n, err)
	}
	head := -uintptr(base) & (pagemem.HugePage - 1)
	start := unsafe.Add(base, head)
	if head > 0 {
		err = unix.MunmapPtr(base, head)
	}
	if tail := pagemem.HugePage - head; tail > 0 && err == nil {
		err = unix.MunmapPtr(unsafe.Add(start, n), tail)
	}
	if err != nil {
		unix.MunmapPtr(base, all) // what is not mapped is no error for it
		return nil, fmt.Errorf("virtmem: reserve %d bytes: %w", n, err)
	}
	return unsafe.Slice((*byte)(start), n), nil
}

const inaccessible = unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_NORESERVE

// Release gives back what Reserve returned, whole, with all that is mapped in
// it.
func Release(b []byte) error {
	if err := unix.MunmapPtr(start(b), uintptr(len(b))); err != nil {
		return fmt.Errorf("virtmem: release %d bytes: %w", len(b), err)
	}
	return nil
}

// NewStore makes a store. The name only shows in /proc.
func NewStore(name string) (*Store, error) {
	f, err := shmem.CreateAnonymous(name, StoreBytes)
	if err != nil {
		return nil, fmt.Errorf("virtmem: %w", err)
	}
	return &Store{f}, nil
}

// Close lets go of the store. What is mapped stays until it is unmapped.
func (s *Store) Close() error { return s.file.Close() }

// Map maps the store's bytes from offset on over b, a part of a reservation,
// in place of what was mapped there. When it fails, for which the usual reason
// is the system's limit on mappings (vm.max_map_count), b is to be unmapped.
func (s *Store) Map(b []byte, offset int64) error {
	_, err := unix.MmapPtr(s.descriptor(), offset, start(b), uintptr(len(b)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("virtmem: map %d bytes: %w", len(b), err)
	}
	return nil
}

// Unmap takes what is mapped in b, a part of a reservation, out of it. The
// addresses stay reserved.
func Unmap(b []byte) error {
	_, err := unix.MmapPtr(-1, 0, start(b), uintptr(len(b)), unix.PROT_NONE, inaccessible|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("virtmem: unmap %d bytes: %w", len(b), err)
	}
	return nil
}

// Discard gives the memory of n > 0 bytes of the store back to the system.
// Whoever reads them again, in a mapping too, finds zeros.
func (s *Store) Discard(offset, n int64) error {
	for {
		err := unix.Fallocate(s.descriptor(), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, n)
		if err == nil {
			return nil
		}
		if err != unix.EINTR {
			return fmt.Errorf("virtmem: discard %d bytes: %w", n, err)
		}
	}
}

// Used returns how many bytes of memory the store takes.
func (s *Store) Used() (int64, error) {
	var status unix.Stat_t
	err := unix.Fstat(s.descriptor(), &status)
	return status.Blocks * 512, err
}

// descriptor is none, and calls with it fail, after Close.
func (s *Store) descriptor() int { return int(s.file.Fd()) }

func start(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
