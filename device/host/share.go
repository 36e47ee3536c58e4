package host

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// sharers are the open devices of this process that have shared memory, by serial.
var sharers sync.Map

// CanShare implements [device.Sharer]. Devices of one process share.
func (d *Device) CanShare() bool { return true }

// Share implements [device.Sharer].
func (d *Device) Share(p device.Ptr) ([]byte, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := d.open(); err != nil {
		return nil, err
	}
	span, ok := d.live.Find(uint64(p), 1)
	if !ok || span.Start != uint64(p) {
		return nil, fmt.Errorf("host: share: %w: %#x is not the start of an allocation", device.ErrPointer, uint64(p))
	}
	sharers.Store(d.serial, d)
	var name []byte
	for _, v := range []uint64{uint64(os.Getpid()), d.serial, uint64(p), uint64(span.Bytes)} {
		name = binary.LittleEndian.AppendUint64(name, v)
	}
	return name, nil
}

// Reach implements [device.Sharer].
func (d *Device) Reach(name []byte) (device.Ptr, error) {
	if len(name) != 32 {
		return 0, fmt.Errorf("host: reach: %w: a name of %d bytes, not 32", device.ErrArgument, len(name))
	}
	var v [4]uint64
	for i := range v {
		v[i] = binary.LittleEndian.Uint64(name[8*i:])
	}
	if v[0] != uint64(os.Getpid()) {
		return 0, fmt.Errorf("host: reach: %w: memory of process %d", device.ErrNotSupported, v[0])
	}
	switch _, ok := sharers.Load(v[1]); {
	case v[1] == d.serial:
		return 0, fmt.Errorf("host: reach: %w: the memory at %#x is this device's", device.ErrArgument, v[2])
	case !ok:
		return 0, fmt.Errorf("host: reach: %w: the device of the name", device.ErrClosed)
	}
	return device.Ptr(v[2]), d.Adopt(device.Ptr(v[2]), int64(v[3]))
}

// Unreach implements [device.Sharer].
func (d *Device) Unreach(p device.Ptr) error {
	if d.Closed() {
		return nil
	}
	return d.Disown(p)
}

// Signal implements [device.Sharer].
func (d *Device) Signal(s device.Stream, word device.Ptr) error {
	return d.onWords(s, func(words []*uint32) { atomic.StoreUint32(words[0], 1) }, word)
}

// Await implements [device.Sharer].
func (d *Device) Await(s device.Stream, words ...device.Ptr) error {
	return d.onWords(s, func(words []*uint32) {
		for _, w := range words {
			for n := time.Duration(0); atomic.LoadUint32(w) == 0; n++ {
				time.Sleep(min(n*time.Microsecond, time.Millisecond))
			}
		}
		for _, w := range words {
			atomic.StoreUint32(w, 0)
		}
	}, words...)
}

// onWords queues a function of words.
func (d *Device) onWords(s device.Stream, fn func(words []*uint32), at ...device.Ptr) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	hs, err := d.ownStream(s)
	if err != nil {
		return err
	}
	words := make([]*uint32, len(at))
	for i, p := range at {
		b, err := d.resolve(p, 4)
		if err != nil {
			return err
		}
		if p%4 != 0 {
			return fmt.Errorf("host: %w: the word at %#x is not aligned", device.ErrArgument, uint64(p))
		}
		words[i] = (*uint32)(unsafe.Pointer(&b[0]))
	}
	if len(words) == 0 {
		return nil
	}
	return hs.push(op{kind: opCall, fn: func() error { fn(words); return nil }})
}

var _ device.Sharer = (*Device)(nil)
