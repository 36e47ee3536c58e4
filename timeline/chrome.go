package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/provenance"
)

// Write writes what is recorded so far as trace events, the JSON format of the
// Chromium project that ui.perfetto.dev and chrome://tracing open: spans of the host
// and of devices, an arrow from each call to the work that it queued, and counters of
// memory. The report is in it too, at otherData.overlap. It needs memory for a copy of
// the records, and writes as it goes.
func (r *Recording) Write(w io.Writer) error {
	v := r.view()
	c := &chrome{view: v, w: bufio.NewWriterSize(w, 64<<10)}
	c.write(r)
	if c.err == nil {
		c.err = c.w.Flush()
	}
	if c.err != nil {
		return fmt.Errorf("timeline: %w", c.err)
	}
	return nil
}

// WriteFile writes a file of what Write writes. What was at path is replaced when it
// is complete.
func (r *Recording) WriteFile(path string) error { return atomicfile.Write(path, 0o644, r.Write) }

// chrome keeps the first error: later writes do nothing.
type chrome struct {
	*view
	w    *bufio.Writer
	err  error
	line []byte // of one event
	any  bool   // an event was written

	groups map[string]int // process numbers
	tracks []track        // by row
	next   map[string]int // threads of each group that are taken
	quoted []string       // names, in JSON
}

// track is the lanes of a row: a viewer draws those spans in one line that lie one
// behind the other or inside each other.
type track struct {
	pid   int
	lanes []lane
}

type lane struct {
	tid  int
	open []outer // the spans around the next one, the innermost last
}

type outer struct {
	end  int64
	full bool // of its own stages
}

// item is a record, or its work on the device, in the order in which they are written.
type item struct {
	start, end int64
	record     int32
	device     bool
}

func (c *chrome) write(r *Recording) {
	c.prepare()
	c.text(`{"displayTimeUnit":"ms","otherData":`)
	c.value(c.header(r))
	c.text(`,"traceEvents":[`)
	c.processes()
	for _, x := range c.items() {
		if c.err != nil {
			return
		}
		c.item(x)
	}
	c.text("\n]}\n")
}

type header struct {
	provenance.Record
	Overlap Report `json:"overlap"`
}

func (c *chrome) header(r *Recording) header {
	h := header{provenance.Now(), c.report()}
	h.MeasuredAt = r.began.UTC().Format(time.RFC3339)
	return h
}

// prepare gives groups their processes.
func (c *chrome) prepare() {
	c.groups, c.next = map[string]int{}, map[string]int{}
	used := make([]bool, len(c.rows))
	for i := range c.records {
		x := &c.records[i]
		used[x.row] = true
		if x.timed {
			used[x.lane] = true
		}
	}
	names := map[string]struct{}{}
	for i, row := range c.rows {
		if used[i] {
			names[row.group] = struct{}{}
		}
	}
	for i, group := range slices.SortedFunc(maps.Keys(names), compareGroups) {
		c.groups[group] = i + 1
	}
	c.tracks = make([]track, len(c.rows))
	for i, row := range c.rows {
		c.tracks[i].pid = c.groups[row.group]
	}
	c.quoted = make([]string, len(c.names))
	for i, name := range c.names {
		c.quoted[i] = quote(name)
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string always can be
	return string(b)
}

// items are all spans and counters in the order of their starts: calls before their
// work, outer spans before inner ones.
func (c *chrome) items() []item {
	list := make([]item, 0, len(c.records))
	for i := range c.records {
		x := &c.records[i]
		if x.kind != kindWork {
			list = append(list, item{x.start, x.end, int32(i), false})
		}
		if x.timed {
			list = append(list, item{x.from, x.to, int32(i), true})
		}
	}
	slices.SortFunc(list, func(a, b item) int {
		if c := cmp.Compare(a.start, b.start); c != 0 {
			return c
		}
		if a.device != b.device {
			if b.device {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.end, a.end), cmp.Compare(a.record, b.record))
	})
	return list
}

func (c *chrome) processes() {
	for _, group := range slices.SortedFunc(maps.Keys(c.groups), compareGroups) {
		pid := c.groups[group]
		c.meta("process_name", pid, 0, `"name":`+quote(group))
		c.meta("process_sort_index", pid, 0, `"sort_index":`+strconv.Itoa(pid))
	}
}

func (c *chrome) meta(name string, pid, tid int, arg string) {
	c.begin("M", `"`+name+`"`, pid, tid)
	c.line = append(c.line, `,"args":{`...)
	c.line = append(c.line, arg...)
	c.line = append(c.line, '}')
	c.end()
}

func (c *chrome) item(i item) {
	x := &c.records[i.record]
	switch {
	case x.kind == kindCounter:
		c.begin("C", quote(c.rows[x.row].name), c.tracks[x.row].pid, 0)
		c.time("ts", x.start)
		c.line = append(c.line, `,"args":{"bytes":`...)
		c.line = strconv.AppendInt(c.line, x.bytes, 10)
		c.line = append(c.line, '}')
		c.end()
	case i.device:
		tid := c.place(x.lane, x.from, x.to, false)
		c.span(x, x.engine.String(), c.tracks[x.lane].pid, tid, x.from, x.to)
		if x.kind == kindCall {
			c.flow("f", i.record, c.tracks[x.lane].pid, tid, x.from)
		}
	default:
		pid, tid := c.tracks[x.row].pid, c.place(x.row, x.start, x.end, x.read+x.decode+x.resize > 0)
		c.span(x, "host", pid, tid, x.start, x.end)
		if x.timed {
			c.flow("s", i.record, pid, tid, x.start)
		}
		c.stages(x, pid, tid)
	}
}

// place finds the first lane of a row where a span lies behind the others, or inside
// one.
func (c *chrome) place(row int32, start, end int64, full bool) (tid int) {
	t := &c.tracks[row]
	for i := range t.lanes {
		l := &t.lanes[i]
		for n := len(l.open); n > 0 && l.open[n-1].end <= start; n-- {
			l.open = l.open[:n-1]
		}
		if n := len(l.open); n == 0 || end <= l.open[n-1].end && !l.open[n-1].full {
			l.open = append(l.open, outer{end, full})
			return l.tid
		}
	}
	key := c.rows[row]
	c.next[key.group]++
	tid = c.next[key.group]
	name := key.name
	if n := len(t.lanes); n > 0 {
		name += " (" + strconv.Itoa(n+1) + ")"
	}
	t.lanes = append(t.lanes, lane{tid, []outer{{end, full}}})
	c.meta("thread_name", t.pid, tid, `"name":`+quote(name))
	c.meta("thread_sort_index", t.pid, tid, `"sort_index":`+strconv.Itoa(c.order(row)+len(t.lanes)-1))
	return tid
}

// order is the place of a row in its group, with room for its lanes.
func (c *chrome) order(row int32) (n int) {
	key := c.rows[row]
	for _, other := range c.rows {
		if other.group == key.group && compareRows(other.name, key.name) < 0 {
			n += 100
		}
	}
	return n
}

func (c *chrome) span(x *record, category string, pid, tid int, start, end int64) {
	c.begin("X", c.quoted[x.name], pid, tid)
	c.line = append(c.line, `,"cat":"`...)
	c.line = append(c.line, category...)
	c.line = append(c.line, '"')
	c.time("ts", start)
	c.time("dur", end-start)
	c.line = append(c.line, `,"args":{`...)
	comma := ""
	for _, a := range [...]struct {
		key string
		n   int64
	}{{"bytes", x.bytes}, {"batch", int64(x.batch)}, {"samples", int64(x.count)}} {
		if a.n != 0 {
			c.line = append(c.line, comma...)
			c.line = append(c.line, '"')
			c.line = append(c.line, a.key...)
			c.line = append(c.line, `":`...)
			c.line = strconv.AppendInt(c.line, a.n, 10)
			comma = ","
		}
	}
	if x.bytes > 0 && end > start && (x.kind == kindCall || x.kind == kindWork) && category != "host" {
		c.line = append(c.line, comma...)
		c.line = append(c.line, `"gb_per_s":`...)
		c.line = strconv.AppendFloat(c.line, float64(x.bytes)/float64(end-start), 'f', 3, 64)
	}
	c.line = append(c.line, '}')
	c.end()
}

// stages draws the stages of a span inside it, one after the other.
func (c *chrome) stages(x *record, pid, tid int) {
	at := x.start
	for i, took := range [...]int64{x.read, x.decode, x.resize} {
		if took = min(took, x.end-at); took <= 0 {
			continue
		}
		c.begin("X", `"`+stageNames[i]+`"`, pid, tid)
		c.line = append(c.line, `,"cat":"host"`...)
		c.time("ts", at)
		c.time("dur", took)
		c.line = append(c.line, `,"args":{}`...)
		c.end()
		at += took
	}
}

// flow begins, or ends, the arrow from a call to its work.
func (c *chrome) flow(phase string, id int32, pid, tid int, at int64) {
	c.begin(phase, `"queued"`, pid, tid)
	c.line = append(c.line, `,"cat":"flow","id":`...)
	c.line = strconv.AppendInt(c.line, int64(id)+1, 10)
	c.time("ts", at)
	if phase == "f" {
		c.line = append(c.line, `,"bp":"e"`...)
	}
	c.end()
}

func (c *chrome) begin(phase, quoted string, pid, tid int) {
	c.line = c.line[:0]
	if c.any {
		c.line = append(c.line, ',')
	}
	c.any = true
	c.line = append(c.line, "\n{\"name\":"...)
	c.line = append(c.line, quoted...)
	c.line = append(c.line, `,"ph":"`...)
	c.line = append(c.line, phase...)
	c.line = append(c.line, `","pid":`...)
	c.line = strconv.AppendInt(c.line, int64(pid), 10)
	c.line = append(c.line, `,"tid":`...)
	c.line = strconv.AppendInt(c.line, int64(tid), 10)
}

// time appends a time, in microseconds.
func (c *chrome) time(key string, nanoseconds int64) {
	c.line = append(c.line, `,"`...)
	c.line = append(c.line, key...)
	c.line = append(c.line, `":`...)
	c.line = strconv.AppendInt(c.line, nanoseconds/1000, 10)
	c.line = append(c.line, '.', byte('0'+nanoseconds/100%10), byte('0'+nanoseconds/10%10), byte('0'+nanoseconds%10))
}

func (c *chrome) end() {
	c.line = append(c.line, '}')
	if c.err == nil {
		_, c.err = c.w.Write(c.line)
	}
}

func (c *chrome) text(s string) {
	if c.err == nil {
		_, c.err = c.w.WriteString(s)
	}
}

func (c *chrome) value(v any) {
	if c.err != nil {
		return
	}
	var b []byte
	if b, c.err = json.Marshal(v); c.err == nil {
		_, c.err = c.w.Write(b)
	}
}
