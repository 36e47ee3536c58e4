package space

import "slices"

// Untidy is how many idle bytes of the heap of large blocks [Space.Tidy] may move:
// none while 3/4 of them lie together.
func (s *Space) Untidy() int64 {
	c, ok := s.heaps[largeHeap].backing.(*chunked)
	if !ok {
		return 0
	}
	all := c.heap.idleMovable + c.heap.unmapped
	if b := c.heap.idle.Largest(); b != nil && b.movable() > all/4*3 {
		return 0
	}
	return all
}

// Tidy moves an idle chunk to where all of them have room together, and returns its
// size; 0: there is none. That is behind the largest idle block with such a hole
// behind it, or at the start of the largest hole.
func (s *Space) Tidy() (int64, error) {
	c, ok := s.heaps[largeHeap].backing.(*chunked)
	if !ok {
		return 0, nil
	}
	h := c.heap
	all := c.heap.idleMovable + c.heap.unmapped
	gap := h.holes.Largest()
	for b := range h.idle.Large() {
		if b.next != nil && b.next.kind == hole && b.next.bytes >= all-b.movable() {
			gap = b.next
			break
		}
	}
	if gap == nil {
		return 0, nil
	}
	list := c.spares(all, false)
	at := slices.IndexFunc(list, func(x spare) bool {
		return x.bytes <= gap.bytes && (x.b == nil || x.b != gap.prev)
	})
	if at < 0 {
		return 0, nil
	}
	b, err := c.extend(place{gap: gap, picked: []int{at}}, list, nil, false)
	if err != nil {
		return 0, err
	}
	h.merge(b)
	return list[at].bytes, nil
}
