// Package trace reads, writes and generates allocation traces: the
// allocations and frees of a program in order, to replay them on an allocator.
//
//	r, err := trace.Open("run.pickle", trace.Options{})
//	if err != nil {
//		return err
//	}
//	defer r.Close()
//	for event, err := range r.All() {
//		…
//	}
//
// [Open] and [NewReader] recognise the format by content, also inside gzip.
//
// # JSON lines
//
// One object for each line, which [Writer] writes:
//
//	{"op":"alloc","id":7,"bytes":4096,"stream":0}
//	{"op":"free","id":7}
//
// "id" is any integer below 2^64-1; it may be reused after its free. "stream"
// defaults to 0, on a free to the stream of the allocation. Optional keys are
// "purpose" and "name" (strings), "time_seconds" (a number), and "failed" (true:
// the allocation failed; such a line needs no id). Other keys are ignored, and so
// are keys whose value is null.
//
// # CSV
//
// The log of the logging resource of RAPIDS RMM. The header names the columns,
// in any order; Action, Pointer and Size are required:
//
//	Thread,Time,Action,Pointer,Size,Stream
//	3011,12:34:56.789012,allocate,0x7f2a40000000,1024,0x0
//	3011,12:34:56.789031,free,0x7f2a40000000,1024,0x0
//
// Action is allocate, free (or deallocate) or "allocate failure". Pointers are
// hexadecimal, with or without 0x. Each allocation gets an ID of its own, since
// addresses are reused, and each stream a small number in order of appearance.
// Allocations of no bytes at a null pointer are skipped. Time is a clock time or
// a number of seconds.
//
// # PyTorch snapshots
//
// The pickle of torch.cuda.memory._dump_snapshot, best with a history
// (torch.cuda.memory._record_memory_history). The events of the user are the
// entries alloc, free_completed, oom (a failed allocation), and free_requested if
// no free_completed follows; the others are the caching allocator's own. The
// history is a ring that may begin late: blocks that were live before are
// allocated at its start, in the order of their addresses. These are the blocks
// that the history frees without having allocated them, and the active blocks of
// "segments" whose address it does not mention. A snapshot without history gives
// only the live blocks.
//
// # What is checked
//
// A free of a block that is not live, an allocation of one that is, a size that is
// not positive and text that does not parse are errors. They wrap [ErrMalformed]
// and name the line (of a snapshot, the entry), what is wrong, and the text.
// Blocks that are live at the end are no error.
//
// Reading a text format takes memory in proportion to the number of live blocks.
// A snapshot is in memory as a whole, within Options.MaxSnapshotBytes.
//
// # Generators
//
// [Random], [Steps], [Growing], [Streams] and [Cycles] generate the traces that
// Pinion's allocator is tested and measured with. The same options give the same
// events on every machine. Allocations are numbered from 1, and nothing is live at
// the end.
package trace
