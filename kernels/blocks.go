package kernels

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// Blocks names the operands of [Set.Gather] and [Set.Scatter]. One side is an
// array of Total blocks, the other holds N blocks packed, in the order of the
// index.
type Blocks struct {
	Dst, Src device.Ptr

	// Index has N block numbers as int64, in memory of the device too. A
	// number outside [0, Total) leaves its block of Dst as it is.
	Index device.Ptr

	N          int64 // length of the index, 0 or more
	Total      int64 // blocks of the indexed array, 0 or more
	BlockBytes int64 // bytes of a block, 1 or more; multiples of 16 are fastest
}

// Gather queues the copy of block Index[i] of Src, which has Total blocks, to
// block i of Dst, which has N. Src may be mapped host memory, and is then
// read at the speed of the link.
func (k *Set) Gather(s device.Stream, b Blocks) error { return k.move(s, b, false) }

// Scatter queues the copy of block i of Src, which has N blocks, to block
// Index[i] of Dst, which has Total. Where the index names a block more than
// once, each of its bytes comes from one of those named, and it is not
// specified which.
func (k *Set) Scatter(s device.Stream, b Blocks) error { return k.move(s, b, true) }

func (k *Set) move(s device.Stream, b Blocks, scatter bool) error {
	j := moveJob{b, scatter}
	if err := j.check(); err != nil {
		return fmt.Errorf("kernels: %s: %w", j.name(), err)
	}
	if b.N == 0 || b.Total == 0 {
		return k.enqueue(s, nil)
	}
	return k.enqueue(s, j)
}

// moveUnits are the accesses that kernels are compiled for, in bytes.
var moveUnits = []int64{16, 4, 1}

type moveJob struct {
	Blocks
	scatter bool
}

func (j moveJob) name() string {
	if j.scatter {
		return "scatter"
	}
	return "gather"
}

func (j moveJob) check() error {
	if j.N < 0 || j.Total < 0 || j.BlockBytes < 1 {
		return fmt.Errorf("%w: %d indexes into %d blocks of %d bytes", device.ErrArgument, j.N, j.Total, j.BlockBytes)
	}
	if _, err := product("blocks and their size", max(j.N, j.Total), max(j.BlockBytes, 8)); err != nil {
		return err
	}
	dst, src := j.sizes()
	return checkOperands(
		operand{"Dst", j.Dst, dst, 1},
		operand{"Src", j.Src, src, 1},
		operand{"Index", j.Index, j.N * 8, 8})
}

// sizes gives the bytes of Dst and Src.
func (j moveJob) sizes() (dst, src int64) {
	dst, src = j.N*j.BlockBytes, j.Total*j.BlockBytes
	if j.scatter {
		dst, src = src, dst
	}
	return dst, src
}

func (j moveJob) launch(k *Set, s device.Stream) error {
	const perThread = 4 // units, as kernels.cu has it
	unit := int64(1)
	for _, u := range moveUnits {
		if (uint64(j.Dst)|uint64(j.Src)|uint64(j.BlockBytes))%uint64(u) == 0 {
			unit = u
			break
		}
	}
	units := j.BlockBytes / unit
	var args device.Args
	args.Ptr(j.Dst).Ptr(j.Src).Ptr(j.Index).Int64(j.N).Int64(j.Total).Int64(units)
	return k.start(s, fmt.Sprintf("%s_%d", j.name(), unit), blocksFor(j.N*units, perThread*threads), &args)
}

func (j moveJob) call(c device.Caller, s device.Stream) error {
	dstBytes, srcBytes := j.sizes()
	dst, err := c.Bytes(j.Dst, dstBytes)
	if err != nil {
		return err
	}
	src, err := c.Bytes(j.Src, srcBytes)
	if err != nil {
		return err
	}
	indexBytes, err := c.Bytes(j.Index, j.N*8)
	if err != nil {
		return err
	}
	index, err := view[int64](indexBytes)
	if err != nil {
		return err
	}
	return c.Call(s, func() error {
		for i, at := range index {
			if at < 0 || at >= j.Total {
				continue
			}
			to, from := int64(i), at
			if j.scatter {
				to, from = from, to
			}
			copy(dst[to*j.BlockBytes:][:j.BlockBytes], src[from*j.BlockBytes:])
		}
		return nil
	})
}
