package pagemem

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"
)

// maxWorkers bounds the default of [Populate]: zeroing pages is bound by the
// memory's bandwidth, which that many threads use up.
const maxWorkers = 16

// Populate faults the pages of b in for writing, so that no later touch or
// lock has to. What b holds stays as it is, also under concurrent writers.
// The kernel zeroes new pages while it maps them, which is most of the cost
// of pinning, so workers goroutines share the work in whole huge pages; 0 or
// less means GOMAXPROCS, at most 16.
func Populate(b []byte, workers int) error {
	if !Aligned(b) {
		return misaligned("populate", b)
	}
	if workers <= 0 {
		workers = min(runtime.GOMAXPROCS(0), maxWorkers)
	}
	parts := (len(b) + HugePage - 1) / HugePage
	workers = min(workers, parts)
	if workers == 1 {
		return populated(populatePages(b), b)
	}
	// Parts are handed out one by one because they do not all cost the same.
	var (
		next   atomic.Int64
		failed atomic.Pointer[error]
		group  sync.WaitGroup
	)
	for range workers {
		group.Go(func() {
			for failed.Load() == nil {
				start := (int(next.Add(1)) - 1) * HugePage
				if start >= len(b) {
					return
				}
				part := b[start:min(start+HugePage, len(b))]
				if err := populatePages(part); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return populated(*err, b)
	}
	return nil
}

func populated(err error, b []byte) error {
	if err != nil {
		return fmt.Errorf("pagemem: populate %d bytes: %w", len(b), err)
	}
	return nil
}

// touchPages writes to every page without changing it. The addition of zero
// is atomic, so nothing that another goroutine writes is lost.
func touchPages(b []byte) {
	for i := 0; i < len(b); i += int(pageSize) {
		atomic.AddUint32((*uint32)(unsafe.Pointer(&b[i])), 0)
	}
}
