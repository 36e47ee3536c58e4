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
// A stream needs no goroutine while it has no work, so an idle device costs
// nothing.
package host
