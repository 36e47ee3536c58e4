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
	// and no destination may overlap another or a source. Blocks that are
	// neighbours on both sides are merged.
	Blocks []Block

	// Path is how blocks of pinned memory, or inside the device, are copied.
	// Default: what the model says is fastest.
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
// with [device.ErrArgument], having copied nothing, when a block is empty,
// reaches outside, or overlaps another. When ctx ends first, Batch stops after
// the blocks that are queued and returns ctx's error.
//
// Pageable host memory is packed through the engine's pinned slots; pinned
// memory takes b.Path.
func (e *Engine) Batch(ctx context.Context, b Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	list := blockLists.Get().(*blockList)
	defer blockLists.Put(list)
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
	// index prepares find.
	index()
	// find returns the row that holds the byte at that offset of all rows
	// packed one behind the other, and the offset at which it starts.
	find(offset int64) (i int, start int64)
	// unit is the largest of 16, 4 and 1 that divides every offset and size.
	unit() int64
}

// blockList is the blocks of a batch in the order of their destinations, with
// neighbours merged.
type blockList struct {
	blocks  []Block
	ends    []int64 // packed offset of the end of each, once asked for
	scratch []Block
	sum     int64 // bytes of all
	or      int64 // of all offsets and sizes
}

var blockLists = sync.Pool{New: func() any { return new(blockList) }}

// fill checks, sorts and merges the blocks of b.
func (l *blockList) fill(b Batch) error {
	if _, err := directionOf(b.Dst, b.Src); err != nil {
		return err
	}
	sorted := true
	var last int64 = -1
	for i := range b.Blocks {
		k := &b.Blocks[i]
		if k.Bytes <= 0 || k.Dst < 0 || k.Src < 0 || k.Dst > b.Dst.bytes-k.Bytes || k.Src > b.Src.bytes-k.Bytes {
			return fmt.Errorf("%w: block %d copies %d bytes from offset %d of %s to offset %d of %s",
				device.ErrArgument, i, k.Bytes, k.Src, b.Src, k.Dst, b.Dst)
		}
		sorted = sorted && k.Dst > last
		last = k.Dst
	}
	if sorted {
		l.blocks = append(l.blocks[:0], b.Blocks...)
	} else {
		l.sort(b.Blocks, false)
	}
	for i := 1; i < len(l.blocks); i++ {
		if p, k := &l.blocks[i-1], &l.blocks[i]; k.Dst < p.Dst+p.Bytes {
			return fmt.Errorf("%w: two blocks of %d and %d bytes overlap in the destination, at offsets %d and %d",
				device.ErrArgument, p.Bytes, k.Bytes, p.Dst, k.Dst)
		}
	}
	if err := l.crossed(b); err != nil {
		return err
	}
	l.merge()
	return nil
}

// crossed looks for a destination that overlaps a source, where both are on
// the device.
func (l *blockList) crossed(b Batch) error {
	if b.Dst.onHost || b.Src.onHost || len(l.blocks) == 0 ||
		b.Dst.device.Add(b.Dst.bytes) <= b.Src.device || b.Src.device.Add(b.Src.bytes) <= b.Dst.device {
		return nil
	}
	var by blockList
	by.sort(l.blocks, true)
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

// merge joins neighbours and sums up.
func (l *blockList) merge() {
	l.ends, l.sum, l.or = l.ends[:0], 0, 0
	n := 0
	for _, k := range l.blocks {
		l.sum += k.Bytes
		l.or |= k.Dst | k.Src | k.Bytes
		if n > 0 {
			if p := &l.blocks[n-1]; p.Dst+p.Bytes == k.Dst && p.Src+p.Bytes == k.Src {
				p.Bytes += k.Bytes
				continue
			}
		}
		l.blocks[n] = k
		n++
	}
	l.blocks = l.blocks[:n]
}

// sort puts blocks in order of destination or source: by digits, since
// comparing is what would cost most of a batch of small blocks.
func (l *blockList) sort(blocks []Block, bySource bool) {
	const width, digits = 11, 1 << 11
	key := func(k *Block) int64 {
		if bySource {
			return k.Src
		}
		return k.Dst
	}
	var some, all int64 = 0, -1 // bits that some keys have, and that all have
	for i := range blocks {
		k := key(&blocks[i])
		some |= k
		all &= k
	}
	differ := some &^ all
	l.blocks = slices.Grow(l.blocks[:0], len(blocks))[:len(blocks)]
	l.scratch = slices.Grow(l.scratch[:0], len(blocks))[:len(blocks)]
	from := blocks
	for shift := 0; shift < 63 && differ>>shift != 0; shift += width {
		if shift += bits.TrailingZeros64(uint64(differ >> shift)); shift >= 63 {
			break
		}
		var count [digits]int32
		for i := range from {
			count[key(&from[i])>>shift&(digits-1)]++
		}
		sum := int32(0)
		for d, n := range count {
			count[d] = sum
			sum += n
		}
		to := l.scratch
		for i := range from {
			k := &from[i]
			d := &count[key(k)>>shift&(digits-1)]
			to[*d] = *k
			*d++
		}
		l.blocks, l.scratch = to, l.blocks
		from = to
	}
	if differ == 0 {
		copy(l.blocks, blocks)
	}
}

func (l *blockList) count() int     { return len(l.blocks) }
func (l *blockList) at(i int) Block { return l.blocks[i] }
func (l *blockList) unit() int64    { return unitOf(l.or) }

func (l *blockList) total() int64 { return l.sum }

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
