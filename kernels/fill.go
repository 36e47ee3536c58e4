package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// Fill queues setting n elements of elemBytes (1, 2, 4 or 8) bytes at dst to
// the low elemBytes bytes of pattern, the lowest byte first. dst is a multiple
// of elemBytes.
func (k *Set) Fill(s device.Stream, dst device.Ptr, elemBytes int, pattern uint64, n int64) error {
	j, err := checkFill(dst, elemBytes, pattern, n)
	if err != nil {
		return fmt.Errorf("kernels: fill: %w", err)
	}
	if n == 0 {
		return k.enqueue(s, nil)
	}
	return k.enqueue(s, j)
}

const fillKernel = "fill"

type fillJob struct {
	dst     device.Ptr
	bytes   int64
	pattern uint64 // the element, repeated to 8 bytes
}

func checkFill(dst device.Ptr, elemBytes int, pattern uint64, n int64) (*fillJob, error) {
	switch elemBytes {
	case 1:
		pattern = (pattern & 0xff) * 0x0101010101010101
	case 2:
		pattern = (pattern & 0xffff) * 0x0001000100010001
	case 4:
		pattern = (pattern & 0xffffffff) * 0x0000000100000001
	case 8:
	default:
		return nil, fmt.Errorf("%w: elements of %d bytes; 1, 2, 4 and 8 are possible", device.ErrArgument, elemBytes)
	}
	if n < 0 {
		return nil, fmt.Errorf("%w: %d elements", device.ErrArgument, n)
	}
	size, err := product("elements and their size", n, int64(elemBytes))
	if err != nil {
		return nil, err
	}
	return &fillJob{dst, size, pattern}, checkOperands(operand{"dst", dst, size, int64(elemBytes)})
}

func (j *fillJob) launch(k *Set, s device.Stream) error {
	var args device.Args
	args.Ptr(j.dst).Int64(j.bytes).Int64(int64(j.pattern))
	return k.start(s, fillKernel, blocksFor(j.bytes, 16*threads), &args)
}

func (j *fillJob) call(c device.Caller, s device.Stream) error {
	dst, err := c.Bytes(j.dst, j.bytes)
	if err != nil {
		return err
	}
	return c.Call(s, func() error {
		var element [8]byte
		binary.LittleEndian.PutUint64(element[:], j.pattern)
		chunk := bytes.Repeat(element[:], 4096/len(element))
		for len(dst) > 0 {
			dst = dst[copy(dst, chunk):]
		}
		return nil
	})
}
