package pinned

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Buffer is memory handed out by a [Pool]. Its methods other than Free may be
// used concurrently with each other.
type Buffer struct {
	pool   *Pool
	block  *block // nil once freed
	mem    []byte // nil once freed
	n      int64
	pinned bool
}

// handOut wraps a block in use into a buffer of n bytes, for whoever's stack it is.
func (p *Pool) handOut(b *block, n int64, stack []uintptr) *Buffer {
	p.allocs++
	p.buffers++
	p.requested += n
	p.active += b.size
	b.requested, b.serial, b.stack = n, p.allocs, stack
	p.peakActive = max(p.peakActive, p.active)
	offset := b.addr - b.seg.base()
	return &Buffer{
		pool: p, block: b, n: n, pinned: b.seg.pinned,
		mem: b.seg.mem[offset:][:n:b.size],
	}
}

// Bytes returns the memory: Len bytes, with a capacity of whole pages that all
// belong to the buffer. It must not be used after Free, from when on Bytes
// returns nil.
func (b *Buffer) Bytes() []byte { return b.mem }

// Len returns the size that was asked for, in bytes.
func (b *Buffer) Len() int64 { return b.n }

// Pinned reports whether the memory is page-locked. It always is, unless the
// pool was made with [Options.AllowPageable].
func (b *Buffer) Pinned() bool { return b.pinned }

// Mapped returns the address by which the device reaches the memory, valid
// until Free. It fails with [device.ErrNotSupported] for pageable memory and
// on devices that cannot map, and with [ErrFreed] after Free.
func (b *Buffer) Mapped() (device.Ptr, error) {
	switch {
	case b.mem == nil:
		return 0, b.freedError()
	case !b.pinned:
		return 0, fmt.Errorf("pinned: %w: the buffer of %s is pageable", device.ErrNotSupported, units.Bytes(b.n))
	case b.pool.pinner == nil:
		return 0, fmt.Errorf("pinned: %w", errNoPinner(b.pool.dev))
	}
	return b.pool.pinner.Mapped(b.mem)
}

// Free gives the memory back to the pool, which serves it again once all work
// queued so far on the streams in after is done; name every stream that has
// work with the buffer in its queue. Free does not wait for that work, except
// where it cannot record an event on a stream, which is then closed or
// broken: it waits for the stream's device instead. If that fails too, nobody
// can say when the memory is out of use; it is then never served again, is
// counted in [Stats.LostBytes], and Free returns the error.
//
// The buffer must not be used any more. A second Free fails with [ErrFreed].
// After the pool's Close, Free still works, but waits.
func (b *Buffer) Free(after ...device.Stream) error {
	p := b.pool
	if p == nil {
		return b.freedError()
	}
	for _, s := range after {
		if s == nil {
			return fmt.Errorf("pinned: %w: free after a nil stream", device.ErrArgument)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.block == nil {
		return b.freedError()
	}
	blk := b.block
	b.block, b.mem = nil, nil
	blk.requested, blk.stack = 0, nil
	p.buffers--
	p.requested -= b.n
	p.active -= blk.size
	err := p.retire(blk, after)
	if p.closed {
		err = errors.Join(err, p.settle())
	}
	return err
}

func (b *Buffer) freedError() error {
	return fmt.Errorf("pinned: %w: %s", ErrFreed, units.Bytes(b.n))
}
