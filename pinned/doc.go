// Package pinned hands out page-locked host memory: the memory that a device
// copies from and to at the speed of the link, asynchronously, and that it can
// reach from kernels. Page-locking is slow and takes memory away from
// everybody else, so a [Pool] locks large segments under a budget and serves
// buffers out of them again and again.
//
//	pool, err := pinned.NewPool(dev, pinned.Options{})
//	buf, err := pool.Alloc(1 << 20)
//	fill(buf.Bytes())
//	err = stream.CopyH2D(dst, buf.Bytes())
//	err = buf.Free(stream) // reused once the copy is done
//
// # Buffers
//
// A [Buffer] is whole pages, never rounded to a power of two: it wastes less
// than one page. [Buffer.Bytes] is valid from [Pool.Alloc] until
// [Buffer.Free], and its content is undefined at first. Free names the streams
// whose queued work still uses the memory. The pool records an event on each
// and serves the memory again only when all of them have passed; until then
// the buffer is pending. Nothing waits for that but this one buffer.
//
// Every buffer must be freed. Buffers are not reused, so a second Free is
// always found out ([ErrFreed]), also after the memory has gone to others.
//
// # Segments of a pool
//
// Requests of up to a quarter of [Options.SegmentBytes] share segments of that
// size, larger ones have a segment of exactly their pages. A request takes the
// smallest free block that is large enough, at the lowest address among
// equals; the rest is split off, and a block that comes back merges with
// its free neighbours. Small requests leave free large segments alone, and the
// other way round, until the budget leaves no other room: so a stray page does
// not spoil the slab of a batch.
//
// A new segment is mapped, backed by huge pages, faulted in by several
// goroutines and then locked, which is several times faster than the driver's
// own allocation. Other goroutines are served meanwhile. A segment that has
// been wholly free for [Options.ShrinkAfter] is given back to the system.
//
// # Limits
//
// [ErrBudget] means that the pool's budget is used up, after free segments
// have been given back to make room. [device.ErrPinLimit] means that the
// system refused. With [Options.AllowPageable] the pool then goes on with
// ordinary memory, which [Buffer.Pinned] and [Stats] show: copies work, only
// slower.
//
// # Memory that is there already
//
// [Pool.Register] page-locks memory of the caller's own, under the same
// budget: a mapped file, or what a C library has allocated.
//
// # Between processes
//
// Nobody can page-lock memory for another process: a pinned buffer that is
// serialised to one arrives pageable. Package segment has memory that several
// processes map and that each pins for its own device.
package pinned
