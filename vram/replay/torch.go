package replay

import (
	"cmp"
	"iter"
	"slices"

	"github.com/pinion-gpu/pinion/vram/trace"
)

// Torch simulates how much PyTorch's caching allocator would reserve for a trace.
// It allocates nothing: it keeps the books by the rules of
// c10/cuda/CUDACachingAllocator.cpp (PyTorch 2.11) with its default settings, or
// with expandable_segments:True. A free is done at once, whatever other streams
// use the block. In 15 of 16 replays of generated traces it reserves what PyTorch
// did on an H200, to the byte, and in one 20 MiB more (see the tests).
//
// A request is rounded up to 512 bytes. There are free lists by stream, for
// requests of up to 1 MiB and for larger ones; the best fit is split if more than
// 1 MiB is left of a large block, or 512 bytes of a small one. Otherwise a segment
// comes from the device: of 2 MiB for small requests, of 20 MiB for those below
// 10 MiB, and of the size in whole 2 MiB above. If that exceeds the capacity,
// segments without a live block are given back first. With expandable segments,
// each stream and list has one segment, which grows by 2 or 20 MiB at a time
// wherever it has no memory.
type Torch struct {
	PeakReservedBytes int64
	PeakLiveBytes     int64
	OOMs              int64 // allocations that would have failed

	capacity   int64
	expandable bool
	reserved   int64
	live       int64
	end        int64 // of the addresses that segments have
	pools      map[torchKey]*torchPool
	order      []*torchPool // as they were made
	blocks     map[uint64]*torchBlock
}

const (
	torchUnit      = 512
	torchSmall     = 1 << 20  // the largest small request
	torchBuffer    = 2 << 20  // segment of small requests, and the unit of large ones
	torchLarge     = 20 << 20 // segment of requests below half of it
	torchRemainder = 1 << 20  // what is left of a large block is split off if it is more
)

// torchKey tells free lists apart.
type torchKey struct {
	stream int
	small  bool
}

type torchPool struct {
	torchKey
	free     []*torchBlock // by size and address
	unmapped []*torchBlock // by address
}

// torchBlock is a part of a segment.
type torchBlock struct {
	pool       *torchPool
	at, bytes  int64
	asked      int64
	used       bool
	unmapped   bool
	prev, next *torchBlock
}

// NewTorch returns a simulation on a device with so much memory.
func NewTorch(capacity int64, expandable bool) *Torch {
	return &Torch{capacity: capacity, expandable: expandable, pools: map[torchKey]*torchPool{}, blocks: map[uint64]*torchBlock{}}
}

// Tee gives events to simulations as well: many at a time, so that they do not empty
// the processor's caches before each call that is measured. They have seen all when
// the reader ends.
func Tee(events iter.Seq2[trace.Event, error], simulations ...*Torch) iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		seen := make([]trace.Event, 0, 256)
		simulate := func() {
			for _, s := range simulations {
				for _, e := range seen {
					s.Add(e)
				}
			}
			seen = seen[:0]
		}
		defer simulate()
		for e, err := range events {
			if err == nil {
				if seen = append(seen, e); len(seen) == cap(seen) {
					simulate()
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Add takes the next event of a trace. An event that contradicts those before is
// ignored.
func (t *Torch) Add(e trace.Event) {
	if e.Op == trace.Free {
		if b := t.blocks[e.ID]; b != nil {
			delete(t.blocks, e.ID)
			t.live -= b.asked
			t.release(b)
		}
		return
	}
	if e.Bytes <= 0 || !e.Failed && t.blocks[e.ID] != nil {
		return
	}
	var b *torchBlock
	if e.Bytes <= beyond {
		b = t.alloc(e.Bytes, e.Stream)
	}
	t.PeakReservedBytes = max(t.PeakReservedBytes, t.reserved)
	switch {
	case b == nil && !e.Failed:
		t.OOMs++
	case b == nil:
	case e.Failed:
		t.release(b)
	default:
		b.asked = e.Bytes
		t.live += e.Bytes
		t.PeakLiveBytes = max(t.PeakLiveBytes, t.live)
		t.blocks[e.ID] = b
	}
}

// Fragmentation is the peak of the reserved bytes divided by that of the live
// bytes; 0 if nothing was live.
func (t *Torch) Fragmentation() float64 {
	if t.PeakLiveBytes == 0 {
		return 0
	}
	return float64(t.PeakReservedBytes) / float64(t.PeakLiveBytes)
}

func (t *Torch) alloc(n int64, stream int) *torchBlock {
	n = (n + torchUnit - 1) / torchUnit * torchUnit
	key := torchKey{stream, n <= torchSmall}
	p := t.pools[key]
	if p == nil {
		p = &torchPool{torchKey: key}
		t.pools[key] = p
		t.order = append(t.order, p)
	}
	b := p.fit(n)
	if b == nil {
		b = t.grow(p, n)
	}
	if b == nil {
		t.trim()
		if b = t.grow(p, n); b == nil {
			return nil
		}
	}
	b.used = true
	if rest := b.bytes - n; rest > torchRemainder || rest >= torchUnit && (p.small || t.expandable) {
		p.insert(b.cut(n))
	}
	return b
}

// release frees a block.
func (t *Torch) release(b *torchBlock) {
	b.used = false
	b.pool.merge(b)
}

// fit takes the best fit out of the free list. Of blocks that can grow, the size
// they can grow to counts.
func (p *torchPool) fit(n int64) *torchBlock {
	i, _ := slices.BinarySearchFunc(p.free, n, func(b *torchBlock, n int64) int {
		return cmp.Or(cmp.Compare(b.bytes, n), 1)
	})
	if i == len(p.free) {
		return nil
	}
	room := func(b *torchBlock) int64 {
		if b.next != nil && b.next.unmapped {
			return b.bytes + b.next.bytes
		}
		return b.bytes
	}
	for i+1 < len(p.free) && room(p.free[i+1]) < room(p.free[i]) {
		i++
	}
	b := p.free[i]
	p.free = slices.Delete(p.free, i, i+1)
	return b
}

// grow takes n bytes from the device.
func (t *Torch) grow(p *torchPool, n int64) *torchBlock {
	segment := (n + torchBuffer - 1) / torchBuffer * torchBuffer
	switch {
	case p.small:
		segment = torchBuffer
	case n < torchLarge/2:
		segment = torchLarge
	}
	if t.reserved+segment > t.capacity {
		return nil
	}
	if t.expandable {
		return t.expand(p, n)
	}
	t.reserved += segment
	t.end += segment
	return &torchBlock{pool: p, at: t.end - segment, bytes: segment}
}

// expand maps memory to the lowest addresses of a segment where n bytes have
// room.
func (t *Torch) expand(p *torchPool, n int64) *torchBlock {
	b := p.roomy(n)
	if b == nil {
		bytes := (t.capacity + t.capacity/8 + torchLarge - 1) / torchLarge * torchLarge
		if n > bytes {
			return nil
		}
		b = &torchBlock{pool: p, at: t.end, bytes: bytes, unmapped: true}
		t.end += bytes
		p.insert(b)
	}
	if b.unmapped {
		b = t.mapBlock(b, min(n, b.bytes))
	}
	for b.bytes < n {
		b = t.mapBlock(b.next, min(n-b.bytes, b.next.bytes))
	}
	p.remove(b)
	return b
}

// roomy returns the first block of a run of free and unmapped ones with n bytes.
func (p *torchPool) roomy(n int64) *torchBlock {
	for _, b := range p.unmapped {
		if b.prev != nil && !b.prev.used {
			b = b.prev
		}
		room := int64(0)
		for x := b; x != nil && !x.used && room < n; x = x.next {
			room += x.bytes
		}
		if room >= n {
			return b
		}
	}
	return nil
}

// step is the unit in which an expandable segment grows.
func (p *torchPool) step() int64 {
	if p.small {
		return torchBuffer
	}
	return torchLarge
}

// mapBlock gives memory to the first n bytes of an unmapped block, in whole steps,
// and returns the free block that they belong to.
func (t *Torch) mapBlock(b *torchBlock, n int64) *torchBlock {
	p := b.pool
	p.remove(b)
	n = min((n+p.step()-1)/p.step()*p.step(), b.bytes)
	if n < b.bytes {
		p.insert(b.cut(n))
	}
	b.unmapped = false
	t.reserved += n
	return p.merge(b)
}

// trim gives back what holds no live block.
func (t *Torch) trim() {
	for _, p := range t.order {
		for _, b := range slices.Clone(p.free) {
			if !t.expandable {
				if b.prev == nil && b.next == nil {
					p.remove(b)
					t.reserved -= b.bytes
				}
				continue
			}
			// Whole steps only; segments begin at a multiple of them.
			step := p.step()
			from, to := (b.at+step-1)/step*step, (b.at+b.bytes)/step*step
			if from >= to {
				continue
			}
			p.remove(b)
			if from > b.at {
				low := b
				b = low.cut(from - low.at)
				p.insert(low)
			}
			if to < b.at+b.bytes {
				p.insert(b.cut(to - b.at))
			}
			b.unmapped = true
			t.reserved -= b.bytes
			p.merge(b)
		}
	}
}

// cut splits b, which is in no list: b keeps the first n bytes. The rest, which is
// not used, is returned.
func (b *torchBlock) cut(n int64) *torchBlock {
	rest := &torchBlock{pool: b.pool, at: b.at + n, bytes: b.bytes - n, unmapped: b.unmapped, prev: b, next: b.next}
	if b.next != nil {
		b.next.prev = rest
	}
	b.next, b.bytes = rest, n
	return rest
}

// merge joins b, which is in no list, with neighbours like it, and puts it into
// its list.
func (p *torchPool) merge(b *torchBlock) *torchBlock {
	if x := b.prev; x != nil && !x.used && x.unmapped == b.unmapped {
		p.remove(x)
		x.bytes += b.bytes
		if x.next = b.next; x.next != nil {
			x.next.prev = x
		}
		b = x
	}
	if x := b.next; x != nil && !x.used && x.unmapped == b.unmapped {
		p.remove(x)
		b.bytes += x.bytes
		if b.next = x.next; b.next != nil {
			b.next.prev = b
		}
	}
	p.insert(b)
	return b
}

// list returns the list that b belongs in, and its place there.
func (p *torchPool) list(b *torchBlock) (list *[]*torchBlock, at int) {
	if b.unmapped {
		at, _ = slices.BinarySearchFunc(p.unmapped, b, func(x, b *torchBlock) int { return cmp.Compare(x.at, b.at) })
		return &p.unmapped, at
	}
	at, _ = slices.BinarySearchFunc(p.free, b, func(x, b *torchBlock) int {
		return cmp.Or(cmp.Compare(x.bytes, b.bytes), cmp.Compare(x.at, b.at))
	})
	return &p.free, at
}

func (p *torchPool) insert(b *torchBlock) {
	list, at := p.list(b)
	*list = slices.Insert(*list, at, b)
}

func (p *torchPool) remove(b *torchBlock) {
	list, at := p.list(b)
	*list = slices.Delete(*list, at, at+1)
}
