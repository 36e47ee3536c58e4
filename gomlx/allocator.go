package gomlx

import (
	"context"
	"errors"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
)

// allocator gives steps memory of a pool. They have finished what they do with it when
// they free it.
type allocator struct {
	pool *vram.Pool

	mu     sync.Mutex
	blocks map[device.Ptr]vram.Block
}

// Alloc implements [step.Allocator].
func (a *allocator) Alloc(n int64) (device.Ptr, error) {
	block, err := a.pool.Alloc(context.Background(), n, vram.Use{Name: "GoMLX"})
	if err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blocks[block.Ptr()] = block
	return block.Ptr(), nil
}

// Free implements [step.Allocator]. Once the pool is closed there is nothing to free.
func (a *allocator) Free(p device.Ptr) error {
	a.mu.Lock()
	block := a.blocks[p]
	delete(a.blocks, p)
	a.mu.Unlock()
	if err := block.Free(); !errors.Is(err, vram.ErrClosed) {
		return err
	}
	return nil
}
