package parquet

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow/memory"
	pq "github.com/apache/arrow-go/v18/parquet"

	"github.com/pinion-gpu/pinion/dataset"
)

// guard calls f, which reads foreign bytes, and makes an error of a panic. The
// library is well tested on good files; what a hostile one may do to it is
// nobody's promise.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover().(type) {
		case nil:
		case budgetError:
			err = p
		default:
			err = fmt.Errorf("%w: %v", dataset.ErrDamaged, p)
		}
	}()
	return f()
}

// damaged makes an error of the library's one.
func damaged(err error) error {
	if errors.Is(err, dataset.ErrTooLarge) {
		return err
	}
	return fmt.Errorf("%w: %w", dataset.ErrDamaged, err)
}

// budget is the memory that reading one row group may take for pages and
// dictionaries, whose sizes a file only claims. An allocator cannot fail, so
// it panics with a budgetError.
type budget struct {
	memory.GoAllocator
	bytes int64
	used  atomic.Int64
}

type budgetError struct{ asked, bytes int64 }

func (e budgetError) Error() string {
	return fmt.Sprintf("%v: pages need %d bytes, CacheBytes allow %d", dataset.ErrTooLarge, e.asked, e.bytes)
}

func (budgetError) Unwrap() error { return dataset.ErrTooLarge }

func (b *budget) take(n int) {
	if used := b.used.Add(int64(n)); used > b.bytes {
		b.used.Add(-int64(n))
		panic(budgetError{used, b.bytes})
	}
}

// Allocate implements [memory.Allocator].
func (b *budget) Allocate(n int) []byte {
	b.take(n)
	return b.GoAllocator.Allocate(n)
}

// Reallocate implements [memory.Allocator].
func (b *budget) Reallocate(n int, old []byte) []byte {
	b.take(n - len(old))
	return b.GoAllocator.Reallocate(n, old)
}

// Free implements [memory.Allocator].
func (b *budget) Free(old []byte) {
	b.used.Add(-int64(len(old)))
	b.GoAllocator.Free(old)
}

// minPages is room for the pages of any ordinary file.
const minPages = 64 << 20

// properties are those of a reader within a budget.
func properties(bytes int64) *pq.ReaderProperties {
	b := &budget{bytes: max(bytes, minPages)}
	p := pq.NewReaderProperties(b)
	p.BufferedStreamEnabled, p.BufferSize = true, 1<<20
	p.MaxCompressedPageSize, p.MaxUncompressedPageSize = b.bytes, b.bytes
	return p
}
