package cupti

import (
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

const (
	bufferBytes = 1 << 20 // some 5,000 kernels
	mostBuffers = 128     // CUPTI takes one for each thread that queues work
)

// full is a buffer with records.
type full struct {
	address uintptr
	valid   uintptr // bytes
}

// buffers are those of the process: CUPTI has one set of callbacks.
var buffers struct {
	sync.Mutex
	made  int
	free  []uintptr
	taken map[uintptr]struct{} // that CUPTI has
	full  []full
	ready chan struct{} // has room for one; nil: nobody reads
}

// callbacks are the two functions that CUPTI calls, and one that it never does: a
// subscriber must name one. They are made once, since they stay for ever.
var callbacks = sync.OnceValue(func() (f struct{ requested, completed, event uintptr }) {
	f.requested = purego.NewCallback(requested)
	f.completed = purego.NewCallback(completed)
	f.event = purego.NewCallback(func(_, _, _, _ uintptr) uintptr { return 0 })
	return f
})

// requested is called when CUPTI needs a buffer: on a thread that queues work, which may
// hold locks of CUPTI. No buffer is one of no bytes.
func requested(buffer, size, records uintptr) uintptr {
	address := takeBuffer()
	*(*uintptr)(dl.Pointer(buffer)) = address
	*(*uintptr)(dl.Pointer(size)) = 0
	if address != 0 {
		*(*uintptr)(dl.Pointer(size)) = bufferBytes
	}
	*(*uintptr)(dl.Pointer(records)) = 0 // as many as there is room for
	return 0
}

// completed is called when CUPTI gives a buffer back.
func completed(_, _, buffer, _, valid uintptr) uintptr {
	b := &buffers
	b.Lock()
	defer b.Unlock()
	if _, ours := b.taken[buffer]; !ours {
		return 0
	}
	delete(b.taken, buffer)
	if b.ready == nil || valid == 0 || valid > bufferBytes {
		b.free = append(b.free, buffer)
		return 0
	}
	b.full = append(b.full, full{buffer, valid})
	select {
	case b.ready <- struct{}{}:
	default:
	}
	return 0
}

// takeBuffer gives a buffer to CUPTI, or 0.
func takeBuffer() uintptr {
	b := &buffers
	b.Lock()
	defer b.Unlock()
	if b.ready == nil {
		return 0
	}
	var address uintptr
	if n := len(b.free); n > 0 {
		address = b.free[n-1]
		b.free = b.free[:n-1]
	} else if b.made < mostBuffers {
		memory, err := pagemem.Map(bufferBytes)
		if err != nil {
			return 0
		}
		b.made++
		address = uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
	} else {
		return 0
	}
	if b.taken == nil {
		b.taken = map[uintptr]struct{}{}
	}
	b.taken[address] = struct{}{}
	return address
}

// fullBuffers takes those with records.
func fullBuffers() (list []full) {
	b := &buffers
	b.Lock()
	defer b.Unlock()
	list, b.full = b.full, nil
	return list
}

// giveBack ends the use of a buffer that was read.
func giveBack(f full) {
	b := &buffers
	b.Lock()
	defer b.Unlock()
	b.free = append(b.free, f.address)
}

// open begins, or with nil ends, the giving out of buffers.
func open(ready chan struct{}) {
	b := &buffers
	b.Lock()
	defer b.Unlock()
	b.ready = ready
}
