package space

// While memory is plentiful, a chunk of a large block that moves is mapped at its new
// place first and stays mapped at the old one, which is then stale: all of it is lent,
// nobody gets these addresses, and they hold no memory. Stale mappings are unmapped
// when nobody waits (prepare.go), or once memory is short.

// ample reports whether the heap is that of large blocks, with chunks of any size, and
// less than a quarter of what the space may have is in use with n bytes more. So much
// is left then that large blocks may be quick rather than pack tightly.
func (c *chunked) ample(n int64) bool {
	s := c.heap.space
	return c.heap.index == largeHeap && c.fixed == 0 && s.Used()+n < s.Most/4
}

// leave makes stale the chunks of an idle block that lie from start to end of its
// region, and returns them.
func (c *chunked) leave(b *Block, start, end int64) (chunks []*chunk) {
	h := c.heap
	if c.staleBytes == 0 {
		c.stale = nil
	}
	h.unset(b)
	if front := start - b.offset(); front > 0 {
		low := b
		b = h.cut(low, front)
		h.put(low)
	}
	if b.bytes > end-start {
		h.put(h.cut(b, end-start))
	}
	h.space.unmapped(b.ptr, b.bytes)
	for b != nil {
		m := b.region.page(b.offset())
		var rest *Block
		if b.bytes > m.bytes {
			rest = h.cut(b, m.bytes)
		}
		c.lend(b)
		m.stale = true
		c.stale = append(c.stale, m)
		c.staleBytes += m.bytes
		chunks = append(chunks, m.chunk)
		b = rest
	}
	return chunks
}

// refresh notes that m, if it was stale, is no more.
func (c *chunked) refresh(m *mapping) {
	if m.stale {
		m.stale = false
		c.staleBytes -= m.bytes
	}
}

// oldest is the mapping that has been stale for longest; nil: none is.
func (c *chunked) oldest() *mapping {
	for c.staleBytes > 0 && !c.stale[0].stale {
		c.stale = c.stale[1:]
	}
	if c.staleBytes == 0 {
		return nil
	}
	return c.stale[0]
}

// vacate unmaps what is stale.
func (s *Space) vacate() error {
	c, ok := s.heaps[largeHeap].backing.(*chunked)
	if !ok {
		return nil
	}
	for m := c.oldest(); m != nil; m = c.oldest() {
		if err := c.vacate(m); err != nil {
			return err
		}
	}
	return nil
}
