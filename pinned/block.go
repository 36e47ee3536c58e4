package pinned

import "github.com/pinion-gpu/pinion/internal/treap"

// block is a run of pages in a segment, either in use or free.
type block struct {
	seg        *poolSegment
	addr       uintptr
	size       int64
	free       bool
	requested  int64     // of a live buffer: what was asked for; else 0
	serial     int64     // of the newest buffer: how many there were before, and itself
	stack      []uintptr // of who asked for it, if anybody wanted to know
	prev, next *block    // neighbours in the segment, by address

	marks []mark // of a pending block: what it waits for

	node treap.Node[block] // in the set of free blocks, while free
}

// freeBlocks is the set of free blocks of a class of segments: the smallest
// that is large enough is the one to take.
type freeBlocks struct{ treap.Set[block] }

func (f *freeBlocks) insert(b *block) { f.Insert(&b.node, b, b.size, uint64(b.addr)) }
func (f *freeBlocks) remove(b *block) { f.Remove(&b.node) }

// largest is the size of the largest block, or 0.
func (f *freeBlocks) largest() int64 {
	if b := f.Largest(); b != nil {
		return b.size
	}
	return 0
}

// take makes the free block b, or its first size bytes, a block in use.
func (p *Pool) take(b *block, size int64) {
	free := &p.free[b.seg.class]
	free.remove(b)
	b.free = false
	if rest := b.size - size; rest > 0 {
		tail := p.newBlock()
		*tail = block{
			seg: b.seg, addr: b.addr + uintptr(size), size: rest, free: true,
			prev: b, next: b.next, marks: tail.marks,
		}
		if b.next != nil {
			b.next.prev = tail
		}
		b.next, b.size = tail, size
		free.insert(tail)
	}
	b.seg.used += size
}

// release makes b free and merges it with its free neighbours.
func (p *Pool) release(b *block) {
	seg := b.seg
	seg.used -= b.size
	p.releases++
	free := &p.free[seg.class]
	if n := b.next; n != nil && n.free {
		free.remove(n)
		p.absorb(b, n)
	}
	if n := b.prev; n != nil && n.free {
		free.remove(n)
		p.absorb(n, b)
		b = n
	}
	b.free = true
	free.insert(b)
	if seg.used == 0 {
		p.idle(seg)
	}
}

// absorb joins b, which lies right behind a, to a.
func (p *Pool) absorb(a, b *block) {
	a.size += b.size
	a.next = b.next
	if b.next != nil {
		b.next.prev = a
	}
	*b = block{marks: b.marks, next: p.spare}
	p.spare = b
}

// newBlock returns a block struct to fill in, if possible one that was merged
// away: splitting and merging allocate nothing in the long run.
func (p *Pool) newBlock() *block {
	b := p.spare
	if b == nil {
		return new(block)
	}
	p.spare = b.next
	return b
}
