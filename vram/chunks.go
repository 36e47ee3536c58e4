package vram

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
)

// errBudget says that the pool may not grow.
var errBudget = errors.New("budget exceeded")

// chunked backs a heap with physical chunks that are mapped into reserved
// address space. A chunk that holds only idle blocks is unmapped there and mapped
// where it is needed: free memory is usable, except for less than a chunk at
// either end of a block.
type chunked struct {
	heap   *heap
	mapper device.Mapper
	size   int64 // of a chunk
	room   int64 // of a region, at least

	unmapped   []device.Chunk // mapped nowhere
	idleChunks int64          // chunks that hold only idle blocks
}

// span returns the whole chunks inside b: where they begin, and their bytes.
func (c *chunked) span(b *block) (start, bytes int64) {
	offset := int64(b.ptr - b.region.ptr)
	start = (offset + c.size - 1) &^ (c.size - 1)
	end := (offset + b.bytes) &^ (c.size - 1)
	return start, max(end-start, 0)
}

func (c *chunked) idle(b *block, change int64) {
	_, bytes := c.span(b)
	c.idleChunks += change * (bytes / c.size)
}

func (c *chunked) movable(b *block) int64 {
	_, bytes := c.span(b)
	return bytes
}

func (c *chunked) unmappedBytes() int64 { return int64(len(c.unmapped)) * c.size }

// grow maps chunks into the smallest hole with room for n bytes, right behind the
// free block before it if o may use that one.
func (c *chunked) grow(n int64, o *owner, most int64) (*block, error) {
	h := c.heap
	if n > most {
		return nil, errBudget
	}
	gap := h.holes.best(n)
	if gap == nil {
		var err error
		if gap, err = c.reserve(n); err != nil {
			return nil, err
		}
	}
	front := gap.prev
	if front != nil && (front.kind != free || front.owner != nil && front.owner != o) {
		front = nil
	}
	need := n
	if front != nil {
		need -= front.bytes
		h.unset(front) // so that its chunks stay where they are
	}
	need = (need + c.size - 1) / c.size
	if err := c.gather(need, most); err != nil {
		if front != nil {
			h.put(front)
		}
		return nil, err
	}
	// Gathering may have made the hole larger, or another block of it.
	if front != nil {
		gap = front.next
	} else {
		gap = h.holes.best(n)
	}
	h.unset(gap)
	if err := c.put(gap, need); err != nil {
		h.put(gap)
		if front != nil {
			h.put(front)
		}
		return nil, err
	}
	if rest := gap.bytes - need*c.size; rest > 0 {
		h.put(h.cut(gap, need*c.size))
	}
	gap.kind = free
	if front == nil {
		return h.occupy(gap, n, o), nil
	}
	// The two become one block; the bytes behind the first n are new.
	var rest *block
	if extra := front.bytes + gap.bytes - n; extra > 0 {
		rest = h.cut(gap, gap.bytes-extra)
	}
	front.bytes += gap.bytes
	h.unlink(gap)
	front.kind, front.owner = taken, o
	if rest != nil {
		h.merge(rest)
	}
	return front, nil
}

// reserve makes a region with a hole of n bytes at least.
func (c *chunked) reserve(n int64) (*block, error) {
	n = (n + c.size - 1) &^ (c.size - 1)
	var ptr device.Ptr
	var err error
	for bytes := max(c.room, n); ; bytes = max(bytes/2&^(c.size-1), n) {
		if ptr, err = c.mapper.Reserve(bytes); err == nil {
			r, b := c.heap.add(ptr, bytes, hole)
			r.pages = make([]device.Chunk, bytes/c.size)
			c.heap.put(b)
			return b, nil
		}
		if bytes == n {
			return nil, fmt.Errorf("reserve %s of address space: %w", units.Bytes(n), err)
		}
	}
}

// gather sees to it that n chunks are unmapped: idle ones from elsewhere and, if
// there are too few, new ones. It makes none unless it can have all of them.
func (c *chunked) gather(n, most int64) error {
	p := c.heap.pool
	made := n - int64(len(c.unmapped)) - c.idleChunks
	if made > 0 && p.reserved.current.Load() > most-made*c.size {
		return errBudget
	}
	for i := range made {
		chunk, err := c.mapper.CreateChunk(c.size)
		if err != nil {
			return errors.Join(err, c.release(i))
		}
		p.calls.Create++
		p.reserved.add(c.size)
		c.unmapped = append(c.unmapped, chunk)
	}
	for int64(len(c.unmapped)) < n {
		if err := c.take(n - int64(len(c.unmapped))); err != nil {
			return err
		}
	}
	return nil
}

// release returns the last n of the unmapped chunks to the device.
func (c *chunked) release(n int64) error {
	p := c.heap.pool
	for ; n > 0; n-- {
		last := len(c.unmapped) - 1
		if err := c.mapper.ReleaseChunk(c.unmapped[last]); err != nil {
			return err
		}
		c.unmapped = c.unmapped[:last]
		p.calls.Release++
		p.reserved.add(-c.size)
	}
	return nil
}

// take unmaps up to n chunks of the largest idle block that has any, from its
// end.
func (c *chunked) take(n int64) error {
	h := c.heap
	var b *block
	var start, bytes int64
	for b = range h.idle.large.Descending() {
		if start, bytes = c.span(b); bytes > 0 {
			break
		} // else it is less than two chunks, across their border
	}
	if bytes > n*c.size {
		start += bytes - n*c.size
		bytes = n * c.size
	}
	if err := c.mapper.Unmap(b.region.ptr.Add(start), bytes); err != nil {
		return fmt.Errorf("unmap %d bytes: %w", bytes, err)
	}
	h.pool.calls.Unmap += bytes / c.size
	h.pool.log(Event{Kind: EventUnmap, Address: b.region.ptr.Add(start), Bytes: bytes})
	pages := b.region.pages[start/c.size:][:bytes/c.size]
	c.unmapped = append(c.unmapped, pages...)
	clear(pages)
	// Before, gap, behind: all in no set for now.
	h.unset(b)
	gap := b
	if front := start - int64(b.ptr-b.region.ptr); front > 0 {
		gap = h.cut(b, front)
		h.put(b)
	}
	if gap.bytes > bytes {
		h.put(h.cut(gap, bytes))
	}
	gap.kind = hole
	h.merge(gap)
	return nil
}

// put maps n unmapped chunks at the start of gap.
func (c *chunked) put(gap *block, n int64) error {
	p := c.heap.pool
	chunks := c.unmapped[int64(len(c.unmapped))-n:]
	if err := c.mapper.Map(gap.ptr, chunks, c.size); err != nil {
		return fmt.Errorf("map %d chunks of %d bytes: %w", n, c.size, err)
	}
	p.calls.Map += n
	p.log(Event{Kind: EventMap, Address: gap.ptr, Bytes: n * c.size})
	copy(gap.region.pages[int64(gap.ptr-gap.region.ptr)/c.size:], chunks)
	c.unmapped = c.unmapped[:int64(len(c.unmapped))-n]
	return nil
}

// trim returns all idle chunks to the device.
func (c *chunked) trim() (freed int64, err error) {
	for c.idleChunks > 0 {
		if err := c.take(c.idleChunks); err != nil {
			return 0, err
		}
	}
	before := c.unmappedBytes()
	err = c.release(int64(len(c.unmapped)))
	return before - c.unmappedBytes(), err
}

// close returns everything to the device, even memory in use.
func (c *chunked) close() error {
	var errs []error
	for _, r := range c.heap.regions {
		for i := 0; i < len(r.pages); {
			n := i
			for n < len(r.pages) && r.pages[n] != 0 {
				n++
			}
			if n > i {
				errs = append(errs, c.mapper.Unmap(r.ptr.Add(int64(i)*c.size), int64(n-i)*c.size))
				for _, chunk := range r.pages[i:n] {
					errs = append(errs, c.mapper.ReleaseChunk(chunk))
				}
			}
			i = n + 1
		}
		errs = append(errs, c.mapper.Unreserve(r.ptr, r.bytes))
	}
	for _, chunk := range c.unmapped {
		errs = append(errs, c.mapper.ReleaseChunk(chunk))
	}
	return errors.Join(errs...)
}
