package cupti

import (
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/dl"
)

// Kind is what a piece of work is.
type Kind uint8

// The kinds of work.
const (
	Kernel Kind = iota
	H2D         // copies, by direction
	D2H
	D2D
	P2P
	H2H
	Memset
)

// Work is something that a GPU did.
type Work struct {
	Kind       Kind
	Name       string // of a kernel, as its compiler wrote it
	Device     uint32 // CUDA's number of it
	Stream     uint32 // see [Tracer.StreamID]
	Start, End int64  // nanoseconds of [Tracer.Now]
	Bytes      int64  // that a copy moved, or a memset wrote
}

// Values of CUpti_ActivityKind, and of CUpti_ActivityMemcpyKind.
const (
	kindMemcpy  = 1
	kindMemset  = 2
	kindKernel  = 10 // CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
	kindMemcpy2 = 22 // between devices

	copyH2D = 1
	copyD2H = 2
	copyH2A = 3 // A: an array of the device
	copyA2H = 4
	copyH2H = 9
	copyP2P = 10
)

// layout is where the fields of a record are. The rest of the record is not looked at:
// it differs between versions.
type layout struct {
	start, end, device, stream uintptr
	bytes                      uintptr // 0: there are none
	name                       uintptr // 0: there is none
	size                       uintptr // up to the end of the last of these fields
}

var layouts = map[uint32]layout{
	kindKernel:  {start: 16, end: 24, device: 40, stream: 48, name: 104, size: 112},
	kindMemcpy:  {start: 16, end: 24, device: 32, stream: 40, bytes: 8, size: 44},
	kindMemcpy2: {start: 16, end: 24, device: 32, stream: 40, bytes: 8, size: 44},
	kindMemset:  {start: 16, end: 24, device: 32, stream: 40, bytes: 8, size: 44},
}

const copyKindAt = 4 // of both kinds of copies

// read reads the record at p, of which most bytes may be read. It fails for one that is
// of no use.
func read(p, most uintptr, names map[uintptr]string) (w Work, ok bool) {
	if most < 4 {
		return w, false
	}
	kind := at[uint32](p, 0)
	l, ok := layouts[kind]
	if !ok || most < l.size {
		return w, false
	}
	w.Start, w.End = at[int64](p, l.start), at[int64](p, l.end)
	if w.Start <= 0 || w.End < w.Start { // CUPTI has 0 where it does not know
		return w, false
	}
	w.Device, w.Stream = at[uint32](p, l.device), at[uint32](p, l.stream)
	if l.bytes > 0 {
		if w.Bytes = at[int64](p, l.bytes); w.Bytes < 0 {
			return w, false
		}
	}
	switch kind {
	case kindKernel:
		address := at[uintptr](p, l.name)
		name, ok := names[address]
		if !ok {
			name = dl.GoString(address)
			names[address] = name
		}
		w.Kind, w.Name = Kernel, name
	case kindMemset:
		w.Kind = Memset
	case kindMemcpy2:
		w.Kind = P2P
	default:
		w.Kind = copyKind(at[uint8](p, copyKindAt))
	}
	return w, true
}

func copyKind(kind uint8) Kind {
	switch kind {
	case copyH2D, copyH2A:
		return H2D
	case copyD2H, copyA2H:
		return D2H
	case copyH2H:
		return H2H
	case copyP2P:
		return P2P
	}
	return D2D
}

func at[T any](p, offset uintptr) T { return *(*T)(unsafe.Add(dl.Pointer(p), offset)) }
