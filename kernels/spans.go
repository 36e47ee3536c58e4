package kernels

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// SpanList is the operand of [Set.CopySpans]: N copies of any length each.
type SpanList struct {
	// Entries is an array of N [SpanEntry] in memory of the device. It is read
	// when the work runs, so that an earlier copy of the same stream can
	// bring it.
	Entries device.Ptr

	N     int64 // length of Entries, 0 or more
	Units int64 // of all entries together, the End of the last one; 0 or more
	Unit  int64 // bytes of a unit: 16, 4 or 1; the larger, the faster

	// Blocks is the most thread blocks to use, 0 or more, so that copies over
	// the link leave the multiprocessors to others. Default (0): as many as
	// the work has. Kernels that are Go functions take no notice.
	Blocks int
}

// SpanEntry is one copy of a [SpanList], in the 24 bytes that the device
// reads: Dst, Src and End as 64-bit little-endian integers.
type SpanEntry struct {
	Dst, Src device.Ptr // multiples of the unit
	End      int64      // units of all entries up to and with this one
}

// spanEntryBytes is the size of a SpanEntry on every device.
const spanEntryBytes = 24

// CopySpans queues the copies of l, in any order and beside each other. Each
// moves as many units as its End lies behind the End of the entry before it,
// or behind 0 for the first; that may be none. Destinations must overlap
// neither sources nor the list. Where they overlap each other, each byte comes
// from one of the entries that name it, and it is not specified which.
//
// What the entries say is the caller's promise, for the device cannot check
// it. A Go function can: the stream's error is [device.ErrPointer] where an
// entry names other memory than the device's, and [device.ErrArgument] where
// an address is no multiple of the unit, an End lies before the one before it,
// or the last End is not Units; some of the copies may then be done. Compiled
// kernels read or write wherever an entry points, and a fault there makes the
// whole device unusable.
func (k *Set) CopySpans(s device.Stream, l SpanList) error {
	j := spansJob{l}
	if err := j.check(); err != nil {
		return fmt.Errorf("kernels: copy spans: %w", err)
	}
	if l.N == 0 || l.Units == 0 {
		return k.enqueue(s, nil)
	}
	return k.enqueue(s, j)
}

// spanUnits are the units that kernels are compiled for, in bytes.
var spanUnits = []int64{16, 4, 1}

const (
	copyPerThread = 8 // units that a thread moves at a time, as spans.cuh and pairs.cuh have it
	copyBlocks    = 8 // the most thread blocks for each multiprocessor
)

func spansKernel(unit int64) string { return fmt.Sprintf("copy_spans_%d", unit) }

type spansJob struct{ SpanList }

func (j spansJob) check() error {
	if j.N < 0 || j.Units < 0 || j.Blocks < 0 {
		return fmt.Errorf("%w: %d entries of %d units, in %d thread blocks at most", device.ErrArgument, j.N, j.Units, j.Blocks)
	}
	if !slices.Contains(spanUnits, j.Unit) {
		return fmt.Errorf("%w: units of %d bytes; 16, 4 and 1 are possible", device.ErrArgument, j.Unit)
	}
	if _, err := product("units and their size", j.Units, j.Unit); err != nil {
		return err
	}
	size, err := product("entries and their size", j.N, spanEntryBytes)
	if err != nil || j.Units == 0 {
		return err
	}
	return operand{"Entries", j.Entries, size, 8}.check()
}

func (j spansJob) launch(k *Set, s device.Stream) error {
	var args device.Args
	args.Ptr(j.Entries).Int64(j.N).Int64(j.Units)
	return k.start(s, spansKernel(j.Unit), k.copyBlocks(j.Units, j.Blocks), &args)
}

// copyBlocks gives the thread blocks for copying so many units: at most most,
// if that is not 0.
func (k *Set) copyBlocks(units int64, most int) int {
	blocks := blocksFor(units, copyPerThread*threads)
	if k.multiprocessors > 0 {
		blocks = min(blocks, copyBlocks*k.multiprocessors)
	}
	if most > 0 {
		blocks = min(blocks, most)
	}
	return blocks
}

func (j spansJob) call(c device.Caller, s device.Stream) error {
	list, err := c.Bytes(j.Entries, j.N*spanEntryBytes)
	if err != nil {
		return err
	}
	entries, err := view[SpanEntry](list)
	if err != nil {
		return err
	}
	return c.Call(s, func() error {
		end := int64(0)
		for i, e := range entries {
			if err := j.copyEntry(c, e, end); err != nil {
				return fmt.Errorf("kernels: copy spans: entry %d of %d: %w", i, j.N, err)
			}
			end = e.End
		}
		if end != j.Units {
			return fmt.Errorf("kernels: copy spans: %w: the last of %d entries ends at unit %d of %d", device.ErrArgument, j.N, end, j.Units)
		}
		return nil
	})
}

// copyEntry does one copy, of the units from begin on.
func (j spansJob) copyEntry(c device.Caller, e SpanEntry, begin int64) error {
	switch {
	case e.End < begin || e.End > j.Units:
		return fmt.Errorf("%w: it ends at unit %d, and begins at %d of %d", device.ErrArgument, e.End, begin, j.Units)
	case e.End == begin:
		return nil
	case uint64(e.Dst|e.Src)%uint64(j.Unit) != 0:
		return fmt.Errorf("%w: Dst %#x or Src %#x is not a multiple of %d, the unit",
			device.ErrArgument, uint64(e.Dst), uint64(e.Src), j.Unit)
	}
	size := (e.End - begin) * j.Unit
	dst, err := c.Bytes(e.Dst, size)
	if err != nil {
		return fmt.Errorf("destination: %w", err)
	}
	src, err := c.Bytes(e.Src, size)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	copy(dst, src)
	return nil
}
