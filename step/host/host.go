package host

import (
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/auto"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/step"
)

// Open makes an executor for a device. It fails with [device.ErrNotSupported] if the
// device runs no Go functions.
func Open(dev device.Device) (step.Executor, error) {
	caller, ok := device.As[device.Caller](dev)
	if !ok {
		return nil, fmt.Errorf("step: %w: %s runs no Go functions", device.ErrNotSupported, dev.Info().ID)
	}
	b, err := auto.Open(dev)
	if err != nil {
		return nil, err
	}
	return &executor{dev: dev, caller: caller, blas: b}, nil
}

type executor struct {
	dev    device.Device
	caller device.Caller
	blas   blas.BLAS
}

// Device implements [step.Executor].
func (e *executor) Device() device.Device { return e.dev }

// Close implements [step.Executor].
func (e *executor) Close() error { return e.blas.Close() }

// compilers make the kernels of operations that are not element-wise, by operation.
var compilers = map[graph.Op]func(*executor, *step.Task) (step.Kernel, error){}

// provide adds compilers of kernels that are one Go function.
func provide(compile func(n *graph.Node) (function, error), ops ...graph.Op) {
	for _, op := range ops {
		compilers[op] = func(e *executor, t *step.Task) (step.Kernel, error) {
			run, err := compile(t.Nodes[0])
			return e.single(t, run), err
		}
	}
}

// Compile implements [step.Executor].
func (e *executor) Compile(t *step.Task) (step.Kernel, error) {
	if elementwise(t.Nodes[0]) {
		p, err := newProgram(t)
		if err != nil {
			return nil, err
		}
		k := e.single(t, p.run)
		k.alias = p.canAlias
		return k, nil
	}
	compile := compilers[t.Nodes[0].Op]
	if compile == nil || len(t.Nodes) != 1 {
		return nil, fmt.Errorf("step: %v: %w", t.Nodes[0], step.ErrNotSupported)
	}
	k, err := compile(e, t)
	if err != nil {
		return nil, fmt.Errorf("step: %v: %w", t.Nodes[0], err)
	}
	return k, nil
}

// elementwise reports whether an operation is part of a program.
func elementwise(n *graph.Node) bool {
	return n.Op.Class() == graph.Elementwise || n.Op == graph.Iota || n.Op == graph.BroadcastInDim || n.Op == graph.Identity
}

// function is work on the memory of operands and results.
type function func(in, out [][]byte)

// single is a kernel of one function.
type single struct {
	executor *executor
	in, out  []int64 // bytes
	run      function
	alias    func(output, input int) bool
}

func (e *executor) single(t *step.Task, run function) *single {
	k := &single{executor: e, run: run}
	for _, v := range t.Inputs {
		k.in = append(k.in, v.Shape().Bytes())
	}
	for _, v := range t.Outputs {
		k.out = append(k.out, v.Shape().Bytes())
	}
	return k
}

// Scratch implements [step.Kernel].
func (k *single) Scratch() int64 { return 0 }

// CanAlias implements [step.Aliaser].
func (k *single) CanAlias(output, input int) bool { return k.alias != nil && k.alias(output, input) }

// Launch implements [step.Kernel].
func (k *single) Launch(s device.Stream, inputs, outputs []device.Ptr, _ device.Ptr) error {
	in, err := k.executor.memory(inputs, k.in)
	if err != nil {
		return err
	}
	out, err := k.executor.memory(outputs, k.out)
	if err != nil {
		return err
	}
	return k.executor.caller.Call(s, func() error {
		k.run(in, out)
		return nil
	})
}

func (e *executor) memory(at []device.Ptr, sizes []int64) ([][]byte, error) {
	all := make([][]byte, len(at))
	for i, p := range at {
		var err error
		if all[i], err = e.bytes(p, sizes[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (e *executor) bytes(p device.Ptr, n int64) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	return e.caller.Bytes(p, n)
}

// view is memory as elements.
func view[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}
