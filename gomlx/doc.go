// Package gomlx runs models of [GoMLX] on Pinion: it is a backend of GoMLX whose graphs
// become steps (package step of the module pinion). There is no cgo in it.
//
// A program imports it for its effect, and names it where it makes its backend:
//
//	import _ "github.com/pinion-gpu/pinion/gomlx"
//
//	backend, err := compute.NewWithConfig("pinion:host")
//
// or in the environment, GOMLX_BACKEND=pinion:host. [ParseConfig] says what may follow
// "pinion:": a device, which is a GPU by default if there is one, and a budget of memory.
//
// # What it can do
//
// [Backend.Capabilities] has the list: all operations on numbers and bools that the
// gradients of a transformer or a convolutional network need. There are no loops and
// sorts, axes of unknown length, complex numbers, quantized weights, and no more than one
// device. Of If, both branches are computed. An operation that is not there fails with
// compute.ErrNotImplemented.
//
// Random bits are those of Philox4x32-10. They are the same on every device, and differ
// from those of GoMLX's own backend in Go.
//
// # Mixed precision
//
// With amp=bf16, float32 products and convolutions of all graphs compute in bfloat16, and
// variables stay float32; autocast.Graph has the rules. It needs nothing else. With amp=f16,
// gradients below 6e-8 become zero: package scaling has an optimizer around another that
// scales losses. The backend cannot do that by itself: in a graph of GoMLX's trainer,
// nothing says which value is the loss.
//
// # Memory
//
// A budget is for each step that is compiled: its parameters, its results, and all between.
// Without one, a step for which the device has no room is planned for what that has left.
// Steps of a backend take turns, and share the memory for what is between: a trainer that
// accumulates gradients has two steps, one with buckets of lengths ([batches.NewBuckets])
// has several, and the device holds the largest. [Fit] divides a batch for a budget.
//
// # Attention
//
// Attention is one operation, without scores in memory, also if it is causal, or masks
// padding by queries, by keys or by lengths. With other masks, or a bias, GoMLX takes it
// apart.
//
// # Buffers
//
// A buffer is device memory from a pool. It is copied when GoMLX reads or writes its
// elements, and not when a step takes it or returns it: variables stay on the device.
// [Backend.Wrap] makes a buffer of memory that is there already, such as a batch of a
// loader.
//
// [GoMLX]: https://github.com/gomlx/gomlx
// [batches.NewBuckets]: https://pkg.go.dev/github.com/pinion-gpu/pinion/gomlx/batches#NewBuckets
package gomlx
