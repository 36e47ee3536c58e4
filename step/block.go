package step

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
)

// Block is device memory in which executables have what lies between their parameters and
// results, in turn ([Options].Block): of several shapes of one step, or of a step in
// several parts, each has room, and the device holds the largest alone. Their runs follow
// one another, but for those of [Executable.Start], for which the caller sees to that. A Block
// is freed with the last executable that was compiled for it.
type Block struct {
	memory *Memory
	users  atomic.Int64
	turn   chan struct{} // full while somebody uses what follows, or the memory
	at     device.Ptr
	bytes  int64
}

// NewBlock makes a block that takes its memory from m, when an executable needs some.
func NewBlock(m *Memory) *Block { return &Block{memory: m, turn: make(chan struct{}, 1)} }

// Bytes is how large the block is now. It waits for a run that uses it.
func (b *Block) Bytes() int64 {
	b.turn <- struct{}{}
	defer b.leave()
	return b.bytes
}

// enter waits for the block to be the caller's, until leave.
func (b *Block) enter(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case b.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotBegun, ctx.Err())
	}
}

func (b *Block) leave() { <-b.turn }

// join makes room for one executable more.
func (b *Block) join(n int64) (device.Ptr, error) {
	b.turn <- struct{}{}
	defer b.leave()
	at, err := b.fit(n)
	if err == nil {
		b.users.Add(1)
	}
	return at, err
}

// fit returns where so many bytes are. What was there before goes first: nothing in it is
// needed between two runs.
func (b *Block) fit(n int64) (device.Ptr, error) {
	if b.bytes >= n {
		return b.at, nil
	}
	if err := b.free(); err != nil {
		return 0, err
	}
	at, err := b.memory.alloc.Alloc(n)
	if err != nil {
		return 0, err
	}
	b.at, b.bytes = at, n
	return at, nil
}

func (b *Block) free() error {
	at := b.at
	b.at, b.bytes = 0, 0
	if at == 0 {
		return nil
	}
	return b.memory.alloc.Free(at)
}

// quit is the end of an executable. It does not wait for the runs of others.
func (b *Block) quit() error {
	if b.users.Add(-1) > 0 {
		return nil
	}
	b.turn <- struct{}{}
	defer b.leave()
	if b.users.Load() > 0 { // one has come meanwhile
		return nil
	}
	return b.free()
}

// settle makes the executable work where its block is now. The block is the caller's.
func (x *Executable) settle() error {
	n := x.plan.Bytes - x.plan.Resident
	at, err := x.block.fit(n)
	if err != nil {
		return x.lacks(between(n), err)
	}
	if at == x.arena {
		return nil
	}
	x.arena = at
	// Replays have the old addresses in them.
	return keepFirst(x.schedule(), x.replays.close())
}
