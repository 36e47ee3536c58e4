package cuda

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// A name of shared memory: the process, the device's serial, the address, and the driver's
// handle for other processes.
const (
	nameProcess = 16
	nameHandle  = nameProcess + 16
	nameBytes   = nameHandle + 64
)

// process is what no other process has.
var process = sync.OnceValue(func() (id [nameProcess]byte) {
	_, _ = rand.Read(id[:]) // never fails
	return id
})

// sharers are the open devices of this process that have shared memory, by serial.
var sharers sync.Map

// CanShare implements [device.Sharer].
func (d *Device) CanShare() bool {
	return api.ipcGetMemHandle.Ok() && api.ipcOpenMemHandle.Ok() && api.ipcCloseMemHandle.Ok() && api.streamBatchMemOp.Ok() &&
		(runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64")
}

var errNoSharing = fmt.Errorf("cuda: shared memory: %w: the driver has no cuIpcGetMemHandle or cuStreamBatchMemOp", device.ErrNotSupported)

// Share implements [device.Sharer].
func (d *Device) Share(p device.Ptr) ([]byte, error) {
	if !d.CanShare() {
		return nil, errNoSharing
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	d.owned.Lock()
	span, live := d.live.Find(uint64(p), 1)
	d.owned.Unlock()
	if !live || span.Start != uint64(p) {
		return nil, fmt.Errorf("cuda: share: %w: %#x is not the start of an allocation", device.ErrPointer, uint64(p))
	}
	name := make([]byte, nameBytes)
	id := process()
	copy(name, id[:])
	binary.LittleEndian.PutUint64(name[nameProcess:], d.serial)
	binary.LittleEndian.PutUint64(name[nameProcess+8:], uint64(p))
	if err := check("cuIpcGetMemHandle", api.ipcGetMemHandle.Call4(uintptr(unsafe.Pointer(&name[nameHandle])), uintptr(p), 0, 0)); err != nil {
		return nil, fmt.Errorf("cuda: share the memory at %#x: %w", uint64(p), err)
	}
	sharers.Store(d.serial, d)
	return name, nil
}

// Reach implements [device.Sharer].
func (d *Device) Reach(name []byte) (device.Ptr, error) {
	if !d.CanShare() {
		return 0, errNoSharing
	}
	if len(name) != nameBytes {
		return 0, fmt.Errorf("cuda: reach: %w: a name of %d bytes, not %d", device.ErrArgument, len(name), nameBytes)
	}
	if [nameProcess]byte(name) == process() {
		return d.reachHere(binary.LittleEndian.Uint64(name[nameProcess:]), device.Ptr(binary.LittleEndian.Uint64(name[nameProcess+8:])))
	}
	if err := d.enter(); err != nil {
		return 0, err
	}
	defer d.leave()
	var p uint64
	if err := check("cuIpcOpenMemHandle", openHandle(&p, (*[64]byte)(name[nameHandle:]))); err != nil {
		return 0, fmt.Errorf("cuda: reach memory of another process from %s: %w: %w", d.info.ID, device.ErrNotSupported, err)
	}
	d.owned.Lock()
	d.opened[p] = struct{}{}
	d.owned.Unlock()
	return device.Ptr(p), nil
}

// openHandle calls cuIpcOpenMemHandle, which takes a handle by value: on arm64 as the address of
// a copy, on amd64 on the stack, behind what fills the registers.
func openHandle(p *uint64, handle *[64]byte) uintptr {
	if runtime.GOARCH == "arm64" {
		return api.ipcOpenMemHandle.Call(uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(handle)), ipcLazyPeerAccess)
	}
	args := []uintptr{uintptr(unsafe.Pointer(p)), ipcLazyPeerAccess, 0, 0, 0, 0}
	for i := 0; i < len(handle); i += 8 {
		args = append(args, uintptr(binary.LittleEndian.Uint64(handle[i:])))
	}
	r := api.ipcOpenMemHandle.Call(args...)
	runtime.KeepAlive(p)
	return r
}

// reachHere is Reach of memory of a device of this process.
func (d *Device) reachHere(serial uint64, p device.Ptr) (device.Ptr, error) {
	found, ok := sharers.Load(serial)
	if !ok {
		return 0, fmt.Errorf("cuda: reach: %w: the device of the name", device.ErrClosed)
	}
	o := found.(*Device)
	if o == d {
		return 0, fmt.Errorf("cuda: reach: %w: the memory at %#x is this device's", device.ErrArgument, uint64(p))
	}
	if err := d.enterWith(o); err != nil {
		return 0, err
	}
	defer d.leaveWith(o)
	if err := d.setCurrent(); err != nil {
		return 0, err
	}
	if !d.reaches(o) {
		return 0, fmt.Errorf("cuda: reach: %w: %s does not reach the memory of %s", device.ErrNotSupported, d.info.ID, o.info.ID)
	}
	return p, nil
}

// Unreach implements [device.Sharer]. Memory of this process stays reachable.
func (d *Device) Unreach(p device.Ptr) error {
	if err := d.enter(); err != nil {
		return closedWith(err)
	}
	defer d.leave()
	d.owned.Lock()
	_, ok := d.opened[uint64(p)]
	delete(d.opened, uint64(p))
	d.owned.Unlock()
	if !ok {
		return nil
	}
	return check("cuIpcCloseMemHandle", api.ipcCloseMemHandle.Call4(uintptr(p), 0, 0, 0))
}

// setWord are the bytes of the word that signals are copied from. What waits looks for 1 or more.
const setWord = 1

// signalWord is the address of that word, made with the first signal.
func (d *Device) signalWord() (uint64, error) {
	d.owned.Lock()
	defer d.owned.Unlock()
	if d.word != 0 {
		return d.word, nil
	}
	s, err := d.newStream()
	if err != nil {
		return 0, err
	}
	defer delete(d.streams, s)
	var p uint64
	err = check("cuMemAlloc", api.memAlloc.Call4(uintptr(unsafe.Pointer(&p)), 4, 0, 0))
	if err == nil {
		err = check("cuMemsetD8Async", api.memsetD8Async.Call4(uintptr(p), setWord, 4, s.handle))
	}
	if err = errors.Join(err, s.destroy()); err != nil {
		return 0, err
	}
	d.word = p
	return p, nil
}

// Signal implements [device.Sharer]. It is a copy, which a copy engine does: whatever is before
// it in its stream is done then, and there.
func (d *Device) Signal(s device.Stream, word device.Ptr) error {
	if !d.CanShare() {
		return errNoSharing
	}
	cs, err := d.enterStream(s)
	if err != nil {
		return err
	}
	defer cs.leave()
	from, err := d.signalWord()
	if err != nil {
		return fmt.Errorf("cuda: signal: %w", err)
	}
	if r := api.memcpyDtoDAsync.Call4(uintptr(word), uintptr(from), 4, cs.handle); r != 0 {
		return copyError(check("cuMemcpyDtoDAsync", r), word, 4)
	}
	return nil
}

// memOp is CUstreamBatchMemOpParams, of the operations on 32-bit words.
type memOp struct {
	kind    uint32
	address uint64
	value   uint64
	flags   uint32
	_       [2]uint64
}

// Await implements [device.Sharer].
func (d *Device) Await(s device.Stream, words ...device.Ptr) error {
	if !d.CanShare() {
		return errNoSharing
	}
	cs, err := d.enterStream(s)
	if err != nil {
		return err
	}
	defer cs.leave()
	if len(words) == 0 {
		return nil
	}
	ops := make([]memOp, 0, 2*len(words))
	for _, w := range words {
		ops = append(ops, memOp{kind: memOpWait, address: uint64(w), value: 1, flags: memOpWaitGEQ})
	}
	for _, w := range words {
		ops = append(ops, memOp{kind: memOpWrite, address: uint64(w)})
	}
	return check("cuStreamBatchMemOp", api.streamBatchMemOp.Call4(cs.handle, uintptr(len(ops)), uintptr(unsafe.Pointer(&ops[0])), 0))
}

var _ device.Sharer = (*Device)(nil)
