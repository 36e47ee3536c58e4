package space

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
)

// chunked backs a heap with physical chunks of several sizes that are mapped into
// reserved address space. A chunk that holds only idle blocks can be unmapped
// there and mapped where it is needed.
type chunked struct {
	heap   *heap
	mapper device.Mapper
	unit   int64 // sizes and places of chunks are multiples
	fixed  int64 // size of every chunk; 0: chosen by what is asked for
	most   int64 // size of the largest chunk

	unmapped  []*chunk // mapped nowhere
	scattered []*chunk // that lie in idle blocks altogether, at several places; some may not any more

	stale      []*mapping // the oldest first; some may not be any more
	staleBytes int64      // of those that are

	wanted int64 // size of the largest block that grew lately
	owed   int   // so many times prepare may do something
	credit int   // chunks that prepare may move
}

// chunk is physical memory. It is mapped nowhere, at one place or, if blocks were
// stitched of its parts, at several, each of which has the use of other bytes.
type chunk struct {
	handle device.Chunk
	bytes  int64
	places []*mapping
	idle   int64 // bytes in idle blocks that have a part of it
}

// mapping is a place of a chunk.
type mapping struct {
	*chunk
	at    int64  // in its region
	lent  *Block // one of those in it; nil: none
	stale bool   // all of it is lent, since the chunk was mapped elsewhere
}

func (m *mapping) end() int64 { return m.at + m.bytes }

// note notes that x is mapped at a place.
func (c *chunked) note(r *region, x *chunk, at int64) {
	m := &mapping{chunk: x, at: at}
	x.places = append(x.places, m)
	for ; at < m.end(); at += c.unit {
		r.pages[at>>r.shift] = m
	}
}

// forget notes that m is not mapped any more.
func (c *chunked) forget(r *region, m *mapping) {
	m.places = slices.DeleteFunc(m.places, func(x *mapping) bool { return x == m })
	c.refresh(m)
	clear(r.pages[m.at>>r.shift : m.end()>>r.shift])
}

func (c *chunked) span(b *Block) (start, end int64) {
	r := b.region
	from, to := b.at()
	start, end = (from+c.unit-1)&^(c.unit-1), to&^(c.unit-1)
	if start >= end {
		return start, start
	}
	if x := r.page(start); x.at < start {
		start = x.at + x.bytes
	}
	if x := r.page(end - 1); x.at+x.bytes > end {
		end = x.at
	}
	return start, max(start, end)
}

func (c *chunked) count(b *Block, change int64) {
	from, to := b.at()
	start, end := b.start, b.end
	if start == end {
		start = min(to, b.region.page(from).end())
		end = start
	}
	if from < start {
		c.part(b.region.page(from).chunk, change*(start-from))
	}
	if to > end {
		c.part(b.region.page(end).chunk, change*(to-end))
	}
}

// part notes that an idle block has, or has no more, some bytes of x.
func (c *chunked) part(x *chunk, bytes int64) {
	if x.idle += bytes; x.idle == x.bytes && len(x.places) > 1 {
		c.scattered = append(c.scattered, x)
	}
}

func total(chunks []*chunk) (n int64) {
	for _, x := range chunks {
		n += x.bytes
	}
	return n
}

// reserve makes a region with a hole of n bytes at least.
func (c *chunked) reserve(n int64) (*Block, error) {
	var ptr device.Ptr
	var err error
	room := (max(2*n, 2*c.heap.space.Most) + c.unit - 1) &^ (c.unit - 1)
	for bytes := room; ; bytes = max(bytes/2&^(c.unit-1), n) {
		if ptr, err = c.mapper.Reserve(bytes); err == nil {
			r, b := c.heap.add(ptr, bytes, hole)
			r.shift = uint8(bits.TrailingZeros64(uint64(c.unit)))
			c.heap.put(b)
			return b, nil
		}
		if bytes == n {
			return nil, fmt.Errorf("reserve %s of address space: %w", units.Bytes(n), err)
		}
	}
}

// create makes chunks of the sizes, all or none.
func (c *chunked) create(sizes []int64) ([]*chunk, error) {
	s := c.heap.space
	var made []*chunk
	for _, n := range sizes {
		handle, err := c.mapper.CreateChunk(n)
		if err != nil {
			c.store(made)
			return nil, errors.Join(err, c.release(len(made)))
		}
		s.Ledger.Calls.Create++
		s.Ledger.Take(n)
		made = append(made, &chunk{handle: handle, bytes: n})
	}
	return made, nil
}

// store keeps chunks that are in no block: those that are stale at a place are idle
// there again, and others are mapped nowhere.
func (c *chunked) store(chunks []*chunk) {
	for _, x := range chunks {
		if len(x.places) > 0 {
			c.own(x.places[0])
			continue
		}
		c.unmapped = append(c.unmapped, x)
		c.heap.unmapped += x.bytes
	}
}

// release returns the last n of the unmapped chunks to the device.
func (c *chunked) release(n int) error {
	s := c.heap.space
	for ; n > 0; n-- {
		last := len(c.unmapped) - 1
		x := c.unmapped[last]
		if err := c.mapper.ReleaseChunk(x.handle); err != nil {
			return err
		}
		c.unmapped = c.unmapped[:last]
		c.heap.unmapped -= x.bytes
		s.Ledger.Calls.Release++
		s.Ledger.Return(x.bytes)
	}
	return nil
}

// take returns the chunks that were picked from the list, mapped nowhere, or, with
// later, stale where they are in this heap. After an error it returns those that it
// has taken by then.
func (c *chunked) take(list []spare, picked []int, later bool) (chunks []*chunk, err error) {
	var mapped []spare
	for _, i := range picked {
		if list[i].b != nil {
			mapped = append(mapped, list[i])
			continue
		}
		x, from := list[i].chunk, list[i].from
		chunks = append(chunks, x)
		at := slices.Index(from.unmapped, x)
		from.unmapped = slices.Delete(from.unmapped, at, at+1)
		from.heap.unmapped -= x.bytes
	}
	// Those of one block from its end, neighbours together: what is left of the
	// block then begins where it did.
	slices.SortStableFunc(mapped, func(a, b spare) int {
		if a.b != b.b {
			return cmp.Or(cmp.Compare(a.from.heap.index, b.from.heap.index), cmp.Compare(a.b.key(), b.b.key()))
		}
		return cmp.Compare(b.at, a.at)
	})
	for i := 0; i < len(mapped); {
		from, b, end := mapped[i].from, mapped[i].b, mapped[i].at+mapped[i].bytes
		start := end
		for i < len(mapped) && mapped[i].b == b && mapped[i].at+mapped[i].bytes == start {
			start = mapped[i].at
			i++
		}
		if later && from == c {
			chunks = append(chunks, c.leave(b, start, end)...)
			continue
		}
		_, some, err := from.unmap(b, start, end)
		chunks = append(chunks, some...)
		if err != nil {
			return chunks, err
		}
	}
	return chunks, nil
}

// unmap unmaps the chunks of an idle block that lie from start to end of its
// region, and returns the hole that they leave, which may be larger. The block
// keeps what is before them, if there is any.
func (c *chunked) unmap(b *Block, start, end int64) (gap *Block, chunks []*chunk, err error) {
	h := c.heap
	r := b.region
	for at := start; at < end; {
		m := r.page(at)
		for len(m.places) > 1 { // all is lent there, and could not be unmapped
			other := m.places[0]
			if other == m {
				other = m.places[1]
			}
			if err := c.vacate(other); err != nil {
				return nil, nil, err
			}
		}
		at = m.end()
	}
	if err := c.mapper.Unmap(r.ptr.Add(start), end-start); err != nil {
		return nil, nil, fmt.Errorf("unmap %d bytes: %w", end-start, err)
	}
	h.space.unmapped(r.ptr.Add(start), end-start)
	h.unset(b)
	for at := start; at < end; {
		m := r.page(at)
		c.forget(r, m)
		chunks = append(chunks, m.chunk)
		at = m.end()
	}
	h.space.Ledger.Calls.Unmap += int64(len(chunks))
	gap = b
	if front := start - int64(b.ptr-r.ptr); front > 0 {
		gap = h.cut(b, front)
	}
	var rest *Block
	if gap.bytes > end-start {
		rest = h.cut(gap, end-start)
	}
	if gap != b {
		h.put(b)
	}
	if rest != nil {
		h.put(rest)
	}
	gap.kind = hole
	return h.merge(gap), chunks, nil
}

// put maps chunks at the start of a gap, or at its end. After an error none is
// mapped.
func (c *chunked) put(gap *Block, chunks []*chunk, last bool) error {
	s, r := c.heap.space, gap.region
	start := int64(gap.ptr - r.ptr)
	if last {
		start += gap.bytes - total(chunks)
		slices.Reverse(chunks) // the one that is used in part comes first
	}
	at := start
	handles := make([]device.Chunk, 0, len(chunks))
	for i := 0; i < len(chunks); {
		// Those of one size by one call.
		size := chunks[i].bytes
		first := i
		for handles = handles[:0]; i < len(chunks) && chunks[i].bytes == size; i++ {
			handles = append(handles, chunks[i].handle)
		}
		if err := c.mapper.Map(r.ptr.Add(at), handles, size); err != nil {
			err = fmt.Errorf("map %d chunks of %d bytes: %w", len(handles), size, err)
			if at > start {
				err = errors.Join(err, c.mapper.Unmap(r.ptr.Add(start), at-start))
			}
			return err
		}
		at += int64(i-first) * size
	}
	s.Ledger.Calls.Map += int64(len(chunks))
	if last := int(at >> r.shift); last > len(r.pages) {
		r.pages = append(r.pages, make([]*mapping, last-len(r.pages))...)
	}
	at = start
	for _, x := range chunks {
		c.note(r, x, at)
		at += x.bytes
	}
	return nil
}

// trim returns all idle chunks to the device.
func (c *chunked) trim() (freed int64, err error) {
	if err := c.gather(); err != nil {
		return 0, err
	}
	for b := c.movableBlock(); b != nil; b = c.movableBlock() {
		_, chunks, err := c.unmap(b, b.start, b.end)
		if err != nil {
			return 0, err
		}
		c.store(chunks)
	}
	before := c.heap.unmapped
	err = c.release(len(c.unmapped))
	return before - c.heap.unmapped, err
}

// movableBlock returns an idle block with a whole chunk in it, or nil.
func (c *chunked) movableBlock() *Block {
	if c.heap.idleMovable == 0 {
		return nil
	}
	for b := range c.heap.idle.Large() {
		if b.movable() > 0 {
			return b
		}
	}
	return nil
}

// close returns everything to the device, even memory in use.
func (c *chunked) close() error {
	var errs []error
	for _, r := range c.heap.regions {
		for i := 0; i < len(r.pages); {
			x := r.pages[i]
			if x == nil {
				i++
				continue
			}
			errs = append(errs, c.mapper.Unmap(r.ptr.Add(x.at), x.bytes))
			i += int(x.bytes >> r.shift)
			if c.forget(r, x); len(x.places) == 0 {
				c.unmapped = append(c.unmapped, x.chunk)
			}
		}
		errs = append(errs, c.mapper.Unreserve(r.ptr, r.bytes))
	}
	for _, x := range c.unmapped {
		errs = append(errs, c.mapper.ReleaseChunk(x.handle))
	}
	return errors.Join(errs...)
}
