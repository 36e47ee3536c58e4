package loader

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// Read copies the samples of the batch, as they are on the device, to the first
// Bytes bytes of dst and returns when they are there, or between two parts of
// the copy when ctx ends. It is for looking at batches: the copy is the
// driver's, and takes time. Read does not wait for work that the caller queued
// on the batch; synchronise first. It fails with [ErrReleased] after Release.
func (b *Batch) Read(ctx context.Context, dst []byte) error {
	return b.read(ctx, "batch", dst, b.Data, b.Bytes)
}

// ReadTarget is [Batch.Read] for the target of a number.
func (b *Batch) ReadTarget(ctx context.Context, target int, dst []byte) error {
	if target < 0 || target >= len(b.Targets) {
		return fmt.Errorf("loader: read: %w: target %d of %d", device.ErrArgument, target, len(b.Targets))
	}
	t := &b.Targets[target]
	return b.read(ctx, fmt.Sprintf("target %d", target), dst, t.Data, t.Bytes)
}

// Values reads the samples of a batch, see [Batch.Read], as a slice of the Go
// type that stands for its element type; uint16 also for F16 and BF16. Their
// order is that of Shape, the last axis first to change.
func Values[T dataset.Number](ctx context.Context, b *Batch) ([]T, error) {
	var zero T
	values := make([]T, b.Bytes/int64(unsafe.Sizeof(zero)))
	dst, t := dataset.Bytes(values)
	if t != b.DType && !(t == dtype.U16 && (b.DType == dtype.F16 || b.DType == dtype.BF16)) {
		return nil, fmt.Errorf("loader: read: %w: a batch of %v does not hold values of %T", device.ErrArgument, b.DType, zero)
	}
	return values, b.Read(ctx, dst)
}

// readPart is how much is read between two looks at the context.
const readPart = 64 << 20

func (b *Batch) read(ctx context.Context, what string, dst []byte, src device.Ptr, bytes int64) (err error) {
	if int64(len(dst)) < bytes {
		return fmt.Errorf("loader: read: %w: the %s has %d bytes, and there is room for %d", device.ErrArgument, what, bytes, len(dst))
	}
	if err := b.Retain(); err != nil {
		return fmt.Errorf("loader: read: %w", err)
	}
	defer func() { err = errors.Join(err, b.Release()) }()
	d := b.buffer
	d.reading.Lock()
	defer d.reading.Unlock()
	if d.stream == nil {
		if d.stream, err = d.feeder.dev.NewStream(); err != nil {
			return err
		}
	}
	for dst = dst[:bytes]; len(dst) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(dst), readPart)
		if err := errors.Join(d.stream.CopyD2H(dst[:n], src), d.stream.Synchronize()); err != nil {
			return fmt.Errorf("loader: read: %w", err)
		}
		dst, src = dst[n:], src+device.Ptr(n)
	}
	return nil
}
