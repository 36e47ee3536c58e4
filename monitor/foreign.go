package monitor

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/monitor/internal/page"
	"github.com/pinion-gpu/pinion/vram"
)

// Foreign is device memory that something else than Pinion holds in this process, as
// it says itself: PyTorch's allocator, for one. See [AddForeign].
type Foreign struct {
	Source string `json:"source"` // such as "pytorch"
	Device string `json:"device"`

	ReservedBytes   int64 `json:"reserved_bytes" amount:"Device memory that another allocator has from the device."`
	AllocatedBytes  int64 `json:"allocated_bytes" amount:"Device memory of live blocks of another allocator."`
	RequestedBytes  int64 `json:"requested_bytes" amount:"Device memory of live blocks of another allocator, as asked for."`
	ActiveBytes     int64 `json:"active_bytes" amount:"Device memory of live blocks of another allocator, and of freed ones that a stream may still use."`
	FragmentedBytes int64 `json:"fragmented_bytes" amount:"Free device memory of another allocator beside live blocks, which it cannot give back."`
	Blocks          int64 `json:"blocks" amount:"Live blocks of another allocator."`

	Allocations int64 `json:"allocations" count:"Blocks that another allocator handed out."`
	Frees       int64 `json:"frees" count:"Blocks of another allocator that were freed."`
	DriverCalls int64 `json:"driver_calls" count:"Calls by which another allocator took and returned device memory."`
	Retries     int64 `json:"retries" count:"Allocations of another allocator that were tried again after its cache was emptied."`
	OutOfMemory int64 `json:"out_of_memory" count:"Allocations of another allocator that failed."`
}

// foreign is who tells of memory of others.
var foreign struct {
	sync.Mutex
	readers []*func() []Foreign
}

// AddForeign adds to every snapshot what read tells of the memory of others, until
// remove is called, which waits for a read that is under way. read is called by
// whoever takes a snapshot, in one goroutine at a time; it must be quick, and take no
// snapshot itself. Elements with the same source and device are added up.
func AddForeign(read func() []Foreign) (remove func()) {
	foreign.Lock()
	defer foreign.Unlock()
	own := &read
	foreign.readers = append(foreign.readers, own)
	return func() {
		foreign.Lock()
		defer foreign.Unlock()
		foreign.readers = slices.DeleteFunc(foreign.readers, func(r *func() []Foreign) bool { return r == own })
	}
}

func takeForeign() []Foreign {
	foreign.Lock()
	defer foreign.Unlock()
	list := []Foreign{}
	for _, read := range foreign.readers {
		for _, f := range (*read)() {
			list = merge(list, f, false)
		}
	}
	slices.SortFunc(list, func(a, b Foreign) int { return compareLabels(reflect.ValueOf(a), reflect.ValueOf(b)) })
	return list
}

// ForeignMemory is the memory of another allocator on one device, block by block, for
// the allocation map and the top holders of the dashboard. See [AddForeignMemory].
type ForeignMemory struct {
	Source   string           `json:"source"` // as that of [Foreign]
	Device   string           `json:"device"`
	Segments []ForeignSegment `json:"segments"`

	// Stacks are the calls that blocks were allocated by, the innermost first. A
	// block names one by its index.
	Stacks [][]string `json:"stacks"`
}

// ForeignSegment is memory that an allocator has from the device: the blocks that it is
// divided into, from its address on, without gaps.
type ForeignSegment struct {
	Address uint64         `json:"address"`
	Stream  int32          `json:"stream"`
	Blocks  []ForeignBlock `json:"blocks"`
}

// ForeignBlock is one block.
type ForeignBlock struct {
	Bytes          int64  `json:"bytes"`
	RequestedBytes int64  `json:"requested_bytes"`
	State          string `json:"state"` // "live", "pending" (freed, but a stream may still use it) or "free"
	Name           string `json:"name"`  // of what it is for, if that is known
	Stack          int    `json:"stack"` // index in Stacks, from 1 on; 0: unknown
}

// ErrArgument: what was given cannot be right.
var ErrArgument = errs.ErrArgument

// Check returns an error that wraps [ErrArgument] if m cannot be right: sizes below
// 0, unknown states, stacks that there are not, segments beyond the address space.
func (m *ForeignMemory) Check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("monitor: %w: memory of %q on %q: %s", ErrArgument, m.Source, m.Device, fmt.Sprintf(format, args...))
	}
	total := int64(0)
	for i, g := range m.Segments {
		at := g.Address
		for k, b := range g.Blocks {
			_, known := foreignStates[b.State]
			switch {
			case b.Bytes <= 0 || b.Bytes > maxForeign-total || b.RequestedBytes < 0 || b.RequestedBytes > b.Bytes:
				return wrong("block %d of segment %d has %d bytes, of which %d were asked for", k, i, b.Bytes, b.RequestedBytes)
			case at+uint64(b.Bytes) < at:
				return wrong("segment %d ends beyond the last address", i)
			case !known:
				return wrong("block %d of segment %d is in the state %q", k, i, b.State)
			case b.Stack < 0 || b.Stack > len(m.Stacks):
				return wrong("block %d of segment %d has stack %d of %d", k, i, b.Stack, len(m.Stacks))
			}
			at += uint64(b.Bytes)
			total += b.Bytes
		}
	}
	return nil
}

// maxForeign is more memory than any device has.
const maxForeign = int64(1) << 50

var foreignStates = map[string]vram.BlockState{"live": vram.BlockLive, "pending": vram.BlockPending, "free": vram.BlockFree}

// visit calls f for every block.
func (m *ForeignMemory) visit(f func(b vram.BlockInfo, first bool, stack []string)) {
	for _, g := range m.Segments {
		at := device.Ptr(g.Address)
		for i, b := range g.Blocks {
			x := vram.BlockInfo{Address: at, Bytes: b.Bytes, Requested: b.RequestedBytes, State: foreignStates[b.State], Stream: g.Stream, Name: b.Name}
			var stack []string
			if b.Stack > 0 {
				stack = m.Stacks[b.Stack-1]
			}
			f(x, i == 0, stack)
			at = at.Add(b.Bytes)
		}
	}
}

// foreignMemory is who tells of blocks of others.
var foreignMemory struct {
	sync.Mutex
	readers []*func() []ForeignMemory
}

// AddForeignMemory adds to the allocation map what read tells of the blocks of others,
// until remove is called, which waits for a read that is under way. read is called
// while somebody looks at the map, every few seconds, by one goroutine at a time. What
// it returns is not changed any more, and has passed [ForeignMemory.Check].
func AddForeignMemory(read func() []ForeignMemory) (remove func()) {
	foreignMemory.Lock()
	defer foreignMemory.Unlock()
	own := &read
	foreignMemory.readers = append(foreignMemory.readers, own)
	return func() {
		foreignMemory.Lock()
		defer foreignMemory.Unlock()
		foreignMemory.readers = slices.DeleteFunc(foreignMemory.readers, func(r *func() []ForeignMemory) bool { return r == own })
	}
}

// others lists the memory of other allocators for the page.
func others() (list []page.Other) {
	foreignMemory.Lock()
	defer foreignMemory.Unlock()
	for _, read := range foreignMemory.readers {
		for _, m := range (*read)() {
			list = append(list, page.Other{Source: m.Source, Device: m.Device, Visit: m.visit})
		}
	}
	return list
}
