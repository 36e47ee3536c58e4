package page

import (
	"slices"

	"github.com/pinion-gpu/pinion/vram"
)

// holder is who has device memory in blocks: a pool, or another allocator.
type holder interface {
	key() any // the same for the same holder at all times
	device() string
	source() string // "": a pool of package vram
	reserved() int64
	fill(s *survey)
}

// pool is a holder.
type pool struct{ *vram.Pool }

func (p pool) key() any        { return p.Pool }
func (p pool) device() string  { return p.Device().Info().ID }
func (p pool) source() string  { return "" }
func (p pool) reserved() int64 { return p.Reserved() }

// fill copies all blocks. The pool waits while it is visited: let there be room by
// then, in pages that are there.
func (p pool) fill(s *survey) {
	stats := p.Stats()
	s.totals = totals{
		ReservedBytes: stats.Reserved.Current, AllocatedBytes: stats.Allocated.Current, RequestedBytes: stats.Requested.Current,
		FreeBytes: stats.Free, FragmentedBytes: stats.Fragmented, Blocks: stats.Blocks.Current,
	}
	s.age = &stats.Age
	room := max(stats.Blocks.Current, int64(s.expected)) // of blocks that are not live there are mostly few
	s.blocks = make([]vram.BlockInfo, room+room/8+1024)
	clear(s.blocks)
	s.blocks = s.blocks[:0]
	s.begin()
	p.Visit(func(b vram.BlockInfo, first bool) { s.add(b, first) })
}

// other is a holder.
type other struct{ Other }

func (o *other) key() any       { return [2]string{o.Source, o.Device} }
func (o *other) device() string { return o.Device }
func (o *other) source() string { return o.Source }

func (o *other) reserved() (n int64) {
	o.Visit(func(b vram.BlockInfo, _ bool, _ []string) { n += b.Bytes })
	return n
}

// fill copies all blocks, and adds them up. What is free in a segment that is used is
// fragmented: it cannot be given back.
func (o *other) fill(s *survey) {
	s.texts = map[int][]string{}
	s.begin()
	o.Visit(func(b vram.BlockInfo, first bool, stack []string) {
		if len(stack) > 0 {
			s.texts[len(s.blocks)] = stack
		}
		s.add(b, first)
	})
	t := &s.totals
	for _, g := range s.segments {
		free := int64(0)
		for _, b := range s.blocks[g.first : g.first+g.count] {
			t.ReservedBytes += b.Bytes
			switch b.State {
			case vram.BlockLive:
				t.AllocatedBytes += b.Bytes
				t.RequestedBytes += b.Requested
				t.Blocks++
			case vram.BlockFree:
				free += b.Bytes
			}
		}
		t.FreeBytes += free
		if free < g.bytes {
			t.FragmentedBytes += free
		}
	}
}

// purpose names what a block is for: of other allocators that is who they are.
func (s *survey) purpose(b *vram.BlockInfo) string {
	if s.source != "" {
		return s.source
	}
	return b.Purpose.String()
}

// states are the names of what a block is.
func (s *survey) states() []string {
	names := []string{"free", "pending"}
	for _, p := range vram.Purposes() {
		names = append(names, p.String())
	}
	if s.source != "" {
		names = append(names, clip(s.source))
	}
	return names
}

// stateOf is what a block is, as an index of states.
func (s *survey) stateOf(b *vram.BlockInfo) int {
	switch {
	case b.State == vram.BlockPending:
		return statePending
	case b.State != vram.BlockLive:
		return stateFree
	case s.source != "":
		return firstPurpose + len(vram.Purposes())
	}
	return firstPurpose + int(b.Purpose)
}

// stack is the calls that led to a block, the innermost first.
func (s *survey) stack(i int) []string {
	if text := s.texts[i]; text != nil {
		list := []string{}
		for _, frame := range text[:min(len(text), maxStack)] {
			list = append(list, clip(frame))
		}
		return list
	}
	return frames(s.blocks[i].Stack)
}

// hasStack reports whether there is one.
func (s *survey) hasStack(i int) bool { return s.blocks[i].Stack != nil || s.texts[i] != nil }

// same are the holders of a list that are one.
func same(list []holder, h any) bool {
	return slices.ContainsFunc(list, func(x holder) bool { return x.key() == h })
}
