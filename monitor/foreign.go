package monitor

import (
	"reflect"
	"slices"
	"sync"
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
