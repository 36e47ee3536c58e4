package pinned

import (
	"context"
	"fmt"
	"testing"

	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// check verifies the pool's invariants, when nothing is at work unlocked.
func (p *Pool) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest()
	inSet := map[*block]bool{}
	for c := range p.free {
		for b := range p.free[c].Descending() {
			if b.seg.class != class(c) {
				return fmt.Errorf("a block of class %d in the set of class %d", b.seg.class, c)
			}
			inSet[b] = true
		}
	}
	var reserved, pageable, used, requested, free int64
	buffers := 0
	for s := range p.segments {
		reserved += s.size()
		if !s.pinned {
			pageable += s.size()
		}
		addr, segUsed := s.base(), int64(0)
		var prev *block
		for b := s.first; b != nil; prev, b = b, b.next {
			switch {
			case b.seg != s || b.addr != addr || b.prev != prev:
				return fmt.Errorf("block at %#x: broken chain", b.addr)
			case b.size <= 0 || b.size%pagemem.PageSize() != 0:
				return fmt.Errorf("block at %#x: size %d", b.addr, b.size)
			case b.free != inSet[b]:
				return fmt.Errorf("block at %#x: free %t, in its set %t", b.addr, b.free, inSet[b])
			case b.free && prev != nil && prev.free:
				return fmt.Errorf("block at %#x: not merged", b.addr)
			case b.requested > b.size || b.requested > 0 && b.requested <= b.size-pagemem.PageSize():
				return fmt.Errorf("block at %#x: %d bytes for %d", b.addr, b.size, b.requested)
			}
			if b.free {
				delete(inSet, b)
				free += b.size
			} else {
				segUsed += b.size
			}
			if b.requested > 0 {
				requested += b.requested
				buffers++
			}
			addr += uintptr(b.size)
		}
		if addr != s.base()+uintptr(s.size()) || segUsed != s.used {
			return fmt.Errorf("segment: blocks end at %#x of %#x, used %d of %d", addr, s.base()+uintptr(s.size()), segUsed, s.used)
		}
		used += segUsed
	}
	pending := int64(0)
	for _, b := range p.pending {
		pending += b.size
		if len(b.marks) == 0 || b.free || b.requested != 0 {
			return fmt.Errorf("pending block: %d marks, free %t, requested %d", len(b.marks), b.free, b.requested)
		}
	}
	switch {
	case len(inSet) != 0:
		return fmt.Errorf("%d free blocks belong to no segment", len(inSet))
	case p.transit != 0 || p.releasing != 0 || p.growingShared:
		return fmt.Errorf("at work: transit %d, releasing %d", p.transit, p.releasing)
	case reserved != p.reserved || pageable != p.pageable || requested != p.requested || buffers != p.buffers || pending != p.pendingBytes:
		return fmt.Errorf("counted reserved %d, pageable %d, requested %d, buffers %d, pending %d; have %+v",
			reserved, pageable, requested, buffers, pending, p.counters)
	case used != p.active+p.pendingBytes+p.lost:
		return fmt.Errorf("used %d, have %+v", used, p.counters)
	case reserved > p.budget:
		return fmt.Errorf("reserved %d of a budget of %d", reserved, p.budget)
	case p.allocs != p.reuses+p.segmentAllocs:
		return fmt.Errorf("%d allocs, %d reuses, %d segments made", p.allocs, p.reuses, p.segmentAllocs)
	}
	for b := p.spare; b != nil; b = b.next {
		if b.seg != nil {
			return fmt.Errorf("spare block in use")
		}
	}
	return nil
}

// newPool makes a pool that is checked and closed at the end of the test.
func newPool(t testing.TB, dev *fakeDevice, o Options) *Pool {
	t.Helper()
	p, err := NewPool(dev, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.check(); err != nil {
			t.Error(err)
		}
		dev.Synchronize()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if pinned, events := dev.state(); pinned != 0 || events != 0 {
			t.Errorf("%d bytes still pinned, %d events open", pinned, events)
		}
	})
	return p
}

func mustAlloc(t testing.TB, p *Pool, n int64) *Buffer {
	t.Helper()
	b, err := p.Alloc(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustFree(t testing.TB, b *Buffer, after ...*fakeStream) {
	t.Helper()
	if err := b.Free(streams(after)...); err != nil {
		t.Fatal(err)
	}
}

var (
	ctx = context.Background()
	// over has ended: with it Alloc waits for nothing.
	over = func() context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}()
)
