package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// The test binary is a child, too: what it does is in a variable.
func TestMain(m *testing.M) {
	switch os.Getenv("DOCTOR_TEST_CHILD") {
	case "":
		os.Exit(m.Run())
	case "probe":
		if err := Child(context.Background(), os.Args[len(os.Args)-2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "hang":
		fmt.Fprintln(os.Stderr, "about to hang")
		time.Sleep(time.Hour)
	case "panic":
		panic("something\nterrible")
	case "exit":
		fmt.Fprintln(os.Stderr, "first\nlast words")
		os.Exit(3)
	case "garbage":
		fmt.Println("what a library prints")
	case "nothing":
	}
}

var asChild = Options{Child: []string{"-test.run=^$"}}

func TestStartChild(t *testing.T) {
	for name, c := range map[string]struct {
		probe string
		says  []string // of the error
		kind  any
	}{
		"panic":   {"nvml", []string{"exit status 2", "panic: something"}, new(*brokenError)},
		"exit":    {"nvml", []string{"exit status 3", "last words"}, new(*brokenError)},
		"garbage": {"nvml", []string{"no answer"}, new(*brokenError)},
		"nothing": {"nvml", []string{"no answer"}, new(*brokenError)},
		"probe":   {"nvml", []string{"switched off"}, new(*refusedError)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DOCTOR_TEST_CHILD", name)
			t.Setenv("PINION_LIB_NVML", "off")
			facts, err := asChild.startChild(t.Context(), c.probe, request{Device: "auto"})
			if err == nil || !errors.As(err, c.kind) {
				t.Fatalf("%q, %v (%T)", facts, err, err)
			}
			text := err.Error()
			var broken *brokenError
			if errors.As(err, &broken) {
				text += ": " + broken.said
			}
			for _, part := range c.says {
				if !strings.Contains(text, part) {
					t.Errorf("%q does not say %q", text, part)
				}
			}
			if strings.Contains(text, "goroutine") {
				t.Errorf("%q has a stack", text)
			}
		})
	}
}

// A child that hangs is ended with its context, and what it said is told.
func TestChildHangs(t *testing.T) {
	testkit.NoLeaks(t)
	t.Setenv("DOCTOR_TEST_CHILD", "hang")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var broken *brokenError
	if _, err := asChild.startChild(ctx, "nvml", request{}); !errors.As(err, &broken) || !strings.Contains(broken.what, "no answer within") {
		t.Errorf("%v", err)
	}
}

// Probes work in a process of their own, on any machine.
func TestProbes(t *testing.T) {
	t.Setenv("DOCTOR_TEST_CHILD", "probe")
	for _, name := range []string{"device", "libraries", "disk"} {
		text, err := asChild.startChild(t.Context(), name, request{Device: "host:64MiB", Path: t.TempDir()})
		var refused *refusedError
		if errors.As(err, &refused) && name == "disk" { // a file system may not allow it
			continue
		}
		testkit.OK(t, err)
		var facts any
		testkit.OK(t, json.Unmarshal(text, &facts))
	}
}

// What was not started by Run says so, and touches nothing.
func TestChildArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"nvml"}, {"nosuch", "{}"}, {"nvml", "no JSON"}, {"nvml", "{}", "more"}} {
		if err := Child(t.Context(), args); !errors.Is(err, ErrArgument) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// Without processes the checks that need a probe are skipped.
func TestRunAlone(t *testing.T) {
	r, err := Run(t.Context(), Options{})
	testkit.OK(t, err)
	if len(r.Checks) != len(Checks()) {
		t.Errorf("%d findings of %d checks", len(r.Checks), len(Checks()))
	}
	for i, f := range r.Checks {
		complete(t, f)
		if c := Checks()[i]; f.Name != c.Name || (c.gpu || c.needs != nil) && f.Status != Skipped {
			t.Errorf("%s of %s is %q", f.Name, c.Name, f.Status)
		}
	}
}

func TestOnlyAndSkip(t *testing.T) {
	r, err := Run(t.Context(), Options{Only: []string{"swap", "wsl", "overcommit"}, Skip: []string{"wsl"}})
	testkit.OK(t, err)
	var names []string
	for _, f := range r.Checks {
		names = append(names, f.Name)
	}
	if !slices.Equal(names, []string{"swap", "overcommit"}) {
		t.Errorf("%q", names)
	}
	for _, o := range []Options{{Only: []string{"swop"}}, {Skip: []string{"swop"}}, {Only: []string{"swap"}, Skip: []string{"swap"}}} {
		_, err := Run(t.Context(), o)
		testkit.WantError(t, "Run", err, ErrArgument)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m := readMachine(t, "h200").machine()
	m.start = func(context.Context, string, request) ([]byte, error) {
		cancel()
		return nil, &brokenError{what: "killed"}
	}
	if _, err := run(ctx, m, Checks(), nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A probe that the end of the run cut short is not at fault.
func TestNoTime(t *testing.T) {
	for _, left := range []time.Duration{-time.Second, 10 * time.Millisecond} {
		m := readMachine(t, "h200").machine()
		m.deadline = time.Now().Add(left)
		m.start = func(ctx context.Context, _ string, _ request) ([]byte, error) {
			<-ctx.Done()
			return nil, &brokenError{what: "no answer"}
		}
		r, err := run(t.Context(), m, Checks(), nil)
		testkit.OK(t, err)
		for i, f := range r.Checks {
			c := Checks()[i]
			if probed := c.gpu || c.needs != nil; probed && (f.Status != Skipped || !strings.Contains(f.Reason, "no time")) || !probed && f.Status == Skipped {
				t.Errorf("%+v", f)
			}
		}
	}
}

// Where opening the device hangs, nothing that opens it is tried.
func TestDeviceHangs(t *testing.T) {
	f := readMachine(t, "h200")
	f.Broken = map[string]string{"device": "no answer within 8.00 s"}
	m := f.machine()
	start := m.start
	m.start = func(ctx context.Context, name string, req request) ([]byte, error) {
		if name == "copies" || name == "files" {
			t.Errorf("the probe %s is started", name)
		}
		return start(ctx, name, req)
	}
	r, err := run(t.Context(), m, Checks(), nil)
	testkit.OK(t, err)
	if n := r.Count(Fail); n != 1 || r.Checks[0].Status != Fail {
		t.Errorf("%d checks failed: %+v", n, r.Checks[0])
	}
}

// A check that panics is one that failed.
func TestPanic(t *testing.T) {
	m := readMachine(t, "h200").machine()
	r := m.check(t.Context(), Check{Name: "odd", run: func(*machine) Result { panic("odd") }}, func(string) {})
	if r.Status != Fail || !strings.Contains(r.Measured, "odd") {
		t.Errorf("%+v", r)
	}
}

// The document has the keys that were promised, whatever was found.
func TestJSON(t *testing.T) {
	for name := range machines {
		text, err := json.Marshal(examine(t, readMachine(t, name)))
		testkit.OK(t, err)
		var doc struct {
			MeasuredAt string `json:"measured_at"`
			Version    string
			Platform   string
			CPUs       int
			Checks     []map[string]string
		}
		testkit.OK(t, json.Unmarshal(text, &doc))
		if doc.MeasuredAt == "" || doc.Platform == "" || doc.CPUs == 0 || len(doc.Checks) != len(Checks()) {
			t.Errorf("%s: %s", name, text)
		}
		keys := map[Status][]string{
			OK: {"family", "measured", "name", "status", "why"}, Skipped: {"family", "name", "reason", "status"},
			Warn: {"family", "measured", "name", "remedy", "status", "why"},
		}
		keys[Fail] = keys[Warn]
		for _, c := range doc.Checks {
			var got []string
			for key, value := range c {
				if value == "" {
					t.Errorf("%s: %s of %s is empty", name, key, c["name"])
				}
				got = append(got, key)
			}
			slices.Sort(got)
			if want := keys[Status(c["status"])]; !slices.Equal(got, want) {
				t.Errorf("%s: %s has %q, want %q", name, c["name"], got, want)
			}
		}
	}
}

// Files of the system may hold anything: no check panics, or says what is no text.
func FuzzFiles(f *testing.F) {
	files := readMachine(f, "container").files
	for name := range readMachine(f, "neglected").files {
		if files[name] == nil {
			files[name] = &fstest.MapFile{}
		}
	}
	var names []string
	for name, file := range files {
		names = append(names, name)
		f.Add(name, string(file.Data))
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		if !slices.Contains(names, name) {
			return
		}
		for _, of := range []string{"h200", "container", "neglected"} {
			m := readMachine(t, of)
			m.files[name] = &fstest.MapFile{Data: []byte(text)}
			for _, f := range examine(t, m).Checks {
				complete(t, f)
				if strings.Contains(f.Why, "check itself") {
					t.Errorf("%s: %s", f.Name, f.Measured)
				}
			}
		}
	})
}

// Each probe can be gathered, and there is a remedy where it hangs.
func TestEachProbe(t *testing.T) {
	m := newMachine(thisSystem(), Options{})
	for name := range probes {
		if m.probe(name).called() != name || brokenRemedies[name] == "" {
			t.Errorf("%s: %q", name, brokenRemedies[name])
		}
	}
	for _, c := range Checks() {
		for _, need := range c.needs {
			if probes[need] == nil {
				t.Errorf("%s needs %s", c.Name, need)
			}
		}
	}
}
