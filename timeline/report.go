package timeline

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Report says how well the work of a recording overlapped. As JSON it has the keys of
// the other documents. The timeline begins with the first record that is kept, which is
// 0 s in viewers, too.
type Report struct {
	Seconds          float64 `json:"seconds"`                      // of the timeline, from its first record to its last
	FirstByteSeconds float64 `json:"first_byte_seconds,omitempty"` // until the first copy to a device began; 0: there was none, or nothing before it
	Records          int     `json:"records"`
	DroppedRecords   int64   `json:"dropped_records"` // the oldest ones: the report is about the others
	UntimedRecords   int64   `json:"untimed_records"` // work without device times, which no engine has

	// Work of other libraries, where [Options].Others asks for it.
	OthersError string `json:"others_error,omitempty"` // why there is none
	LostRecords int64  `json:"lost_records,omitempty"` // what CUPTI had no room for, or told in a way that cannot be

	Devices []DeviceReport `json:"devices"`
	Stages  []StageReport  `json:"stages"`
}

// DeviceReport is one device. Fractions are of its Seconds.
type DeviceReport struct {
	Device            string         `json:"device"`
	Seconds           float64        `json:"seconds"`             // from the beginning of its first work to the end of its last
	BusySeconds       float64        `json:"busy_seconds"`        // that any engine was busy
	BusyFraction      float64        `json:"busy_fraction"`       //
	ClockErrorSeconds float64        `json:"clock_error_seconds"` // by how much times on the device may be off those of the host
	Engines           []EngineReport `json:"engines"`
	Gaps              Gaps           `json:"gaps"` // in which no engine was busy
}

// EngineReport is one engine of a device. Work on several streams counts once where
// it overlaps.
type EngineReport struct {
	Engine       Engine  `json:"engine"`
	Spans        int     `json:"spans"`
	Bytes        int64   `json:"bytes"`
	BusySeconds  float64 `json:"busy_seconds"`
	BusyFraction float64 `json:"busy_fraction"`
	GBPerS       float64 `json:"gb_per_s,omitempty"` // while it was busy

	// HiddenFraction is the part of a copy engine's time during which the device
	// computed as well; null for [Compute].
	HiddenFraction *float64 `json:"hidden_fraction"`

	Gaps Gaps `json:"gaps"`
}

// Gaps are times of at least 10 µs without work, between the first work and the last.
type Gaps struct {
	Count            int     `json:"count"`
	Seconds          float64 `json:"seconds"`
	LongestSeconds   float64 `json:"longest_seconds"`
	LongestAtSeconds float64 `json:"longest_at_seconds"` // where the longest begins on the timeline
}

const leastGap = 10_000 // nanoseconds

// StageReport is what rows of the host spent their time on: the stages of a loader's
// workers, waits, copies of an engine. Fractions are of the report's Seconds, on all
// rows of that kind.
type StageReport struct {
	Group        string  `json:"group"` // such as "loader"
	Where        string  `json:"where"` // the rows, without their numbers: "worker"
	Rows         int     `json:"rows"`
	Stage        string  `json:"stage"`
	Spans        int     `json:"spans"`
	Bytes        int64   `json:"bytes,omitempty"`
	Seconds      float64 `json:"seconds"`
	BusyFraction float64 `json:"busy_fraction"`
}

// Report makes a report of what is recorded so far.
func (r *Recording) Report() Report { return r.view().report() }

func (v *view) report() Report {
	out := Report{Records: len(v.records), DroppedRecords: v.dropped, UntimedRecords: v.untimed, OthersError: v.othersError, LostRecords: v.lost, Devices: []DeviceReport{}, Stages: []StageReport{}}
	first, last, firstByte := int64(-1), int64(0), int64(-1)
	work := map[string]*deviceWork{}
	stages := map[stageKey]*StageReport{}
	rows := map[stageKey]map[int32]struct{}{}
	for i := range v.records {
		x := &v.records[i]
		if first < 0 || x.start < first {
			first = x.start
		}
		if x.kind == kindCounter {
			continue
		}
		last = max(last, x.last())
		switch {
		case x.timed:
			if x.engine == H2D && (firstByte < 0 || x.from < firstByte) {
				firstByte = x.from
			}
			id := v.rows[x.lane].group
			if work[id] == nil {
				work[id] = &deviceWork{}
			}
			work[id].add(x)
		case x.kind == kindSpan && !v.calls[v.rows[x.row].group]:
			k := stageKey{group: v.rows[x.row].group, where: withoutNumber(v.rows[x.row].name)}
			if rows[k] == nil {
				rows[k] = map[int32]struct{}{}
			}
			rows[k][x.row] = struct{}{}
			for _, part := range v.parts(x) {
				k.stage = part.name
				s := stages[k]
				if s == nil {
					s = &StageReport{Group: k.group, Where: k.where, Stage: k.stage}
					stages[k] = s
				}
				s.Spans++
				s.Bytes += x.bytes
				s.Seconds += seconds(part.took)
			}
		}
	}
	if first >= 0 {
		out.Seconds = seconds(max(0, last-first))
	}
	if firstByte >= 0 {
		out.FirstByteSeconds = seconds(firstByte - first)
	}
	for _, id := range slices.Sorted(maps.Keys(work)) {
		d := work[id].report(first)
		d.Device, d.ClockErrorSeconds = id, seconds(v.errors[id])
		out.Devices = append(out.Devices, d)
	}
	for _, k := range slices.SortedFunc(maps.Keys(stages), compareStages) {
		s := stages[k]
		k.stage = ""
		s.Rows = len(rows[k])
		if out.Seconds > 0 {
			s.BusyFraction = min(1, s.Seconds/out.Seconds/float64(s.Rows))
		}
		out.Stages = append(out.Stages, *s)
	}
	return out
}

type stageKey struct{ group, where, stage string }

func compareStages(a, b stageKey) int {
	return cmp.Or(compareGroups(a.group, b.group), compareRows(a.where, b.where),
		cmp.Compare(slices.Index(stageNames[:], a.stage), slices.Index(stageNames[:], b.stage)), cmp.Compare(a.stage, b.stage))
}

// part is a part of a span: a stage of it, or all.
type part struct {
	name string
	took int64
}

var stageNames = [...]string{"read", "decode", "resize"}

// parts are the stages of a span, or the span itself if it has none.
func (v *view) parts(x *record) (list []part) {
	for i, took := range [...]int64{x.read, x.decode, x.resize} {
		if took > 0 {
			list = append(list, part{stageNames[i], took})
		}
	}
	if list == nil {
		list = append(list, part{v.names[x.name], x.end - x.start})
	}
	return list
}

// withoutNumber is the name of a row without a number behind it.
func withoutNumber(name string) string {
	if i := strings.LastIndexByte(name, ' '); i > 0 && isNumber(name[i+1:]) {
		return name[:i]
	}
	return name
}

// deviceWork is the work of one device, by engine.
type deviceWork struct {
	engines [engines]struct {
		spans int
		bytes int64
		times []interval
	}
}

func (w *deviceWork) add(x *record) {
	e := &w.engines[x.engine]
	e.spans++
	e.bytes += x.bytes
	e.times = append(e.times, interval{x.from, x.to})
}

// report is about the work of a timeline that begins at first.
func (w *deviceWork) report(first int64) (d DeviceReport) {
	var all []interval
	for i := range w.engines {
		e := &w.engines[i]
		e.times = union(e.times)
		all = append(all, e.times...)
	}
	all = union(all)
	if len(all) > 0 {
		d.Seconds = seconds(all[len(all)-1].to - all[0].from)
	}
	fraction := func(s float64) float64 {
		if d.Seconds == 0 {
			return 0
		}
		return s / d.Seconds
	}
	d.BusySeconds = seconds(total(all))
	d.BusyFraction = fraction(d.BusySeconds)
	d.Gaps = gapsOf(all, first)
	d.Engines = []EngineReport{}
	for i := range w.engines {
		e := &w.engines[i]
		if e.spans == 0 {
			continue
		}
		busy := total(e.times)
		row := EngineReport{Engine: Engine(i), Spans: e.spans, Bytes: e.bytes, BusySeconds: seconds(busy), Gaps: gapsOf(e.times, first)}
		row.BusyFraction = fraction(row.BusySeconds)
		if row.Engine != Compute && busy > 0 {
			row.GBPerS = float64(e.bytes) / float64(busy)
			hidden := float64(shared(e.times, w.engines[Compute].times)) / float64(busy)
			row.HiddenFraction = &hidden
		}
		d.Engines = append(d.Engines, row)
	}
	return d
}

func gapsOf(list []interval, first int64) (g Gaps) {
	for _, x := range between(list, leastGap) {
		g.Count++
		g.Seconds += seconds(x.to - x.from)
		if s := seconds(x.to - x.from); s > g.LongestSeconds {
			g.LongestSeconds, g.LongestAtSeconds = s, seconds(x.from-first)
		}
	}
	return g
}

// Write prints the report for people.
func (r Report) Write(w io.Writer) error {
	p := &printer{w: w}
	p.print("Timeline of %s", units.Seconds(r.Seconds))
	if r.FirstByteSeconds > 0 {
		p.print("; the first byte went to a device after %s", units.Seconds(r.FirstByteSeconds))
	}
	p.print("\n")
	for _, d := range r.Devices {
		p.print("\n%s: busy %s of %s\n", d.Device, units.Percent(d.BusyFraction), units.Seconds(d.Seconds))
		t := texttable.New("ENGINE", ">BUSY", ">PIECES", ">BYTES", ">RATE", ">HIDDEN", ">GAPS", ">LONGEST", ">AT")
		for _, e := range d.Engines {
			bytes, rate, hidden := "", "", ""
			if e.Bytes > 0 && e.HiddenFraction != nil {
				bytes, rate = units.Bytes(e.Bytes), units.Rate(e.GBPerS*1e9)
			}
			if e.HiddenFraction != nil {
				hidden = units.Percent(*e.HiddenFraction)
			}
			t.Add(append([]string{e.Engine.String(), units.Percent(e.BusyFraction), units.Grouped(int64(e.Spans)), bytes, rate, hidden}, e.Gaps.cells()...)...)
		}
		t.Add(append([]string{"any", units.Percent(d.BusyFraction), "", "", "", ""}, d.Gaps.cells()...)...)
		p.table(t)
	}
	if len(r.Stages) > 0 {
		p.print("\n")
		t := texttable.New("WHERE", "STAGE", ">BUSY", ">TIME", ">SPANS")
		for _, s := range r.Stages {
			where := s.Group + " " + s.Where
			if s.Rows > 1 {
				where = fmt.Sprintf("%s x %d", where, s.Rows)
			}
			t.Add(where, s.Stage, units.Percent(s.BusyFraction), units.Seconds(s.Seconds), units.Grouped(int64(s.Spans)))
		}
		p.table(t)
	}
	if r.DroppedRecords > 0 {
		p.print("\n%s were dropped to make room: this is about the newest %s.\n", units.Count(r.DroppedRecords, "older record"), units.Grouped(int64(r.Records)))
	}
	if r.UntimedRecords > 0 {
		p.print("\n%s of the devices' work could not be timed.\n", units.Count(r.UntimedRecords, "piece"))
	}
	if r.LostRecords > 0 {
		p.print("\n%s of other libraries' work were lost.\n", units.Count(r.LostRecords, "record"))
	}
	if r.OthersError != "" {
		p.print("\nThe work of other libraries is not in it: %s.\n", r.OthersError)
	}
	return p.err
}

func (g Gaps) cells() []string {
	if g.Count == 0 {
		return []string{"0"}
	}
	return []string{units.Grouped(int64(g.Count)), units.Seconds(g.LongestSeconds), units.Seconds(g.LongestAtSeconds)}
}

// printer keeps the first error: later prints do nothing.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) print(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) table(t *texttable.Table) {
	if p.err == nil {
		p.err = t.Write(p.w)
	}
}
