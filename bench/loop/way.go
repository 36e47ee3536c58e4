package main

import (
	"context"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
)

// way is how a program gets temporary memory for the work of one stream.
type way struct {
	by     string
	stream device.Stream

	// prepare runs untimed before each run and brings the way into its steady
	// state.
	prepare func() error

	// alloc returns n bytes for the given slot of those that are live at once.
	alloc func(slot int, n int64) (lease, error)
	free  func(lease) error

	// pairs allocates and frees n bytes over and over, without the indirect calls
	// of alloc and free, so that nothing else is timed.
	pairs func(n int64, count int) error
}

// lease is memory that a way gave.
type lease struct {
	ptr   device.Ptr
	block vram.Block // of a pool
}

// The ways' names.
const (
	byBuffer = "preallocated"
	byDriver = "driver"
	byAsync  = "driver, stream-ordered"
	byKept   = "driver, stream-ordered, nothing released"
	byPinion = "Pinion"
)

// preallocated allocates slots of these sizes once, for all runs.
func (b *bench) preallocated(m *harness.Memory, slots []int64) (*way, error) {
	var leases []lease
	for _, n := range slots {
		p, err := m.Alloc(n)
		if err != nil {
			return nil, err
		}
		leases = append(leases, lease{ptr: p})
	}
	return &way{
		by:      byBuffer,
		stream:  m.Stream,
		prepare: func() error { return nil },
		alloc:   func(slot int, n int64) (lease, error) { return leases[slot], nil },
		free:    func(lease) error { return nil },
	}, nil
}

// driver allocates by [device.Device.Alloc].
func (b *bench) driver(s device.Stream) *way {
	return &way{
		by:      byDriver,
		stream:  s,
		prepare: func() error { return nil },
		alloc: func(_ int, n int64) (lease, error) {
			p, err := b.dev.Alloc(n)
			return lease{ptr: p}, err
		},
		free: func(l lease) error { return b.dev.Free(l.ptr) },
		pairs: func(n int64, count int) error {
			for range count {
				p, err := b.dev.Alloc(n)
				if err != nil {
					return err
				}
				if err := b.dev.Free(p); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// async allocates by [device.StreamAllocator]. Its pool keeps free memory for
// good, or, as by default, only until the next synchronisation. With kept memory,
// bytes of it are there before a run, if bytes is not 0.
func (b *bench) async(s device.Stream, keeps bool, bytes int64) *way {
	a, ok := device.As[device.StreamAllocator](b.dev)
	if !ok || !a.CanAllocAsync() {
		a = nil
	}
	w := &way{by: byAsync, stream: s}
	threshold := int64(0)
	if keeps {
		w.by, threshold = byKept, math.MaxInt64
	}
	w.prepare = func() error {
		if a == nil {
			return fmt.Errorf("%w: allocation in stream order", device.ErrNotSupported)
		}
		if err := a.SetReleaseThreshold(threshold); err != nil {
			return err
		}
		if keeps && bytes > 0 {
			p, err := a.AllocAsync(s, bytes)
			if err != nil {
				return err
			}
			if err := a.FreeAsync(s, p); err != nil {
				return err
			}
		}
		return s.Synchronize()
	}
	w.alloc = func(_ int, n int64) (lease, error) {
		p, err := a.AllocAsync(s, n)
		return lease{ptr: p}, err
	}
	w.free = func(l lease) error { return a.FreeAsync(s, l.ptr) }
	w.pairs = func(n int64, count int) error {
		for range count {
			p, err := a.AllocAsync(s, n)
			if err != nil {
				return err
			}
			if err := a.FreeAsync(s, p); err != nil {
				return err
			}
		}
		return nil
	}
	return w
}

// release restores the default of the driver's pool.
func (b *bench) release() error {
	if a, ok := device.As[device.StreamAllocator](b.dev); ok && a.CanAllocAsync() {
		if err := a.SetReleaseThreshold(0); err != nil {
			return err
		}
		return a.TrimPool(0)
	}
	return nil
}

// newPool makes a pool for a group of rows.
func (b *bench) newPool(m *harness.Memory) (*vram.Pool, error) {
	pool, err := vram.New(b.dev, vram.Options{})
	if err == nil {
		m.Later(pool.Close)
	}
	return pool, err
}

// pinion allocates from a pool of package vram.
func (b *bench) pinion(ctx context.Context, pool *vram.Pool, s device.Stream) *way {
	use := vram.Use{Stream: s, Purpose: vram.Activations}
	return &way{
		by:      byPinion,
		stream:  s,
		prepare: func() error { return nil },
		alloc: func(_ int, n int64) (lease, error) {
			block, err := pool.Alloc(ctx, n, use)
			return lease{block.Ptr(), block}, err
		},
		free: func(l lease) error { return l.block.Free() },
		pairs: func(n int64, count int) error {
			for range count {
				block, err := pool.Alloc(ctx, n, use)
				if err != nil {
					return err
				}
				if err := block.Free(); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
