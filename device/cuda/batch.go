package cuda

import (
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// memcpyAttributes is CUmemcpyAttributes.
type memcpyAttributes struct {
	srcAccessOrder int32
	srcLocation    location
	dstLocation    location
	flags          uint32
}

// batch is what one call of cuMemcpyBatchAsync points to.
type batch struct {
	dsts, srcs, sizes []uint64
	attributes        memcpyAttributes
	first             uintptr // index of the first copy that the attributes are for
	failed            uint64  // index of the copy that failed, where the driver tells
	args              [9]uintptr
}

var batches = sync.Pool{New: func() any {
	return &batch{attributes: memcpyAttributes{srcAccessOrder: srcAccessOrderStream}}
}}

// CanCopyBatch implements [device.BatchCopier]: drivers can since CUDA 12.8.
func (d *Device) CanCopyBatch() bool { return api.memcpyBatchAsync.Ok() || api.memcpyBatchAsync12.Ok() }

// CopyBatch implements [device.BatchCopier].
func (d *Device) CopyBatch(s device.Stream, spans []device.Span) error {
	if !d.CanCopyBatch() {
		return fmt.Errorf("cuda: batch of copies: %w", device.ErrNotSupported)
	}
	for i, span := range spans {
		if err := span.Check(); err != nil {
			return fmt.Errorf("cuda: copy %d of a batch of %d: %w", i, len(spans), err)
		}
	}
	cs, err := d.enterStream(s)
	if err != nil {
		return err
	}
	defer cs.leave()
	if len(spans) == 0 {
		return nil
	}
	b := batches.Get().(*batch)
	defer batches.Put(b)
	b.fill(spans)
	if r := b.call(cs.handle); r != 0 {
		return b.explain(check("cuMemcpyBatchAsync", r), spans)
	}
	return nil
}

// fill spreads the spans out as the driver wants them.
func (b *batch) fill(spans []device.Span) {
	b.dsts, b.srcs, b.sizes = b.dsts[:0], b.srcs[:0], b.sizes[:0]
	for _, span := range spans {
		b.dsts = append(b.dsts, uint64(span.Dst))
		b.srcs = append(b.srcs, uint64(span.Src))
		b.sizes = append(b.sizes, uint64(span.Bytes))
	}
	b.failed = math.MaxUint64
}

// call passes the driver the arguments of b, from memory that b owns.
func (b *batch) call(stream uintptr) uintptr {
	b.args = [9]uintptr{
		uintptr(unsafe.Pointer(&b.dsts[0])), uintptr(unsafe.Pointer(&b.srcs[0])), uintptr(unsafe.Pointer(&b.sizes[0])),
		uintptr(len(b.sizes)),
		uintptr(unsafe.Pointer(&b.attributes)), uintptr(unsafe.Pointer(&b.first)), 1,
		stream,
	}
	if api.memcpyBatchAsync.Ok() {
		return api.memcpyBatchAsync.Call(b.args[:8]...)
	}
	b.args[7], b.args[8] = uintptr(unsafe.Pointer(&b.failed)), stream
	return api.memcpyBatchAsync12.Call(b.args[:]...)
}

// explain says which copy failed, or that it may be any.
func (b *batch) explain(err error, spans []device.Span) error {
	if i := b.failed; i < uint64(len(spans)) {
		return fmt.Errorf("cuda: copy %d of a batch of %d, %d bytes, %#x to %#x: %w",
			i, len(spans), spans[i].Bytes, uint64(spans[i].Src), uint64(spans[i].Dst), pointerError(err))
	}
	return fmt.Errorf("cuda: a batch of %d copies: %w", len(spans), pointerError(err))
}

var _ device.BatchCopier = (*Device)(nil)
