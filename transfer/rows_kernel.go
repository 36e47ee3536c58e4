package transfer

import (
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/kernels"
)

// kernelRows queues parts of rows for kernels to copy.
type kernelRows struct {
	stream   *copyStream
	job      *rowsJob
	set      *kernels.Set
	dst, src device.Ptr
	blocks   int  // of threads, at most; 0: as many as the work has
	apart    bool // each part in flight has a stream of its own
}

// kernelMover returns what queues rows as kernels.
func (s *copyStream) kernelMover(e *Engine, j *rowsJob, d direction) (mover, error) {
	r := &kernelRows{stream: s, job: j}
	var err error
	if r.dst, r.src, err = e.reachBoth(j); err != nil {
		return nil, err
	}
	if r.set, err = e.kernels(); err != nil {
		return nil, err
	}
	if s.lists == nil {
		if s.lists, err = newLists(e.dev); err != nil {
			return nil, err
		}
	}
	if d != deviceToDevice {
		r.blocks = linkBlocks
	}
	// Inside the device a kernel begins as the one before runs out. (On one
	// stream, 16,384 blocks of 16 KiB took 166 us on an H200, and 152 like this.)
	r.apart = d == deviceToDevice && j.on == nil
	return r.queue, nil
}

// queue queues a part. Its list is in a slot that no part in flight uses.
func (r *kernelRows) queue(number int, p rowsPart) (device.Stream, error) {
	s, lists, slot := r.stream.stream, r.stream.lists, number%rowsInFlight
	if r.apart {
		s = lists.streams[slot]
		if r.job.after != nil && number < rowsInFlight {
			if err := s.Wait(r.job.after); err != nil {
				return nil, err
			}
		}
	}
	unit := unitOf(p.or | int64(r.dst|r.src))
	if r.paired(p, unit) {
		r.job.rows.pairs(lists.slot(slot), p)
		return s, r.set.CopyPairs(s, kernels.PairList{
			Dst: r.dst, Src: r.src, Pairs: lists.mapped.Add(int64(slot) * listBytes), N: int64(p.to - p.from),
			Bytes: p.each, Blocks: r.blocks,
		})
	}
	upload := s
	if !r.apart && number > 0 {
		upload = lists.streams[0] // beside the kernel of the part before
	}
	n, units := r.job.rows.entries(lists.slot(slot)[:(p.to-p.from)*entryBytes], p, r.dst, r.src, unit)
	entries, err := lists.send(s, upload, slot, n*entryBytes)
	if err != nil {
		return nil, err
	}
	return s, r.set.CopySpans(s, kernels.SpanList{
		Entries: entries, N: int64(n), Units: units, Unit: unit, Blocks: r.blocks,
	})
}

// pairedBytes is from which size on rows are worth reading their places over
// the link.
const pairedBytes = 4 << 10

// paired reports whether the rows of a part are of one size, and their places
// such that pairs can name them.
func (r *kernelRows) paired(p rowsPart, unit int64) bool {
	return p.each >= pairedBytes && unit == kernels.PairUnit && r.stream.lists.mapped != 0 &&
		max(r.job.dst.bytes, r.job.src.bytes) <= kernels.PairUnit*math.MaxUint32
}

// putPair writes a kernels.Pair of two offsets.
func putPair(b []byte, dst, src int64) {
	kernels.PutPair(b, kernels.Pair{Dst: uint32(uint64(dst) / kernels.PairUnit), Src: uint32(uint64(src) / kernels.PairUnit)})
}
