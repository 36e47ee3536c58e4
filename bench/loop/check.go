package main

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// distinct has all ways allocate blocks of these sizes at once, each way in its
// own goroutine, writes a different value into each block, and compares every
// byte.
func distinct(ways []*way, sizes []int64) error {
	taken := make([][]lease, len(ways))
	errs := make([]error, len(ways))
	var all sync.WaitGroup
	for i, w := range ways {
		all.Go(func() {
			for slot, n := range sizes {
				l, err := w.alloc(slot, n)
				if err != nil {
					errs[i] = err
					return
				}
				taken[i] = append(taken[i], l)
			}
		})
	}
	all.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = apart(ways, taken, sizes)
	}
	for i, w := range ways {
		for _, l := range taken[i] {
			err = errors.Join(err, w.free(l))
		}
		err = errors.Join(err, w.stream.Synchronize())
	}
	return err
}

// apart writes into all leases, and then compares.
func apart(ways []*way, taken [][]lease, sizes []int64) error {
	value := func(way, slot int) byte { return mark(way*len(sizes) + slot) }
	for i, w := range ways {
		for slot, l := range taken[i] {
			if err := w.stream.Memset(l.ptr, value(i, slot), sizes[slot]); err != nil {
				return err
			}
		}
	}
	for _, w := range ways {
		if err := w.stream.Synchronize(); err != nil {
			return err
		}
	}
	for i, w := range ways {
		for slot, l := range taken[i] {
			if err := full(w.stream, l.ptr, sizes[slot], value(i, slot)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mark is the value that the k-th block is filled with. Neighbours differ, and
// so do blocks that are a power of two apart.
func mark(k int) byte { return byte(1 + k%251) }

// full reads n bytes at p back and compares each with value.
func full(s device.Stream, p device.Ptr, n int64, value byte) error {
	buffer := make([]byte, min(n, 64<<20))
	for offset := int64(0); offset < n; offset += int64(len(buffer)) {
		part := buffer[:min(n-offset, int64(len(buffer)))]
		if err := errors.Join(s.CopyD2H(part, p.Add(offset)), s.Synchronize()); err != nil {
			return err
		}
		if err := filled(part, value); err != nil {
			return fmt.Errorf("block of %d bytes, from offset %d on: %w", n, offset, err)
		}
	}
	return nil
}

// filled checks that all of b is value.
func filled(b []byte, value byte) error {
	if bytes.Count(b, []byte{value}) == len(b) {
		return nil
	}
	i := 0
	for b[i] == value {
		i++
	}
	return fmt.Errorf("byte %d of %d is %#x and not %#x", i, len(b), b[i], value)
}
