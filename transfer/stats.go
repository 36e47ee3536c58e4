package transfer

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/internal/striped"
)

// Stats are what an engine has moved so far.
type Stats struct {
	// Traffic has a row for each direction and path that was used, always in the
	// same order.
	Traffic []Traffic

	// Waiting is the number of copies of which a part waits for a copier.
	Waiting int
}

// Traffic is what went one way.
type Traffic struct {
	Direction string // "h2d", "d2h", "d2d", or "p2p" from another device

	// Path is "plain" for the driver's copy of pinned or pageable memory, "staged"
	// through pinned slots, and "packed" for rows that went through them; for
	// other rows a [BatchPath]. For files it is a [FilePath]: "cached" for writes
	// through the page cache and for reads that it had all bytes of, "direct" for
	// others. A read counts as direct as a whole, even if the cache had a part of
	// it; its [FileReport] has the parts. Copies between devices are "peer" where
	// the two reach each other, and "staged" elsewhere.
	Path string

	Copies int64 // that have ended: batches, boxes and files count as one
	Failed int64 // of these, with an error other than that of a context
	Active int64 // that have begun and not ended
	Bytes  int64 // that arrived. A copy that is only queued counts when it is queued
}

// way is a path that bytes take.
type way uint8

const (
	wayPlain way = iota
	wayStaged
	wayPacked
	wayKernel
	wayDriver
	wayLoop
	wayBox
	wayCached
	wayDirect
	wayMapped
	wayCuFile
	wayPeer
	ways // how many there are
)

var wayNames = [ways]string{
	"plain", "staged", "packed",
	string(BatchKernel), string(BatchDriver), string(BatchLoop), string(BatchBox),
	string(FileCached), string(FileDirect), string(FileMapped), string(FileCuFile),
	"peer",
}

// wayOf is the way of a path for rows.
func wayOf(p BatchPath) way {
	switch p {
	case BatchKernel:
		return wayKernel
	case BatchDriver:
		return wayDriver
	case BatchBox:
		return wayBox
	}
	return wayLoop
}

// linkDirection is that of a copy between host and device.
func linkDirection(toHost bool) direction {
	if toHost {
		return deviceToHost
	}
	return hostToDevice
}

// traffic counts what goes one way.
type traffic struct {
	begun, ended, failed, bytes atomic.Int64
}

// traffics has counts of the ways that were used.
type traffics [directions][ways]atomic.Pointer[striped.Of[traffic]]

// begin counts a copy that begins. Its end has to follow.
func (t *traffics) begin(d direction, w way) *traffic {
	of := t[d][w].Load()
	if of == nil {
		t[d][w].CompareAndSwap(nil, new(striped.Of[traffic]))
		of = t[d][w].Load()
	}
	c := of.Near()
	c.begun.Add(1)
	return c
}

// end counts a copy that ended with err, after n bytes more arrived.
func (c *traffic) end(ctx context.Context, n int64, err error) {
	if err == nil {
		c.bytes.Add(n)
	} else if ended := ctx.Err(); ended == nil || !errors.Is(err, ended) {
		c.failed.Add(1)
	}
	c.ended.Add(1)
}

// moving is a copy that has begun.
type moving struct {
	*traffic
	size int64
	mark probe.Mark
	row  probe.Row
	way  way
}

// begin counts a copy of so many bytes that begins, and a timeline shows it. Its end
// has to follow.
func (e *Engine) begin(d direction, w way, size int64) moving {
	row := probe.Row{Group: e.group, Name: d.String()}
	return moving{e.traffic.begin(d, w), size, probe.Begin(row, wayNames[w]), row, w}
}

func (m *moving) end(ctx context.Context, n int64, err error) {
	m.traffic.end(ctx, n, err)
	m.mark.End(m.row, probe.Span{Name: wayNames[m.way], Bytes: m.size})
}

// Stats reports what the engine has moved. It may be called at any time.
func (e *Engine) Stats() Stats {
	s := Stats{Waiting: e.stager.Waiting() + e.files.Waiting()}
	for d := range directions {
		for w := range ways {
			of := e.traffic[d][w].Load()
			if of == nil {
				continue
			}
			t := Traffic{Direction: d.String(), Path: wayNames[w]}
			for c := range of.All() { // first: nothing ends that has not begun
				t.Copies += c.ended.Load()
			}
			t.Active = -t.Copies
			for c := range of.All() {
				t.Active += c.begun.Load()
				t.Failed += c.failed.Load()
				t.Bytes += c.bytes.Load()
			}
			s.Traffic = append(s.Traffic, t)
		}
	}
	return s
}
