package vram

import (
	"fmt"
	"math/bits"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Source is where a pool's memory comes from.
type Source uint8

const (
	// SourceAuto is SourceChunks where the device has virtual memory, and
	// SourceSegments elsewhere.
	SourceAuto Source = iota
	// SourceChunks maps physical chunks into reserved address space: memory
	// that is free in one place can be mapped in another.
	SourceChunks
	// SourceSegments divides ordinary allocations of the device. A segment is
	// returned when nothing in it is live.
	SourceSegments
	// SourceDriver passes every call to the driver's own stream-ordered pool
	// ([device.StreamAllocator]), for comparison. Statistics and reports are the
	// same; Reserved counts what is live.
	SourceDriver
)

// StackMode says which allocations record the call stack that made them.
type StackMode uint8

const (
	StacksNone    StackMode = iota
	StacksSampled           // one in 64 of the small ones, and all of a MiB and more
	StacksAll
)

// Options tune a pool. The zero value suits most programs.
type Options struct {
	// Budget is the most bytes that the pool may have from the device.
	// Default: 0, as much as the device has.
	Budget int64

	// Soft is how many reserved bytes the pool tries to stay below: before it
	// grows beyond, it waits for pending memory and calls reclaimers. Range: 0
	// to Budget. Default: 0, none.
	Soft int64

	// Limits are the most bytes that live blocks of a purpose may take.
	// Default: none.
	Limits map[Purpose]int64

	// SoftLimits are how many bytes live blocks of a purpose may take before
	// reclaimers are called, which may free some; the allocation succeeds
	// either way. Range: below the purpose's limit. Default: none.
	SoftLimits map[Purpose]int64

	// Source is where memory comes from. Default: SourceAuto.
	Source Source

	// ChunkBytes is the size of every physical chunk of blocks above 1 MiB, a
	// power of two and a multiple of the device's granularity. Default: 0,
	// several sizes: large chunks for large blocks, and smaller ones when more
	// than half of the budget, or of the device's memory, is in use.
	ChunkBytes int64

	// Slack is how much the pool reserves beyond what is live before it moves
	// memory rather than taking more, as a share of what is live. Moving takes
	// time, and memory that is taken is missing elsewhere. When memory is
	// short there is no slack. Default: 0, a tenth. Less than 0: none.
	Slack float64

	// Caches is how many caches of freed blocks there are. With one, the same
	// calls of one goroutine always have the same result; with fewer than
	// processors, goroutines wait for each other. Default: 0, two for each
	// processor.
	Caches int

	// History is how many events the pool remembers. Default: 0, none.
	History int

	// Stacks says which allocations remember their call stack, for leak
	// reports, top holders and the history. Default: StacksNone. While
	// something looks for leaks (package monitor/leaks), all do.
	Stacks StackMode
}

// defaultSlack is Options.Slack by default.
const defaultSlack = 0.1

func (o *Options) check() error {
	if o.Budget < 0 || o.Soft < 0 || o.ChunkBytes < 0 || o.Caches < 0 || o.History < 0 || o.Source > SourceDriver || o.Stacks > StacksAll {
		return fmt.Errorf("vram: %w: budget %d, soft limit %d, chunks of %d bytes, %d caches, history of %d events, source %d, stacks %d",
			device.ErrArgument, o.Budget, o.Soft, o.ChunkBytes, o.Caches, o.History, o.Source, o.Stacks)
	}
	if o.Budget > 0 && o.Soft > o.Budget {
		return fmt.Errorf("vram: %w: the soft limit of %s is above the budget of %s", device.ErrArgument, units.Bytes(o.Soft), units.Bytes(o.Budget))
	}
	for p, n := range o.Limits {
		if p >= purposes || n <= 0 {
			return fmt.Errorf("vram: %w: limit of %s for %v", device.ErrArgument, units.Bytes(n), p)
		}
	}
	for p, n := range o.SoftLimits {
		if most := o.Limits[p]; p >= purposes || n <= 0 || most > 0 && n > most {
			return fmt.Errorf("vram: %w: soft limit of %s for %v, limit %s", device.ErrArgument, units.Bytes(n), p, units.Bytes(most))
		}
	}
	return nil
}

// slack is Options.Slack with its default.
func (o *Options) slack() float64 {
	switch {
	case o.Slack < 0:
		return 0
	case o.Slack == 0:
		return defaultSlack
	}
	return o.Slack
}

// mostChunkBytes is the size of the largest chunk on a device with that
// granularity and memory for the pool.
func (o *Options) mostChunkBytes(granularity, capacity int64) (int64, error) {
	if n := o.ChunkBytes; n > 0 {
		if n&(n-1) != 0 || n%granularity != 0 {
			return 0, fmt.Errorf("vram: %w: chunks of %s: want a power of two and a multiple of %s", device.ErrArgument, units.Bytes(n), units.Bytes(granularity))
		}
		return n, nil
	}
	n := int64(1) << (bits.Len64(uint64(max(capacity/128, 1))) - 1)
	return max(n, granularity), nil
}
