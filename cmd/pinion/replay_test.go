package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/units"
)

var replayKeys = []string{"events", "peak_live_bytes", "peak_reserved_bytes", "fragmentation", "ooms", "driver_calls",
	"alloc_p50_seconds", "alloc_p99_seconds", "free_p50_seconds", "measured_at", "version", "commit", "platform", "cpus", "device", "device_name", "trace",
	"format", "allocator", "capacity_bytes", "retries", "peak_trace_bytes", "least_oom_bytes", "least_oom_fraction",
	"failed_in_trace", "failed_granted", "seconds"}

const smallTrace = `{"op":"alloc","id":1,"bytes":1048576,"stream":0,"purpose":"weights"}
{"op":"alloc","id":2,"bytes":3145728,"stream":1}
{"op":"free","id":1}
{"op":"alloc","id":3,"bytes":2097152,"stream":0}
{"op":"free","id":2}
`

// What people read, word for word.
func TestReplayText(t *testing.T) {
	share := 0.9812
	out := &replayOutput{
		Record: provenance.Record{}.On("cuda:0", "Fast GPU"), Trace: "run.pickle", Format: "pytorch snapshot", Allocator: "pinion",
		CapacityBytes: 16 << 30, ChunkBytes: 2 << 20, Seconds: 1.5,
		Events: 20000, PeakLiveBytes: 15 << 30, PeakReservedBytes: 16 << 30, Fragmentation: 16. / 15, OOMs: 3, DriverCalls: 8123,
		AllocP50: 121e-9, AllocP99: 48200e-9, FreeP50: 88e-9, PeakTraceBytes: 17 << 30, LeastOOMBytes: 157 << 30 / 10, LeastOOMFraction: &share,
		FailedInTrace: 2, FailedGranted: 1,
		Snapshot: &snapshotOutput{"pool.pickle", 1000, 19000},
	}
	var b strings.Builder
	out.print(&b)
	const want = `cuda:0  Fast GPU
run.pickle (pytorch snapshot) on pinion
16 GiB in chunks of up to 2 MiB, 1.50 s

EVENTS  PEAK LIVE  PEAK RESERVED  FRAGMENTATION  OOMS
 20000     15 GiB         16 GiB          1.067     3

DRIVER CALLS  ALLOC P50  ALLOC P99  FREE P50
        8123     121 ns    48.2 µs     88 ns

Out of memory 3 times. The least that was too much, live and asked for:
15.7 GiB, 98.1 % of the capacity.

The trace needs 17 GiB at its peak: more than the capacity. See --capacity.

2 allocations had failed when the trace was recorded; 1 succeeded here.

pool.pickle has the pool at the end of the trace and 1000 events before.
Open it at https://pytorch.org/memory_viz.
The oldest 19000 events are left out. See --history.
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// Where nothing could be allocated, there is no time and no quotient.
func TestReplayTextNothing(t *testing.T) {
	share := 12.8
	out := &replayOutput{
		Record: provenance.Record{}.On("host:1048576", "host memory"), Trace: "t.csv", Format: "csv", Allocator: "pinion", CapacityBytes: 1 << 20, ChunkBytes: 2 << 20,
		Events: 1, OOMs: 1, LeastOOMBytes: 128 << 17, LeastOOMFraction: &share, defaultCapacity: true,
	}
	var b strings.Builder
	out.print(&b)
	out.Events = 0
	out.print(&b)
	const want = `host memory
t.csv (csv) on pinion
1 MiB (default of the host, see --capacity) in chunks of up to 2 MiB, 0 ns

EVENTS  PEAK LIVE  PEAK RESERVED  FRAGMENTATION  OOMS
     1        0 B            0 B              -     1

DRIVER CALLS  ALLOC P50  ALLOC P99  FREE P50
           0          -          -         -

Out of memory 1 time. The least that was too much, live and asked for:
16 MiB, 12.8 times the capacity.

One chunk is 2 MiB: more than the capacity. See --chunk and --capacity.
host memory
t.csv (csv) on pinion
1 MiB (default of the host, see --capacity) in chunks of up to 2 MiB, 0 ns

The trace has no events.
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// A whole run, but for what a run cannot repeat.
func TestReplayRunText(t *testing.T) {
	file := writeFile(t, t.TempDir(), "small.jsonl", []byte(smallTrace))
	r := pinion(t, "replay", file, "--device", "host:1GiB", "--allocator", "plain")
	got := regexp.MustCompile(` *\d[\d.]* (ns|µs|ms|s)\b`).ReplaceAllString(strings.ReplaceAll(r.stdout, file, "FILE"), " TIME")
	got = regexp.MustCompile(`( +[A-Z]+ P\d\d)+\n`).ReplaceAllString(got, "\n") // their columns are as wide as the times
	_, got, _ = strings.Cut(got, "\n")                                          // the machine
	const want = `FILE (json lines) on plain
1 GiB, TIME

EVENTS  PEAK LIVE  PEAK RESERVED  FRAGMENTATION  OOMS
     5      5 MiB          5 MiB          1.000     0

DRIVER CALLS
           5 TIME TIME TIME

SIMULATED                    PEAK RESERVED  FRAGMENTATION  OOMS
pytorch                             42 MiB          8.400     0
pytorch expandable_segments         42 MiB          8.400     0

Reserved counts what is live: what the driver rounds up or keeps is not seen.
`
	if r.code != exitDone || got != want {
		t.Errorf("exit code %d, got\n%s\nwant\n%s%s", r.code, got, want, r.stderr)
	}
}

func TestReplayJSON(t *testing.T) {
	file := writeFile(t, t.TempDir(), "small.jsonl", []byte(smallTrace))
	for allocator, calls := range map[string]float64{"pinion": 2, "plain": 5, "driver": 5} {
		doc := document(t, replayKeys, "replay", file, "--device", "host", "--allocator", allocator, "--json")
		for key, want := range map[string]any{
			"device": "host:" + units.ExactBytes(int64(hostCapacity)), "capacity_bytes": float64(hostCapacity), "trace": file,
			"format": "json lines", "allocator": allocator, "events": 5., "peak_live_bytes": 5242880., "peak_trace_bytes": 5242880.,
			"ooms": 0., "least_oom_fraction": nil,
		} {
			if doc[key] != want {
				t.Errorf("%s: %s is %v, want %v", allocator, key, doc[key], want)
			}
		}
		reserved := doc["peak_reserved_bytes"].(float64)
		if f := doc["fragmentation"].(float64); reserved < 5242880 || f != reserved/5242880 {
			t.Errorf("%s: %g bytes reserved, fragmentation %g", allocator, reserved, f)
		}
		if got := doc["driver_calls"].(float64); got < calls {
			t.Errorf("%s: %g driver calls, want %g at least", allocator, got, calls)
		}
		if _, there := doc["chunk_bytes"]; there != (allocator == "pinion" && runtime.GOOS == "linux") {
			t.Errorf("%s: chunks of %v bytes", allocator, doc["chunk_bytes"])
		}
	}
	if runtime.GOOS == "linux" {
		doc := document(t, nil, "replay", file, "--device", "host", "--chunk", "8MiB", "--capacity", "64MiB", "--json")
		if doc["chunk_bytes"] != 8388608. || doc["capacity_bytes"] != 67108864. || doc["device"] != "host:64MiB" {
			t.Errorf("%v", doc)
		}
	}
}

// Too little memory is a result.
func TestReplayOutOfMemory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "random.jsonl")
	if r := pinion(t, "replay", "--generate", "random", "--count", "300", "--max", "8MiB", "--live", "64MiB", "-o", file); r.code != exitDone {
		t.Fatal(r.stderr)
	}
	for _, allocator := range []string{"pinion", "plain", "driver"} {
		args := []string{"replay", file, "--device", "host", "--capacity", "32MiB", "--allocator", allocator}
		doc := document(t, replayKeys, append(args, "--json")...)
		if doc["ooms"].(float64) < 10 || doc["peak_live_bytes"].(float64) > 32<<20 || doc["peak_trace_bytes"].(float64) <= 48<<20 {
			t.Errorf("%s: %v", allocator, doc)
		}
		if share := doc["least_oom_fraction"].(float64); share != doc["least_oom_bytes"].(float64)/(32<<20) || share < 0.5 {
			t.Errorf("%s: out of memory at %g of the capacity", allocator, share)
		}
		r := pinion(t, args...)
		for _, want := range []string{"Out of memory ", " of the capacity.", "See --capacity."} {
			if r.code != exitDone || !strings.Contains(r.stdout, want) {
				t.Errorf("exit code %d, %q is missing in\n%s%s", r.code, want, r.stdout, r.stderr)
			}
		}
	}
}

// What every generator writes is replayed to its end. Standard output and a
// file have the same bytes, and another seed has others.
func TestReplayGenerate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "trace.jsonl")
	for name, args := range map[string]string{
		"random":  "--count 200 --max 64MiB --live 1GiB",
		"streams": "--count 200 --streams 3 --min 1KiB --max 16MiB --live 256MiB",
		"steps":   "--steps 1 --batch 2",
		"growing": "--steps 2 --from 1 --to 2",
		"cycles":  "--cycles 3 --bytes 1GiB --min 1MiB --max 64MiB",
	} {
		args := append([]string{"replay", "--generate", name}, strings.Fields(args)...)
		out := pinion(t, args...)
		if r := pinion(t, append(args, "-o", file)...); r.code != exitDone || r.stdout != "" || r.stderr != "" {
			t.Fatalf("%s: exit code %d: %s%s", name, r.code, r.stdout, r.stderr)
		}
		text, err := os.ReadFile(file)
		ok(t, err)
		if out.code != exitDone || out.stdout != string(text) {
			t.Errorf("%s: standard output is not the file", name)
		}
		if other := pinion(t, append(args, "--seed", "7")...); other.stdout == out.stdout || other.code != exitDone {
			t.Errorf("%s: another seed gives the same", name)
		}
		doc := document(t, replayKeys, "replay", file, "--device", "host", "--json")
		if events := strings.Count(out.stdout, "\n"); doc["events"] != float64(events) || events < 100 || doc["ooms"] != 0. {
			t.Errorf("%s: %v of %d events, %v times out of memory", name, doc["events"], events, doc["ooms"])
		}
		onlyFile(t, dir, "trace.jsonl")
	}
}

// "-" is standard input, also of the automatic device.
func TestReplayStdin(t *testing.T) {
	run := func(stdin string, args ...string) (stdout string, err error) {
		var out strings.Builder
		root := newRoot()
		root.SetArgs(append([]string{"replay", "-"}, args...))
		root.SetIn(strings.NewReader(stdin))
		root.SetOut(&out)
		root.SetErr(io.Discard)
		err = root.ExecuteContext(t.Context())
		return out.String(), err
	}
	text, err := run(smallTrace, "--json")
	ok(t, err)
	if doc := parse(t, text, replayKeys); doc["trace"] != "standard input" || doc["events"] != 5. || doc["capacity_bytes"] != float64(hostCapacity) {
		t.Errorf("%v", doc)
	}
	text, err = run(smallTrace + "{\n")
	if err == nil || !strings.Contains(err.Error(), "standard input: ") || !strings.Contains(err.Error(), "line 6") || text != "" {
		t.Errorf("%v, and %q", err, text)
	}
}

func TestReplayErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string { return writeFile(t, dir, name, []byte(text)) }
	good := file("good.jsonl", smallTrace)
	unparsable := file("unparsable.jsonl", smallTrace+"{\"op\":\"alloc\",\n")
	notLive := file("notlive.jsonl", smallTrace+`{"op":"free","id":1}`+"\n")
	csv := file("bad.csv", "Thread,Time,Action,Pointer,Size,Stream\n1,0,allocate,0x10,12,0\n1,0,allocate,0x20,lots,0\n")
	pickle := file("bad.pickle", "\x80\x04half")
	other := file("other.txt", "This is no trace at all.\n")
	for _, c := range []struct {
		args string
		code int
		say  []string
	}{
		{"replay " + unparsable, 1, []string{unparsable, "line 6"}},
		{"replay " + notLive, 1, []string{notLive, "line 6", "not live"}},
		{"replay " + csv, 1, []string{csv, "line 3", "lots"}},
		{"replay " + pickle, 1, []string{pickle}},
		{"replay " + other, 1, []string{other, "not an allocation trace"}},
		{"replay " + filepath.Join(dir, "missing"), 1, []string{"missing"}},
		{"replay " + dir, 1, []string{dir, "folder"}},
		{"replay", 2, []string{"trace", "--generate"}},
		{"replay " + good + " " + csv, 2, []string{"2"}},
		{"replay --frobnicate " + good, 2, []string{"--frobnicate"}},
		{"replay --allocator torch " + good, 2, []string{"--allocator", "torch", "pinion"}},
		{"replay --capacity lots " + good, 2, []string{"--capacity", "lots"}},
		{"replay --capacity 900TiB --device host " + good, 2, []string{"may use only"}},
		{"replay --capacity 1GiB --device host:1GiB " + good, 2, []string{"--capacity", "host:1GiB"}},
		{"replay --chunk 0 " + good, 2, []string{"--chunk"}},
		{"replay --chunk 4MiB --allocator plain " + good, 2, []string{"--chunk", "plain"}},
		{"replay --device cuda:0 " + good, 1, []string{"cuda", "unavailable"}},
		{"replay --device host:lots " + good, 2, []string{"--device", "lots"}},
		{"replay --count 3 " + good, 2, []string{"--count", "--generate"}},
		{"replay --snapshot pool.png " + good, 2, []string{"pool.png", ".pickle", ".json ", ".jsonl"}},
		{"replay --snapshot pool " + good, 2, []string{"pool", ".pickle", ".json ", ".jsonl"}},
		{"replay --snapshot= " + good, 2, []string{"--snapshot", ".pickle"}},
		{"replay --snapshot pool.json --allocator plain " + good, 2, []string{"--snapshot", "plain"}},
		{"replay --snapshot pool.json --allocator driver " + good, 2, []string{"--snapshot", "driver"}},
		{"replay --snapshot " + good + " " + good, 2, []string{good, "the trace itself"}},
		{"replay --snapshot " + filepath.Join(dir, "no", "pool.json") + " " + good, 1, []string{"the folder "}},
		{"replay --snapshot pool.json --history 0 " + good, 2, []string{"--history", "0"}},
		{"replay --snapshot pool.json --history 10000001 " + good, 2, []string{"--history", "10000001"}},
		{"replay --history 5 " + good, 2, []string{"--history", "--snapshot"}},
		{"replay --generate steps --snapshot pool.json", 2, []string{"--snapshot"}},
		{"replay -o x " + good, 2, []string{"--output", "--generate"}},

		{"replay --generate steps " + good, 2, []string{good}},
		{"replay --generate nosuch", 2, []string{"nosuch", "random"}},
		{"replay --generate random --device host", 2, []string{"--device"}},
		{"replay --generate random --json", 2, []string{"--json"}},
		{"replay --generate random --steps 3", 2, []string{"--steps", "random"}},
		{"replay --generate steps --max 1GiB", 2, []string{"--max", "steps"}},
		{"replay --generate random --count 0", 2, []string{"--count", "0"}},
		{"replay --generate random --seed -1", 2, []string{"--seed"}},
		{"replay --generate random --max 2GiB --live 1GiB", 2, []string{"Live"}},
		{"replay --generate random -o " + dir, 1, []string{dir, "it is a folder, not a file"}},
		{"replay --generate random -o " + filepath.Join(dir, "no", "file"), 1, []string{"no"}},
		{"replay --generate random --output=", 2, []string{"--output"}},
	} {
		checkMessage(t, c.args, pinion(t, strings.Fields(c.args)...), c.code, c.say)
	}
	if runtime.GOOS == "linux" {
		for _, chunk := range []string{"3MiB", "4096"} {
			checkMessage(t, chunk, pinion(t, "replay", good, "--chunk", chunk), 2, []string{"--chunk", "power of two"})
		}
	}
}

// What --snapshot writes is what its readers know, and has what is live at the
// end of the trace.
func TestReplaySnapshot(t *testing.T) {
	dir := t.TempDir()
	small := writeFile(t, t.TempDir(), "small.jsonl", []byte(smallTrace))
	for _, c := range []struct {
		name   string
		format string // as a trace; "": none
		has    []string
	}{
		{"pool.pickle", "pytorch snapshot", []string{"device_traces", "weights", "active_allocated"}},
		{"pool.PICKLE", "pytorch snapshot", nil},
		{"pool.jsonl", "json lines", []string{`"purpose":"weights"`}},
		{"pool.json", "", []string{`"traceEvents"`, `"allocated"`, `"weights"`}},
	} {
		file := filepath.Join(dir, c.name)
		doc := document(t, append([]string{"snapshot"}, replayKeys...), "replay", small, "--device", "host:1GiB", "--snapshot", file, "--json")
		said := doc["snapshot"].(map[string]any)
		if said["file"] != file || said["events"].(float64) < 5 || said["dropped_events"] != 0. {
			t.Errorf("%s: %v", c.name, said)
		}
		data, err := os.ReadFile(file)
		ok(t, err)
		for _, want := range c.has {
			if !strings.Contains(string(data), want) {
				t.Errorf("%s: no %s", c.name, want)
			}
		}
		if c.format == "" {
			parse(t, string(data), []string{"traceEvents"})
			if got := lastAllocated(t, data); got < 2<<20 || got > 2<<20+512 { // more with the invariants tag
				t.Errorf("%s ends with %d bytes", c.name, got)
			}
		} else {
			again := document(t, nil, "replay", file, "--device", "host", "--json")
			if again["format"] != c.format || again["events"] != 5. || again["peak_live_bytes"] != 5242880. {
				t.Errorf("%s: %v", c.name, again)
			}
		}
		onlyFile(t, dir, c.name)
		ok(t, os.Remove(file))
	}

	// A short history says what it has lost, and keeps what is live.
	file := filepath.Join(dir, "pool.jsonl")
	r := pinion(t, "replay", small, "--device", "host:1GiB", "--snapshot", file, "--history", "1")
	if r.code != exitDone || !strings.Contains(r.stdout, " and 1 event before.\n") || !strings.Contains(r.stdout, "See --history.") {
		t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if again := document(t, nil, "replay", file, "--device", "host", "--json"); again["events"] != 3. {
		t.Errorf("%v", again) // two were live before the last free
	}
}

// lastAllocated is the newest value of the counter of allocated bytes.
func lastAllocated(t *testing.T, data []byte) (n int64) {
	var file struct {
		TraceEvents []struct {
			Name string
			Args struct{ Bytes int64 }
		}
	}
	ok(t, json.Unmarshal(data, &file))
	for _, e := range file.TraceEvents {
		if e.Name == "allocated" {
			n = e.Args.Bytes
		}
	}
	return n
}

// A replay that fails leaves an older snapshot as it was, and nothing beside it.
func TestReplaySnapshotFails(t *testing.T) {
	dir := t.TempDir()
	old := writeFile(t, dir, "pool.json", []byte("old"))
	bad := writeFile(t, t.TempDir(), "bad.jsonl", []byte(smallTrace+"{\n"))
	if r := pinion(t, "replay", bad, "--device", "host", "--snapshot", old); r.code != exitFailed || r.stdout != "" {
		t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	data, err := os.ReadFile(old)
	ok(t, err)
	if string(data) != "old" {
		t.Errorf("it is %q", data)
	}
	onlyFile(t, dir, "pool.json")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cli.WriterUntil(ctx, io.Discard).Write([]byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("a write of an interrupted command: %v", err)
	}
}

// A read of standard input that nobody answers ends with the command.
func TestReplayStdinInterrupted(t *testing.T) {
	in, writer := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	root := newRoot()
	root.SetArgs([]string{"replay", "-", "--device", "host"})
	root.SetIn(in)
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	go func() {
		io.WriteString(writer, smallTrace) // which returns when it has been read
		cancel()
	}()
	if err := root.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	ok(t, writer.Close())
}

// An interrupted command leaves nothing, on the device or in the folder.
func TestReplayCancelled(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, dir, "small.jsonl", []byte(smallTrace))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{{"replay", file, "--device", "host"},
		{"replay", file, "--device", "host", "--snapshot", filepath.Join(dir, "pool.json")}, {"replay", "--generate", "random", "-o", filepath.Join(dir, "new")}} {
		r := pinionWith(t, ctx, args...)
		if r.code != exitFailed || r.stdout != "" || !strings.Contains(r.stderr, "interrupted") {
			t.Errorf("%q: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
		onlyFile(t, dir, "small.jsonl")
	}
}

func TestReplayUnits(t *testing.T) {
	for want, got := range map[string]string{
		"-": nanoseconds(0), "1 ns": nanoseconds(1e-9), "999 ns": nanoseconds(999e-9), "1.00 µs": nanoseconds(1e-6),
		"1.000": ratio(1), "999.500": ratio(999.5), "20965889": ratio(20965889.375),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
