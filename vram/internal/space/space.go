package space

import (
	"errors"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/internal/freeset"
)

// ErrBudget says that a space would have more than it may.
var ErrBudget = errors.New("budget exceeded")

// Short reports whether err says that there is no memory.
func Short(err error) bool {
	return errors.Is(err, ErrBudget) || errors.Is(err, device.ErrOutOfMemory)
}

// Config says what a space is made of.
type Config struct {
	Device device.Device
	Mapper device.Mapper // of the device, which then supplies chunks; nil: it supplies segments

	Most  int64   // bytes that the space may have
	Slack float64 // share of what is used that is taken in addition before chunks are moved

	Unit    int64 // chunks have multiples of it; a power of two, LeastChunk at least
	Fixed   int64 // size of every chunk of blocks above LargestSmall; 0: chosen by what is asked for
	Largest int64 // size of the largest chunk

	// Ledger counts what the space takes and gives back.
	Ledger *Ledger

	// Mapped is called when memory comes to addresses (there) or leaves
	// them; nil: nobody wants to know.
	Mapped func(at device.Ptr, bytes int64, there bool)
}

// Ledger counts the device's memory that was taken and given back. Whoever changes
// it keeps others away; only Current may be called at any time.
type Ledger struct {
	Calls Calls

	current  atomic.Int64
	Peak     int64 // of Current
	Taken    int64 // bytes in total
	Returned int64 // likewise
}

// Calls counts calls of the device.
type Calls struct {
	Create, Release int64 // of chunks, or of segments
	Map, Unmap      int64 // of chunks
}

// Current is how many bytes there are.
func (l *Ledger) Current() int64 { return l.current.Load() }

// Take counts n bytes that were taken.
func (l *Ledger) Take(n int64) {
	l.Taken += n
	l.Peak = max(l.Peak, l.current.Add(n))
}

// Return counts n bytes that were given back.
func (l *Ledger) Return(n int64) {
	l.Returned += n
	l.current.Add(-n)
}

// Space is the memory of a pool, as blocks in ranges of addresses. Whoever calls
// its methods keeps others away.
type Space struct {
	Config
	heaps [heaps]*heap
	spare *Block // unused structs, linked by next
}

// New returns a space, which has nothing yet.
func New(c Config) *Space {
	s := &Space{Config: c}
	fixed := [heaps]int64{c.Unit, c.Fixed, c.Fixed}
	most := [heaps]int64{c.Unit, min(c.Largest, 2*largestMedium), c.Largest}
	for i := range s.heaps {
		h := &heap{space: s, index: i}
		if c.Mapper == nil {
			h.backing = &segmented{heap: h}
		} else {
			h.backing = &chunked{heap: h, mapper: c.Mapper, unit: c.Unit, fixed: fixed[i], most: max(most[i], fixed[i])}
		}
		s.heaps[i] = h
	}
	return s
}

// heapOf returns the heap for blocks of a size.
func (s *Space) heapOf(bytes int64) *heap {
	switch {
	case bytes <= LargestSmall:
		return s.heaps[smallHeap]
	case bytes <= largestMedium:
		return s.heaps[mediumHeap]
	}
	return s.heaps[largeHeap]
}

// Fit takes n bytes for o from the smallest free block that is large enough; nil:
// there is none. When memory is short, a large chunk that lies in that block and is
// needed in part is divided, which takes that nobody uses it. If only o may use the
// block yet, Fit reports that it waits; with asIs, it takes the bytes all the same.
func (s *Space) Fit(n int64, o *Owner, asIs bool) (b *Block, waits bool) {
	h := s.heapOf(n)
	for range 2 {
		b := h.best(n, o)
		if b == nil {
			return nil, false
		}
		last := h.backing.fromEnd(b, n)
		if h.backing.divides(b, n, last) {
			switch {
			case b.owner == nil:
				b = h.backing.divide(b, n, last)
			case !asIs:
				return nil, true
			}
		}
		if b != nil {
			h.unset(b)
			return h.occupy(b, n, last), false
		}
	}
	return nil, false
}

// Grow returns a block of n bytes for o in new memory, or in memory from elsewhere
// in the space. It fails with device.ErrOutOfMemory if the device has none, or
// with ErrBudget if the space would have more than most bytes.
func (s *Space) Grow(n int64, o *Owner, most int64) (*Block, error) {
	return s.heapOf(n).backing.grow(n, o, most)
}

// Scarce reports whether memory is so short that [Space.Squeeze] may pay for a
// block of n bytes.
func (s *Space) Scarce(n int64) bool { return s.heapOf(n).backing.scarce(n) }

// Squeeze returns a block of n bytes for o that leaves as little as possible of
// what nobody can use; nil if Fit does that as well.
func (s *Space) Squeeze(n int64, o *Owner) (*Block, error) {
	return s.heapOf(n).backing.squeeze(n, o)
}

// Give frees a block that was taken, for o with that number, or for all if o is nil.
func (s *Space) Give(b *Block, o *Owner, number uint64) {
	b.owner, b.number = o, number
	s.heapOf(b.bytes).give(b)
}

// Settle makes idle, so that all may have it, what o freed with numbers up to done.
// It reports whether there was any.
func (s *Space) Settle(o *Owner, done uint64) (found bool) {
	if o.oldest > done {
		return false
	}
	o.oldest = none
	for i, h := range s.heaps {
		for _, b := range o.free[i].AtLeast(0) {
			switch {
			case b.kind != free || b.owner != o: // it was merged
			case b.number <= done:
				h.unset(b)
				b.owner, b.number = nil, 0
				h.give(b)
				found = true
			default:
				o.oldest = min(o.oldest, b.number)
			}
		}
	}
	return found
}

// Trim returns idle memory to the device, and reports how many bytes.
func (s *Space) Trim() (int64, error) { return s.trim(nil) }

// TrimFor is Trim for the sake of a block of n bytes: what Grow can use for that
// itself, it leaves.
func (s *Space) TrimFor(n int64) (int64, error) {
	if s.Mapper == nil {
		return s.trim(nil)
	}
	return s.trim(s.heapOf(n))
}

// trim returns the idle memory of all heaps but one.
func (s *Space) trim(but *heap) (freed int64, err error) {
	if err := s.vacate(); err != nil {
		return 0, err
	}
	for _, h := range s.heaps {
		if h != but && err == nil {
			var n int64
			n, err = h.backing.trim()
			freed += n
		}
	}
	return freed, err
}

// Used is how many bytes are in no free block.
func (s *Space) Used() int64 {
	n := s.Ledger.Current()
	for _, h := range s.heaps {
		n -= h.bytes + h.unmapped
	}
	return n
}

// Movable is how many free bytes could be mapped at another address, or given back
// to the device.
func (s *Space) Movable() (n int64) {
	for _, h := range s.heaps {
		n += h.movable + h.unmapped
	}
	return n
}

// Largest is the size of the largest idle block.
func (s *Space) Largest() (n int64) {
	for _, h := range s.heaps {
		n = max(n, largest(&h.idle))
	}
	return n
}

func largest(set *freeset.Set[Block]) int64 {
	if b := set.Largest(); b != nil {
		return b.bytes
	}
	return 0
}

// Visit calls f for every block with memory, by address in each range of addresses
// that have memory: first says that b begins one, and small that it holds small
// blocks.
func (s *Space) Visit(f func(b *Block, first, small bool)) {
	for i, h := range s.heaps {
		for _, r := range h.regions {
			for b := r.first; b != nil; b = b.next {
				if !b.bare() {
					f(b, b.prev == nil || b.prev.bare(), i == smallHeap)
				}
			}
		}
	}
}

// Close returns everything to the device, even what is used.
func (s *Space) Close() error {
	var errs []error
	for _, h := range s.heaps {
		errs = append(errs, h.backing.close())
	}
	return errors.Join(errs...)
}

// mapped tells of memory that came to addresses, and unmapped of memory that left.
func (s *Space) mapped(at device.Ptr, bytes int64) {
	if s.Mapped != nil {
		s.Mapped(at, bytes, true)
	}
}

func (s *Space) unmapped(at device.Ptr, bytes int64) {
	if s.Mapped != nil {
		s.Mapped(at, bytes, false)
	}
}

// newBlock returns a block struct.
func (s *Space) newBlock() *Block {
	b := s.spare
	if b == nil {
		return new(Block)
	}
	s.spare = b.next
	return b
}

// retire keeps the struct for a new block.
func (s *Space) retire(b *Block) {
	b.kind, b.region, b.owner, b.prev = taken, nil, nil, nil
	b.next, s.spare = s.spare, b
}
