// Package host runs steps on the processor: a [step.Executor] in Go for devices that run
// Go functions in stream order, which the host backend is.
//
//	dev, err := device.Open("host")
//	exec, err := host.Open(dev)
//	x, err := step.Compile(graph, exec, step.Options{})
//
// It has all operations. Results are the same bits each time, and do not depend on how
// many processors there are: work is split by shapes, and what is split is put together
// in a fixed order. Products of matrices, and convolutions as such products, are those
// of package blas, whose sums are the same for one library on one machine.
//
// Numbers of 16 bits are computed in float32 and rounded after each operation, whether
// it is fused or not. Sums of float32 are float64 inside one operation.
package host
