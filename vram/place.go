package vram

import (
	"cmp"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/vram/internal/pieces"
)

// fromEnd reports whether n bytes would leave less of the chunk that their border
// is in, which cannot be moved then, at the end of b than at its start.
func (c *chunked) fromEnd(b *block, n int64) bool {
	start, end := c.span(b)
	from := int64(b.ptr - b.region.ptr)
	left, right := int64(0), int64(0)
	if at := from + n; at > start && at < end {
		x := b.region.pages[at/c.unit]
		if at > x.at {
			left = x.at + x.bytes - at
		}
	}
	if at := from + b.bytes - n; at > start && at < end {
		x := b.region.pages[at/c.unit]
		right = at - x.at
	}
	return right < left
}

// divide prepares b, which is idle, for n bytes to be taken from its start or its
// end when memory is short: a large chunk of which they would use a part is
// replaced by two, so that the other part can be moved. It returns nil if b is no
// longer what it was.
func (c *chunked) divide(b *block, n int64, last bool) *block {
	first, x := c.cutting(b, n, last)
	if x == nil {
		return b
	}
	if p := c.heap.pool; b.owner != nil {
		if p.poll(p.pollTime(0)) {
			return nil
		}
		return b
	}
	at, bytes := x.at, x.bytes
	gap, old, err := c.unmap(b, at, at+bytes)
	if err != nil {
		return b
	}
	c.store(old)
	if c.release(1) != nil {
		return nil
	}
	two, err := c.create([]int64{first, bytes - first})
	if err != nil {
		return nil
	}
	h, r := c.heap, gap.region
	h.unset(gap)
	if front := at - int64(gap.ptr-r.ptr); front > 0 {
		low := gap
		gap = h.cut(low, front)
		h.put(low)
	}
	if gap.bytes > bytes {
		h.put(h.cut(gap, bytes))
	}
	if err := c.put(gap, two, false); err != nil {
		c.store(two)
		h.merge(gap)
		return nil
	}
	h.pool.log(Event{Kind: EventMap, Address: r.ptr.Add(at), Bytes: bytes})
	gap.kind, gap.owner, gap.seq = free, nil, 0
	return h.merge(gap)
}

// cutting returns the chunk that has to be divided before n bytes are taken from
// the start or the end of b, and the bytes of its first part; nil: none.
func (c *chunked) cutting(b *block, n int64, last bool) (first int64, x *mapping) {
	if c.fixed > 0 || b.bytes == n || !c.heap.pool.tight(n) {
		return 0, nil
	}
	at := int64(b.ptr-b.region.ptr) + n
	if last {
		at += b.bytes - 2*n
	}
	start, end := c.span(b)
	if at <= start || at >= end {
		return 0, nil
	}
	x = b.region.pages[at/c.unit]
	fine := max(c.fine()*2/3&^(c.unit-1), c.unit)
	if first = at - x.at; !last {
		first += fine - 1
	}
	if first -= first % fine; first <= 0 || first >= x.bytes {
		return 0, nil
	}
	return first, x
}

// fine is the size of the largest new chunk when memory is short: 1/1024 of it.
func (c *chunked) fine() int64 {
	return max(c.heap.pool.hard/1024&^(c.unit-1), c.unit)
}

// roomy reports whether a small request may get a larger chunk, for those to come.
// What is free in the middle of one cannot be stitched, so that blocks of about a
// chunk's size get no larger ones from 1/8 of the memory on.
func (c *chunked) roomy(n int64) bool {
	return c.heap.index != mediumHeap || c.heap.pool.alive()+n < c.heap.pool.hard/8
}

// tight reports whether more than half of what the pool may have is in use with n
// bytes more. From then on it makes smaller chunks, so that there are enough when
// memory is short.
func (p *Pool) tight(n int64) bool { return p.alive()+n > p.hard/2 }

// spare is a chunk that may be mapped elsewhere.
type spare struct {
	*chunk
	from *chunked
	b    *block // idle, that it is in; nil: it is mapped nowhere
	at   int64  // where in the region of b
}

// spares lists chunks of this heap, or of all heaps, that may be mapped elsewhere,
// the largest first, and among equals those of this heap: all that are mapped
// nowhere, and those in the largest idle blocks until there is plenty for n bytes.
func (c *chunked) spares(n int64, all bool) []spare {
	list := c.append(nil, c, n)
	for _, h := range c.heap.pool.heaps {
		if all && h != c.heap {
			list = h.backing.(*chunked).append(list, c, n)
		}
	}
	slices.SortStableFunc(list, func(a, b spare) int { return cmp.Compare(b.bytes, a.bytes) })
	return list
}

// append appends chunks of this heap that may be mapped in another.
func (c *chunked) append(list []spare, to *chunked, n int64) []spare {
	fits := func(x *chunk) bool { return to.fixed == 0 || x.bytes == to.fixed }
	for _, x := range c.unmapped {
		if fits(x) {
			list = append(list, spare{x, c, nil, 0})
			n -= x.bytes
		}
	}
	const plenty = 8
	enough := plenty * max(n, 0)
	for b := range c.heap.idle.Large() {
		start, end := c.span(b)
		for at := start; at < end; {
			x := b.region.pages[at/c.unit]
			if fits(x.chunk) {
				list = append(list, spare{x.chunk, c, b, at})
			}
			at += x.bytes
		}
		if enough -= end - start; enough <= 0 {
			break
		}
	}
	return list
}

// choose picks spare chunks of n bytes together, none in the block but: the
// largest first, and last the smallest that is enough. It appends their places in
// the list to picked, and returns the bytes that are missing; less than 0: that
// are too many.
func choose(list []spare, n int64, but *block, picked []int) ([]int, int64) {
	for i := 0; i < len(list) && n > 0; i++ {
		if but != nil && list[i].b == but {
			continue
		}
		if list[i].bytes >= n {
			for j := i + 1; j < len(list) && list[j].bytes >= n; j++ {
				if but == nil || list[j].b != but {
					i = j
				}
			}
		}
		picked = append(picked, i)
		n -= list[i].bytes
	}
	return picked, n
}

// place is where a block can begin.
type place struct {
	gap    *block  // a hole; nil: in a new region
	free   *block  // a neighbour of the hole, which becomes part of the new block; nil: none
	last   bool    // the neighbour is the one behind the hole
	picked []int   // spare chunks to be mapped into the gap
	makes  int64   // bytes of new chunks, since there are too few
	cost   float64 // in chunks to be mapped
}

// usable reports whether b is a free block that o may use.
func usable(b *block, o *owner) bool {
	return b != nil && b.kind == free && (b.owner == nil || b.owner == o)
}

// grow maps chunks into a hole, next to a free block that o may use if there is
// one: new chunks while memory is plentiful, and then idle ones from elsewhere.
func (c *chunked) grow(n int64, o *owner, most int64) (*block, error) {
	if n > most {
		return nil, errBudget
	}
	p := c.heap.pool
	full := errBudget
	plenty := p.plenty(n)
	if at, sizes := c.fresh(n, o, min(most, plenty)); sizes != nil {
		b, err := c.fill(n, o, at, nil, sizes)
		if !short(err) {
			return b, err
		}
		full, most = err, p.reserved.current.Load() // the device has no more
	}
	if c.heap.index == mediumHeap && p.tight(n) {
		if b, err := c.stitch(n, o, most, pieces.Any); b != nil || err != nil {
			return b, err
		}
	}
	list := c.spares(n, false)
	at := c.cheapest(list, n, o)
	if at.makes > 0 {
		list = c.spares(n, true)
		at = c.cheapest(list, n, o)
	}
	if len(at.picked) > dear && full == errBudget && !p.tight(n) {
		// A little more, rather than as long as that.
		more := int64(float64(p.alive()) * p.slack * 0.45)
		if at, sizes := c.fresh(n, o, min(most, plenty+more)); sizes != nil {
			if b, err := c.fill(n, o, at, nil, sizes); !short(err) {
				return b, err
			}
		}
	}
	var sizes []int64
	if at.makes > 0 {
		if sizes = c.sizes(at.makes, most-p.reserved.current.Load(), false); sizes == nil {
			if b, err := c.stitch(n, o, most, pieces.Any); b != nil || err != nil {
				return b, err
			}
			return nil, full
		}
	}
	return c.fill(n, o, at, list, sizes)
}

// dear is how many chunks are moved at most while new ones would exceed the slack
// by little.
const dear = 2

// fresh returns a place for n bytes in new chunks, and their sizes; none if the
// pool would have more than most bytes.
func (c *chunked) fresh(n int64, o *owner, most int64) (at place, sizes []int64) {
	saved := int64(0)
	for gap := range c.heap.holes.Large() { // the largest free block
		if f := gap.prev; usable(f, o) && f.bytes > saved && f.bytes+gap.bytes >= n+c.most {
			at, saved = place{gap: gap, free: f}, f.bytes
		}
	}
	if at.gap == nil {
		at.gap = c.heap.holes.Best(n + c.most)
	}
	return at, c.sizes(n-saved, most-c.heap.pool.reserved.current.Load(), true)
}

// plenty is how many bytes the pool may have, with n more live, before it moves
// chunks rather than making new ones.
func (p *Pool) plenty(n int64) int64 {
	live := p.alive() + n
	return live + int64(float64(live)*p.slack)
}

// alive is how many bytes are in no free block.
func (p *Pool) alive() int64 {
	n := p.reserved.current.Load()
	for _, h := range p.heaps {
		n -= h.bytes + h.backing.unmappedBytes()
	}
	return n
}

// sizes returns the sizes of new chunks for n bytes, at most room bytes together;
// nil if there is no room. With ahead, a small request gets more than it needs.
func (c *chunked) sizes(n, room int64, ahead bool) []int64 {
	step := max(c.fixed, c.unit)
	units := (n + step - 1) / step
	if units*step > room {
		return nil
	}
	most := int64(1) // steps of a chunk
	if p := c.heap.pool; c.fixed == 0 {
		most = min((units+parts-1)/parts, c.most/step)
		if p.tight(n) {
			most = min((units+tightParts-1)/tightParts, c.fine()/step)
		} else if stuck := c.heap.bytes - c.idleTotal; ahead && c.roomy(n) && float64(stuck) < p.slack/3*float64(p.alive()) {
			most = max(most, min(room/3, 32*n, p.alive()/36, c.fine())/step)
			units = max(units, most)
		}
	}
	sizes := make([]int64, (units+most-1)/most)
	for i := range sizes { // the larger ones first
		n := int64(len(sizes) - i)
		sizes[i] = (units + n - 1) / n * step
		units -= sizes[i] / step
	}
	return sizes
}

// parts is how many new chunks a large block has, and tightParts when memory is
// short, at least. Fewer make fewer calls; more leave less that cannot be moved
// when a part of the block is used again.
const (
	parts      = 4
	tightParts = 16
)

// cheapest returns the place for n bytes that takes the fewest chunks to be
// mapped there, of the list or, where they are not enough, new ones.
func (c *chunked) cheapest(list []spare, n int64, o *owner) (best place) {
	best.makes = math.MaxInt64
	var picked []int
	try := func(gap, f *block, last bool) {
		need, room := n, int64(math.MaxInt64)
		if f != nil {
			need -= f.bytes
		}
		if gap != nil {
			room = gap.bytes
		}
		step := max(c.fixed, c.unit)
		var missing int64
		picked, missing = choose(list, need, f, picked[:0])
		makes := (max(missing, 0) + step - 1) / step * step
		if need-missing+makes > room {
			return
		}
		// What is taken and not needed is missing elsewhere: half of the block is
		// as bad as one chunk more.
		cost := float64(len(picked)) + 2*float64(need-missing)/float64(n)
		if makes < best.makes || makes == best.makes && cost < best.cost {
			best = place{gap, f, last, slices.Clone(picked), makes, cost}
		}
	}
	bare := false
	for gap := range c.heap.holes.Large() {
		if usable(gap.prev, o) {
			try(gap, gap.prev, false)
		}
		if usable(gap.next, o) {
			try(gap, gap.next, true)
		}
		if !bare { // of which one is as good as another
			try(gap, nil, false)
			bare = true
		}
	}
	if best.makes == math.MaxInt64 {
		try(nil, nil, false)
	}
	return best
}

// fill makes a block of n bytes at a place, of its free neighbour, the spare chunks
// that were picked for it, and new chunks of the sizes.
func (c *chunked) fill(n int64, o *owner, at place, list []spare, sizes []int64) (*block, error) {
	h := c.heap
	made, err := c.create(sizes)
	if err != nil {
		return nil, err
	}
	gap, f := at.gap, at.free
	if gap == nil {
		bytes := total(made)
		for _, i := range at.picked {
			bytes += list[i].bytes
		}
		if gap, err = c.reserve(bytes); err != nil {
			c.store(made)
			return nil, err
		}
	}
	// Neither is joined with a neighbour meanwhile.
	h.unset(gap)
	gap.kind = taken
	if f != nil {
		h.unset(f)
		f.kind = taken
	}
	chunks, err := c.take(list, at.picked)
	chunks = append(chunks, made...)
	if err == nil {
		err = c.put(gap, chunks, at.last)
	}
	if err != nil {
		c.store(chunks)
		gap.kind = hole
		h.merge(gap)
		if f != nil {
			f.kind = free
			h.merge(f)
		}
		return nil, err
	}
	bytes := total(chunks)
	if rest := gap; gap.bytes > bytes {
		if at.last {
			gap = h.cut(gap, gap.bytes-bytes)
		} else {
			rest = h.cut(gap, bytes)
		}
		rest.kind = hole
		h.merge(rest)
	}
	h.pool.log(Event{Kind: EventMap, Address: gap.ptr, Bytes: bytes})
	// The free block and the new memory become one.
	if f != nil {
		if at.last {
			gap, f = f, gap
		}
		f.bytes += gap.bytes
		h.unlink(gap)
		gap = f
	}
	gap.kind, gap.owner, gap.seq = free, nil, 0
	return h.occupy(gap, n, o, at.last), nil
}
