package step

import (
	"errors"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/step/graph"
)

// ErrArgument says that a call or a graph cannot be right: other tensors than the step's
// parameters, an impossible budget.
var ErrArgument = errs.ErrArgument

// ErrNotSupported says that an executor lacks an operation, or has it not for these
// types.
var ErrNotSupported = errors.New("not supported by this executor")

// Executor makes kernels of tasks for one device. Its methods are safe for concurrent
// use.
type Executor interface {
	// Device is where its kernels run.
	Device() device.Device

	// Compile makes a kernel. It fails with [ErrNotSupported], naming the operation,
	// where there is none.
	Compile(t *Task) (Kernel, error)

	// Close lets go of what the executor holds. Its kernels do not run afterwards.
	Close() error
}

// Fuser is an executor that says itself what becomes one task.
type Fuser interface {
	// Fuse returns tasks in an order in which they can run. They write all outputs, and
	// everything that a task reads, but nothing twice, and no view. Their nodes may be
	// of any kind that the executor compiles together.
	Fuse(g *graph.Graph) ([]*Task, error)
}

// Noter is an executor that can tell what it was asked to do otherwise than usual, and
// where it took a slower way.
type Noter interface {
	// Notes are sentences on what was compiled so far, each once.
	Notes() []string
}

// Task is what one kernel does: one operation, or several element-wise ones that are
// fused.
type Task struct {
	// Nodes are the operations, in order. If there are several, and no [Fuser] chose
	// them, each is element-wise, an [Iota], or a [BroadcastInDim], and has one result of
	// the same dimensions. Constants that they read are among Inputs. The operand of a
	// BroadcastInDim, and operands of other dimensions, are, too.
	Nodes []*graph.Node

	Inputs  []graph.Value // what is read, from memory: the operands of a single operation, and otherwise each value once
	Outputs []graph.Value // what is written, to memory: all results of a single operation
}

// Kernel is a compiled task.
type Kernel interface {
	// Scratch is how many bytes of memory the kernel needs while it runs.
	Scratch() int64

	// Launch queues the kernel, and does nothing else to the stream or the device: the
	// stream may be captured ([device.Capturer]), and what is queued then runs many times.
	// Whatever has to be prepared, or measured, is at the first Launch, which is never
	// captured. Inputs, outputs and scratch memory lie at multiples of
	// 64 bytes, overlap nowhere but where inputs are one value's memory, and stay until
	// the stream is done. Of memory without bytes, the address says nothing. An output
	// may lie where an input lies that [Aliaser] allows.
	Launch(s device.Stream, inputs, outputs []device.Ptr, scratch device.Ptr) error
}

// Aliaser is a kernel that can write an output to the memory of an input.
type Aliaser interface {
	// CanAlias reports whether the output may lie exactly where the input does.
	CanAlias(output, input int) bool
}
