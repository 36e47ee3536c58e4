package dataset

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// raggedFiles is a folder of files that are one sample each, of lengths that
// are known without reading them.
type raggedFiles struct {
	*Folder
	spec    Spec
	row     int     // bytes
	lengths []int32 // of axis 0
}

// Spec implements [Dataset].
func (d *raggedFiles) Spec() Spec { return d.spec.clone() }

// Length implements [Ragged].
func (d *raggedFiles) Length(i int) int { return int(d.lengths[i]) }

// checkRead checks the arguments of [Reader.Read].
func (d *raggedFiles) checkRead(i int, dst []byte) error {
	if err := checkIndex(d, i); err != nil {
		return err
	}
	return checkRead(d, i, dst, d.row*d.Length(i))
}

// longest returns the largest length.
func (d *raggedFiles) longest() int { return int(slices.Max(d.lengths)) }

// inParallel calls f for 0 to n-1 from several goroutines, since opening many
// files waits for the disk more than for the processor. It returns the error
// of the lowest number, and calls f no more after it. The end of ctx ends it
// too, with its cause.
func inParallel(ctx context.Context, n int, f func(i int) error) error {
	var workers sync.WaitGroup
	var next atomic.Int64
	var mu sync.Mutex
	var failed error
	failedAt := n
	for range min(n, 4*runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return
				}
				if err := f(i); err != nil {
					next.Store(int64(n)) // all below i are done or under way
					mu.Lock()
					if i < failedAt {
						failed, failedAt = err, i
					}
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failed
}

// readFileInto fills dst with a file of exactly that size.
func readFileInto(path string, dst []byte) error {
	f, size, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if size != int64(len(dst)) {
		return fmt.Errorf("%s: %w: the file changed its size from %d bytes to %d", path, ErrDamaged, len(dst), size)
	}
	if err := readFull(f, dst, 0); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
