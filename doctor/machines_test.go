package doctor

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/pinion-gpu/pinion/internal/numa"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A made-up machine is a text file of parts, each behind a line "-- NAME --":
// machine.json with what is no file of the system, facts/PROBE.json with what a
// probe gathers, and files of the system, those of bytes as base64.
type fakeMachine struct {
	files fstest.MapFS
	facts map[string][]byte
	about
}

// about is machine.json.
type about struct {
	GOOS       string            `json:"goos"` // default linux
	Device     string            `json:"device"`
	Path       string            `json:"path"`
	CPUs       int               `json:"cpus"`
	Processors int               `json:"processors"`
	Env        map[string]string `json:"env"`
	Nodes      []numa.Node       `json:"nodes"`
	Space      map[string]struct {
		Total, Free int64
	} `json:"space"`
	NotWritable []string          `json:"not_writable"`
	NotReadable []string          `json:"not_readable"`
	Missing     []string          `json:"missing"` // folders that are not there
	Broken      map[string]string `json:"broken"`  // probes that hang or crash, and what is said of that
	Refused     map[string]string `json:"refused"` // probes that say why they cannot
}

func readMachine(t testing.TB, name string) *fakeMachine {
	t.Helper()
	f := &fakeMachine{files: fstest.MapFS{}, facts: map[string][]byte{}}
	f.about = about{GOOS: "linux", Device: "auto", Path: "/data", CPUs: 16, Processors: 16}
	add := func(part string, text []byte) {
		switch probe, isFact := strings.CutPrefix(part, "facts/"); {
		case part == "machine.json":
			if err := json.Unmarshal(text, &f.about); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		case isFact:
			f.facts[strings.TrimSuffix(probe, ".json")] = text
		case strings.HasSuffix(part, ".base64"):
			data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
			testkit.OK(t, err)
			f.files[strings.TrimSuffix(part, ".base64")] = &fstest.MapFile{Data: data}
		default:
			f.files[part] = &fstest.MapFile{Data: text}
		}
	}
	var part string
	var text bytes.Buffer
	for line := range strings.Lines(testkit.ReadFile(t, "testdata", "machines", name+".txt")) {
		if title, ok := strings.CutPrefix(line, "-- "); ok {
			if part != "" {
				add(part, bytes.Clone(text.Bytes()))
			}
			part = strings.TrimSuffix(strings.TrimSpace(title), " --")
			text.Reset()
			continue
		}
		text.WriteString(line)
	}
	add(part, text.Bytes())
	return f
}

func (f *fakeMachine) machine() *machine {
	s := system{
		goos: f.GOOS, root: f.files, getenv: func(name string) string { return f.Env[name] },
		cpus: f.CPUs, processors: f.Processors, parent: 77,
		nodes: func() []numa.Node { return f.Nodes },
		space: func(path string) (total, free int64, err error) {
			if s, ok := f.Space[path]; ok {
				return s.Total, s.Free, nil
			}
			return 0, 0, errors.ErrUnsupported
		},
		write: func(folder string) error {
			for _, no := range f.NotWritable {
				if folder == no {
					return fmt.Errorf("%s: %w", folder, fs.ErrPermission)
				}
			}
			return nil
		},
		read: func(path string) error {
			if slices.Contains(f.NotReadable, path) {
				return &fs.PathError{Op: "open", Path: path, Err: fs.ErrPermission}
			}
			return nil
		},
		exists: func(path string) bool { return !slices.Contains(f.Missing, path) },
		temp:   "/tmp", cache: func() (string, error) { return "/home/u/.cache", nil },
		abs: func(path string) (string, error) { return path, nil },
	}
	m := newMachine(s, Options{Device: f.Device, Path: f.Path})
	m.start = func(ctx context.Context, name string, req request) ([]byte, error) {
		if what, ok := f.Broken[name]; ok {
			return nil, &brokenError{what: what}
		}
		if reason, ok := f.Refused[name]; ok {
			return nil, &refusedError{reason}
		}
		if text, ok := f.facts[name]; ok {
			return text, nil
		}
		return nil, &refusedError{"nothing is known"}
	}
	return m
}

// examine runs all checks on a made-up machine.
func examine(t testing.TB, f *fakeMachine) *Report {
	t.Helper()
	r, err := run(t.Context(), f.machine(), Checks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Seconds = 1
	return r
}

// A check that is skipped for what another one says tells it itself where that one is
// left out.
func TestReasonWithoutItsCheck(t *testing.T) {
	for _, c := range []struct {
		name, device string
		only         []string
		reason       string
	}{
		{"no-driver", "", []string{"driver", "pinned-copies"}, "see driver"},
		{"no-driver", "", []string{"pinned-copies"}, "no GPU can be used: "},
		{"lost", "cuda:1", []string{"pinned-copies"}, "cuda:1 cannot be opened: "},
	} {
		f := readMachine(t, c.name)
		if c.device != "" {
			f.Device = c.device
			f.facts["device"] = []byte(`{"error": "there is none"}`)
		}
		checks, err := choose(Checks(), c.only, nil)
		testkit.OK(t, err)
		r, err := run(t.Context(), f.machine(), checks, nil)
		testkit.OK(t, err)
		if last := r.Checks[len(r.Checks)-1]; last.Status != Skipped || !strings.HasPrefix(last.Reason, c.reason) {
			t.Errorf("%s, %q: %+v, want %q", c.name, c.only, last, c.reason)
		}
	}
}

// The limit of open files is this process's, and the soft one its parent's, which Go has
// not raised, where both may have as many.
func TestOpenFiles(t *testing.T) {
	limits := func(soft, hard int) *fstest.MapFile {
		return &fstest.MapFile{Data: fmt.Appendf(nil, "Max open files  %d  %d  files\n", soft, hard)}
	}
	for _, c := range []struct {
		self, parent *fstest.MapFile
		want         string
		status       Status
	}{
		{limits(8192, 8192), limits(1024, 8192), "1,024 (hard limit: 8,192)", Warn},
		{limits(64, 64), limits(20000, 20000), "64 (hard limit: 64)", Warn}, // ulimit, and exec
		{limits(90000, 90000), limits(1024, 1024), "90,000 (hard limit: 90,000)", OK},
		{limits(90000, 90000), nil, "90,000 (hard limit: 90,000)", OK},
	} {
		f := &fakeMachine{files: fstest.MapFS{"proc/self/limits": c.self}}
		if c.parent != nil {
			f.files["proc/77/limits"] = c.parent
		}
		if r := checkOpenFiles(f.machine()); r.Measured != c.want || r.Status != c.status {
			t.Errorf("%+v, want %s %q", r, c.status, c.want)
		}
	}
}

// machines are the made-up machines, with the checks that must not be ok or
// skipped on them.
var machines = map[string]map[string]Status{
	"h200":         {},
	"laptop":       {},
	"container":    {"cpu-quota": Warn, "memory-limit": Warn, "memlock": Warn, "shared-memory": Warn, "file-system": Warn, "open-files": Warn, "cache-folder": Warn, "host-memory": Warn, "libraries": Warn, "pinned-copies": Fail},
	"no-cuda":      {"driver": Warn},
	"no-driver":    {"driver": Fail, "libraries": Warn},
	"wsl":          {"wsl": Warn, "pageable-copies": Warn, "file-system": Warn},
	"swiotlb":      {"bounce-buffers": Warn, "iommu": Warn, "pinned-copies": Warn, "symmetry": Warn},
	"confidential": {"confidential": Warn, "bounce-buffers": Warn, "pageable-copies": Warn, "pinned-copies": Warn, "staged-copies": Warn, "calibration": Warn},
	"far-node":     {"numa": Warn, "pinned-copies": Warn, "link-width": Warn, "link-generation": Warn, "link-payload": Warn, "link-errors": Warn, "peer-access": Warn},
	"neglected": {"driver": Warn, "persistence": Warn, "gpu-memory": Warn, "gpu-processes": Warn, "gpu-instances": Warn, "throttling": Fail, "huge-pages": Warn, "pin-cost": Warn, "swap": Warn, "overcommit": Warn,
		"host-memory": Fail, "cpu-load": Warn, "cpu-governor": Warn, "copy-threads": Warn, "cpu-count": Warn, "disk-read": Warn, "disk-room": Warn, "cufile": Warn, "temp-folder": Fail, "staged-copies": Warn},
	"lost": {"throttling": Fail, "persistence": Fail},
}

func TestMachines(t *testing.T) {
	files, err := filepath.Glob("testdata/machines/*.txt")
	testkit.OK(t, err)
	if len(files) != len(machines) {
		t.Errorf("%d files, %d machines", len(files), len(machines))
	}
	for name, wrong := range machines {
		t.Run(name, func(t *testing.T) {
			r := examine(t, readMachine(t, name))
			for _, f := range r.Checks {
				switch want := wrong[f.Name]; {
				case want != "" && f.Status != want:
					t.Errorf("%s is %q, want %q: %+v", f.Name, f.Status, want, f.Result)
				case want == "" && (f.Status == Fail || f.Status == Warn):
					t.Errorf("%s is %q: %+v", f.Name, f.Status, f.Result)
				}
				complete(t, f)
			}
			var text bytes.Buffer
			testkit.OK(t, r.Write(&text))
			for line := range strings.Lines(text.String()) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > textWidth {
					t.Errorf("a line of %d columns: %s", n, line)
				}
			}
			golden := filepath.Join("testdata", "machines", name+".golden")
			if *update {
				testkit.OK(t, os.WriteFile(golden, text.Bytes(), 0o666))
			}
			if want := testkit.ReadFile(t, golden); text.String() != want {
				t.Errorf("it says\n%s\nwant\n%s", &text, want)
			}
		})
	}
}

// complete checks that a finding says what its status calls for.
func complete(t testing.TB, f Finding) {
	t.Helper()
	switch f.Status {
	case Fail, Warn:
		if f.Measured == "" || f.Why == "" || f.Remedy == "" || f.Reason != "" {
			t.Errorf("%s: %+v", f.Name, f.Result)
		}
	case OK:
		if f.Measured == "" || f.Why == "" || f.Remedy != "" || f.Reason != "" {
			t.Errorf("%s: %+v", f.Name, f.Result)
		}
	case Skipped:
		if f.Measured != "" || f.Why != "" || f.Remedy != "" || f.Reason == "" {
			t.Errorf("%s: %+v", f.Name, f.Result)
		}
	default:
		t.Errorf("%s has the status %q", f.Name, f.Status)
	}
	for _, text := range []string{f.Measured, f.Why, f.Remedy, f.Reason} {
		if text != oneLine(text) || strings.Contains(text, "%!") || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s: %q", f.Name, text)
		}
	}
	for _, text := range []string{f.Why, f.Remedy} {
		if text != "" && !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, ".)") && !strings.HasSuffix(text, "`") {
			t.Errorf("%s: no sentence: %q", f.Name, text)
		}
	}
}

// Every check is seen to warn or fail on some made-up machine, and to be content
// on another: a check that can do neither is none.
func TestEveryCheckCanBeWrong(t *testing.T) {
	content := map[string]bool{}
	for name := range machines {
		for _, f := range examine(t, readMachine(t, name)).Checks {
			content[f.Name] = content[f.Name] || f.Status == OK
		}
	}
	for _, c := range Checks() {
		wrong := false
		for _, m := range machines {
			wrong = wrong || m[c.Name] != ""
		}
		if !wrong || !content[c.Name] {
			t.Errorf("%s: wrong on some machine %v, content on some machine %v", c.Name, wrong, content[c.Name])
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		if seen[c.Name] {
			t.Errorf("two checks are called %s", c.Name)
		}
		seen[c.Name] = true
		if c.Name == "" || strings.ToLower(c.Name) != c.Name || strings.ContainsAny(c.Name, " _,") {
			t.Errorf("a check is called %q", c.Name)
		}
		if !strings.HasSuffix(c.Asks, "?") {
			t.Errorf("%s asks %q", c.Name, c.Asks)
		}
		if !contains(Families, c.Family) {
			t.Errorf("%s is of the family %q", c.Name, c.Family)
		}
	}
	const least = 25
	if len(seen) < least {
		t.Errorf("%d checks", len(seen))
	}
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}
