package kernels

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// Resample queues the making of t.Len() samples, N x H x W x 3 bytes at dst,
// from pictures of any sizes. table is t.DeviceBytes() bytes of memory, a
// multiple of 8, that has t.Bytes() at its start when the work runs; the rest
// is overwritten, so calls at the same time need one each. t itself may change
// after the call.
//
// The result is that of Pillow's Image.resize of the crop box, BILINEAR or
// BICUBIC, bit for bit, and so that of package imaging: weights are computed
// in float64 and rounded to 22 fraction bits; the horizontal pass rounds to
// bytes, and then the vertical pass works on those. An orientation comes
// before that, as Pillow's ImageOps.exif_transpose does, and a mirror after.
//
// Memory that the table names is the caller's promise: t has checked it
// against t's own words, not against what is allocated.
func (k *Set) Resample(s device.Stream, dst device.Ptr, t *ResampleTable, table device.Ptr) error {
	j, err := newResampleJob(dst, t, table)
	if err != nil {
		return fmt.Errorf("kernels: resample: %w", err)
	}
	if j.images == 0 {
		return k.enqueue(s, nil)
	}
	return k.enqueue(s, j)
}

type resampleJob struct {
	dst, table    device.Ptr
	images        int64
	width, height int
}

func newResampleJob(dst device.Ptr, t *ResampleTable, table device.Ptr) (*resampleJob, error) {
	if t == nil {
		return nil, fmt.Errorf("%w: no table", device.ErrArgument)
	}
	j := &resampleJob{dst, table, int64(t.Len()), t.width, t.height}
	bytes, err := product("samples and their size", j.images, int64(t.width), int64(t.height), 3)
	if err != nil {
		return nil, err
	}
	out, work := operand{"dst", dst, bytes, 1}, operand{"table", table, t.DeviceBytes(), 8}
	if err := checkOperands(work, t.sources...); err != nil {
		return nil, err
	}
	if err := checkOperands(out, work); err != nil {
		return nil, err
	}
	return j, checkOperands(out, t.sources...)
}

const (
	weightsKernel  = "resample_weights"
	resampleKernel = "resample"

	resampleTile = 32 // outputs each way that a thread block makes, as resample.cuh has it
)

func (j *resampleJob) launch(k *Set, s device.Stream) error {
	weights := j.table.Add(j.images * PictureBytes)
	var args device.Args
	args.Ptr(j.table).Ptr(weights).Int64(j.images).Int32(int32(j.width)).Int32(int32(j.height))
	err := k.kernels[weightsKernel].Launch(s, device.Grid{
		BlocksX: blocksFor(int64(max(j.width, j.height)), threads),
		BlocksY: int(min(2*j.images, mostBlocksY)), // one for each axis
		Threads: threads,
	}, &args)
	if err != nil {
		return err
	}
	args = device.Args{}
	args.Ptr(j.dst).Ptr(j.table).Ptr(weights).Int64(j.images).Int32(int32(j.width)).Int32(int32(j.height))
	return k.kernels[resampleKernel].Launch(s, device.Grid{
		BlocksX: blocksFor(int64(j.width), resampleTile) * blocksFor(int64(j.height), resampleTile),
		BlocksY: int(min(j.images, mostBlocksY)),
		Threads: threads,
	}, &args)
}
