// Package transfer copies byte slices to and from a device at the speed of
// the link, wherever the bytes lie.
//
//	engine, err := transfer.New(dev, transfer.Options{})
//	defer engine.Close()
//	err = engine.H2D(ctx, ptr, data)   // host to device
//	err = engine.D2H(ctx, data, ptr)   // and back
//
// # Paths
//
// Pinned memory (from package pinned, or page-locked by anybody else in the
// process) goes straight to the copy engine. Pageable memory, which is what
// make([]byte, n) gives, would take the driver's own staging at a fraction of
// the link's speed; it goes through copiers instead: goroutines that each move
// chunks through a small ring of pinned slots on a stream of their own, so
// that the processor's copying and the link's overlap. Small copies take the
// driver's plain copy whatever their memory is: there the call itself is what
// costs. On a device that shares the host's memory every copy is plain, and so it
// is where the system does not let the rings be page-locked.
//
// # Order
//
// A copy returns when it is done, or when it failed or its context ended; in
// every case nothing touches the slice any more. Any number of goroutines may
// copy at once; copies in both directions share the copiers and use both
// directions of the link.
//
// A copy on one's own stream, asynchronous and ordered with kernels, needs no
// engine: use [device.Stream.CopyH2D] with a buffer of package pinned.
package transfer
