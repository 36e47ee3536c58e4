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
// "id" is any integer below 2^64-1; it may be used again after its free.
// "stream" is 0 if absent, on a free that of the allocation. Optional are
// "purpose" and "name" (strings), "time_seconds" (a number), and "failed"
// (true: asked for and not granted; such a line needs no id). Other keys are
// ignored, and so are keys whose value is null.
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
// hexadecimal, with or without 0x. Each allocation gets an ID of its own,
// since addresses are used again, and each stream a small number in order of
// appearance. Allocations of no bytes at a null pointer are left out. Time is
// a clock time or a number of seconds.
//
// # PyTorch snapshots
//
// The pickle of torch.cuda.memory._dump_snapshot, best with a history
// (torch.cuda.memory._record_memory_history). The user's part of a device's
// trace are the entries alloc, free_completed, oom (a failed allocation), and
// free_requested where no free_completed follows; the others are the caching
// allocator's own. The history is a ring that may begin late: blocks live
// before it are allocated at its start, in the order of their addresses. These
// are the ones that it frees without having allocated them, and the active
// ones of "segments" whose address it does not mention. A snapshot without
// history gives the live blocks alone.
//
// # What is checked
//
// A free of what is not live, an allocation of what is live, and sizes that
// are not positive are errors, as is everything that does not parse. They wrap
// [ErrMalformed] and name the line (of a snapshot, the entry), what is wrong,
// and the text. What is still live at the end is no error.
//
// Text formats are read in memory in proportion to what is live at a time. A
// snapshot is in memory as a whole, within Options.MaxSnapshotBytes.
//
// # Generators
//
// [Random], [Steps], [Growing], [Streams] and [Cycles] make the traces that
// Pinion's allocator is judged by. The same options give the same events, on
// every machine. They number allocations from 1 and end with nothing live.
package trace
