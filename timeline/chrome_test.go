package timeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// trace is a file of trace events that was checked.
type trace struct {
	Other struct {
		Overlap struct {
			Dropped int64 `json:"dropped_records"`
			Untimed int64 `json:"untimed_records"`
		}
	} `json:"otherData"`
	Unit   string       `json:"displayTimeUnit"`
	Events []traceEvent `json:"traceEvents"`

	processes map[int]string
	threads   map[[2]int]string
	flows     int
	counters  map[string][]traceEvent
}

type traceEvent struct {
	Name *string        `json:"name"`
	Ph   string         `json:"ph"`
	Cat  string         `json:"cat"`
	Pid  *int           `json:"pid"`
	Tid  *int           `json:"tid"`
	Ts   *float64       `json:"ts"`
	Dur  *float64       `json:"dur"`
	ID   *int64         `json:"id"`
	Bp   string         `json:"bp"`
	Args map[string]any `json:"args"`
}

// checkTrace reads a file strictly: every event has the fields that its phase needs
// and no others, times are finite, not negative and in order, spans of a thread lie
// inside or behind each other, every arrow has a beginning and an end in spans, and
// every process and thread has one name.
func checkTrace(t testing.TB, file []byte) *trace {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(file))
	d.DisallowUnknownFields()
	var raw struct {
		Unit   string            `json:"displayTimeUnit"`
		Other  json.RawMessage   `json:"otherData"`
		Events []json.RawMessage `json:"traceEvents"`
	}
	testkit.OK(t, d.Decode(&raw))
	out := &trace{Unit: raw.Unit, processes: map[int]string{}, threads: map[[2]int]string{}, counters: map[string][]traceEvent{}}
	testkit.OK(t, json.Unmarshal(raw.Other, &out.Other))
	if out.Unit != "ms" {
		t.Errorf("the unit is %q", out.Unit)
	}
	fields := map[string][]string{
		"X": {"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"},
		"s": {"name", "cat", "ph", "pid", "tid", "ts", "id"},
		"f": {"name", "cat", "ph", "pid", "tid", "ts", "id", "bp"},
		"C": {"name", "ph", "pid", "tid", "ts", "args"},
		"M": {"name", "ph", "pid", "tid", "args"},
	}
	last := map[[2]int]float64{}
	open := map[[2]int][]float64{} // ends of the spans around the next event
	spans := map[[2]int]map[float64]bool{}
	begun := map[int64]float64{}
	ended := map[int64]bool{}
	sorted := map[string]bool{}
	for i, line := range raw.Events {
		var e traceEvent
		strict := json.NewDecoder(bytes.NewReader(line))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&e); err != nil {
			t.Fatalf("event %d: %v: %s", i, err, line)
		}
		var keys map[string]json.RawMessage
		testkit.OK(t, json.Unmarshal(line, &keys))
		want, known := fields[e.Ph]
		if !known || len(keys) != len(want) {
			t.Fatalf("event %d has not the fields of phase %q: %s", i, e.Ph, line)
		}
		for _, k := range want {
			if v, ok := keys[k]; !ok || string(v) == "null" {
				t.Fatalf("event %d has no %s: %s", i, k, line)
			}
		}
		if *e.Pid <= 0 || *e.Tid < 0 {
			t.Fatalf("event %d: %s", i, line)
		}
		at := [2]int{*e.Pid, *e.Tid}
		if e.Ts != nil {
			if ts := *e.Ts; math.IsNaN(ts) || math.IsInf(ts, 0) || ts < 0 || ts < last[at] {
				t.Fatalf("event %d at %v, behind one at %v: %s", i, ts, last[at], line)
			}
			last[at] = *e.Ts
		}
		const least = 0.0005 // half of the last digit
		switch e.Ph {
		case "X":
			if !(*e.Dur >= 0) || math.IsInf(*e.Dur, 0) {
				t.Fatalf("event %d took %v: %s", i, *e.Dur, line)
			}
			for n := len(open[at]); n > 0 && open[at][n-1] <= *e.Ts+least; n-- {
				open[at] = open[at][:n-1]
			}
			end := *e.Ts + *e.Dur
			if n := len(open[at]); n > 0 && end > open[at][n-1]+least {
				t.Fatalf("event %d reaches over the end of the span around it: %s", i, line)
			}
			open[at] = append(open[at], end)
			if spans[at] == nil {
				spans[at] = map[float64]bool{}
			}
			spans[at][*e.Ts] = true
		case "s", "f":
			if !spans[at][*e.Ts] {
				t.Fatalf("event %d: an arrow outside of a span: %s", i, line)
			}
			if _, twice := begun[*e.ID]; e.Ph == "s" && twice || e.Ph == "f" && (!twice || ended[*e.ID] || *e.Ts < begun[*e.ID] || e.Bp != "e") {
				t.Fatalf("event %d: an arrow that begins or ends twice, or too early: %s", i, line)
			}
			if e.Ph == "s" {
				begun[*e.ID] = *e.Ts
			} else {
				ended[*e.ID] = true
				out.flows++
			}
		case "C":
			if v, ok := e.Args["bytes"].(float64); len(e.Args) != 1 || !ok || v < 0 {
				t.Fatalf("event %d: %s", i, line)
			}
			out.counters[*e.Name] = append(out.counters[*e.Name], e)
		case "M":
			name, _ := e.Args["name"].(string)
			_, isIndex := e.Args["sort_index"].(float64)
			switch *e.Name {
			case "process_name":
				if out.processes[*e.Pid] != "" || name == "" {
					t.Fatalf("event %d names a process anew, or not: %s", i, line)
				}
				out.processes[*e.Pid] = name
			case "thread_name":
				if out.threads[at] != "" || name == "" {
					t.Fatalf("event %d names a thread anew, or not: %s", i, line)
				}
				out.threads[at] = name
			case "process_sort_index", "thread_sort_index":
				if key := fmt.Sprint(*e.Name, at); !isIndex || sorted[key] {
					t.Fatalf("event %d: %s", i, line)
				} else {
					sorted[key] = true
				}
			default:
				t.Fatalf("event %d: %s", i, line)
			}
		}
		out.Events = append(out.Events, e)
	}
	if len(begun) != len(ended) {
		t.Errorf("%d arrows begin, %d end", len(begun), len(ended))
	}
	for _, e := range out.Events {
		if out.processes[*e.Pid] == "" || e.Ph == "X" && out.threads[[2]int{*e.Pid, *e.Tid}] == "" {
			t.Errorf("a process or a thread without a name: %+v", e)
		}
	}
	return out
}

// spansOf are the spans of a process of that name.
func (x *trace) spansOf(process string) (list []traceEvent) {
	for _, e := range x.Events {
		if e.Ph == "X" && x.processes[*e.Pid] == process {
			list = append(list, e)
		}
	}
	return list
}

func written(t testing.TB, r *Recording) []byte {
	t.Helper()
	var out bytes.Buffer
	testkit.OK(t, r.Write(&out))
	return out.Bytes()
}

var hostile = []string{
	`"}],"x":[{`, "</script><script>alert(1)</script>", "\x00\x01\n\r\t\\", "\xff\xfe bad UTF-8", "\u2028\u2029", strings.Repeat("long ", 1000), "", "日本語 😀", `\u0000`,
}

// Times of the report count from the first record, as those of viewers do, however long
// before it the recording began.
func TestTimesOfTheReport(t *testing.T) {
	r := start(t, Options{Every: time.Hour})
	const id, begin = "cuda:0", int64(7e9)
	r.clock(id, 1000)
	calls, lane := r.row(callsTo(id), "calls"), r.row(id, "stream 1")
	for _, at := range []int64{begin + 2e9, begin + 5e9} {
		r.put(record{kind: kindCall, row: calls, lane: lane, engine: H2D, name: r.name("copy"), start: at, end: at, timed: true, from: at, to: at + 1e9, bytes: 1})
	}
	r.put(record{row: r.row("loader", "worker 1"), name: r.name("samples"), start: begin, end: begin + 2e9})
	got := r.Report()
	if got.Seconds != 6 || got.FirstByteSeconds != 2 || got.Devices[0].Gaps.LongestAtSeconds != 3 || got.Devices[0].Engines[0].Gaps.LongestAtSeconds != 3 {
		t.Errorf("%+v, want 6 s, the first byte at 2 s and a gap at 3 s", got)
	}
}

// What is written is a trace whatever was recorded, and nothing of it is lost: spans
// that overlap on a row, that are empty, that have any name.
func TestTraceRandom(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		r := start(t, Options{Every: time.Hour})
		rng := rand.New(rand.NewPCG(seed, 5))
		id := "cuda:" + hostile[rng.IntN(len(hostile))]
		r.clock(id, 1000)
		calls, lane := r.row(callsTo(id), "calls"), r.row(id, "stream 1")
		spans, work, others, counters := 0, 0, 0, 0
		for range 2000 {
			at := rng.Int64N(1e9)
			x := record{start: at, end: at + rng.Int64N(5)*rng.Int64N(1e6), name: r.name(hostile[rng.IntN(len(hostile))]), batch: rng.Int32N(3), bytes: rng.Int64N(3) << 20}
			switch rng.IntN(4) {
			case 3:
				x.kind, x.row, x.engine, x.timed = kindWork, r.row(id, "other stream 7"), Engine(1+rng.IntN(int(engines)-1)), true
				x.lane, x.from, x.to = x.row, x.start, x.end
				others++
			case 0:
				x.kind, x.row, x.lane, x.engine = kindCall, calls, lane, Engine(1+rng.IntN(int(engines)-1))
				if x.timed = rng.IntN(10) > 0; x.timed {
					x.from = x.start + rng.Int64N(1e6)
					x.to = x.from + rng.Int64N(1e6)
					work++
				}
				spans++
			case 1:
				x.kind, x.row = kindCounter, r.row(id, "memory "+hostile[rng.IntN(len(hostile))])
				x.end = x.start
				counters++
			default:
				x.row = r.row("loader", fmt.Sprint("worker ", rng.IntN(12)))
				if n := (x.end - x.start) / 4; n > 0 {
					x.read, x.decode, x.resize = rng.Int64N(n), rng.Int64N(n), 1+rng.Int64N(n)
				}
				spans++
			}
			r.put(x)
		}
		got := checkTrace(t, written(t, r))
		n, c := 0, 0
		for _, e := range got.Events {
			if e.Ph == "X" && !slices.Contains(stageNames[:], *e.Name) {
				n++
			}
		}
		for _, list := range got.counters {
			c += len(list)
		}
		if n != spans+work+others || got.flows != work || c != counters {
			t.Errorf("seed %d: %d spans, %d arrows, %d values of counters; want %d, %d, %d", seed, n, got.flows, c, spans+work+others, work, counters)
		}
		checkReport(t, r.Report())
		r.Stop()
	}
}

// checkReport checks what holds for any report.
func checkReport(t testing.TB, rep Report) {
	t.Helper()
	fraction := func(what string, f float64) {
		if !(f >= 0 && f <= 1) {
			t.Errorf("%s is %v", what, f)
		}
	}
	gaps := func(what string, g Gaps, within float64) {
		if g.Count == 0 && g != (Gaps{}) || g.LongestSeconds > g.Seconds || g.Seconds > within+1e-9 {
			t.Errorf("%s: gaps %+v in %v s", what, g, within)
		}
	}
	for _, d := range rep.Devices {
		fraction(d.Device, d.BusyFraction)
		gaps(d.Device, d.Gaps, d.Seconds-d.BusySeconds)
		longest := 0.0
		for _, e := range d.Engines {
			fraction(e.Engine.String(), e.BusyFraction)
			gaps(e.Engine.String(), e.Gaps, d.Seconds-e.BusySeconds)
			longest = max(longest, e.BusySeconds)
			if e.HiddenFraction != nil {
				fraction("hidden", *e.HiddenFraction)
			}
		}
		if d.BusySeconds < longest-1e-9 {
			t.Errorf("busy for %v s, an engine for %v", d.BusySeconds, longest)
		}
	}
	for _, s := range rep.Stages {
		fraction(s.Stage, s.BusyFraction)
	}
	doc, err := json.Marshal(rep)
	testkit.OK(t, err)
	if bytes.Contains(doc, []byte("null")) && !bytes.Contains(doc, []byte(`"hidden_fraction":null`)) {
		t.Errorf("%s", doc)
	}
	testkit.OK(t, rep.Write(new(bytes.Buffer)))
}

// Processes and threads are in the order of the pipeline, and of their numbers.
func TestOrder(t *testing.T) {
	r := start(t, Options{Every: time.Hour})
	at := r.began
	for _, row := range []probe.Row{{Group: "cuda:0", Name: "x"}, {Group: "transfer cuda:0", Name: "h2d"}, {Group: "loader", Name: "worker 10"}, {Group: "loader", Name: "worker 9"}, {Group: "loader", Name: "consumer"}} {
		r.Span(row, probe.Span{Name: "s", Start: at, End: at.Add(time.Second)})
	}
	x := checkTrace(t, written(t, r))
	if x.processes[1] != "loader" || x.processes[2] != "transfer cuda:0" || x.processes[3] != "cuda:0" {
		t.Errorf("processes %v", x.processes)
	}
	type place struct {
		name  string
		index float64
	}
	var got []place
	for _, e := range x.Events {
		if *e.Name == "thread_sort_index" && *e.Pid == 1 {
			got = append(got, place{x.threads[[2]int{1, *e.Tid}], e.Args["sort_index"].(float64)})
		}
	}
	slices.SortFunc(got, func(a, b place) int { return cmp.Compare(a.index, b.index) })
	if len(got) != 3 || got[0].name != "consumer" || got[1].name != "worker 9" || got[2].name != "worker 10" {
		t.Errorf("threads %v", got)
	}
}

// The file that PINION_TRACE names is a trace. Scripts use this to check what a program
// has written.
func TestFile(t *testing.T) {
	path := os.Getenv("PINION_TRACE")
	if path == "" {
		t.Skip("PINION_TRACE names no file")
	}
	x := checkTrace(t, []byte(testkit.ReadFile(t, path)))
	if x.flows == 0 || x.Other.Overlap.Dropped != 0 || x.Other.Overlap.Untimed != 0 {
		t.Errorf("%d arrows, %+v", x.flows, x.Other)
	}
}

// full takes so many bytes.
type full int

var errFull = errors.New("no room left")

func (f *full) Write(b []byte) (int, error) {
	if *f -= full(len(b)); *f < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// A file that cannot be written is an error, and leaves what was there.
func TestWriteFails(t *testing.T) {
	r := start(t, Options{Every: time.Hour})
	for i := range 5000 {
		at := r.began.Add(time.Duration(i) * time.Millisecond)
		r.Span(probe.Row{Group: "g", Name: "r"}, probe.Span{Name: "s", Start: at, End: at})
	}
	for _, room := range []full{0, 100, 100_000} {
		if err := r.Write(&room); !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
	path := filepath.Join(t.TempDir(), "trace.json")
	testkit.WriteFile(t, "old", path)
	testkit.OK(t, r.WriteFile(path))
	checkTrace(t, []byte(testkit.ReadFile(t, path)))
	if err := r.WriteFile(filepath.Join(path, "x")); err == nil {
		t.Error("a file was written below a file")
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
