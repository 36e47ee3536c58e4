package transfer

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/kernels"
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

	// After and On order the copy with work that the caller has queued; see
	// "Order" in the package documentation. Default: it begins at once.
	After device.Event
	On    device.Stream

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
// reaches outside. So it does when blocks overlap. Of more than a thousand
// blocks, the later ones may be checked while those before are copied: the
// destination then holds some of them. When ctx ends first, Batch stops after the blocks
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
		list.blocks, list.dst, list.src = nil, Memory{}, Memory{} // let go of the caller's
		blockLists.Put(list)
	}()
	if err := list.fill(b); err != nil {
		return fmt.Errorf("transfer: batch: %w", err)
	}
	return e.moveRows(ctx, rowsJob{
		dst: b.Dst, src: b.Src, rows: list, path: b.Path, on: b.On, after: b.After, progress: b.Progress,
	})
}

// rows are copies of one batch or box, in range. Those of a long batch are
// checked as they are taken, by part; complete checks the rest.
type rows interface {
	count() int
	mean() int64 // bytes of a row, about

	// part checks rows from an index on: at most so many, and about so many
	// bytes of them.
	part(from, most int, mostBytes int64) (rowsPart, error)
	// add takes note of a part that was checked.
	add(rowsPart)
	// entries writes a part as kernels.SpanEntry, for sides at these addresses,
	// and returns how many they are and their units.
	entries(list []byte, p rowsPart, dst, src device.Ptr, unit int64) (n int, units int64)
	// pairs writes a part as kernels.Pair.
	pairs(list []byte, p rowsPart)
	// overlap looks for destinations that overlap each other, when all parts
	// were added.
	overlap() error

	// complete checks all rows and joins neighbours. The methods below are for
	// rows that are complete.
	complete() error
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

// rowsPart is the rows [from, to).
type rowsPart struct {
	from, to int
	bytes    int64
	or       int64 // of all offsets and sizes
	sizes    int64 // or of all sizes
	each     int64 // bytes of each, where all have the same; else 0
	grain    int64 // or of all destinations and sizes

	unsorted bool // destinations may overlap, or overlap the block before
}

// blockList is the blocks of a batch with neighbours merged.
type blockList struct {
	blocks   []Block // may be the caller's, which is only read
	dst, src Memory

	whole bool     // all were checked before the first part was asked for
	seen  rowsPart // what was checked, with to as the number of blocks
	guess int64    // bytes of a block, where not all were checked

	ends    []int64 // packed offset of the end of each, once asked for
	storage [2][]Block
	spare   [2][]Block // of overlap
	taken   []uint64   // bits of the destination
}

var blockLists = sync.Pool{New: func() any { return new(blockList) }}

// fewBlocks are looked at in a few microseconds, before anything is copied.
const fewBlocks = 1024

// fill takes the blocks of b and checks the first of them. With tens of
// thousands of small blocks that takes a good part of the time that copying
// them does, so the others are checked while those before are copied.
func (l *blockList) fill(b Batch) error {
	if _, err := directionOf(b.Dst, b.Src); err != nil {
		return err
	}
	*l = blockList{blocks: b.Blocks, dst: b.Dst, src: b.Src,
		ends: l.ends[:0], storage: l.storage, spare: l.spare, taken: l.taken}
	if len(l.blocks) > fewBlocks && !l.onBothSides() {
		p, err := l.scan(0, fewBlocks/8, math.MaxInt64)
		l.guess = p.bytes / (fewBlocks / 8)
		return err
	}
	if err := l.complete(); err != nil {
		return err
	}
	if err := l.overlap(); err != nil {
		return err
	}
	l.seen.unsorted = false
	return l.crossed()
}

// scan checks the blocks of a range, or those of it that have so many bytes.
func (l *blockList) scan(from, to int, mostBytes int64) (rowsPart, error) {
	blocks := l.blocks[from:to]
	before := int64(0) // where the destination of the block before ends
	if from > 0 {
		before = l.blocks[from-1].Dst + l.blocks[from-1].Bytes
	}
	if len(blocks) > 1 && blocks[0].Bytes == blocks[1].Bytes && blocks[0].Bytes > 0 {
		each := blocks[0].Bytes
		even := blocks[:min(int64(len(blocks)), (mostBytes-1)/each+1)]
		if p, ok := l.scanEven(even, before); ok {
			p.from, p.to = from, from+len(even)
			return p, nil
		}
	}
	// What is wrong with any block sets the sign of bad. (A branch for each
	// check would take twice the time.)
	var bad, unsorted, dst, src, size, sum int64
	dstEnd, dstBytes, srcBytes := before, l.dst.bytes, l.src.bytes
	i := 0
	for ; i < len(blocks) && sum < mostBytes; i++ {
		k := &blocks[i]
		kDst, kSrc, kBytes := k.Dst, k.Src, k.Bytes
		dstRoom, srcRoom := dstBytes-kBytes, srcBytes-kBytes
		bad |= kDst | kSrc | (kBytes - 1) | dstRoom | (dstRoom - kDst) | srcRoom | (srcRoom - kSrc)
		unsorted |= kDst - dstEnd
		dst |= kDst
		src |= kSrc
		size |= kBytes
		sum += max(kBytes, 0)
		dstEnd = kDst + kBytes
	}
	if bad < 0 {
		return rowsPart{}, l.outside(from)
	}
	return rowsPart{
		from: from, to: from + i, bytes: sum, or: dst | src | size, sizes: size, grain: dst | size,
		unsorted: unsorted < 0,
	}, nil
}

// scanEven is scan for blocks of one size. It reports false when something is
// wrong with one of them, or when they are not.
func (l *blockList) scanEven(blocks []Block, before int64) (rowsPart, bool) {
	each := blocks[0].Bytes
	dstRoom, srcRoom := l.dst.bytes-each, l.src.bytes-each
	var bad, unsorted, differ, dst, src int64
	for i := range blocks {
		k := &blocks[i]
		kDst, kSrc := k.Dst, k.Src
		bad |= kDst | kSrc | (dstRoom - kDst) | (srcRoom - kSrc)
		differ |= k.Bytes ^ each
		unsorted |= kDst - before
		dst |= kDst
		src |= kSrc
		before = kDst + each
	}
	return rowsPart{
		bytes: int64(len(blocks)) * each, each: each, or: dst | src | each, sizes: each, grain: dst | each,
		unsorted: unsorted < 0,
	}, bad|dstRoom|srcRoom >= 0 && differ == 0
}

func (l *blockList) add(p rowsPart) {
	if l.whole {
		return
	}
	all := &l.seen
	all.to += p.to - p.from
	all.bytes += p.bytes
	all.or |= p.or
	all.sizes |= p.sizes
	all.grain |= p.grain
	all.unsorted = all.unsorted || p.unsorted
}

// outside names the first block from an index on that is empty or reaches
// outside.
func (l *blockList) outside(from int) error {
	for i, k := range l.blocks[from:] {
		if k.Bytes <= 0 || k.Dst < 0 || k.Src < 0 || k.Dst > l.dst.bytes-k.Bytes || k.Src > l.src.bytes-k.Bytes {
			return fmt.Errorf("%w: block %d copies %d bytes from offset %d of %s to offset %d of %s",
				device.ErrArgument, from+i, k.Bytes, k.Src, l.src, k.Dst, l.dst)
		}
	}
	return fmt.Errorf("%w: blocks of more than 63 bits of bytes", device.ErrArgument)
}

func (l *blockList) complete() error {
	if l.whole {
		return nil
	}
	p, err := l.scan(0, len(l.blocks), math.MaxInt64)
	if err != nil {
		return err
	}
	l.add(p)
	l.whole = true
	for i := 1; i < len(l.blocks); i++ {
		p, k := &l.blocks[i-1], &l.blocks[i]
		if k.Dst == p.Dst+p.Bytes && k.Src == p.Src+p.Bytes {
			l.merge()
			break
		}
	}
	return nil
}

func (l *blockList) part(from, most int, mostBytes int64) (rowsPart, error) {
	return l.scan(from, min(len(l.blocks), from+most), mostBytes)
}

func (l *blockList) entries(list []byte, p rowsPart, dst, src device.Ptr, unit int64) (n int, units int64) {
	shift, bytes := uint(bits.TrailingZeros64(uint64(unit)))&63, int64(0)
	dstEnd, srcEnd := int64(0), int64(-1)
	blocks := l.blocks[p.from:p.to]
	for i := range blocks {
		k := &blocks[i]
		bytes += k.Bytes
		if k.Dst == dstEnd && k.Src == srcEnd { // one with the block before
			setEnd(list[(n-1)*entryBytes:], bytes>>shift)
		} else {
			putEntry(list[n*entryBytes:], dst.Add(k.Dst), src.Add(k.Src), bytes>>shift)
			n++
		}
		dstEnd, srcEnd = k.Dst+k.Bytes, k.Src+k.Bytes
	}
	return n, bytes >> shift
}

func (l *blockList) pairs(list []byte, p rowsPart) {
	blocks := l.blocks[p.from:p.to]
	list = list[:len(blocks)*kernels.PairBytes]
	for i := range blocks {
		k := &blocks[i]
		putPair(list[i*kernels.PairBytes:i*kernels.PairBytes+kernels.PairBytes], k.Dst, k.Src)
	}
}

// overlap looks for blocks whose destinations overlap. Only storage is written:
// l.blocks may be in use.
func (l *blockList) overlap() error {
	if !l.seen.unsorted || l.disjoint(l.seen.grain, l.dst.bytes) {
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
	if l.seen.sizes == 1<<shift { // blocks of one size, each a bit
		shift := uint(shift) & 63
		for i := range l.blocks {
			at := uint64(l.blocks[i].Dst) >> shift
			w, bit := &l.taken[at/64], uint64(1)<<(at%64)
			if *w&bit != 0 {
				return false
			}
			*w |= bit
		}
		return true
	}
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

// onBothSides reports whether destinations may overlap sources: where both are
// on the device, in ranges that overlap.
func (l *blockList) onBothSides() bool {
	return !l.dst.onHost && !l.src.onHost &&
		l.dst.device.Add(l.dst.bytes) > l.src.device && l.src.device.Add(l.src.bytes) > l.dst.device
}

// crossed looks for a destination that overlaps a source.
func (l *blockList) crossed() error {
	if !l.onBothSides() || len(l.blocks) == 0 {
		return nil
	}
	l.sort(false)
	by := blockList{blocks: l.blocks}
	by.sort(true)
	// Walk both lists by address; destinations are disjoint, sources may not
	// be, so the furthest end of a source so far is what counts.
	var reach device.Ptr
	var from Block
	j := 0
	for _, k := range l.blocks {
		start, end := l.dst.device.Add(k.Dst), l.dst.device.Add(k.Dst+k.Bytes)
		for j < len(by.blocks) && l.src.device.Add(by.blocks[j].Src) < end {
			if to := l.src.device.Add(by.blocks[j].Src + by.blocks[j].Bytes); to > reach {
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
	l.seen.to = len(merged)
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
func (l *blockList) unit() int64    { return unitOf(l.seen.or) }

func (l *blockList) total() int64 { return l.seen.bytes }

func (l *blockList) mean() int64 {
	if !l.whole {
		return l.guess
	}
	return l.seen.bytes / int64(max(l.seen.to, 1))
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
