// Package vram is an allocator of device memory: a pool that takes memory from
// a device, hands it out in blocks, takes them back in the order of streams,
// and can say at any time who holds what.
//
//	pool, err := vram.New(dev, vram.Options{Budget: 60 << 30})
//	if err != nil {
//		return err
//	}
//	defer func() { err = errors.Join(err, pool.Close()) }()
//	block, err := pool.Alloc(ctx, n, vram.Use{Stream: stream, Purpose: vram.Activations, Name: "layer 3"})
//	if err != nil {
//		return err
//	}
//	// queue work on stream that uses block.Ptr()
//	err = block.Free() // at once: stream may still work on it
//
// An allocation of a size that was freed before on the same stream makes no
// call of the driver and no garbage, and goroutines on different processors do
// not wait for each other.
//
// # Streams
//
// Memory belongs to the stream of its [Use]. After Free that stream may have it
// again at once, because what it queues later runs later; other streams get it
// when the work before the free is done. Work on a second stream has to be told
// before the free: [Block.RecordStream]. A Use without a stream is for memory
// that no queued work uses any more when it is freed.
//
// # Memory
//
// Where the device has virtual memory ([device.Mapper]), the pool maps physical
// chunks into reserved address space. Chunks that only free memory lies on are
// unmapped where they are and mapped where a large block is wanted, so what is
// free can be used, but for less than a chunk at either end of a free piece
// ([Stats].Stuck). Elsewhere it cuts up ordinary allocations
// ([SourceSegments]). [SourceDriver] passes everything on to the driver's own
// stream-ordered pool, to compare.
//
// Memory stays with the pool until [Pool.Trim], [Pool.Close], or until another
// pool of this process on the same device is short.
//
// # When memory is short
//
// Alloc then gives back what other heaps and pools do not use, waits for work
// on freed memory, and calls the functions of [Pool.OnShort], which free what
// can be had again from elsewhere. Only then it fails, with an
// [*OutOfMemoryError]: [OutOfMemoryError.Report] says where the memory is and
// what would have helped. Options.Soft makes the pool try all this before it
// takes more than so much; Options.Limits and SoftLimits are for single purposes.
//
// # Looking inside
//
// [Pool.Stats] has the accounts, all and by [Purpose], and [Stats.Summary]
// prints them as a table. [Pool.Snapshot] lists every block and, with
// Options.History, what happened last; package vram/viz writes it for PyTorch's
// memory page and for Perfetto. Close names what was not freed ([LeakError]),
// with Options.Stacks from where it came.
//
// Memory is on the device: the pool never reads or writes it. Only with the
// build tag invariants it does: then it puts a guard behind each block, looks
// at it when the block is freed, and overwrites what is freed.
//
// docs/vram.md explains the algorithm, with a picture; package vram/replay runs
// allocation traces on a pool.
package vram
