package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/tune"
)

// tuned is a result, invented.
func tuned() *tuneOutput {
	set := func(w, p int, pin bool) tune.Setting {
		return tune.Setting{Workers: w, Batch: 64, Prefetch: p, Pin: pin}
	}
	o := &tuneOutput{Record: provenance.Record{}.On("cuda:0", "Test GPU"), Dataset: "/data/photos", Samples: 1024, Spec: "224x224x3 u8"}
	o.Result = &tune.Result{
		Best: set(8, 2, true), PerSecond: 6012.3, Memory: tune.Memory{PinnedBytes: 28901376, HostBytes: 28901376, DeviceBytes: 1 << 28},
		Limit: tune.Limit{Name: tune.LimitDecode, Busy: 0.97}, GridSize: 56, Trials: 80, Seconds: 29.7, Settled: true,
		Stages: []tune.StageLoad{{Name: "decode", Where: "worker", Seconds: 1.2e-3, Alone: 1e-3, Most: 6667, Busy: 0.9}},
		Settings: []tune.Row{
			{Setting: set(8, 2, true), Memory: tune.Memory{PinnedBytes: 28901376}, Predicted: 6100, Trials: 9, PerSecond: 6012.3, Least: 5900, Most: 6100, DeviceWait: 1, Final: true},
			{Setting: set(16, 2, true), Memory: tune.Memory{PinnedBytes: 28901376}, Predicted: 6200, Trials: 9, PerSecond: 6011, Least: 5800, Most: 6150, DeviceWait: 1, Final: true},
			{Setting: set(8, 8, false), Predicted: 3200, Trials: 1, PerSecond: 3100, Least: 3100, Most: 3100, DeviceWait: 1},
			{Setting: set(8, 8, true), Refused: "does not fit: 82.7 MiB of pinned memory needed, 64 MiB free"},
		},
	}
	return o
}

func TestTunePrint(t *testing.T) {
	print := func(o *tuneOutput) string {
		var text strings.Builder
		o.print(&text)
		return text.String()
	}
	const want = `cuda:0  Test GPU
/data/photos: 1024 samples of 224x224x3 u8
80 trials of 3 of 56 settings, 29.7 s

Best: 8 workers, batch 64, prefetch 2, pinned
  6012 samples/s; 27.6 MiB pinned, 27.6 MiB of host memory, 256 MiB of device memory

Limit: decode
  Decoding is the limit: workers are busy 97.0 % of the time, mostly decoding. More processors, smaller images, or decoding on the device would help.
  decode: 1.20 ms per sample in each of 8 workers (1.00 ms with one), at most 6667 samples/s, 90.0 % of their time.
  No setting of the last race was clearly faster; 3 of 56 were tried.

WORKERS  BATCH  PREFETCH  MEMORY    SAMPLES/S   MIN   MAX  MODEL    PINNED  TRIALS
      8     64         2  pinned         6012  5900  6100   6100  27.6 MiB       9
     16     64         2  pinned         6011  5800  6150   6200  27.6 MiB       9
      8     64         8  pageable       3100  3100  3100   3200       0 B       1
1 setting left out, such as: does not fit: 82.7 MiB of pinned memory needed, 64 MiB free
MIN and MAX are single trials, as measured. From SAMPLES/S of the last race, whose settings come first, the drift of the machine is taken out.

Go:       loader.Options{Batch: 64, Workers: 8, Prefetch: 2, Pin: loader.PinAlways}
PyTorch:  DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8, pin_memory=True, prefetch_factor=2, persistent_workers=True)
`
	if got := print(tuned()); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}

	// What else there may be to say.
	o := tuned()
	o.StepSeconds, o.DeviceWait, o.Fed, o.AgeSeconds, o.NotKept, o.Report = 0.02, 0.004, true, 7300, "a full disk", "tune.html"
	o.Grid = &tune.Grid{Best: o.Settings[1].Setting, Ratio: 0.987, Error: 0.005, Settings: 56, Rounds: 5}
	for range 12 {
		o.Settings = append(o.Settings, o.Settings[2])
	}
	o.Unread, o.Replaced, o.Settled, o.Error = 5, 2, false, 0.07
	o.Settings[2].Setting.Copiers, o.Settings[2].ChunkBytes = 8, 2<<20
	text := print(o)
	for _, want := range []string{
		"MEMORY    COPIERS  CHUNK  SAMPLES/S", "pageable        8  2 MiB       3100", "pinned                         6012",
		"5 samples could not be read in the trials: 3 left out, 2 replaced",
		"kept from 2 hours ago, --fresh measures anew", "with steps of 20.0 ms the device waits 0.4 % of the time",
		"98.7 % ± 0.5 % of the best of all 56 settings (16 workers, batch 64, prefetch 2, pinned)", "and 5 more that were tried", "WAITS\n", "100.0 %\n",
		"could not be kept: a full disk", "29.7 s; kept from 2 hours ago, --fresh measures anew\n\nNot settled: trials of one setting differ", "± 7.0 %", "\nGuess: 8 workers", "Report: tune.html", "Data arrives fast enough",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestAge(t *testing.T) {
	for s, want := range map[float64]string{1: "1 second", 59: "59 seconds", 60: "1 minute", 7300: "2 hours", 90000: "1 day", 1e6: "11 days"} {
		if got := age(s); got != want {
			t.Errorf("%g s is %q, want %q", s, got, want)
		}
	}
}

// A result is kept, and the next run prints it; --fresh does not.
func TestTune(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := makePhotos(t, 20)
	report := filepath.Join(t.TempDir(), "tune.html")
	args := []string{"tune", dir, "--device", "host:1GiB", "--json", "--batch", "4", "--size", "16", "--budget", "100ms", "--workers", "2", "--prefetch", "2"}
	keys := []string{"measured_at", "commit", "platform", "cpus", "device", "device_name", "dataset", "samples", "spec", "age_seconds", "best",
		"samples_per_s", "device_wait_fraction", "pinned_bytes", "host_bytes", "device_bytes", "fed", "limit", "stages", "settings", "model",
		"grid_size", "trials", "seconds", "tuned_at", "go", "pytorch", "reasons"}
	first := document(t, append(keys, "report_file"), append(args, "--report", report)...)
	if first["age_seconds"] != 0. || first["samples"] != 20. || first["samples_per_s"].(float64) <= 0 {
		t.Errorf("%v", first)
	}
	best := first["best"].(map[string]any)
	if best["batch"] != 4. || best["pin"] != false || best["workers"].(float64) < 1 {
		t.Errorf("%v", best)
	}
	text, err := os.ReadFile(report)
	ok(t, err)
	if !strings.Contains(string(text), "</html>") {
		t.Error("no page")
	}
	kept, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "pinion", "tune-*.json"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept in %q, %v", kept, err)
	}
	data, err := os.ReadFile(kept[0])
	ok(t, err)
	yesterday := time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)
	data = bytes.Replace(data, []byte(first["tuned_at"].(string)), []byte(yesterday), 1)
	ok(t, os.WriteFile(kept[0], data, 0o644))
	first["tuned_at"] = yesterday
	again := document(t, keys, args...)
	if again["age_seconds"] == 0. || again["trials"] != first["trials"] || again["tuned_at"] != first["tuned_at"] {
		t.Errorf("measured again: %v", again["age_seconds"])
	}
	if again["measured_at"] != yesterday || again["commit"] != "unknown" || again["version"] != "unknown" {
		t.Errorf("measured at %v, not %v, by commit %v", again["measured_at"], yesterday, again["commit"])
	}
	for _, more := range [][]string{{"--fresh"}, {"--step-time", "1ms"}, {"--size", "17"}, {"--exhaustive"}} {
		doc := document(t, keys, append(args, more...)...)
		if doc["age_seconds"] != 0. {
			t.Errorf("%q: not measured", more)
		}
		if grid, there := doc["grid"]; there != (more[0] == "--exhaustive") {
			t.Errorf("%q: %v", more, grid)
		}
	}
	// With many settings to tell apart there is no time for that: nothing is kept.
	hasty := []string{"tune", dir, "--device", "host:1GiB", "--batch", "4", "--size", "20", "--budget", "1ms"}
	for range 2 {
		r := pinion(t, hasty...)
		if r.code != exitDone || !strings.Contains(r.stdout, "\n\nNot settled: ") || !strings.Contains(r.stdout, "\nGuess: ") || strings.Contains(r.stdout, "kept") {
			t.Errorf("%+v", r)
		}
	}
	args[4] = "--fresh" // in place of --json
	if r := pinion(t, args...); r.code != exitDone || !strings.Contains(r.stdout, "PyTorch:") {
		t.Errorf("%+v", r)
	}
}

// Axes that are given are searched, and no others.
func TestTuneAxes(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	doc := document(t, nil, "tune", makePhotos(t, 20), "--device", "host:1GiB", "--json", "--batch", "4", "--size", "16", "--budget", "50ms",
		"--workers", "3,1,3", "--prefetch", "2", "--copiers", "4", "--chunk", "1MiB", "--no-pin")
	if best := doc["best"].(map[string]any); doc["grid_size"] != 2. || best["prefetch"] != 2. || best["copiers"] != nil {
		t.Errorf("%v settings, %v", doc["grid_size"], best)
	}
}

// Samples that cannot be read end the search, or are counted.
func TestTuneOnError(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := makePhotos(t, 10)
	writeFile(t, dir, "odd/a.jpg", []byte("no photo"))
	args := []string{"tune", dir, "--device", "host:1GiB", "--json", "--batch", "4", "--size", "16", "--workers", "2"}
	// The bad photo has to be read, however slow the machine is: it ends the first search.
	if r := pinion(t, append(args, "--budget", "1m")...); r.code != exitFailed || !strings.Contains(r.stderr, "a.jpg") {
		t.Errorf("%+v", r)
	}
	for _, policy := range []string{"skip", "replace"} {
		doc := document(t, []string{"failed_samples"}, append(args, "--budget", "1s", "--on-error", policy)...)
		if _, replaced := doc["replaced_samples"]; replaced != (policy == "replace") {
			t.Errorf("%s: %v unread, %v replaced", policy, doc["failed_samples"], doc["replaced_samples"])
		}
	}
}

// What a search says is what its document says.
func TestTuneDocument(t *testing.T) {
	o := tuned()
	o.At = time.Date(2000, 1, 2, 3, 4, 5, 0, time.UTC)
	data, err := json.Marshal(o)
	ok(t, err)
	var again tuneOutput
	ok(t, json.Unmarshal(data, &again))
	if again.Best != o.Best || len(again.Settings) != 4 || again.Settings[0].Setting != o.Best || !again.At.Equal(o.At) {
		t.Errorf("%s", data)
	}
}

func TestTuneErrors(t *testing.T) {
	good := makePhotos(t, 3)
	for _, c := range []struct {
		args string
		code int
		say  string
	}{
		{"tune " + good + " " + good, 2, "takes one DATASET, but 2 were given"},
		{"tune " + good + " --budget 0s", 2, "--budget"},
		{"tune " + good + " --budget soon", 2, "--budget"},
		{"tune " + good + " --step-time 0s", 2, "--step-time"},
		{"tune " + good + " --step-time -1s", 2, "--step-time"},
		{"tune " + good + " --step-time 1h --budget 1s", 2, "--step-time"},
		{"tune " + good + " --batch 0", 2, "--batch"},
		{"tune " + good + " --batch many", 2, "--batch"},
		{"tune " + good + " --workers 4,0", 2, "but must be at least 1, which \"0\" is not"},
		{"tune " + good + " --prefetch -1", 2, "--prefetch"},
		{"tune " + good + " --copiers 0", 2, "--copiers"},
		{"tune " + good + " --chunk 0", 2, "--chunk"},
		{"tune " + good + " --chunk 1MiB,much", 2, "much"},
		{"tune " + good + " --on-error ignore", 2, "ignore"},
		{"tune " + good + " --step-time 1ms --batch 2,4", 2, "--batch"},
		{"tune " + good + " --size 0", 2, "--size"},
		{"tune " + good + " --report=", 2, "--report"},
		{"tune " + good + " --frobnicate", 2, "--frobnicate"},
		{"tune " + filepath.Join(good, "missing"), 1, "missing"},
		{"tune " + good + " --device host --report " + t.TempDir(), 1, "it is a folder, not a file"},
		{"tune " + good + " --device host:64KiB --budget 50ms", 1, "out of device memory"},
		{"tune --device nosuch " + good, 2, "nosuch"},
	} {
		r := pinion(t, strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.say) || r.stdout != "" {
			t.Errorf("%s: exit code %d, %q", c.args, r.code, r.stderr)
		}
	}
}

// What is fed can be tuned: the search takes the flags of the pipeline.
func TestTunePipeline(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := makePhotos(t, 20)
	for _, more := range []string{
		"--dtype bf16", "--mixup 0.2", "--sampler balanced", "--shuffle", "--rank 1 --world 2", "--drop-last", "--unordered",
		"--sample-timeout 10s", "--decode cpu", "--pin-budget 64MiB", "--seed 3",
	} {
		args := append(strings.Fields("tune --device host:1GiB --json --batch 4 --size 16 --budget 50ms --workers 2 --prefetch 2 "+more), dir)
		document(t, []string{"best"}, args...)
	}
	if r := pinion(t, "tune", dir, "--sampler", "length"); r.code != exitUsage || !strings.Contains(r.stderr, "--sampler length") {
		t.Errorf("%+v", r)
	}
}
