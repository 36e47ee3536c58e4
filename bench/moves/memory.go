package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// memory is what a group of rows takes of the machine. Its stream is for copies
// that are no part of what is measured.
type memory struct{ *harness.Memory }

// pinned takes n bytes of pinned memory.
func (m *memory) pinned(n int64) ([]byte, error) {
	pool, err := pinned.NewPool(m.Dev, pinned.Options{
		Budget: pagemem.RoundUp(n), SegmentBytes: pagemem.RoundUp(n), Flags: device.PinMapped,
	})
	if err != nil {
		return nil, err
	}
	m.Later(pool.Close)
	buffer, err := pool.Alloc(context.Background(), n)
	if err != nil {
		return nil, err
	}
	m.Later(func() error { return buffer.Free() })
	return buffer.Bytes(), nil
}

// pageable takes n bytes of ordinary Go memory, which is what callers have.
func (m *memory) pageable(n int64) ([]byte, error) { return make([]byte, n), nil }

func (m *memory) engine(o transfer.Options) (*transfer.Engine, error) {
	e, err := transfer.New(m.Dev, o)
	if err == nil {
		m.Later(e.Close)
	}
	return e, err
}

// upload copies b to the device by the backend's own copy.
func (m *memory) upload(p device.Ptr, b []byte) error {
	return errors.Join(m.Stream.CopyH2D(p, b), m.Stream.Synchronize())
}

// download copies device memory into b by the backend's own copy.
func (m *memory) download(b []byte, p device.Ptr) error {
	return errors.Join(m.Stream.CopyD2H(b, p), m.Stream.Synchronize())
}

// wipe sets device memory to a value that no data are full of.
func (m *memory) wipe(p device.Ptr, n int64) error {
	return errors.Join(m.Stream.Memset(p, blank, n), m.Stream.Synchronize())
}

const blank = 0x5a

// blankOut is wipe for host memory.
func blankOut(b []byte) {
	inParts(b, func(_ int, part []byte) {
		for i := range part {
			part[i] = blank
		}
	})
}

// fill makes b random, the same for the same seed.
func fill(b []byte, seed byte) {
	inParts(b, func(i int, part []byte) {
		key := [32]byte{seed, byte(i), byte(i >> 8)}
		rand.NewChaCha8(key).Read(part)
	})
}

const partBytes = 64 << 20

// inParts has a goroutine work on each part of b.
func inParts(b []byte, work func(i int, part []byte)) {
	var all sync.WaitGroup
	for i, part := range slices.Collect(slices.Chunk(b, partBytes)) {
		all.Go(func() { work(i, part) })
	}
	all.Wait()
}

// same compares what arrived with what was sent.
func same(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	i := 0
	for got[i] == want[i] {
		i++
	}
	return fmt.Errorf("byte %d of %d arrived as %#x and not as %#x", i, len(want), got[i], want[i])
}
