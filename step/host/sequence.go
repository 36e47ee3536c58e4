package host

import (
	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/step"
)

// sequence is a kernel of several stages, Go functions and products of matrices, with
// scratch memory between them.
type sequence struct {
	executor *executor
	sizes    []int64 // of operands, results and scratch memories
	in, out  int     // how many of the first are operands, and of the next results
	scratch  int64
	stages   []stage
}

// place is memory of a sequence: an operand, a result or a scratch memory, from an
// element on.
type place struct {
	memory int
	at     int64 // bytes
}

// stage is a function, or a product where that is nil.
type stage struct {
	run     func(memories [][]byte)
	product blas.Gemm
	a, b, c place
}

func (e *executor) sequence(t *step.Task) *sequence {
	k := &sequence{executor: e, in: len(t.Inputs), out: len(t.Outputs)}
	for _, v := range t.Inputs {
		k.sizes = append(k.sizes, v.Shape().Bytes())
	}
	for _, v := range t.Outputs {
		k.sizes = append(k.sizes, v.Shape().Bytes())
	}
	return k
}

// align is what scratch memories begin at multiples of.
const align = 64

// memory adds scratch memory.
func (k *sequence) memory(bytes int64) int {
	k.sizes = append(k.sizes, bytes)
	k.scratch += (bytes + align - 1) / align * align
	return len(k.sizes) - 1
}

func (k *sequence) call(run func(memories [][]byte)) { k.stages = append(k.stages, stage{run: run}) }

// multiply adds a product of matrices of types that package blas takes.
func (k *sequence) multiply(g blas.Gemm, a, b, c place) {
	g.Alpha = 1
	k.stages = append(k.stages, stage{product: g, a: a, b: b, c: c})
}

// Scratch implements [step.Kernel].
func (k *sequence) Scratch() int64 { return k.scratch }

// Launch implements [step.Kernel].
func (k *sequence) Launch(s device.Stream, inputs, outputs []device.Ptr, scratch device.Ptr) error {
	at := make([]device.Ptr, 0, len(k.sizes))
	at = append(append(at, inputs...), outputs...)
	for _, n := range k.sizes[len(at):] {
		at = append(at, scratch)
		scratch += device.Ptr((n + align - 1) / align * align)
	}
	memories, err := k.executor.memory(at, k.sizes)
	if err != nil {
		return err
	}
	for _, st := range k.stages {
		if st.run != nil {
			err = k.executor.caller.Call(s, func() error {
				st.run(memories)
				return nil
			})
		} else {
			g := st.product
			g.A.Ptr = at[st.a.memory] + device.Ptr(st.a.at)
			g.B.Ptr = at[st.b.memory] + device.Ptr(st.b.at)
			g.C.Ptr = at[st.c.memory] + device.Ptr(st.c.at)
			err = k.executor.blas.Gemm(s, g)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// floatReader returns an element of memory as a float64, or another type that holds it.
func floatReader[A floating](t dtype.DType) func(b []byte, i int) A {
	switch t {
	case dtype.F16:
		return func(b []byte, i int) A { return A(float16.FromF16(view[uint16](b)[i])) }
	case dtype.BF16:
		return func(b []byte, i int) A { return A(float16.FromBF16(view[uint16](b)[i])) }
	case dtype.F32:
		return func(b []byte, i int) A { return A(view[float32](b)[i]) }
	}
	return func(b []byte, i int) A { return A(view[float64](b)[i]) }
}

func floatWriter[A floating](t dtype.DType) func(b []byte, i int, v A) {
	switch t {
	case dtype.F16:
		return func(b []byte, i int, v A) { view[uint16](b)[i] = float16.ToF16(float16.RoundToOdd(float64(v))) }
	case dtype.BF16:
		return func(b []byte, i int, v A) { view[uint16](b)[i] = float16.ToBF16(float16.RoundToOdd(float64(v))) }
	case dtype.F32:
		return func(b []byte, i int, v A) { view[float32](b)[i] = float32(v) }
	}
	return func(b []byte, i int, v A) { view[float64](b)[i] = float64(v) }
}

// integerReader returns an element of memory, of which only the bits of the result's
// type will count.
func integerReader(t dtype.DType) func(b []byte, i int) int64 {
	return func(b []byte, i int) int64 {
		v, _ := index(b, t, i)
		return int64(v)
	}
}

func integerWriter(t dtype.DType) func(b []byte, i int, v int64) {
	put := integerPutter(t)
	return func(b []byte, i int, v int64) { put(b, i, int(v)) }
}
