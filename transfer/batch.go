package transfer

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// Block is one copy of a [Batch]: Bytes bytes between two offsets.
type Block struct {
	Dst   int64 // offset in Batch.Dst
	Src   int64 // offset in Batch.Src
	Bytes int64 // 1 or more
}

// Batch describes many copies between two ranges of memory, at least one of
// them on the device: the pages of a KV cache, the rows of a table, the samples
// of a shuffled batch.
type Batch struct {
	Dst, Src Memory

	// Blocks are the copies, in any order. None may reach outside its range,
	// and no destination may overlap another or a source. Blocks that follow
	// each other here and on both sides are merged. The slice is only read.
	Blocks []Block

	// Path is how blocks of pinned memory, or inside the device, are copied.
	// Default: what the model says is fastest. One block that goes to or from
	// the host is an ordinary copy, whatever is said here.
	Path BatchPath

	// Progress, if set, is called with the bytes copied so far, from the
	// goroutine that called, the last time with done == total.
	Progress func(done, total int64)
}

// BatchPath is a way of copying many blocks.
type BatchPath string

// The ways of copying many blocks.
const (
	BatchAuto   BatchPath = ""       // what the model says
	BatchKernel BatchPath = "kernel" // one kernel that reads or writes mapped pinned memory
	BatchDriver BatchPath = "driver" // the driver's call for many copies
	BatchLoop   BatchPath = "loop"   // a copy for each block
	BatchBox    BatchPath = "box"    // the driver's call for strided copies; only for a Box
)

// Batch carries out all copies of b and returns when they are done. It fails
// with [device.ErrArgument], having copied nothing, when a block is empty or
// reaches outside. So it does when blocks overlap, but with more than a
// thousand blocks it may find that out while they are copied: the destination
// then holds some of them. When ctx ends first, Batch stops after the blocks
// that are queued and returns ctx's error.
//
// Pageable host memory is packed through the engine's pinned slots; pinned
// memory takes b.Path.
func (e *Engine) Batch(ctx context.Context, b Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	list := blockLists.Get().(*blockList)
	defer func() {
		list.blocks = nil // let go of the caller's
		blockLists.Put(list)
	}()
	if err := list.fill(b); err != nil {
		return fmt.Errorf("transfer: batch: %w", err)
	}
	return e.moveRows(ctx, rowsJob{
		dst: b.Dst, src: b.Src, rows: list, path: b.Path, progress: b.Progress,
	})
}

// rows are copies of one batch or box, ready to be carried out: disjoint and
// in range.
type rows interface {
	count() int
	total() int64 // bytes of all
	at(i int) Block
	// part returns the end of the next part behind from, of at most so many
	// rows and about so many bytes, and its bytes.
	part(from, most int, mostBytes int64) (to int, bytes int64)
	// entries writes the rows of a part as kernels.SpanEntry, for sides at
	// these addresses, and returns the units of all of them.
	entries(list []byte, from, to int, dst, src device.Ptr, unit int64) int64
	// overlap looks for destinations that overlap each other, where that was
	// not done before.
	overlap() error
	// index prepares find.
	index()
	// find returns the row that holds the byte at that offset of all rows
	// packed one behind the other, and the offset at which it starts.
	find(offset int64) (i int, start int64)
	// unit is the largest of 16, 4 and 1 that divides every offset and size.
	unit() int64
}

// blockList is the blocks of a batch with neighbours merged.
type blockList struct {
	blocks  []Block // may be the caller's, which is only read
	ends    []int64 // packed offset of the end of each, once asked for
	sum     int64   // bytes of all
	or      int64   // of all offsets and sizes
	storage [2][]Block
	spare   [2][]Block // of overlap
	taken   []uint64   // bits of the destination

	unsorted bool  // destinations may overlap
	grain    int64 // or of all destinations and sizes
	dstBytes int64 // of Batch.Dst
}

var blockLists = sync.Pool{New: func() any { return new(blockList) }}

// fewBlocks are checked for overlaps in a few microseconds.
const fewBlocks = 1024

// fill checks and merges the blocks of b. With tens of thousands of small
// blocks this takes a good part of the time that copying them does, so it goes
// through them once, and leaves overlaps to be found while they are copied.
func (l *blockList) fill(b Batch) error {
	if _, err := directionOf(b.Dst, b.Src); err != nil {
		return err
	}
	l.blocks, l.ends, l.unsorted = b.Blocks, l.ends[:0], false
	// What is wrong with any block sets the sign of bad.
	var bad, unsorted, dst, src, size, sum int64
	dstEnd, srcEnd := int64(0), int64(-1) // of the block before
	neighbours := false
	dstBytes, srcBytes := b.Dst.bytes, b.Src.bytes
	for i := range b.Blocks {
		k := b.Blocks[i]
		dstRoom, srcRoom := dstBytes-k.Bytes, srcBytes-k.Bytes
		bad |= k.Dst | k.Src | (k.Bytes - 1) | dstRoom | (dstRoom - k.Dst) | srcRoom | (srcRoom - k.Src)
		unsorted |= k.Dst - dstEnd
		if k.Dst == dstEnd && k.Src == srcEnd {
			neighbours = true
		}
		dst |= k.Dst
		src |= k.Src
		size |= k.Bytes
		sum += k.Bytes
		dstEnd, srcEnd = k.Dst+k.Bytes, k.Src+k.Bytes
	}
	if bad < 0 {
		return outside(b)
	}
	l.sum, l.or = sum, dst|src|size
	l.unsorted, l.grain, l.dstBytes = unsorted < 0, dst|size, dstBytes
	if err := l.crossed(b); err != nil {
		return err
	}
	if len(l.blocks) <= fewBlocks {
		if err := l.overlap(); err != nil {
			return err
		}
		l.unsorted = false
	}
	if neighbours {
		l.merge()
	}
	return nil
}

// outside names the first block that is empty or reaches outside.
func outside(b Batch) error {
	for i, k := range b.Blocks {
		if k.Bytes <= 0 || k.Dst < 0 || k.Src < 0 || k.Dst > b.Dst.bytes-k.Bytes || k.Src > b.Src.bytes-k.Bytes {
			return fmt.Errorf("%w: block %d copies %d bytes from offset %d of %s to offset %d of %s",
				device.ErrArgument, i, k.Bytes, k.Src, b.Src, k.Dst, b.Dst)
		}
	}
	return fmt.Errorf("%w: sizes of blocks beyond 63 bits", device.ErrArgument)
}

// overlap looks for blocks whose destinations overlap. Only storage is written:
// l.blocks may be in use.
func (l *blockList) overlap() error {
	if !l.unsorted || l.disjoint(l.grain, l.dstBytes) {
		return nil
	}
	by := blockList{blocks: l.blocks, storage: l.spare}
	by.sort(false)
	l.spare = by.storage
	for i := 1; i < len(by.blocks); i++ {
		if p, k := &by.blocks[i-1], &by.blocks[i]; k.Dst < p.Dst+p.Bytes {
			return fmt.Errorf("%w: two blocks of %d and %d bytes overlap in the destination, at offsets %d and %d",
				device.ErrArgument, p.Bytes, k.Bytes, p.Dst, k.Dst)
		}
	}
	return nil
}

// disjoint reports whether it is certain that no destinations overlap, from a
// bit for each piece of the destination that has the size of the largest power
// of two that divides everything: for blocks of one size, one bit a block. It
// gives up where that would be too many bits.
func (l *blockList) disjoint(or, total int64) bool {
	shift := bits.TrailingZeros64(uint64(or))
	words := total>>shift/64 + 1
	if words > int64(len(l.blocks)) {
		return false
	}
	l.taken = slices.Grow(l.taken[:0], int(words))[:words]
	clear(l.taken)
	for i := range l.blocks {
		k := &l.blocks[i]
		for at, end := k.Dst>>shift, (k.Dst+k.Bytes)>>shift; at < end; {
			// As many bits as lie in one word.
			n := min(end-at, 64-at%64)
			mask := ^uint64(0) >> (64 - n) << (at % 64)
			w := &l.taken[at/64]
			if *w&mask != 0 {
				return false
			}
			*w |= mask
			at += n
		}
	}
	return true
}

// crossed looks for a destination that overlaps a source, where both are on
// the device.
func (l *blockList) crossed(b Batch) error {
	if b.Dst.onHost || b.Src.onHost || len(l.blocks) == 0 ||
		b.Dst.device.Add(b.Dst.bytes) <= b.Src.device || b.Src.device.Add(b.Src.bytes) <= b.Dst.device {
		return nil
	}
	if err := l.overlap(); err != nil {
		return err
	}
	l.sort(false)
	l.unsorted = false
	by := blockList{blocks: l.blocks}
	by.sort(true)
	// Walk both lists by address; destinations are disjoint, sources may not
	// be, so the furthest end of a source so far is what counts.
	var reach device.Ptr
	var from Block
	j := 0
	for _, k := range l.blocks {
		start, end := b.Dst.device.Add(k.Dst), b.Dst.device.Add(k.Dst+k.Bytes)
		for j < len(by.blocks) && b.Src.device.Add(by.blocks[j].Src) < end {
			if to := b.Src.device.Add(by.blocks[j].Src + by.blocks[j].Bytes); to > reach {
				reach, from = to, by.blocks[j]
			}
			j++
		}
		if reach > start {
			return fmt.Errorf("%w: the %d bytes written at offset %d overlap the %d read at offset %d of the source",
				device.ErrArgument, k.Bytes, k.Dst, from.Bytes, from.Src)
		}
	}
	return nil
}

// merge joins neighbours.
func (l *blockList) merge() {
	merged := l.storage[0][:0]
	for _, k := range l.blocks {
		if n := len(merged); n > 0 {
			if p := &merged[n-1]; p.Dst+p.Bytes == k.Dst && p.Src+p.Bytes == k.Src {
				p.Bytes += k.Bytes
				continue
			}
		}
		merged = append(merged, k)
	}
	l.blocks, l.storage[0] = merged, merged
}

// sort puts the blocks in order of destination or source: by digits, since
// comparing costs more. They are in storage[0] afterwards.
func (l *blockList) sort(bySource bool) {
	const width, digits = 11, 1 << 11
	key := func(k *Block) int64 {
		if bySource {
			return k.Src
		}
		return k.Dst
	}
	var some, all int64 = 0, -1 // bits that some keys have, and that all have
	for i := range l.blocks {
		k := key(&l.blocks[i])
		some |= k
		all &= k
	}
	differ := some &^ all
	for shift := 0; shift < 63 && differ>>shift != 0; shift += width {
		if shift += bits.TrailingZeros64(uint64(differ >> shift)); shift >= 63 {
			break
		}
		var count [digits]int32
		for i := range l.blocks {
			count[key(&l.blocks[i])>>shift&(digits-1)]++
		}
		sum := int32(0)
		for d, n := range count {
			count[d] = sum
			sum += n
		}
		// To the storage that the blocks are not in.
		l.storage[0], l.storage[1] = l.storage[1], l.storage[0]
		to := slices.Grow(l.storage[0][:0], len(l.blocks))[:len(l.blocks)]
		for i := range l.blocks {
			k := &l.blocks[i]
			d := &count[key(k)>>shift&(digits-1)]
			to[*d] = *k
			*d++
		}
		l.blocks, l.storage[0] = to, to
	}
}

func (l *blockList) count() int     { return len(l.blocks) }
func (l *blockList) at(i int) Block { return l.blocks[i] }
func (l *blockList) unit() int64    { return unitOf(l.or) }

func (l *blockList) total() int64 { return l.sum }

func (l *blockList) part(from, most int, mostBytes int64) (to int, bytes int64) {
	blocks := l.blocks[from : min(len(l.blocks)-from, most)+from]
	for i := range blocks {
		if bytes >= mostBytes {
			return from + i, bytes
		}
		bytes += blocks[i].Bytes
	}
	return from + len(blocks), bytes
}

func (l *blockList) entries(list []byte, from, to int, dst, src device.Ptr, unit int64) int64 {
	shift, bytes := bits.TrailingZeros64(uint64(unit)), int64(0)
	blocks := l.blocks[from:to]
	for i := range blocks {
		k := &blocks[i]
		bytes += k.Bytes
		putEntry(list, dst.Add(k.Dst), src.Add(k.Src), bytes>>shift)
		list = list[entryBytes:]
	}
	return bytes >> shift
}

// index makes what find needs.
func (l *blockList) index() {
	end := int64(0)
	for _, k := range l.blocks {
		end += k.Bytes
		l.ends = append(l.ends, end)
	}
}

func (l *blockList) find(offset int64) (i int, start int64) {
	lo, hi := 0, len(l.ends)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if l.ends[mid] > offset {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo, l.ends[lo] - l.blocks[lo].Bytes
}

// unitOf returns the largest of 16, 4 and 1 that divides all numbers whose
// union of bits is or.
func unitOf(or int64) int64 {
	switch {
	case or%16 == 0:
		return 16
	case or%4 == 0:
		return 4
	}
	return 1
}
