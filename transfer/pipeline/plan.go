package pipeline

import (
	"fmt"
	"math"
	"math/bits"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/transfer"
)

// plan is a checked [Pipeline], with its defaults.
type layout struct {
	items                   int64
	itemBytes, outItemBytes int64 // outItemBytes is 0 without Out
	chunkItems              int64
	chunks                  int
	buffers                 int

	inSlot, outSlot int64 // device bytes of one buffer; outSlot is 0 without one
	deviceBytes     int64 // of all buffers
}

// Sizes of a chunk in bytes, and what is assumed until it is measured.
const (
	leastChunkBytes = 1 << 20
	mostChunkBytes  = 256 << 20
	mostBuffers     = 16

	chunkOverhead = 20 * time.Microsecond // what a chunk costs beyond its bytes
	unknownLink   = 10e9                  // bytes a second
	linkShare     = 0.85                  // of the wire that copies reach
)

// chunkBytesFor is the size of chunk with which total bytes pass fastest
// through that many stages (2 or more) that overlap, when a chunk of n bytes
// takes seconds(n) in each.
//
// The last of k chunks leaves the last stage after k+stages-1 steps of
// seconds(total/k): small chunks cost their overhead more often, and of large
// ones the first and the last overlap with nothing. (With a latency and a
// rate, the least is at sqrt(total * rate * latency / (stages-1)) bytes.)
func chunkBytesFor(total int64, stages int, seconds func(n int64) float64) int64 {
	const perOctave = 16
	best, least := int64(leastChunkBytes), math.Inf(1)
	for k := 0; best < mostChunkBytes; k++ {
		c := min(int64(leastChunkBytes*math.Pow(2, float64(k)/perOctave)), mostChunkBytes)
		chunks := max(float64(total)/float64(c), 1)
		if t := (chunks + float64(stages-1)) * seconds(c); t < least {
			best, least = c, t
		}
		if c == mostChunkBytes {
			break
		}
	}
	return best
}

// chunkSeconds returns what a chunk of In takes to come in: by the engine's
// model of the link, or by what is assumed of one.
func chunkSeconds(e *transfer.Engine, in Source) func(n int64) float64 {
	b, ok := in.(Bytes)
	pinner, can := device.As[device.Pinner](e.Device())
	pinned := ok && can && pinner.Pinned(b)
	if e.Estimate(leastChunkBytes, pinned, false) == 0 {
		return assumedSeconds(e.Device().Info().Link)
	}
	return func(n int64) float64 { return e.Estimate(n, pinned, false).Seconds() }
}

// assumedSeconds is a guess.
func assumedSeconds(link device.Link) func(n int64) float64 {
	rate := link.BytesPerSecond() * linkShare
	if rate == 0 {
		rate = unknownLink
	}
	return func(n int64) float64 { return chunkOverhead.Seconds() + float64(n)/rate }
}

// plan checks p and fills in what it leaves open. A chunk of n bytes takes
// seconds(n) to come in.
func (p *Pipeline) plan(dev device.Device, seconds func(n int64) float64) (layout, error) {
	plan, err := p.items()
	if err != nil || plan.items == 0 {
		return plan, err
	}
	plan.buffers = p.Buffers
	if plan.buffers == 0 {
		plan.buffers = 3
	}
	if p.ChunkBytes > 0 {
		plan.chunkItems = min(p.ChunkBytes/plan.itemBytes, plan.items)
	} else {
		memory, err := dev.Memory()
		if err != nil {
			return plan, err
		}
		if err := plan.choose(p.InPlace, seconds, memory); err != nil {
			return plan, err
		}
	}
	plan.chunks = int((plan.items-1)/plan.chunkItems + 1)
	plan.buffers = min(plan.buffers, plan.chunks)
	if !plan.size(p.InPlace) {
		return plan, fmt.Errorf("transfer: pipeline: %w: %d buffers of %d items of %d and %d bytes",
			device.ErrArgument, plan.buffers, plan.chunkItems, plan.itemBytes, plan.outItemBytes)
	}
	return plan, nil
}

// items checks what can be checked without a device.
func (p *Pipeline) items() (plan layout, err error) {
	bad := func(format string, args ...any) (layout, error) {
		return plan, fmt.Errorf("transfer: pipeline: %w: "+format, append([]any{device.ErrArgument}, args...)...)
	}
	switch {
	case p.In == nil:
		return bad("no In")
	case p.Compute == nil:
		return bad("no Compute")
	case p.ItemBytes < 0 || p.OutItemBytes < 0 || p.ChunkBytes < 0:
		return bad("negative size: items of %d and %d bytes, chunks of %d", p.ItemBytes, p.OutItemBytes, p.ChunkBytes)
	case p.Buffers < 0 || p.Buffers > mostBuffers:
		return bad("%d buffers; 1 to %d are possible", p.Buffers, mostBuffers)
	case p.Out == nil && p.OutItemBytes > 0:
		return bad("items of %d bytes for no Out", p.OutItemBytes)
	case p.Out == nil && p.InPlace:
		return bad("InPlace without Out")
	}
	plan.itemBytes = max(p.ItemBytes, 1)
	size := p.In.Size()
	switch {
	case size < 0 || size%plan.itemBytes != 0:
		return bad("In has %d bytes, which are no whole items of %d", size, plan.itemBytes)
	case p.ChunkBytes%plan.itemBytes != 0:
		return bad("chunks of %d bytes are no whole items of %d", p.ChunkBytes, plan.itemBytes)
	}
	plan.items = size / plan.itemBytes
	if p.Out == nil {
		return plan, nil
	}
	plan.outItemBytes = p.OutItemBytes
	if plan.outItemBytes == 0 {
		plan.outItemBytes = plan.itemBytes
	}
	want, ok := product(plan.items, plan.outItemBytes)
	switch {
	case p.InPlace && plan.outItemBytes != plan.itemBytes:
		return bad("InPlace with items of %d bytes that become %d", plan.itemBytes, plan.outItemBytes)
	case !ok:
		return bad("%d items of %d bytes for Out are more than 63 bits count", plan.items, plan.outItemBytes)
	case p.Out.Size() != want:
		return bad("Out has %d bytes, want %d: %d items of %d", p.Out.Size(), want, plan.items, plan.outItemBytes)
	}
	in, inBytes := p.In.(Bytes)
	out, outBytes := p.Out.(Bytes)
	// In one array with items of one size, a chunk's results replace its own
	// data, which were read long before.
	if inBytes && outBytes && overlapping(in, out) &&
		(unsafe.SliceData(in) != unsafe.SliceData(out) || plan.itemBytes != plan.outItemBytes) {
		return bad("In (%d bytes) and Out (%d) overlap in host memory", len(in), len(out))
	}
	return plan, nil
}

// choose sets chunkItems, for a number of buffers.
func (plan *layout) choose(inPlace bool, seconds func(n int64) float64, memory device.Memory) error {
	stages := 2
	if plan.outItemBytes > 0 {
		stages = 3
	}
	larger := max(plan.itemBytes, plan.outItemBytes)
	total, ok := product(plan.items, larger)
	if !ok {
		total = math.MaxInt64
	}
	each := plan.itemBytes // device bytes of an item in one buffer, of each direction
	if !inPlace {
		each += plan.outItemBytes
	}
	if each < plan.itemBytes {
		each = math.MaxInt64
	}
	least := min(max(leastChunkBytes/larger, 1), plan.items)
	fits := memory.FreeBytes / 2 / int64(plan.buffers) / each
	n := min(max(chunkBytesFor(total, stages, seconds)/larger, 1), max(fits, least), plan.items)
	if need := float64(n) * float64(each) * float64(plan.buffers); need > float64(memory.FreeBytes) {
		return fmt.Errorf("transfer: pipeline: %w: the smallest chunk, %s of %s in and %s out, takes %s in %s; %s of %s are free",
			device.ErrOutOfMemory, units.Count(n, "item"), units.Bytes(plan.itemBytes), units.Bytes(plan.outItemBytes),
			sizeText(need), units.Count(plan.buffers, "buffer"), units.Bytes(memory.FreeBytes), units.Bytes(memory.TotalBytes))
	}
	// Chunks of one size, at offsets that disks like where that is possible.
	n = (plan.items-1)/((plan.items-1)/n+1) + 1
	const sector = 4096
	if whole := sector / gcd(sector, plan.itemBytes); n > 16*whole {
		n -= n % whole
	}
	plan.chunkItems = n
	return nil
}

// sizeText prints a size that may be beyond 63 bits.
func sizeText(n float64) string {
	if n >= 1<<63 {
		return "more than 8 EiB"
	}
	return units.Bytes(int64(n))
}

// size sets the sizes of the buffers. It reports false when they overflow.
func (plan *layout) size(inPlace bool) bool {
	const align = 256 // as device allocations have it
	slot := func(itemBytes int64) (int64, bool) {
		n, ok := product(plan.chunkItems, itemBytes)
		return (n + align - 1) &^ (align - 1), ok && n <= math.MaxInt64-align
	}
	in, inOK := slot(plan.itemBytes)
	out, outOK := slot(plan.outItemBytes)
	if inPlace {
		out = 0
	}
	plan.inSlot, plan.outSlot = in, out
	if !inOK || !outOK || in > math.MaxInt64-out {
		return false
	}
	var ok bool
	plan.deviceBytes, ok = product(in+out, int64(plan.buffers))
	return ok
}

// chunk is the chunk of that index, without addresses. outOffset is where its
// results go in Out.
func (plan *layout) chunk(index int) (c Chunk, outOffset int64) {
	first := int64(index) * plan.chunkItems
	items := min(plan.chunkItems, plan.items-first)
	return Chunk{
		Index:    index,
		Offset:   first * plan.itemBytes,
		InBytes:  items * plan.itemBytes,
		OutBytes: items * plan.outItemBytes,
	}, first * plan.outItemBytes
}

// product multiplies sizes that are not negative. It reports false when the
// product is more than 63 bits.
func product(a, b int64) (int64, bool) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	return int64(low), high == 0 && low <= math.MaxInt64
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// overlapping reports whether a and b share a byte.
func overlapping(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	first, second := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return first < second+uintptr(len(b)) && second < first+uintptr(len(a))
}
