package kernels

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// castTypes are the types whose values a float64 holds exactly, in the order
// in which kernels.cu numbers them.
var castTypes = []dtype.DType{dtype.U8, dtype.I8, dtype.U16, dtype.I16, dtype.I32, dtype.F16, dtype.BF16, dtype.F32, dtype.F64}

// Cast queues the conversion of n elements of type from at src to elements of
// type to at dst. The types are U8, I8, U16, I16, I32, F16, BF16, F32 and F64. The
// value is rounded once, to nearest with ties to even: floats beyond the
// largest finite value become infinite, integers saturate, and a NaN becomes
// the one that the package documents, or 0 in an integer. Between equal types
// it is a copy, which keeps a NaN's bits.
func (k *Set) Cast(s device.Stream, dst device.Ptr, to dtype.DType, src device.Ptr, from dtype.DType, n int64) error {
	j := &castJob{dst, src, to, from, n}
	if err := j.check(); err != nil {
		return fmt.Errorf("kernels: cast: %w", err)
	}
	if n == 0 {
		return k.enqueue(s, nil)
	}
	if to == from {
		return k.enqueue(s, copyJob{dst, src, n * int64(to.Size())})
	}
	return k.enqueue(s, j)
}

type castJob struct {
	dst, src device.Ptr
	to, from dtype.DType
	n        int64
}

func (j *castJob) check() error {
	for _, t := range []dtype.DType{j.from, j.to} {
		if !slices.Contains(castTypes, t) {
			return fmt.Errorf("%w: from %v to %v; it goes between %v", device.ErrArgument, j.from, j.to, castTypes)
		}
	}
	if j.n < 0 {
		return fmt.Errorf("%w: %d elements", device.ErrArgument, j.n)
	}
	toSize, fromSize := int64(j.to.Size()), int64(j.from.Size())
	if _, err := product("elements and their size", j.n, max(toSize, fromSize)); err != nil {
		return err
	}
	return checkOperands(
		operand{"dst", j.dst, j.n * toSize, toSize},
		operand{"src", j.src, j.n * fromSize, fromSize})
}

func (j *castJob) launch(k *Set, s device.Stream) error {
	var args device.Args
	args.Ptr(j.dst).Ptr(j.src).Int64(j.n).Int32(int32(slices.Index(castTypes, j.from)))
	return k.start(s, "cast_"+j.to.String(), blocksFor(j.n, threads), &args)
}

// copyJob is the cast between equal types.
type copyJob struct {
	dst, src device.Ptr
	bytes    int64
}

func (j copyJob) launch(_ *Set, s device.Stream) error { return s.CopyD2D(j.dst, j.src, j.bytes) }
func (j copyJob) call(_ device.Caller, s device.Stream) error {
	return s.CopyD2D(j.dst, j.src, j.bytes)
}
