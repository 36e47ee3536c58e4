package space

import (
	"cmp"
	"slices"

	"github.com/pinion-gpu/pinion/vram/internal/pieces"
)

// When memory is short, a block may be stitched: it begins in a piece at the end of
// one chunk and ends in a piece at the start of another, with whole chunks between.
// Other blocks have the rest of those two chunks, which for that are mapped at two
// places. The addresses there whose memory is used at the other place are lent.
// (GMLake, ASPLOS 2024, maps memory at several places too; its units are chunks.)

// piece is a part of a chunk, at its end or its start, that an idle block has.
type piece struct {
	*mapping
	size int64
	by   *Block // the neighbour of the idle block that has more of the chunk
}

// leastPiece is the size of the smallest piece that is looked at.
const leastPiece = 2 * pieces.Close

// pieces lists the pieces at the ends of chunks, and those at their starts, by size.
func (c *chunked) pieces() (ends, starts []piece) {
	for _, b := range c.heap.idle.AtLeast(leastPiece) {
		from, to := b.at()
		x, y := b.region.page(from), b.region.page(to-1)
		if from > x.at && to >= x.end() {
			ends = append(ends, piece{x, x.end() - from, b.prev})
		}
		if to < y.end() && from <= y.at {
			starts = append(starts, piece{y, to - y.at, b.next})
		}
	}
	bySize := func(a, b piece) int { return cmp.Compare(a.size, b.size) }
	slices.SortStableFunc(ends, bySize)
	slices.SortStableFunc(starts, bySize)
	return ends, starts
}

// scarce: blocks of up to 32 MiB are stitched from 7/8 of the memory on.
func (c *chunked) scarce(n int64) bool {
	s := c.heap.space
	return c.heap.index == mediumHeap && s.Used()+n >= s.Most/8*7
}

// squeeze stitches a block rather than taking it from a free block and breaking up
// a whole chunk there.
func (c *chunked) squeeze(n int64, o *Owner) (*Block, error) {
	effort := pieces.Open
	if b := c.heap.best(n, o); b != nil && b.bytes <= n+pieces.Close {
		return nil, nil
	} else if b != nil && b.movable() == 0 {
		effort = pieces.Pair
	}
	return c.stitch(n, c.heap.space.Ledger.Current(), effort)
}

// stitch makes a block of n bytes in pieces and whole chunks, or returns nil
// if there are too few, or none that are worth the effort.
func (c *chunked) stitch(n, most int64, effort pieces.Effort) (*Block, error) {
	if err := c.gather(); err != nil {
		return nil, err
	}
	list := c.spares(n, true)
	room := most - c.heap.space.Ledger.Current() // for whole chunks
	for _, x := range list {
		room += x.bytes
	}
	ends, starts := c.pieces()
	sizes := func(list []piece) (sizes []int64) {
		for _, x := range list {
			sizes = append(sizes, x.size)
		}
		return sizes
	}
	choice, ok := pieces.Choose(n, max(c.fixed, c.unit), room, sizes(ends), sizes(starts), effort)
	if !ok {
		return nil, nil
	}
	whole, err := c.whole(list, choice.Whole, most)
	if err != nil || total(whole) < choice.Whole {
		c.store(whole)
		if Short(err) {
			err = nil
		}
		return nil, err
	}
	var first, last piece
	if choice.First >= 0 {
		first = ends[choice.First]
	}
	if choice.Last >= 0 {
		last = starts[choice.Last]
	}
	return c.join(n, first, choice.Head, whole, last, choice.Tail)
}

// whole returns chunks of n bytes together, mapped nowhere, or fewer: of the
// list, of which one may be divided into small ones, and new ones.
func (c *chunked) whole(list []spare, n, most int64) (chunks []*chunk, err error) {
	var picked []int
	larger := -1
	for i, x := range list {
		if x.bytes <= n {
			picked = append(picked, i)
			n -= x.bytes
		} else {
			larger = i
		}
	}
	divide := n > 0 && n > most-c.heap.space.Ledger.Current()
	if divide && larger < 0 {
		return nil, nil
	}
	if divide {
		picked = append(picked, larger)
	}
	if chunks, err = c.take(list, picked, false); err != nil {
		return chunks, err
	}
	step := max(c.fixed, c.unit)
	parts := int(n / step) // that are needed
	sizes := slices.Repeat([]int64{step}, parts)
	if divide {
		x := list[larger].chunk
		chunks = slices.DeleteFunc(chunks, func(y *chunk) bool { return y == x })
		c.store([]*chunk{x})
		if err := c.release(1); err != nil {
			return chunks, err
		}
		sizes = slices.Repeat(sizes[:1], int(x.bytes/step))
	}
	made, err := c.create(sizes)
	if err != nil {
		return chunks, err
	}
	c.store(made[parts:])
	return append(chunks, made[:parts]...), nil
}

// join maps a block of n bytes: head bytes at the end of the first piece,
// whole chunks, and tail bytes at the start of the last.
func (c *chunked) join(n int64, first piece, head int64, whole []*chunk, last piece, tail int64) (*Block, error) {
	h := c.heap
	var chunks []*chunk
	before, after := int64(0), int64(0) // bytes of the two chunks that others have
	if head > 0 {
		chunks = append(chunks, first.chunk)
		before = first.bytes - head
	}
	chunks = append(chunks, whole...)
	if tail > 0 {
		chunks = append(chunks, last.chunk)
		after = last.bytes - tail
	}
	rest := head + total(whole) + tail - n // of the last whole chunk
	all := before + n + rest + after
	gap := h.holes.Best(all)
	var err error
	if gap == nil {
		gap, err = c.reserve(all)
	}
	if err == nil {
		h.unset(gap)
		if err = c.put(gap, chunks, false); err != nil {
			h.put(gap)
		}
	}
	if err != nil {
		c.store(whole)
		return nil, err
	}
	if gap.bytes > all {
		h.put(h.cut(gap, all))
	}
	b := gap
	if before > 0 {
		b = h.cut(gap, before)
		c.lend(gap)
	}
	if after > 0 {
		c.lend(h.cut(b, n))
	}
	if rest > 0 {
		r := h.cut(b, n)
		r.kind, r.owner, r.number = free, nil, 0
		h.merge(r)
	}
	b.kind, b.owner, b.number = taken, nil, 0
	h.space.mapped(b.ptr, n+rest)
	if head > 0 {
		c.give(first.by.next, first.end()-head, first.end())
	}
	if tail > 0 {
		c.give(last.by.prev, last.at, last.at+tail)
	}
	// After an error the mapping stays, and all of it is lent: unmap tries again.
	if head > 0 {
		c.vacate(first.mapping)
	}
	if tail > 0 && first.mapping != last.mapping {
		c.vacate(last.mapping)
	}
	return b, nil
}

// lend makes b, which is in no set, lent.
func (c *chunked) lend(b *Block) {
	b.kind = lent
	b.region.page(b.offset()).lent = b
}

// give lends the part of an idle block from start to end of its region.
func (c *chunked) give(b *Block, start, end int64) {
	h := c.heap
	h.unset(b)
	if from := b.offset(); from < start {
		front := b
		b = h.cut(front, start-from)
		h.put(front)
	}
	if b.bytes > end-start {
		h.put(h.cut(b, end-start))
	}
	c.lend(b)
	h.space.unmapped(b.ptr, b.bytes)
}

// first returns the block that the start of m is in, which has more than one place.
func (m *mapping) first() *Block {
	b := m.lent
	for b.offset() > m.at {
		b = b.prev
	}
	return b
}

// vacate unmaps m, if all of it is lent.
func (c *chunked) vacate(m *mapping) error {
	h := c.heap
	b := m.first()
	r := b.region
	for x := b; x != nil && x.offset() < m.end(); x = x.next {
		if x.kind != lent {
			return nil
		}
	}
	if err := c.mapper.Unmap(b.ptr, m.bytes); err != nil {
		return err
	}
	h.space.Ledger.Calls.Unmap++
	c.forget(r, m)
	for b.bytes < m.bytes {
		b.bytes += b.next.bytes
		h.unlink(b.next)
	}
	b.kind = hole
	h.merge(b)
	return nil
}

// gather makes whole, at one of its places each, the chunks of which all is idle.
func (c *chunked) gather() error {
	for len(c.scattered) > 0 {
		last := len(c.scattered) - 1
		x := c.scattered[last]
		c.scattered = c.scattered[:last]
		if x.idle < x.bytes || len(x.places) == 1 {
			continue
		}
		places := slices.Clone(x.places)
		for _, m := range places[1:] {
			for b := m.first(); b != nil && b.offset() < m.end(); b = b.next {
				if from, to := b.at(); b.kind == free {
					c.give(b, max(from, m.at), min(to, m.end()))
					b = m.first()
				}
			}
		}
		c.own(places[0])
		for _, m := range places[1:] {
			if err := c.vacate(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// own makes idle what is lent of m.
func (c *chunked) own(m *mapping) {
	h := c.heap
	for b := m.first(); b != nil && b.offset() < m.end(); b = b.next {
		if b.kind == lent {
			h.space.mapped(b.ptr, b.bytes)
			b.kind, b.owner, b.number = free, nil, 0
			b = h.merge(b)
		}
	}
	m.lent = nil
	c.refresh(m)
}
