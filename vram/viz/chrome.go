package viz

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/pinion-gpu/pinion/vram"
)

// WriteChrome writes s as trace events for ui.perfetto.dev and chrome://tracing:
// counters of the allocated bytes, of the reserved bytes and of the bytes of each
// purpose that had any, and an instant event for each allocation that failed.
// Times are in microseconds since the pool was made.
//
// The counter of reserved bytes follows memory being mapped and unmapped: it dips
// while chunks move from one address to another.
func WriteChrome(w io.Writer, s vram.Snapshot) error {
	c := &chrome{w: bufio.NewWriterSize(w, 64<<10)}
	c.write(s)
	if c.err == nil {
		c.err = c.w.Flush()
	}
	if c.err != nil {
		return fmt.Errorf("viz: %w", c.err)
	}
	return nil
}

// chromeEvent is described by the "Trace Event Format" document of the Chromium
// project.
type chromeEvent struct {
	Name  string      `json:"name"`
	Phase string      `json:"ph"`
	Scope string      `json:"s,omitempty"`
	Time  json.Number `json:"ts,omitempty"`
	PID   int         `json:"pid"`
	TID   int         `json:"tid"`
	Args  any         `json:"args"`
}

type counterArgs struct {
	Bytes int64 `json:"bytes"`
}

type nameArgs struct {
	Name string `json:"name"`
}

type failureArgs struct {
	AskedBytes int64  `json:"asked_bytes"`
	FreeBytes  uint64 `json:"free_bytes"`
	Purpose    string `json:"purpose"`
	Name       string `json:"name,omitempty"`
}

// chrome keeps the first error: later writes do nothing.
type chrome struct {
	w       *bufio.Writer
	err     error
	started bool
}

func (c *chrome) write(s vram.Snapshot) {
	end := s.Time.Sub(s.Start)
	begin := end
	if len(s.Events) > 0 {
		begin = s.Events[0].Time
	}
	c.text(`{"displayTimeUnit":"ms","otherData":`)
	c.value(snapshotHeader(s))
	c.text(`,"traceEvents":[`)
	c.event(chromeEvent{Name: "process_name", Phase: "M", PID: 1, Args: nameArgs{"vram " + text(s.Device)}})

	t := totalsBefore(s)
	c.counter("allocated", begin, t.allocated)
	c.counter("reserved", begin, t.reserved)
	for _, p := range vram.Purposes() {
		if n := t.purposes[p]; n != 0 {
			c.counter(p.String(), begin, n)
		}
	}
	for _, e := range s.Events {
		if e.Kind == vram.EventOutOfMemory {
			c.event(chromeEvent{Name: "out of memory", Phase: "i", Scope: "p", Time: micros(e.Time), PID: 1,
				Args: failureArgs{AskedBytes: asked(e), FreeBytes: uint64(e.Address), Purpose: e.Purpose.String(), Name: text(e.Name)}})
			continue
		}
		t.add(e, 1)
		switch e.Kind {
		case vram.EventAlloc, vram.EventFree:
			c.counter("allocated", e.Time, t.allocated)
			c.counter(e.Purpose.String(), e.Time, t.purposes[e.Purpose])
		case vram.EventMap, vram.EventUnmap:
			c.counter("reserved", e.Time, t.reserved)
		}
	}
	if end > begin {
		c.counter("allocated", end, t.allocated)
		c.counter("reserved", end, t.reserved)
	}
	c.text("\n]}\n")
}

// totals are the amounts that events change, in bytes.
type totals struct {
	allocated, reserved int64
	purposes            map[vram.Purpose]int64
}

// totalsBefore are those before the first event: what is at the end, less what
// the events made of it.
func totalsBefore(s vram.Snapshot) totals {
	t := totals{s.Stats.Allocated.Current, s.Stats.Reserved.Current, map[vram.Purpose]int64{}}
	for _, p := range vram.Purposes() {
		t.purposes[p] = s.Stats.Purposes[p].Allocated.Current
	}
	for _, e := range s.Events {
		t.add(e, -1)
	}
	return t
}

// add does what e did, or with -1 undoes it.
func (t *totals) add(e vram.Event, sign int64) {
	switch e.Kind {
	case vram.EventFree:
		sign = -sign
		fallthrough
	case vram.EventAlloc:
		t.allocated += sign * e.Bytes
		t.purposes[e.Purpose] += sign * e.Bytes
	case vram.EventUnmap:
		sign = -sign
		fallthrough
	case vram.EventMap:
		t.reserved += sign * e.Bytes
	}
}

func (c *chrome) counter(name string, at time.Duration, bytes int64) {
	c.event(chromeEvent{Name: name, Phase: "C", Time: micros(at), PID: 1, Args: counterArgs{bytes}})
}

func (c *chrome) event(e chromeEvent) {
	if c.started {
		c.text(",")
	}
	c.started = true
	c.text("\n")
	c.value(e)
}

func (c *chrome) value(v any) {
	if c.err != nil {
		return
	}
	var line []byte
	if line, c.err = json.Marshal(v); c.err == nil {
		_, c.err = c.w.Write(line)
	}
}

func (c *chrome) text(s string) {
	if c.err == nil {
		_, c.err = c.w.WriteString(s)
	}
}
