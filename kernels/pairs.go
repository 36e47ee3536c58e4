package kernels

import (
	"encoding/binary"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// PairList is the operand of [Set.CopyPairs]: N blocks of one size, each with
// its place in two ranges of memory.
type PairList struct {
	Dst, Src device.Ptr // the ranges; multiples of PairUnit

	// Pairs is an array of N [Pair], in memory of the device or in mapped host
	// memory. It is read when the work runs.
	Pairs device.Ptr

	N     int64 // length of Pairs, 0 or more
	Bytes int64 // of a block: a multiple of PairUnit, 0 or more; from 4 KiB on copies are fast

	// Blocks is the most thread blocks to use, as in [SpanList].
	Blocks int
}

// Pair is the place of one block of a [PairList] in Dst and in Src, in units of
// [PairUnit] bytes: two 32-bit little-endian integers.
type Pair struct{ Dst, Src uint32 }

const (
	PairUnit  = 16
	PairBytes = 8 // of a Pair on every device
)

// PutPair writes a [Pair] to the first [PairBytes] of b.
func PutPair(b []byte, p Pair) {
	binary.LittleEndian.PutUint64(b, uint64(p.Src)<<32|uint64(p.Dst))
}

// CopyPairs queues the copies of l, in any order and beside each other.
// Destinations must overlap neither sources nor the list. Where they overlap
// each other, each byte comes from one of the blocks that name it, and it is not
// specified which.
//
// Where the pairs point is the caller's promise, as with [Set.CopySpans]. A Go
// function checks it: the stream's error is [device.ErrPointer] where a pair
// names other memory than the device's.
func (k *Set) CopyPairs(s device.Stream, l PairList) error {
	j := pairsJob{l}
	if err := j.check(); err != nil {
		return fmt.Errorf("kernels: copy pairs: %w", err)
	}
	if l.N == 0 || l.Bytes == 0 {
		return k.enqueue(s, nil)
	}
	return k.enqueue(s, j)
}

const pairsKernel = "copy_pairs"

type pairsJob struct{ PairList }

func (j pairsJob) check() error {
	if j.N < 0 || j.Bytes < 0 || j.Bytes%PairUnit != 0 || j.Blocks < 0 {
		return fmt.Errorf("%w: %d blocks of %d bytes, in %d thread blocks at most", device.ErrArgument, j.N, j.Bytes, j.Blocks)
	}
	if _, err := product("blocks and their size", j.N, max(j.Bytes, PairBytes)); err != nil || j.N == 0 || j.Bytes == 0 {
		return err
	}
	for _, o := range []operand{
		{"Dst", j.Dst, j.Bytes, PairUnit}, // may be where Src is
		{"Src", j.Src, j.Bytes, PairUnit},
		{"Pairs", j.Pairs, j.N * PairBytes, PairBytes},
	} {
		if err := o.check(); err != nil {
			return err
		}
	}
	return nil
}

func (j pairsJob) launch(k *Set, s device.Stream) error {
	units := j.Bytes / PairUnit
	var args device.Args
	args.Ptr(j.Dst).Ptr(j.Src).Ptr(j.Pairs).Int64(j.N).Int64(units)
	return k.start(s, pairsKernel, k.copyBlocks(j.N*units, j.Blocks), &args)
}

func (j pairsJob) call(c device.Caller, s device.Stream) error {
	list, err := c.Bytes(j.Pairs, j.N*PairBytes)
	if err != nil {
		return err
	}
	pairs, err := view[Pair](list)
	if err != nil {
		return err
	}
	return c.Call(s, func() error {
		for i, p := range pairs {
			if err := j.copyPair(c, p); err != nil {
				return fmt.Errorf("kernels: copy pairs: block %d of %d: %w", i, j.N, err)
			}
		}
		return nil
	})
}

func (j pairsJob) copyPair(c device.Caller, p Pair) error {
	dst, err := c.Bytes(j.Dst.Add(int64(p.Dst)*PairUnit), j.Bytes)
	if err != nil {
		return fmt.Errorf("destination: %w", err)
	}
	src, err := c.Bytes(j.Src.Add(int64(p.Src)*PairUnit), j.Bytes)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	copy(dst, src)
	return nil
}
