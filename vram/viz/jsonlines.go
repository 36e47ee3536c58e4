package viz

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
)

// WriteJSON writes s as JSON lines, which package vram/trace reads and "pinion
// replay" replays: one line for each allocation, each free and each failed
// allocation.
//
//	{"op":"alloc","id":7,"bytes":4000,"stream":0,"purpose":"weights","name":"layer 0","time_seconds":0.000120000,"rounded_bytes":4096,"address":"0x7f0000000000"}
//	{"op":"free","id":7,"time_seconds":0.000350000,"address":"0x7f0000000000"}
//
// The first line also has the key "snapshot", an object with the device, the time
// at which the pool was made (times count from there) and the number of events
// that the ring has lost. Blocks that were live before the oldest event come
// first, with "before_history": true.
//
// The pool's own actions are in "pool_events" of the next line or, after the last
// line, in its "pool_events_after": a list of objects with "event" ("map",
// "unmap", or "ready" when no stream uses a freed block any more),
// "time_seconds", "address" and "bytes".
//
// A snapshot without blocks and events is one line with "snapshot" alone, which
// is no trace.
func WriteJSON(w io.Writer, s vram.Snapshot) error {
	j := &jsonLines{w: bufio.NewWriterSize(w, 64<<10), live: map[device.Ptr]uint64{}}
	j.encoder = json.NewEncoder(j.w)
	j.encoder.SetEscapeHTML(false)
	err := j.write(s)
	if err == nil {
		err = j.w.Flush()
	}
	if err != nil {
		return fmt.Errorf("viz: %w", err)
	}
	return nil
}

type jsonLine struct {
	Snapshot      *header      `json:"snapshot,omitempty"`
	Op            string       `json:"op,omitempty"`
	Failed        bool         `json:"failed,omitempty"`
	ID            uint64       `json:"id,omitempty"`
	Bytes         int64        `json:"bytes,omitempty"`
	Stream        *int32       `json:"stream,omitempty"`
	Purpose       string       `json:"purpose,omitempty"`
	Name          string       `json:"name,omitempty"`
	Time          json.Number  `json:"time_seconds,omitempty"`
	Rounded       int64        `json:"rounded_bytes,omitempty"`
	Address       string       `json:"address,omitempty"`
	Free          *uint64      `json:"free_bytes,omitempty"` // where it failed
	BeforeHistory bool         `json:"before_history,omitempty"`
	Stack         []string     `json:"stack,omitempty"` // innermost first
	Pool          []*poolEvent `json:"pool_events,omitempty"`
	PoolAfter     []*poolEvent `json:"pool_events_after,omitempty"`
	LeftOut       int64        `json:"pool_events_left_out,omitempty"`
}

type poolEvent struct {
	Event   string      `json:"event"`
	Time    json.Number `json:"time_seconds"`
	Address string      `json:"address"`
	Bytes   int64       `json:"bytes"`
}

// maxPoolEvents bounds a line: readers of lines have a limit.
const maxPoolEvents = 4096

// jsonLines holds the newest line back, for what may come behind it.
type jsonLines struct {
	w       *bufio.Writer
	encoder *json.Encoder
	last    *jsonLine
	live    map[device.Ptr]uint64 // IDs
	id      uint64
	pool    []*poolEvent // since the last line
	leftOut int64
}

func (j *jsonLines) write(s vram.Snapshot) error {
	h := snapshotHeader(s)
	for _, e := range liveBefore(s) {
		line := j.alloc(e)
		line.BeforeHistory = true
		if err := j.line(line, &h); err != nil {
			return err
		}
	}
	for _, e := range s.Events {
		var line *jsonLine
		switch e.Kind {
		case vram.EventAlloc:
			line = j.alloc(e)
		case vram.EventFree:
			id, ok := j.live[e.Address]
			if !ok {
				continue // contradicts the events before it
			}
			delete(j.live, e.Address)
			line = &jsonLine{Op: "free", ID: id, Address: hex(e.Address)}
		case vram.EventOutOfMemory:
			free := uint64(e.Address)
			line = allocLine(e)
			line.Failed, line.Free = true, &free
		default:
			j.own(e)
			continue
		}
		line.Time = seconds(e.Time)
		if err := j.line(line, &h); err != nil {
			return err
		}
	}
	if j.last == nil {
		j.last = &jsonLine{Snapshot: &h}
	}
	j.last.PoolAfter = j.pool
	j.last.LeftOut += j.leftOut
	return j.encoder.Encode(j.last)
}

// line writes the line before, and holds this one back.
func (j *jsonLines) line(l *jsonLine, h *header) error {
	l.Pool, l.LeftOut = j.pool, j.leftOut
	j.pool, j.leftOut = nil, 0
	before := j.last
	j.last = l
	if before == nil {
		l.Snapshot = h
		return nil
	}
	return j.encoder.Encode(before)
}

func allocLine(e vram.Event) *jsonLine {
	stream := e.Stream
	return &jsonLine{Op: "alloc", Bytes: asked(e), Stream: &stream, Purpose: e.Purpose.String(), Name: text(e.Name), Stack: calls(e.Stack)}
}

func (j *jsonLines) alloc(e vram.Event) *jsonLine {
	j.id++
	j.live[e.Address] = j.id
	l := allocLine(e)
	l.ID, l.Rounded, l.Address = j.id, e.Bytes, hex(e.Address)
	return l
}

var ownWords = map[vram.EventKind]string{vram.EventMap: "map", vram.EventUnmap: "unmap", vram.EventReady: "ready"}

// own keeps what the pool did for itself.
func (j *jsonLines) own(e vram.Event) {
	if len(j.pool) == maxPoolEvents {
		j.leftOut++
		return
	}
	j.pool = append(j.pool, &poolEvent{ownWords[e.Kind], seconds(e.Time), hex(e.Address), e.Bytes})
}

// liveBefore lists, as allocations, what was live before the first event: what
// the events free first, and what is live though no event is about it.
func liveBefore(s vram.Snapshot) []vram.Event {
	var list []vram.Event
	known := map[device.Ptr]bool{}
	for _, e := range s.Events {
		if (e.Kind == vram.EventAlloc || e.Kind == vram.EventFree) && !known[e.Address] {
			known[e.Address] = true
			if e.Kind == vram.EventFree {
				list = append(list, e)
			}
		}
	}
	for _, segment := range s.Segments {
		for _, b := range segment.Blocks {
			if b.State == vram.BlockLive && !known[b.Address] {
				list = append(list, vram.Event{Purpose: b.Purpose, Stream: b.Stream, Address: b.Address,
					Bytes: b.Bytes, Asked: b.Requested, Name: b.Name, Stack: b.Stack})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b vram.Event) int { return cmp.Compare(a.Address, b.Address) })
	return list
}

// calls is a stack as text, innermost first.
func calls(stack vram.Stack) (list []string) {
	if len(stack) == 0 {
		return nil
	}
	for frames := runtime.CallersFrames(stack); ; {
		f, more := frames.Next()
		if f.PC != 0 {
			list = append(list, text(fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line)))
		}
		if !more {
			return list
		}
	}
}

// hex is an address as a string: JSON readers round large numbers.
func hex(p device.Ptr) string { return fmt.Sprintf("%#x", uint64(p)) }
