// Package host is the backend on ordinary memory: what runs where there is no
// GPU, and what tests run on. It behaves as a device does: memory with a
// capacity that is apart from the program's, streams that work in order and
// beside each other, events that measure, errors that surface when the work is
// waited for, and page-locking by the system's own call.
//
// Device addresses are addresses of this process, and kernels are Go
// functions that run in stream order ([device.Caller]).
//
//	dev, err := host.Open(4 << 30)
//
// Memory is taken from the system when it is first written, so a device may
// have a larger capacity than the machine, to replay what a large GPU would
// do. On Linux address space and physical memory are managed apart
// ([device.Mapper]): chunks are pieces of one memory file (a memfd).
//
// Work on memory that was unmapped fails, as does a copy from the mapping of a
// file that has shrunk: a fault in a stream's goroutine is an error of the stream.
// A function that Call runs has no such protection in goroutines that it starts.
//
// A stream needs no goroutine while it has no work, so an idle device costs
// nothing.
package host
