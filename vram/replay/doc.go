// Package replay runs an allocation trace (package vram/trace) on an allocator and
// measures what the allocator needed for it.
//
//	dev, err := device.Open("host:80GiB")
//	if err != nil {
//		return err
//	}
//	defer dev.Close()
//	pool, err := replay.NewPool(dev, vram.Options{})
//	if err != nil {
//		return err
//	}
//	defer pool.Close()
//	result, err := replay.Run(ctx, reader.All(), pool, replay.Options{})
//
// An [Allocator] is anything that allocates and frees. There are three here:
// [Pool] is the pool of package vram, [Plain] the device's own allocation for
// every event, and [Async] the stream-ordered pool of the driver.
//
// Nothing is written to the memory. The host backend takes memory from the
// system when it is first written, so the trace of a large GPU can be replayed
// on a small machine. Nor is any work queued: work that a pool would wait for in
// the real program is always done here.
//
// Options.AtEnd is called while blocks that the trace does not free are still
// live, for example to write the history of the pool with package viz:
//
//	pool, err := replay.NewPool(dev, vram.Options{History: 1_000_000})
//	…
//	atEnd := func() error { return viz.WriteTorch(file, pool.Pool().Snapshot()) }
//	result, err := replay.Run(ctx, reader.All(), pool, replay.Options{AtEnd: atEnd})
//
// # What is measured
//
// Live bytes are those that were asked for and granted. Reserved bytes are what
// the allocator has from the device; their peak over the peak of the live bytes
// is the fragmentation ([Result.Fragmentation]), 1 at best. An allocation that
// fails with [device.ErrOutOfMemory] is counted and its free is left out; the
// rest of the trace goes on. An allocation that had failed already when the trace
// was recorded is tried, freed at once, and counted apart.
//
// Times are those of single calls, by the monotonic clock, less what reading
// the clock takes (the median of many empty measurements, taken before each
// run). The garbage collector runs before, so that a short replay has none of its
// own. They are kept in a histogram of fixed size: below 64 ns they are exact
// to the nanosecond of the clock, above within 1.6 %.
package replay
