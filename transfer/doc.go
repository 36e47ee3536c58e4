// Package transfer moves bytes between host memory, files and devices at the
// speed of the link, wherever the bytes lie.
//
//	engine, err := transfer.New(dev, transfer.Options{})
//	defer engine.Close()
//	err = engine.H2D(ctx, ptr, data)   // host to device
//	err = engine.D2H(ctx, data, ptr)   // and back
//
// A call returns when it is done, or when it failed or its context ended; in
// every case nothing touches the caller's memory any more. Any number of
// goroutines may use an engine at once.
//
// # Paths
//
// Pinned memory (from package pinned, or page-locked by anybody else in the
// process) goes straight to the copy engine. Pageable memory, which is what
// make([]byte, n) gives, would take the driver's own staging at a fraction of
// the link's speed; it goes through copiers instead: the goroutine that asks,
// and helpers, each moving chunks through a small ring of pinned slots on a
// stream of its own, so that the processors' copying and the link's overlap.
// Small copies take the driver's plain copy whatever their memory is: there
// the call itself is what costs. On a device that shares the host's memory
// every copy is plain, and so it is where the system does not let the rings be
// page-locked.
//
// Which size is small, how many copiers pay and how they should write depends
// on the machine. Package calibrate measures it in a few seconds as a
// [linkmodel.Model], which is kept in the user's cache directory ("pinion bench
// link --calibrate" does it). An engine takes the model of its device from
// there and works by rules of thumb where there is none.
//
// # Many at once
//
// [Engine.Batch] takes many (destination, source, length) triples, such as the
// pages of a KV cache, and [Engine.Box] strided copies, such as the slice of a
// tensor. Between pinned memory and the device one kernel moves all blocks at
// the speed of the link, whatever their size. Pageable memory is packed into
// the slots.
//
// # Files
//
// [Engine.ReadFile] and [Engine.WriteFile] move files the same way: what is in
// the page cache at memory speed, the rest by direct reads from the disk.
//
// # Larger than the device
//
// Package pipeline streams an array or a file through the device in chunks:
// copy in, compute and copy out at once.
//
// # Between devices
//
// [Engine.Peer] copies from another device, straight where the two reach each
// other and through pinned memory where they do not.
//
// # Order
//
// A copy is ordered with nothing, unless it says so. [Engine.H2D], [Engine.D2H]
// and all other calls begin at once, on streams of the engine's own, whatever
// the caller has queued: a Memset that is queued on a stream and a D2H after it
// may well read the old bytes. They return when the bytes are there, so work
// that is queued afterwards finds them. Two fields of [Copy], [Batch], [Box],
// [FileCopy] and [PeerCopy] place a copy among such work:
//
// After is an event. The copy waits until its newest mark is passed, touches
// nothing before, and the call returns when the copy is done. Where the engine
// has only to queue the copy, the device waits; where goroutines copy, they do,
// and a context ends the wait. When the work before the mark failed, so may the
// copy, with that error.
//
// On is a stream. The copy begins behind what is queued on it, and what is
// queued on it later waits for the copy. Pinned memory, small pageable copies
// and batches inside the device are queued there like a kernel, and the call
// returns at once: host memory must stay as it is, and reachable, until the
// stream has done the copy, and its errors are the stream's. Of a long batch a
// few parts are queued at a time, and at most 16 batches: the call waits for the
// stream to come to them, or until the context ends. What the host has
// to stage (pageable memory, files, copies between devices) is done when the
// call returns, so that the same holds for it.
//
//	stream.Memset(ptr, 0, n)
//	err = engine.Do(ctx, transfer.Copy{Host: host, Device: ptr, ToHost: true, On: stream})
//	err = stream.Synchronize() // now host is zero
//
// With both, the stream waits for the event first. Events and streams stay the
// caller's: the engine closes none, and needs none after the call, except that
// a queued batch keeps the memory of its list until the stream has done it.
// Record an event of your own behind the call to know when a queued copy is
// done. A context that ends, and [Engine.Close], do not stop what is queued.
package transfer
