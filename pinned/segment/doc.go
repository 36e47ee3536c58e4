// Package segment shares page-locked host memory between processes.
//
// Nobody can page-lock memory for another process: a pinned buffer that is
// serialised to one arrives pageable, and its copies run at a fraction of the
// link. A [Segment] is memory that several processes map and that each pins
// for its own device. It is anonymous and handed over by descriptor, or a file
// on a shared-memory file system:
//
//	seg, err := segment.Create(64<<20, segment.Options{Name: "batches"})
//	err = seg.Send(conn)                   // the other side: segment.Receive
//	err = seg.Pin(dev, device.PinMapped)   // both sides, each for its device
//	fill(seg.Bytes())
//
// # Owners
//
// A process may die at any time, also by kill -9. Anonymous memory goes with
// its last owner. A file is removed by its creator's [Segment.Close] or, when
// the creator has died, by that of the last owner. What is left after all
// owners have died is replaced by the next [Create] at the path, or removed by
// [Remove]. To know who lives, every owner is listed in the header of the
// segment ([Segment.Owners]).
//
// # Trust
//
// The processes share the bytes, and nothing orders their writes but what
// they agree on. Share a segment only with processes that are trusted to keep
// to it. The size of an anonymous segment is sealed; a process that truncates
// a file pulls its pages from under the others and kills them.
//
// The layout is fixed and small (layout.go); examples/segment has a consumer
// in Python.
package segment
