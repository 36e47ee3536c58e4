package main

// #include "pinion.h"
import "C"

import (
	"context"
	"fmt"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
)

// mempool is device memory for PyTorch's memory pools.
type mempool struct {
	mu      sync.Mutex
	pool    *vram.Pool
	streams map[C.uint64_t]device.Stream // PyTorch never destroys its own
}

var (
	mempools      sync.Map // *site: *mempool
	mempoolBlocks sync.Map // address: vram.Block
)

// pnMalloc is pinion_torch_malloc: PyTorch takes 0 for "out of memory".
//
//export pnMalloc
func pnMalloc(size C.int64_t, dev C.int32_t, stream C.uint64_t) (address C.uint64_t) {
	var result C.int
	defer guard(&result)
	var block vram.Block
	var err error
	elsewhere(func() {
		var s *site
		if s, err = siteOf(fmt.Sprintf("cuda:%d", dev)); err != nil {
			return
		}
		v, _ := mempools.LoadOrStore(s, &mempool{})
		block, err = v.(*mempool).alloc(s, int64(size), stream)
	})
	if err != nil {
		fail(err)
		return 0
	}
	mempoolBlocks.Store(uint64(block.Ptr()), block)
	return C.uint64_t(block.Ptr())
}

func (m *mempool) alloc(s *site, size int64, stream C.uint64_t) (vram.Block, error) {
	on, err := m.stream(s, stream)
	if err != nil {
		return vram.Block{}, err
	}
	return m.pool.Alloc(context.Background(), size, vram.Use{Stream: on, Name: "torch"})
}

// stream returns the stream of a handle, and makes the pool first.
func (m *mempool) stream(s *site, handle C.uint64_t) (device.Stream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pool == nil {
		pool, err := vram.New(s.dev, vram.Options{})
		if err != nil {
			return nil, err
		}
		m.pool, m.streams = pool, map[C.uint64_t]device.Stream{}
	}
	if on := m.streams[handle]; on != nil {
		return on, nil
	}
	on, err := s.native.StreamOf(uintptr(handle))
	if err == nil {
		m.streams[handle] = on
	}
	return on, err
}

// pnFree is pinion_torch_free.
//
//export pnFree
func pnFree(address C.uint64_t) {
	var result C.int
	defer guard(&result)
	if block, ok := mempoolBlocks.LoadAndDelete(uint64(address)); ok {
		elsewhere(func() { _ = block.(vram.Block).Free() })
	}
}
