// Package parallel connects ranks: programs, or goroutines, that each have a device and
// work on one thing together.
//
// A [Comm] is one rank's end of a group. Its operations are queued on streams, like
// copies:
//
//	err := comm.AllReduce(stream, dtype.F32, parallel.Avg, parallel.Part{Recv: p, Send: p, N: n})
//
// Whoever moves the bytes passes the suite in package conformance. Package local has
// ranks that are goroutines of one process.
package parallel
