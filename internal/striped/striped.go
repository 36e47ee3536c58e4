// Package striped has counts that many processors add to at once without waiting for
// each other: each goroutine adds to a copy of its own, and who reads adds the copies
// up. One count that all add to goes from cache to cache instead, which takes each of
// them the longer the more there are.
package striped

import (
	"iter"
	"unsafe"
)

// Of is copies of T, which is a struct of atomic counts. The zero value counts from
// zero. It must not be copied.
type Of[T any] struct {
	copies [stripes]struct {
		counts T
		_      [64]byte // the next copy is in another cache line
	}
}

const (
	stripes   = 1 << stripeLog
	stripeLog = 6
)

// Near returns the copy to add to. Goroutines have one each as far as there are
// enough, and no goroutine always has the same one.
func (o *Of[T]) Near() *T {
	// Goroutines have stacks of their own, of 2 KiB or more.
	var local byte
	stack := uint64(uintptr(unsafe.Pointer(&local))) >> 11
	return &o.copies[stack*0x9e3779b97f4a7c15>>(64-stripeLog)].counts
}

// All returns all copies.
func (o *Of[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range o.copies {
			if !yield(&o.copies[i].counts) {
				return
			}
		}
	}
}
