// Package pieces chooses the pieces of physical chunks that a block is stitched of:
// it may begin in a piece at the end of a chunk, and end in a piece at the start of
// one, with whole chunks between. With m pieces of each kind there are m² pairs, so
// that one nearly fits where none of the pieces does: with 40 of each, chunks of
// 2 MiB, and blocks of any size, some 1 KiB is left over.
package pieces

import "slices"

// Close is how many bytes of a pair may be left over while there are whole chunks.
const Close = 8 << 10

// Effort is what may be done where no pair is close.
type Effort uint8

const (
	Pair Effort = iota // nothing
	Open               // the block ends in a whole chunk, of which as little as possible is left over
	Any                // that, or if there are too few whole chunks, any pair will do
)

// Choice is what a block is made of. Its last whole chunk may be more than needed.
type Choice struct {
	First, Last int   // pieces at the end and at the start of a chunk; -1: none
	Head, Tail  int64 // bytes of them: the last ones of First, the first ones of Last
	Whole       int64 // bytes of whole chunks between
}

// Choose chooses the pieces for n bytes, of those at the ends and at the starts of
// chunks, whose sizes are given in ascending order. There are whole chunks for
// whole bytes, of step bytes or multiples. The pair of which the least is left over
// is taken if that is not more than Close. Otherwise the effort decides.
func Choose(n, step, whole int64, ends, starts []int64, e Effort) (best Choice, ok bool) {
	left := int64(Close)
	if e == Any {
		left = 2 * step
	}
	pair := func(i int, size, head int64) {
		for tail := (n - head) % step; head <= n && tail <= n-head; tail += step {
			k, over := -1, size-head
			if tail > 0 {
				if k, _ = slices.BinarySearch(starts, tail); k == len(starts) {
					break
				}
				over += starts[k] - tail
			}
			if over <= left && n-head-tail <= whole && (i >= 0 || k >= 0) {
				best, left, ok = Choice{i, k, head, tail, n - head - tail}, over-1, true
			}
		}
	}
	pair(-1, 0, 0)
	for i, size := range ends {
		pair(i, size, size)
		for head := n % step; head < size && head <= n; head += step {
			if head > 0 {
				pair(i, size, head)
			}
		}
	}
	if ok && left < Close || e == Pair {
		return best, ok
	}
	used := int64(0) // of the last whole chunk
	open := func(i int, head int64) {
		tail := (n - head) % step
		if full := n - head - tail + step; head <= n && tail > used && full <= whole {
			best, used, ok = Choice{i, -1, head, 0, full}, tail, true
		}
	}
	for i, size := range ends {
		open(i, size)
	}
	if used == 0 { // or there would be a piece more
		open(-1, 0)
	}
	return best, ok
}
