// Package procbench measures what pinned memory does between processes: what
// `pinion bench processes` runs.
//
// Each path is one kind of host memory, copied in one way:
//
//	pageable                   ordinary memory, copied by the backend
//	pageable, staged           the same, through a transfer.Engine
//	private pinned             a buffer of a pinned.Pool of the process itself
//	serialised pinned          a buffer that the parent pinned and sent as bytes
//	serialised pinned, staged  the same, through a transfer.Engine
//	shared pinned              a segment.Segment that every process pins for itself
//
// The processes are this executable again, started with Options.Args to call
// [Child]. Each has a socket to its parent, which carries small messages in
// JSON, the bytes of serialised buffers and the descriptor of the segment. The
// segment has a part for each process, so that none writes where another
// reads.
//
// First come the first copies. For every path and process a new process is
// started, one at a time: it opens the device, takes the memory and copies
// once each way, and each of these is timed on its own. The first copy
// includes the stream, the device memory and, where it is staged, the pinned
// rings that it needs.
//
// Then come steady copies, by processes that hold all kinds of memory at once.
// Every path is checked for correct bytes. Then the paths are timed in turn,
// one repeat of each after the other, by each process alone and by all
// together. Together means that all are told at once, and that each copies for
// a while before and after the copy that it times; how much of the timed
// copies the others were copying too is measured and reported.
//
// A process that dies, or that does not answer in time, ends the run with an
// error that has what it said on standard error. Children die with their
// parent: their standard input is a pipe from it that ends then.
package procbench
