package main

// #include "pinion.h"
import "C"

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/cuda"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/pinned/segment"
	"golang.org/x/sys/unix"
)

// ring is the memory that pinion.Collate shares with worker processes, on the
// side of the process that has the batches. The workers, and which slot is whose,
// are Python's business (pinion/_ring.py): here slots are lent to tensors, and
// marked as free when the copies from them are done.
type ring struct {
	*segment.Lender
	mem    []byte
	outbox *C.pinion_outbox
	used   atomic.Bool // by a device
}

// call calls fn, which may call CUDA where a device uses the memory (see
// feed.call).
func (r *ring) call(fn func()) {
	if r.used.Load() {
		cuda.Visit(fn)
	} else {
		fn()
	}
}

var rings handles[*ring]

// slot is a slot of a ring with the caller.
type slot struct{ *segment.Loan }

func (s slot) giveBack(int64) error {
	s.Return()
	return nil
}

// pinion_collate_open maps the segment of a file, which stays the caller's, and
// gives the address of its first byte of data.
//
//export pinion_collate_open
func pinion_collate_open(fd C.int, handle, address *C.uint64_t) (result C.int) {
	defer guard(&result)
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) // what a File has, it closes
	if err != nil {
		return fail(os.NewSyscallError("fcntl", err))
	}
	f := os.NewFile(uintptr(own), "the memory of Collate")
	defer f.Close()
	s, err := segment.Open(f, segment.OpenOptions{Sparse: true})
	if err != nil {
		return fail(err)
	}
	r := &ring{Lender: segment.NewLender(s), mem: s.Bytes(), outbox: C.pn_outbox_new()}
	*address = C.uint64_t(uintptr(unsafe.Pointer(unsafe.SliceData(r.mem))))
	*handle = C.uint64_t(rings.add(r))
	return C.PINION_OK
}

// pinion_collate_use tells that a device of that name may read the slots.
//
//export pinion_collate_use
func pinion_collate_use(handle C.uint64_t, name *C.char) (result C.int) {
	defer guard(&result)
	r, ok := rings.get(uint64(handle))
	if !ok {
		return closed("the Collate")
	}
	var err error
	elsewhere(func() {
		var dev device.Device
		if dev, err = device.Open(C.GoString(name)); err != nil {
			return
		}
		if err = r.Use(dev); err != nil {
			_ = dev.Close()
		}
	})
	if err == nil {
		r.used.Store(true)
	}
	return fail(err)
}

// pinion_collate_settle frees the slots whose last use has ended and whose copies
// are done.
//
//export pinion_collate_settle
func pinion_collate_settle(handle C.uint64_t) (result C.int) {
	defer guard(&result)
	r, ok := rings.get(uint64(handle))
	if !ok {
		return closed("the Collate")
	}
	r.call(func() {
		_ = drain(r.outbox, -1)
		r.Settle()
	})
	return C.PINION_OK
}

// pinion_collate_lend lends n bytes from start; when they are free, it sets the
// 32-bit word at state to 0. Both of the two pointers at hold become the hold, of
// which pinion_take leaves the second. It fails with PINION_HOST_MEMORY, beside
// the hold, where the system does not pin them.
//
//export pinion_collate_lend
func pinion_collate_lend(handle, start, n, state C.uint64_t, hold **C.pinion_hold) (result C.int) {
	defer guard(&result)
	r, ok := rings.get(uint64(handle))
	if !ok {
		return closed("the Collate")
	}
	if state%4 != 0 || uint64(state) > uint64(len(r.mem)-4) {
		return fail(fmt.Errorf("%w: state at %d of %d bytes", errs.ErrArgument, state, len(r.mem)))
	}
	word := (*uint32)(unsafe.Pointer(&r.mem[state]))
	var loan *segment.Loan
	var err error
	r.call(func() { loan, err = r.Lend(int64(start), int64(n), func() { atomic.StoreUint32(word, 0) }) })
	if err != nil {
		return fail(err)
	}
	h := C.pn_hold_new(r.outbox, C.uint64_t(lents.add(slot{loan})))
	*(*[2]*C.pinion_hold)(unsafe.Pointer(hold)) = [2]*C.pinion_hold{h, h}
	return fail(loan.PinError())
}

// collateStats is what pinion_collate_stats tells.
type collateStats struct {
	Lent     int    `json:"lent_slots"`
	Pending  int    `json:"pending_slots"`
	Pinned   int64  `json:"pinned_bytes"`
	PinError string `json:"pin_error,omitempty"`
	Error    string `json:"error,omitempty"`
}

//export pinion_collate_stats
func pinion_collate_stats(handle C.uint64_t, out **C.char) (result C.int) {
	defer guard(&result)
	r, ok := rings.get(uint64(handle))
	if !ok {
		return closed("the Collate")
	}
	s := r.Stats()
	c := collateStats{Lent: s.Lent, Pending: s.Pending, Pinned: s.PinnedBytes}
	if s.PinError != nil {
		c.PinError = s.PinError.Error()
	}
	if s.Err != nil {
		c.Error = s.Err.Error()
	}
	return tell(out, c)
}

// pinion_collate_close ends lending. Slots with the caller stay valid.
//
//export pinion_collate_close
func pinion_collate_close(handle C.uint64_t) (result C.int) {
	defer guard(&result)
	r, ok := rings.take(uint64(handle))
	if !ok {
		return C.PINION_OK
	}
	r.call(func() { r.Close() })
	C.pn_outbox_close(r.outbox)
	return C.PINION_OK
}
