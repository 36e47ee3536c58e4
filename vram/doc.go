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
// An allocation of a size that was freed before on the same stream calls no
// driver and makes no garbage, and goroutines on different processors do not
// wait for each other.
//
// # Streams
//
// Memory belongs to the stream of its [Use]. After Free that stream may reuse it
// at once, because work that is queued later runs later; other streams get it
// when the work before the free is done. Work on another stream must be
// announced before the free, with [Block.RecordStream]. A Use without a stream
// is for memory that no queued work uses any more when it is freed.
//
// # Memory
//
// Where the device has virtual memory ([device.Mapper]), the pool maps physical
// chunks into reserved address space. While memory is plentiful it takes new ones,
// up to a tenth more than is live (Options.Slack). Then chunks that hold only free
// memory are unmapped and mapped where a large block is wanted, so all free memory
// can be used, except for less than a chunk at either end of a free block
// ([Stats].Fragmented). Elsewhere it divides ordinary allocations
// ([SourceSegments]). [SourceDriver] passes every call to the driver's own
// stream-ordered pool, for comparison.
//
// Memory stays with the pool until [Pool.Trim], [Pool.Close], or until another
// pool of this process on the same device is short.
//
// # When memory is short
//
// Alloc then returns what other heaps and pools do not use to the device, waits
// for work on freed memory, and calls the functions registered with
// [Pool.OnLowMemory], which free memory whose content can be restored. Only then
// does it fail, with an [*OutOfMemoryError]: [OutOfMemoryError.Report] says where
// the memory is and what would have helped. With Options.Soft the pool tries all
// this before it grows beyond a soft limit; Options.Limits and SoftLimits bound
// single purposes.
//
// # Looking inside
//
// [Pool.Stats] counts bytes and blocks, in total and by [Purpose], and
// [Stats.Summary] prints them as a table. [Pool.Snapshot] lists every block and,
// with Options.History, the latest events; package vram/viz writes it for
// PyTorch's memory page and for Perfetto. Close names the blocks that were not
// freed ([LeakError]) and, with Options.Stacks, where they were allocated.
//
// The pool never reads or writes the memory. Only with the build tag invariants
// does it put a guard behind each block, check it when the block is freed, and
// overwrite freed memory.
//
// docs/vram.md explains the algorithm, with a picture; package vram/replay runs
// allocation traces on a pool.
package vram
