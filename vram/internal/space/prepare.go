package space

import (
	"cmp"
	"slices"
)

// A large block for which chunks move takes long. What it is spared is done before,
// a little at a time, when chunks moved lately: stale mappings are unmapped, and idle
// chunks are moved together until a block as large as those that grew lately would
// take little.

// Efforts are in bytes: mapping a chunk takes as long as mapping perChunk bytes, and
// as many as it has. Unmapping it takes half as long.
const (
	perChunk   = 320 << 20
	stepEffort = 1408 << 20 // about 0.1 ms on an H200: of what would take more in all, Prepare begins one thing
	easy       = 2304 << 20 // a block that takes no more needs no preparation
)

const (
	preparations = 100 // so many times Prepare may do something after chunks were moved for a block
	ahead        = 2   // chunks that it may move for each that was
)

// grew notes that a block of n bytes grew, for which chunks were moved.
func (c *chunked) grew(n int64, moved int) {
	if !c.ample(0) {
		return
	}
	c.wanted = max(n, c.wanted-c.wanted/64) // the larger ones of the last hundred or so
	if moved > 0 {
		c.owed = preparations
		c.credit = min(c.credit+ahead*moved, preparations)
	}
}

// Owes reports whether [Space.Prepare] may have something to do.
func (s *Space) Owes() bool {
	c, ok := s.heaps[largeHeap].backing.(*chunked)
	return ok && c.owed > 0
}

// Prepare does a little of what the next large blocks would have to wait for: a few
// calls of the device.
func (s *Space) Prepare() error {
	c, ok := s.heaps[largeHeap].backing.(*chunked)
	if !ok || c.owed == 0 {
		return nil
	}
	c.owed--
	for left := int64(stepEffort); left > 0; {
		effort, err := c.prepare(left)
		if effort == 0 || err != nil {
			return err
		}
		left -= effort
	}
	return nil
}

// prepare unmaps one chunk, or moves one, and reports the effort; 0: there was nothing
// to do, or it would have taken more than most.
func (c *chunked) prepare(most int64) (int64, error) {
	h := c.heap
	if m := c.oldest(); m != nil {
		return (perChunk + m.bytes) / 2, c.vacate(m)
	}
	n := min(c.wanted, h.idleMovable+h.unmapped)
	if n == 0 || c.credit == 0 || !c.ample(0) {
		return 0, nil
	}
	list := c.spares(n, false)
	at := c.cheapest(list, n, nil)
	if at.gap == nil || at.makes > 0 {
		return 0, nil
	}
	all := int64(0)
	for _, i := range at.picked {
		all += perChunk + list[i].bytes
	}
	if all <= easy {
		return 0, nil
	}
	largest := slices.MaxFunc(at.picked, func(i, j int) int { return cmp.Compare(list[i].bytes, list[j].bytes) })
	effort := perChunk + list[largest].bytes
	if effort > most && most < stepEffort {
		return 0, nil
	}
	c.credit--
	at.picked, at.free = []int{largest}, nil
	b, err := c.extend(at, list, nil, c.ample(0))
	if err != nil {
		return 0, err
	}
	h.merge(b)
	return effort, nil
}
