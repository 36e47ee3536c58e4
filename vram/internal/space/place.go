package space

import (
	"cmp"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/vram/internal/pieces"
)

// fromEnd reports whether n bytes would leave less of the chunk that their border
// is in, which cannot be moved then, at the end of b than at its start.
func (c *chunked) fromEnd(b *Block, n int64) bool {
	from := b.offset()
	left, right := int64(0), int64(0)
	if at := from + n; at > b.start && at < b.end {
		x := b.region.page(at)
		if at > x.at {
			left = x.at + x.bytes - at
		}
	}
	if at := from + b.bytes - n; at > b.start && at < b.end {
		x := b.region.page(at)
		right = at - x.at
	}
	return right < left
}

func (c *chunked) divides(b *Block, n int64, last bool) bool {
	_, x := c.cutting(b, n, last)
	return x != nil
}

// divide replaces a large chunk of which n bytes at the start of b, or at its end,
// would use a part by two, so that the other part can be moved.
func (c *chunked) divide(b *Block, n int64, last bool) *Block {
	first, x := c.cutting(b, n, last)
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
	h.space.mapped(r.ptr.Add(at), bytes)
	gap.kind, gap.owner, gap.number = free, nil, 0
	return h.merge(gap)
}

// cutting returns the chunk that has to be divided before n bytes are taken from
// the start or the end of b, and the bytes of its first part; nil: none.
func (c *chunked) cutting(b *Block, n int64, last bool) (first int64, x *mapping) {
	if c.fixed > 0 || b.bytes == n || !c.heap.space.tight(n) {
		return 0, nil
	}
	at := int64(b.ptr-b.region.ptr) + n
	if last {
		at += b.bytes - 2*n
	}
	if at <= b.start || at >= b.end {
		return 0, nil
	}
	x = b.region.page(at)
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
	return max(c.heap.space.Most/1024&^(c.unit-1), c.unit)
}

// roomy reports whether a small request may get a larger chunk, for those to come.
// What is free in the middle of one cannot be stitched, so that blocks of about a
// chunk's size get no larger ones from 1/8 of the memory on.
func (c *chunked) roomy(n int64) bool {
	return c.heap.index != mediumHeap || c.heap.space.Used()+n < c.heap.space.Most/8
}

// tight reports whether more than half of what the space may have is in use with n
// bytes more. From then on it makes smaller chunks, so that there are enough when
// memory is short.
func (s *Space) tight(n int64) bool { return s.Used()+n > s.Most/2 }

// spare is a chunk that may be mapped elsewhere.
type spare struct {
	*chunk
	from *chunked
	b    *Block // idle, that it is in; nil: it is mapped nowhere
	at   int64  // where in the region of b
}

// spares lists chunks of this heap, or of all heaps, that may be mapped elsewhere,
// the largest first, and among equals those of this heap: all that are mapped
// nowhere, and those in the largest idle blocks until there is plenty for n bytes.
func (c *chunked) spares(n int64, all bool) []spare {
	list := c.append(nil, c, n)
	for _, h := range c.heap.space.heaps {
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
		for at := b.start; at < b.end; {
			x := b.region.page(at)
			if fits(x.chunk) {
				list = append(list, spare{x.chunk, c, b, at})
			}
			at += x.bytes
		}
		if enough -= b.movable(); enough <= 0 {
			break
		}
	}
	return list
}

// choose picks spare chunks of n bytes together, none in the block but: the
// largest first, and last the smallest that is enough. It appends their places in
// the list to picked, and returns the bytes that are missing; less than 0: that
// are too many.
func choose(list []spare, n int64, but *Block, picked []int) ([]int, int64) {
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

// improve replaces chunks that were picked by smaller ones, so that less is taken
// that is not needed.
func improve(list []spare, picked []int, missing int64, but *Block) ([]int, int64) {
	for missing < 0 {
		from, to, gain := -1, -1, int64(0)
		for k, i := range picked {
			for j := range list {
				less := list[i].bytes - list[j].bytes
				if less > gain && less <= -missing && (but == nil || list[j].b != but) && !slices.Contains(picked, j) {
					from, to, gain = k, j, less
				}
			}
		}
		if from < 0 {
			break
		}
		picked[from] = to
		missing += gain
	}
	return picked, missing
}

// place is where a block can begin.
type place struct {
	gap    *Block  // a hole; nil: in a new region
	free   *Block  // a neighbour of the hole, which becomes part of the new block; nil: none
	last   bool    // the neighbour is the one behind the hole
	picked []int   // spare chunks to be mapped into the gap
	makes  int64   // bytes of new chunks, since there are too few
	cost   float64 // in chunks to be mapped
}

// grow maps chunks into a hole, next to a free block that o may use if there is
// one: new chunks while memory is plentiful, and then idle ones from elsewhere.
func (c *chunked) grow(n int64, o *Owner, most int64) (*Block, error) {
	if n > most {
		return nil, ErrBudget
	}
	s := c.heap.space
	if s.tight(n) {
		if err := s.vacate(); err != nil {
			return nil, err
		}
	}
	full := ErrBudget
	plenty := s.plenty(n)
	if at, sizes := c.fresh(n, o, min(most, plenty)); sizes != nil {
		b, err := c.fill(n, at, nil, sizes)
		if !Short(err) {
			return b, err
		}
		full, most = err, s.Ledger.Current() // the device has no more
	}
	if c.heap.index == mediumHeap && s.tight(n) {
		if b, err := c.stitch(n, most, pieces.Any); b != nil || err != nil {
			return b, err
		}
	}
	list := c.spares(n, false)
	at := c.cheapest(list, n, o)
	if at.makes > 0 {
		list = c.spares(n, true)
		at = c.cheapest(list, n, o)
	}
	if len(at.picked) > dear && full == ErrBudget && !s.tight(n) {
		// A little more, rather than as long as that.
		more := int64(float64(s.Used()) * s.Slack * 0.45)
		if at, sizes := c.fresh(n, o, min(most, plenty+more)); sizes != nil {
			if b, err := c.fill(n, at, nil, sizes); !Short(err) {
				return b, err
			}
		}
	}
	var sizes []int64
	if at.makes > 0 {
		if sizes = c.sizes(at.makes, n, most-s.Ledger.Current(), false); sizes == nil {
			if b, err := c.stitch(n, most, pieces.Any); b != nil || err != nil {
				return b, err
			}
			return nil, full
		}
	}
	return c.fill(n, at, list, sizes)
}

// dear is how many chunks are moved at most while new ones would exceed the slack
// by little.
const dear = 2

// fresh returns a place for n bytes in new chunks, and their sizes; none if the
// space would have more than most bytes.
func (c *chunked) fresh(n int64, o *Owner, most int64) (at place, sizes []int64) {
	saved := int64(0)
	for gap := range c.heap.holes.Large() { // the largest free block
		if f := gap.prev; usable(f, o) && f.bytes > saved && f.bytes+gap.bytes >= n+c.most {
			at, saved = place{gap: gap, free: f}, f.bytes
		}
	}
	if at.gap == nil {
		at.gap = c.heap.holes.Best(n + c.most)
	}
	return at, c.sizes(n-saved, n, most-c.heap.space.Ledger.Current(), true)
}

// plenty is how many bytes the space may have, with n more in use, before it moves
// chunks rather than making new ones.
func (s *Space) plenty(n int64) int64 {
	used := s.Used() + n
	return used + int64(float64(used)*s.Slack)
}

// sizes returns the sizes of new chunks for n bytes of a block of whole bytes, at most
// room bytes together; nil if there is no room. With ahead, a small request gets more than it needs.
func (c *chunked) sizes(n, whole, room int64, ahead bool) []int64 {
	step := max(c.fixed, c.unit)
	units := (n + step - 1) / step
	if units*step > room {
		return nil
	}
	most := int64(1) // steps of a chunk
	if s := c.heap.space; c.fixed == 0 {
		most = min((units+parts-1)/parts, c.most/step)
		if c.ample(whole) && whole >= c.most {
			// What is missing of a block comes in chunks as large as those of a whole one.
			most = min((max(units, whole/step)+largeParts-1)/largeParts, c.most/step)
		}
		if s.tight(n) {
			most = min((units+tightParts-1)/tightParts, c.fine()/step)
		} else if stuck := c.heap.bytes - c.heap.idleMovable; ahead && c.roomy(n) && float64(stuck) < s.Slack/3*float64(s.Used()) {
			most = max(most, min(room/3, 32*n, s.Used()/36, c.fine())/step)
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
	largeParts = 3 // of a block as large as the largest chunk, while there is ample memory
	tightParts = 16
)

// cheapest returns the place for n bytes that takes the fewest chunks to be
// mapped there, of the list or, where they are not enough, new ones.
func (c *chunked) cheapest(list []spare, n int64, o *Owner) (best place) {
	best.makes = math.MaxInt64
	var picked []int
	try := func(gap, f *Block, last bool) {
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
		if missing < 0 && c.ample(n) {
			picked, missing = improve(list, picked, missing, f)
		}
		makes := (max(missing, 0) + step - 1) / step * step
		if need-missing+makes > room {
			return
		}
		// What is taken and not needed is missing elsewhere: half of the block is as
		// bad as one chunk more, or a quarter of it where that takes long.
		waste := 2 * float64(need-missing) / float64(n)
		if c.ample(n) {
			waste *= 2
		}
		cost := float64(len(picked)) + waste
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
func (c *chunked) fill(n int64, at place, list []spare, sizes []int64) (*Block, error) {
	b, err := c.extend(at, list, sizes, c.ample(n))
	if err != nil {
		return nil, err
	}
	c.grew(n, len(at.picked))
	return c.heap.occupy(b, n, at.last), nil
}

// extend makes a free block, which is in no set, of the free neighbour of a place,
// the chunks that were picked from the list, and new chunks of the sizes. Those of
// the list stay mapped where they are too, with later.
func (c *chunked) extend(at place, list []spare, sizes []int64, later bool) (*Block, error) {
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
	chunks, err := c.take(list, at.picked, later)
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
	h.space.mapped(gap.ptr, bytes)
	// The free block and the new memory become one.
	if f != nil {
		if at.last {
			gap, f = f, gap
		}
		f.bytes += gap.bytes
		h.unlink(gap)
		gap = f
	}
	gap.kind, gap.owner, gap.number = free, nil, 0
	return gap, nil
}
