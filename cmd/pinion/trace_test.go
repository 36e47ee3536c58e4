package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/timeline"
)

// readTrace counts the events of a file by phase.
func readTrace(t *testing.T, path string, devices int) map[string]int {
	t.Helper()
	var file struct {
		Other struct {
			Overlap timeline.Report `json:"overlap"`
		} `json:"otherData"`
		Events []struct {
			Ph string
		} `json:"traceEvents"`
	}
	testkit.OK(t, json.Unmarshal([]byte(testkit.ReadFile(t, path)), &file))
	phases := map[string]int{}
	for _, e := range file.Events {
		phases[e.Ph]++
	}
	if o := file.Other.Overlap; o.DroppedRecords != 0 || len(o.Devices) != devices || o.Seconds <= 0 {
		t.Errorf("%+v", o)
	}
	return phases
}

// --trace writes a timeline of each command that has it, and prints a report.
func TestTrace(t *testing.T) {
	data := featuresFile(t)
	for _, args := range [][]string{
		{"feed", data, "--device", "host"},
		{"load", makeCheckpoint(t, 10_000), "--device", "host:1MiB,host:2MiB"},
		{"tune", data, "--device", "host", "--budget", "200ms", "--fresh"},
		{"bench", "link", "--device", "host", "--size", "1MiB", "--repeats", "1"},
		{"bench", "tier", "--device", "host", "--budget", "4MiB", "--array", "256KiB", "--ratios", "2", "--access", "zipf", "--seconds", "0.01"},
		{"bench", "step", "--device", "host", "--layers", "1", "--width", "16", "--heads", "1", "--batch", "1", "--length", "4", "--vocabulary", "8", "--steps", "1"},
	} {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "trace.json")
			r := pinion(t, append(args, "--trace", path)...)
			if r.code != exitDone {
				t.Fatalf("exit code %d: %s", r.code, r.stderr)
			}
			phases := readTrace(t, path, 1+strings.Count(strings.Join(args, " "), ","))
			for _, ph := range []string{"X", "s", "f", "M", "C"} {
				if phases[ph] == 0 {
					t.Errorf("no event of phase %q in %v", ph, phases)
				}
			}
			if !strings.Contains(r.stdout, "Timeline of ") || !strings.Contains(r.stdout, path+" at https://ui.perfetto.dev") {
				t.Errorf("no report:\n%s", r.stdout)
			}
			if timeline.Current() != nil {
				t.Error("the recording is still on")
			}
		})
	}
}

// With --json there is one document, and the report is in the file.
func TestTraceJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	r := pinion(t, "feed", featuresFile(t), "--device", "host", "--json", "--trace", path)
	var doc map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil || r.code != exitDone {
		t.Fatalf("%v, exit code %d:\n%s%s", err, r.code, r.stdout, r.stderr)
	}
	readTrace(t, path, 1)
}

// A file that cannot be written is an error before anything runs, and data is not
// written over.
func TestTraceRefused(t *testing.T) {
	data := featuresFile(t)
	dir := t.TempDir()
	for _, c := range []struct {
		file, says string
		code       int
	}{
		{filepath.Join(dir, "missing", "t.json"), "the timeline cannot be written", exitFailed},
		{dir, "it is a folder", exitFailed},
		{data, "would be written over the data", exitUsage},
		{"", "--trace needs the name of a file", exitUsage},
	} {
		before := testkit.ReadFile(t, data)
		r := pinion(t, "feed", data, "--device", "host", "--trace", c.file)
		if r.code != c.code || !strings.Contains(r.stderr, c.says) || r.stdout != "" {
			t.Errorf("%q: exit code %d, %s%s", c.file, r.code, r.stdout, r.stderr)
		}
		if testkit.ReadFile(t, data) != before {
			t.Fatal("the data is gone")
		}
	}
	for _, flag := range []string{"--targets", "--digests", "--save-state"} {
		path := data
		if flag != "--targets" {
			path = filepath.Join(dir, "new.json")
		}
		r := pinion(t, "feed", featuresFile(t), "--device", "host", flag, path, "--trace", path)
		if r.code != exitUsage || !strings.Contains(r.stderr, "--trace and "+flag+" cannot both be") {
			t.Errorf("%s: exit code %d: %s", flag, r.code, r.stderr)
		}
	}
	// A command line that is wrong writes nothing.
	path := filepath.Join(dir, "t.json")
	if r := pinion(t, "feed", data, "--device", "host", "--batch", "x", "--trace", path); r.code != exitUsage {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a trace of nothing was written")
	}
}

// A file among the data is not written over, but a timeline that was left there is.
func TestTraceAmongData(t *testing.T) {
	dir := makePhotos(t, 3)
	var photo string
	ok(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			photo = path
		}
		return err
	}))
	before := testkit.ReadFile(t, photo)
	r := pinion(t, "feed", dir, "--device", "host", "--trace", photo)
	if r.code != exitUsage || !strings.Contains(r.stderr, "would be written over "+photo) || testkit.ReadFile(t, photo) != before {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	for range 2 {
		path := filepath.Join(dir, "trace.json")
		if r := pinion(t, "feed", dir, "--device", "host", "--trace", path); r.code != exitDone {
			t.Errorf("exit code %d: %s", r.code, r.stderr)
		}
		readTrace(t, path, 1)
	}
}

// A run that never began leaves what is at the file, such as the timeline of another,
// and says nothing of one.
func TestTraceOfNothing(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, dir, "t.json", []byte("another"))
	for _, args := range [][]string{
		{"feed", filepath.Join(dir, "missing"), "--device", "host"},
		{"load", writeFile(t, dir, "no.safetensors", []byte("not a checkpoint")), "--device", "host"},
	} {
		r := pinion(t, append(args, "--trace", path)...)
		if r.code != exitFailed || r.stdout != "" || testkit.ReadFile(t, path) != "another" {
			t.Errorf("%q: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
}

// An interrupt ends the run, and what was recorded is kept.
func TestTraceInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not interrupt single processes")
	}
	file, path := filepath.Join(t.TempDir(), "digests.jsonl"), filepath.Join(t.TempDir(), "trace.json")
	r := process(t, func(p *os.Process) {
		written(t, p, filepath.Dir(file))
		ok(t, p.Signal(os.Interrupt))
	}, "feed", makePhotos(t, 5), "--device", "host", "--size", "16", "--digests", file, "--trace", path, "--epochs", "1000000000")
	if r.code != exitFailed || !strings.Contains(r.stderr, "interrupted") || !strings.Contains(r.stdout, "Timeline of ") {
		t.Fatalf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if phases := readTrace(t, path, 1); phases["X"] == 0 || phases["s"] != phases["f"] {
		t.Errorf("%v", phases)
	}
}

// What an interrupted run could not leave behind is said.
func TestInterruptedAndLost(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not interrupt single processes")
	}
	file, gone := filepath.Join(t.TempDir(), "digests.jsonl"), filepath.Join(t.TempDir(), "gone")
	ok(t, os.Mkdir(gone, 0o755))
	r := process(t, func(p *os.Process) {
		written(t, p, filepath.Dir(file))
		ok(t, os.RemoveAll(gone))
		ok(t, p.Signal(os.Interrupt))
	}, "feed", makePhotos(t, 5), "--device", "host", "--size", "16", "--digests", file, "--epochs", "1000000000",
		"--trace", filepath.Join(gone, "t.json"), "--save-state", filepath.Join(gone, "state.json"))
	if r.code != exitFailed {
		t.Errorf("exit code %d", r.code)
	}
	for _, says := range []string{"the timeline cannot be written", "could not save the state", "interrupted"} {
		if !strings.Contains(r.stderr, says) {
			t.Errorf("no %q in %q", says, r.stderr)
		}
	}
}

// featuresFile is an array of floats in a file.
func featuresFile(t testing.TB) string {
	t.Helper()
	return writeFile(t, t.TempDir(), "a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (90, 100, 100)}", 90*10_000))
}
