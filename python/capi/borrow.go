package main

// #include "pinion.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
)

// borrow is how a loader gets device memory from the caller's allocator: PyTorch's, say.
// Nobody calls into Python. Whoever needs memory puts up a want; the calls that the caller
// makes anyway, of pinion_loader_next and pinion_task_wait, return PINION_MEMORY then, and
// the caller answers each want with a tensor, whose memory is used until it is given back:
// its own deleter is called, in a thread of the caller's.
type borrow struct {
	ctx    context.Context // ends when the loader closes
	caller atomic.Int64    // the thread that is in pinion_loader_next
	visits int             // of that thread

	mu    sync.Mutex
	wants []*request
	ready []reply // to wants of the caller's own thread
	wake  func()  // ends what the caller waits for
}

// request is memory that is wanted.
type request struct {
	id    uint64
	bytes int64
	dev   *borrowing
	got   chan reply // nil: wanted by the caller's own thread, which cannot wait for itself
}

// reply is what the caller says to a want: memory, or why there is none, or that it is to
// come from the device itself.
type reply struct {
	dev    *borrowing
	bytes  int64
	at     device.Ptr
	tensor uintptr // C's DLManagedTensor
	own    bool
	err    error
	visit  int // in which it was taken
}

var borrows handles[*borrow]

// errWanted is what an allocation in the caller's own thread fails with: the caller makes
// the same call again when it has answered.
var errWanted = errors.New("memory is to come from the caller first")

// pinion_borrow_new makes what a loader that is opened with it gets device memory by.
//
//export pinion_borrow_new
func pinion_borrow_new(handle *C.uint64_t) (result C.int) {
	defer guard(&result)
	*handle = C.uint64_t(borrows.add(new(borrow)))
	return C.PINION_OK
}

// pinion_borrow_wanted tells the first want that has no answer; PINION_END: there is none.
//
//export pinion_borrow_wanted
func pinion_borrow_wanted(handle C.uint64_t, out *C.pinion_want) (result C.int) {
	defer guard(&result)
	b, ok := borrows.get(uint64(handle))
	if !ok {
		return C.PINION_END
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.wants) == 0 {
		return C.PINION_END
	}
	w := b.wants[0]
	out.id, out.bytes = C.uint64_t(w.id), C.int64_t(w.bytes)
	out.device_type, out.device_id = place(w.dev.Device)
	return C.PINION_OK
}

//export pnBorrowGive
func pnBorrowGive(handle, id, address, tensor C.uint64_t) (result C.int) {
	defer guard(&result)
	return answer(handle, id, reply{at: device.Ptr(address), tensor: uintptr(tensor)})
}

// pinion_borrow_refuse answers a want: there is no memory, for the reason that is given, or
// if none is, the device is asked itself.
//
//export pinion_borrow_refuse
func pinion_borrow_refuse(handle, id C.uint64_t, why *C.char, n C.int64_t) (result C.int) {
	defer guard(&result)
	r := reply{own: n == 0}
	if n > 0 {
		r.err = errors.New(C.GoStringN(why, C.int(n)))
	}
	return answer(handle, id, r)
}

// answer answers a want; PINION_END: nobody wants it any more.
func answer(handle, id C.uint64_t, r reply) C.int {
	b, ok := borrows.get(uint64(handle))
	if !ok {
		return C.PINION_END
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.wants, func(w *request) bool { return w.id == uint64(id) })
	if i < 0 {
		return C.PINION_END
	}
	w := b.wants[i]
	b.wants = slices.Delete(b.wants, i, i+1)
	r.dev, r.bytes = w.dev, w.bytes
	if r.err != nil {
		r.err = fmt.Errorf("%w: PyTorch has no %s: %w", device.ErrOutOfMemory, units.Bytes(w.bytes), r.err)
	}
	if w.got == nil {
		b.ready = append(b.ready, r)
	} else {
		w.got <- r // never blocks: it has room for one
	}
	return C.PINION_OK
}

// watch has wake called as soon as something is wanted, until unwatch; false: something
// is wanted already.
func (b *borrow) watch(wake func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.wants) > 0 {
		return false
	}
	b.wake = wake
	return true
}

// unwatch ends watch.
func (b *borrow) unwatch() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wake = nil
}

// wanted reports whether something is.
func (b *borrow) wanted() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.wants) > 0
}

// visit calls fn, the caller's own thread's part in the loader.
func (b *borrow) visit(fn func()) {
	b.visits++
	b.caller.Store(int64(syscall.Gettid())) // a call from C keeps its thread
	defer b.caller.Store(0)
	fn()
}

func (b *borrow) visiting() bool { return b.caller.Load() == int64(syscall.Gettid()) }

// ask gets memory for a device.
func (b *borrow) ask(dev *borrowing, n int64) (reply, error) {
	w := &request{id: serial.Add(1), bytes: n, dev: dev}
	visiting := b.visiting()
	b.mu.Lock()
	if visiting {
		if i := slices.IndexFunc(b.ready, func(r reply) bool { return r.dev == dev && r.bytes == n }); i >= 0 {
			r := b.ready[i]
			b.ready = slices.Delete(b.ready, i, i+1)
			b.mu.Unlock()
			r.visit = b.visits
			return r, r.err
		}
	} else {
		w.got = make(chan reply, 1)
	}
	b.wants = append(b.wants, w)
	if b.wake != nil {
		b.wake()
	}
	b.mu.Unlock()
	if visiting {
		return reply{}, errWanted
	}
	select {
	case r := <-w.got:
		return r, r.err
	case <-b.ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wants = slices.DeleteFunc(b.wants, func(o *request) bool { return o == w })
	select {
	case r := <-w.got:
		return r, r.err
	default:
		return reply{}, fmt.Errorf("%w while it waited for memory", device.ErrClosed)
	}
}

// put keeps memory, of which another part was wanted too, for the next visit.
func (b *borrow) put(r reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = append(b.ready, r)
}

// close gives back what nobody came for.
func (b *borrow) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.ready {
		r.giveBack()
	}
	b.ready, b.wants = nil, nil
}

func (r reply) giveBack() {
	if r.tensor != 0 {
		C.pn_give_back(C.uint64_t(r.tensor))
	}
}

// borrowing is a device whose memory is the caller's.
type borrowing struct {
	device.Wrapper
	from  *borrow
	adopt adopter // nil: the device knows the caller's memory by itself

	mu     sync.Mutex
	blocks map[device.Ptr]reply
}

// adopter is the host, which knows only memory that it was told of.
type adopter interface {
	Adopt(p device.Ptr, n int64) error
	Disown(p device.Ptr) error
}

func newBorrowing(dev device.Device, from *borrow) *borrowing {
	d := &borrowing{Wrapper: device.Wrapper{Device: dev}, from: from, blocks: map[device.Ptr]reply{}}
	d.adopt, _ = device.As[adopter](dev)
	return d
}

// Alloc implements [device.Device].
func (d *borrowing) Alloc(n int64) (device.Ptr, error) {
	if n <= 0 {
		return d.Device.Alloc(n)
	}
	r, err := d.from.ask(d, n)
	if err != nil {
		return 0, err
	}
	if r.own {
		return d.Device.Alloc(n)
	}
	if d.adopt != nil {
		if err := d.adopt.Adopt(r.at, n); err != nil {
			r.giveBack()
			return 0, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.blocks[r.at] = r
	return r.at, nil
}

// Free implements [device.Device].
func (d *borrowing) Free(p device.Ptr) error {
	d.mu.Lock()
	r, ok := d.blocks[p]
	delete(d.blocks, p)
	d.mu.Unlock()
	if !ok {
		return d.Device.Free(p)
	}
	visiting := d.from.visiting()
	if !visiting { // else the loader has waited, or not used it yet
		_ = d.Synchronize() // as a driver does that frees memory; an error is that of others' work
	}
	if d.adopt != nil {
		if err := d.adopt.Disown(p); err != nil {
			return err // and leave the memory where it is
		}
	}
	if visiting && r.visit == d.from.visits {
		d.from.put(r)
	} else {
		r.giveBack()
	}
	return nil
}

// Close implements [device.Device].
func (d *borrowing) Close() error {
	err := d.Device.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.blocks {
		r.giveBack()
	}
	clear(d.blocks)
	return err
}
